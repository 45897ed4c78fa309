//! The behaviour of `range-reader`, one module each.

mod engine;
mod fuzz_corpus;
mod http;
mod learning;
