//! See `millstream_fuzz::sendgroup::sendgroup_of_2008`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::sendgroup::sendgroup_of_2008(data));
