//! See `millstream_fuzz::rtc::stun`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtc::stun(data));
