//! See `millstream_fuzz::srt::srt_connection`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::srt::srt_connection(data));
