//! The packets lane as its callers see it, and between bad networks: one behaviour per module.

mod fuzz_corpus;
mod network_faults;
mod packets;
mod paths;
