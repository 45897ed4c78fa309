//! See `millstream_fuzz::client_session`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::client_session(data));
