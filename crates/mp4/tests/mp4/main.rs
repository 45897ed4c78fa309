//! What the reader of files does, from outside: one behaviour per module.

mod broken_files;
mod configurations;
mod edit_lists;
mod fuzz_corpus;
mod layouts;
mod muxer;
mod property;
mod reading_order;
mod real_files;
mod seek;
