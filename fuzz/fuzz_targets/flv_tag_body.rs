//! See `millstream_fuzz::rtmp::flv_tag_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::flv_tag_body(data));
