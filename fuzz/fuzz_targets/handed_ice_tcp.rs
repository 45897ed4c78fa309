//! See `millstream_fuzz::worker_api::handed_ice_tcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::worker_api::handed_ice_tcp(data));
