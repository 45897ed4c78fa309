//! See `millstream_fuzz::live::server_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::live::server_session(data));
