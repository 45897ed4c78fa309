//! The relay between simulated nodes, in virtual time and from seeds: one behaviour per module.

mod clocks;
mod epochs;
mod fuzz_corpus;
mod hostile;
mod joins;
mod key_frames;
mod limits;
mod losses;
mod many_tracks;
mod one_hop;
mod parents;
mod tree;
mod wire_format;
mod world;
