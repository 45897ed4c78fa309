//! See `millstream_fuzz::rtmp_records::flv_records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp_records::flv_records(data));
