//! See `millstream_fuzz::srtp::unprotect_rtcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::srtp::unprotect_rtcp(data));
