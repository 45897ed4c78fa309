//! See `millstream_fuzz::srtp_c::srtp_c`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::srtp_c::srtp_c(data));
