//! See `millstream_fuzz::rtp::dependency_descriptor`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::rtp::dependency_descriptor(data));
