//! See `millstream_fuzz::chunk_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::chunk_stream(data));
