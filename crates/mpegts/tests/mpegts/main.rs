//! Behaviour of the crate from outside.

mod common;
mod ffmpeg;
mod fuzz_corpus;
mod hostile;
mod program;
mod sections;
mod timing;
