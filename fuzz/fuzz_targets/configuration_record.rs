//! See `millstream_fuzz::bridge_b_frames::configuration_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_b_frames::configuration_record(data));
