//! What the crate says to the outside, checked from there.

mod fuzz_corpus;
