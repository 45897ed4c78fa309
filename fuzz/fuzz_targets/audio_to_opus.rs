//! See `millstream_fuzz::transcode::audio_to_opus`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| millstream_fuzz::transcode::audio_to_opus(data));
