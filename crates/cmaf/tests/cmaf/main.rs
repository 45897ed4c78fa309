//! Behaviour of the segmenter, read back by a checker of boxes that shares nothing with the writer.

mod boxes;
mod breaks;
mod configurations;
mod property;
mod stream;
mod timing;
