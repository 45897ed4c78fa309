//! See `millstream_fuzz::ssrc_map::ssrc_map_ops`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::ssrc_map::ssrc_map_ops(data));
