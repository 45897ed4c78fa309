//! See `millstream_fuzz::rtmp::amf0`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::amf0(data));
