//! See `millstream_fuzz::vod::vod_film`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::vod::vod_film(data));
