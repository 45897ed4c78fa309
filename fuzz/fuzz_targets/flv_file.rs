//! See `millstream_fuzz::rtmp::flv_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::flv_file(data));
