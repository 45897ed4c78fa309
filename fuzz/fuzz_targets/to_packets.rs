//! See `millstream_fuzz::bridge_to_packets::to_packets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_to_packets::to_packets(data));
