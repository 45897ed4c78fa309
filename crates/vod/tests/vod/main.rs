//! Files cut into segments, and what bad files do.

mod broken;
mod flv;
mod fuzz_corpus;
mod other_audio;
mod real_files;
