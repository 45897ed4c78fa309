//! See `millstream_fuzz::msgpack_array::msgpack_decode_any`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::msgpack_array::msgpack_decode_any(data));
