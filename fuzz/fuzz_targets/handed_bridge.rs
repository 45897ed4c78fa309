//! See `millstream_fuzz::bridge_frame_to_rtp::handed_bridge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_frame_to_rtp::handed_bridge(data));
