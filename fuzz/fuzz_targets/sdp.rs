//! See `millstream_fuzz::rtc_sdp::sdp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtc_sdp::sdp(data));
