//! See `millstream_fuzz::rtp_fec::fec`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp_fec::fec(data));
