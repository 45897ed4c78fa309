//! See `millstream_fuzz::bridge_b_frames::b_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_b_frames::b_frames(data));
