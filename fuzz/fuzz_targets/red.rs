//! See `millstream_fuzz::rtp::red`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::red(data));
