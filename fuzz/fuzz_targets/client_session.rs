//! See `millstream_fuzz::rtmp::client_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::client_session(data));
