//! See `millstream_fuzz::node_link::node_link_hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::node_link::node_link_hello(data));
