//! See `millstream_fuzz::worker_api::traceparent`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::worker_api::traceparent(data));
