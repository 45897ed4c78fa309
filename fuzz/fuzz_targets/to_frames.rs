//! See `millstream_fuzz::bridge_to_frames::to_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_to_frames::to_frames(data));
