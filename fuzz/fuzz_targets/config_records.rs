//! See `millstream_fuzz::media::config_records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::media::config_records(data));
