//! The behaviour of `rtp`, one module each.

mod depacketize_fuzz_corpus;
mod every_length;
mod fuzz_corpus;
mod packetize;
mod packetize_fuzz_corpus;
mod real_streams;
mod round_trips;
