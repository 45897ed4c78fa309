//! What is heard at a time before transcoding is heard at the same time after it, whatever the codec and its
//! delays.

use crate::common::{CLICKS_US, click_errors_us, decode_opus, sample, to_opus};
use transcode::{OpusSettings, ToOpus};

/// Two clicks of every sample come out at their times, within what the millisecond of the timestamps and the
/// width of a click at low sampling rates leave.
#[test]
fn clicks_of_every_format_come_out_when_they_went_in() {
    let names = [
        "aac-44100-stereo.aac",
        "aac-48000-stereo.aac",
        "aac-48000-mono.aac",
        "aac-96000-stereo.aac",
        "aac-16000-mono.aac",
        "aac-7350-mono.aac",
        "mp3-44100-stereo.mp3",
        "mp3-22050-mono.mp3",
    ];
    for name in names {
        let errors = click_errors_us(decode_opus(&to_opus(&sample(name))));
        println!("{name}: {errors:?} us");
        for error in errors {
            assert!(error.abs() <= 1_000, "{name}: {error} us off");
        }
    }
}

/// A frame of HE-AAC is one of AAC-LC with something after it, which decoders of AAC-LC leave out.
#[test]
#[cfg(not(feature = "fdk-aac"))]
fn high_efficiency_aac_is_heard_as_its_core() {
    let mut audio = sample("aac-16000-mono.aac");
    // Object type 5, 16 kHz, mono, replicated to 32 kHz, core of object type 2.
    audio.format.record = vec![0b0010_1100, 0b0000_1010, 0b1000_1000, 0];
    for error in click_errors_us(decode_opus(&to_opus(&audio))) {
        assert!(error.abs() <= 1_000, "{error} us off");
    }
}

#[test]
fn a_click_after_broken_pieces_keeps_its_time() {
    let audio = sample("aac-48000-stereo.aac");
    let mut transcoder = ToOpus::new(OpusSettings { bits_per_second: 128_000 });
    let mut out = Vec::new();
    for (pts_us, data) in &audio.pieces {
        // A tenth of a second before each click, too short a time for timestamps alone to tell of a hole.
        let is_broken = CLICKS_US.iter().any(|click| (90_000..150_000).contains(&(click - pts_us)));
        let pushed =
            transcoder.push(Some(&audio.format), *pts_us, if is_broken { &[] } else { data }, &mut out);
        assert_eq!(pushed.is_err(), is_broken);
    }
    for error in click_errors_us(decode_opus(&out)) {
        assert!(error.abs() <= 1_000, "{error} us off");
    }
}
