//! See `millstream_fuzz::rtp_depacketize::depacketize_vp8`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp_depacketize::depacketize_vp8(data));
