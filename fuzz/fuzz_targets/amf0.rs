//! See `millstream_fuzz::live::amf0`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::live::amf0(data));
