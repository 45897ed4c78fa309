//! The behaviour of `ssrc-map`, one module each.

mod every_ssrc;
mod fuzz_corpus;
mod limit;
mod naive_twin;
