//! Integration tests of `media`.

mod fuzz_corpus;
