//! See `millstream_fuzz::worker_api::stream_description`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::worker_api::stream_description(data));
