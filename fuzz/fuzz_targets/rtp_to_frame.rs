//! See `millstream_fuzz::bridge_rtp_to_frame::rtp_to_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_rtp_to_frame::rtp_to_frame(data));
