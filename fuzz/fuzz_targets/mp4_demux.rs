//! See `millstream_fuzz::mp4::mp4_demux`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::mp4::mp4_demux(data));
