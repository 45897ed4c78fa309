//! Tag bodies: codec, role and format are read from anything without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use live::flv::{audio_format, inspect, video_format};
use live::rtmp::MediaKind;

fuzz_target!(|data: &[u8]| {
    for kind in [MediaKind::Audio, MediaKind::Video, MediaKind::Data] {
        if let Ok(info) = inspect(kind, data) {
            let _ = video_format(info.codec, data);
            let _ = audio_format(info.codec, data);
        }
    }
});
