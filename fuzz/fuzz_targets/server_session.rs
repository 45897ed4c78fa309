//! See `millstream_fuzz::rtmp::server_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::server_session(data));
