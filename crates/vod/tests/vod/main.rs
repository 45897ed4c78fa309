//! Files cut into segments, and what bad files do.

mod broken;
mod fuzz_corpus;
mod real_files;
