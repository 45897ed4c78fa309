//! See `millstream_fuzz::rtp::rtp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::rtp(data));
