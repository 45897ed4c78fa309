//! The behaviour of `rtp`, one module each.

mod depacketize_fuzz_corpus;
mod dependency_descriptor;
mod every_length;
mod fec;
mod fec_fuzz_corpus;
mod fuzz_corpus;
mod packetize;
mod packetize_fuzz_corpus;
mod real_streams;
mod round_trips;
mod temporal_layers;
