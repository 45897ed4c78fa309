//! See `millstream_fuzz::rtsp::rtsp_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtsp::rtsp_record(data));
