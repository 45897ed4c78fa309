//! See `millstream_fuzz::range_reader_c::range_reader_c`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::range_reader_c::range_reader_c(data));
