//! See `millstream_fuzz::group_send::netlink`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::group_send::netlink(data));
