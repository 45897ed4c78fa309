//! See `millstream_fuzz::hls::hls_playlist`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::hls::hls_playlist(data));
