//! See `millstream_fuzz::bridge_pictures::pictures`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_pictures::pictures(data));
