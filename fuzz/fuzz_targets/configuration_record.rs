//! See `millstream_fuzz::bridge_pictures::configuration_record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::bridge_pictures::configuration_record(data));
