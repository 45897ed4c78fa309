//! What the crate shows to others.

mod fuzz_corpus;
