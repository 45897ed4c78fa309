//! See `millstream_fuzz::srtp::unprotect_rtp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::srtp::unprotect_rtp(data));
