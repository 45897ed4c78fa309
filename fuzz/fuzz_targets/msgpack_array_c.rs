//! See `millstream_fuzz::msgpack_array_c::msgpack_array_c`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::msgpack_array_c::msgpack_array_c(data));
