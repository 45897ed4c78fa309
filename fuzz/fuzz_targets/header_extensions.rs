//! See `millstream_fuzz::rtp::header_extensions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::header_extensions(data));
