//! Behaviour of the crate from outside.

mod common;
mod ffmpeg;
mod hostile;
mod program;
mod timing;
