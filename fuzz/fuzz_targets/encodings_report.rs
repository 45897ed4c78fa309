//! See `millstream_fuzz::sfu::encodings_report`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::sfu::encodings_report(data));
