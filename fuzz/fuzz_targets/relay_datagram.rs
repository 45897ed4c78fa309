//! See `millstream_fuzz::relay::relay_datagram`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::relay::relay_datagram(data));
