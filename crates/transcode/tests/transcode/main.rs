//! What transcoding does to audio and its times, from outside: one behaviour per module.

mod a_click_keeps_its_time;
mod bad_input;
mod common;
mod fuzz_corpus;
#[cfg(feature = "fdk-aac")]
mod with_fdk_aac;
