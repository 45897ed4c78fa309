//! See `millstream_fuzz::rtc_dtls::client_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtc_dtls::client_hello(data));
