//! See `millstream_fuzz::rtmp::server_state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtmp::server_state(data));
