//! The behaviour of `msgpack-array`, one module each. Apart stands `declared_length`.

mod any_width;
mod callers_buffers;
mod common;
mod encode_as_rmp;
mod functions_per_type;
mod fuzz_corpus;
mod guard_pages;
mod large_arrays;
#[cfg(not(target_family = "wasm"))]
mod naive_twin;
mod pieces;
#[cfg(feature = "rmp-serde")]
mod serde_documents;
#[cfg(feature = "serde")]
mod serde_formats;
mod truncation;
mod wrong_element;
