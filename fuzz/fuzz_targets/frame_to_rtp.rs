//! See `millstream_fuzz::bridge_frame_to_rtp::frame_to_rtp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_frame_to_rtp::frame_to_rtp(data));
