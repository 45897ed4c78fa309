//! Behaviour of the crate from outside.

mod common;
mod ffmpeg;
mod hostile;
mod programme;
mod timing;
