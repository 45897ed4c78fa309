//! Behaviour of windows and playlists, driven by frames through the segmenter, and read by a checker that
//! shares nothing with the writer.

#[path = "../../../cmaf/tests/cmaf/boxes.rs"]
mod boxes;
mod dash;
mod ffmpeg;
mod fuzz_corpus;
mod playlist;
mod property;
mod respond;
mod support;
mod window;
