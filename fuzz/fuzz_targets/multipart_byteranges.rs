//! See `millstream_fuzz::range_reader::multipart_byteranges`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::range_reader::multipart_byteranges(data));
