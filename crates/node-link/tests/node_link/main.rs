//! Two nodes and the link between them, in virtual time.

mod fuzz_corpus;
mod hello;
mod hostile;
mod pair;
mod silence;
mod slow;
mod streams;
