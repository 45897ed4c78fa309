//! Recordings on a real disk, with real processes that are killed, and read by ffmpeg.

mod feed;
mod ffmpeg;
mod fuzz_corpus;
mod kill;
mod lock;
mod rig;
