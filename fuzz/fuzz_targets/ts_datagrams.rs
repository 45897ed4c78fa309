//! See `millstream_fuzz::sources::ts_datagrams`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::sources::ts_datagrams(data));
