//! See `millstream_fuzz::rtp::congestion_feedback`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::congestion_feedback(data));
