//! See `millstream_fuzz::amf0`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::amf0(data));
