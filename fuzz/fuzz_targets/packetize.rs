//! See `millstream_fuzz::rtp_packetize::packetize`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp_packetize::packetize(data));
