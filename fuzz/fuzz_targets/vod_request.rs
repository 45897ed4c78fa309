//! See `millstream_fuzz::vod::vod_request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::vod::vod_request(data));
