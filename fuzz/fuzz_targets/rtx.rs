//! See `millstream_fuzz::rtp::rtx`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::rtx(data));
