//! See `millstream_fuzz::rtmp::chunk_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::chunk_stream(data));
