//! See `millstream_fuzz::live::chunk_stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::live::chunk_stream(data));
