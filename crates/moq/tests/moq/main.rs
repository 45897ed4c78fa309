//! What publishers send, checked from outside of the crate.

mod fuzz_corpus;
mod tracks;
