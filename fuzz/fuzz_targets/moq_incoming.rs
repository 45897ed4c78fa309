//! See `millstream_fuzz::moq::moq_incoming`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::moq::moq_incoming(data));
