//! See `millstream_fuzz::srt::srt_caller`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::srt::srt_caller(data));
