//! See `millstream_fuzz::range_reader::content_range`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::range_reader::content_range(data));
