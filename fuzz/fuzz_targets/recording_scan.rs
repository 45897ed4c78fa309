//! See `millstream_fuzz::recording::recording_scan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::recording::recording_scan(data));
