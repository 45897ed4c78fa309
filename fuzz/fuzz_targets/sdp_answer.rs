//! See `millstream_fuzz::rtc_sdp::sdp_answer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtc_sdp::sdp_answer(data));
