//! Another process goes on with a bridge: what comes out of it is what would have come.

use std::path::Path;

use bridge::{FrameToRtp, FrameToRtpState};
use media::MediaKind;
use rtp::payload::Codec;

use crate::frame_to_rtp::vp::{body, pictures};
use crate::frame_to_rtp::{Rig, Sent, demo_tags, flv_tags, settings};

type Tags = Vec<(u64, MediaKind, Vec<u8>)>;

fn samples() -> Vec<(String, Tags)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let flv = files.filter(|file| file.extension().is_some_and(|extension| extension == "flv"));
    let tags =
        |path: std::path::PathBuf| (path.display().to_string(), flv_tags(&std::fs::read(path).unwrap()));
    let mut all: Vec<_> = flv.map(tags).collect();
    all.push(("demo".to_owned(), demo_tags()));
    for (codec, name, fourcc) in [(Codec::Vp8, "vp8", b"vp08"), (Codec::Vp9, "vp9", b"vp09")] {
        let bodies = pictures(codec, name).into_iter().map(|picture| body(fourcc, false, &picture));
        let tags = (0..).zip(bodies).map(|(at, body)| (100 * at, MediaKind::Video, body)).collect();
        all.push((name.to_owned(), tags));
    }
    assert!(all.len() > 8);
    all
}

/// As it arrives in another process.
fn arrived(state: &FrameToRtpState) -> FrameToRtpState {
    rmp_serde::from_slice(&rmp_serde::to_vec_named(state).unwrap()).unwrap()
}

fn send(rig: &mut Rig, tags: &[(u64, MediaKind, Vec<u8>)]) -> Vec<Sent> {
    let of_tag = |(time_ms, kind, body): &(u64, MediaKind, Vec<u8>)| match kind {
        MediaKind::Audio => rig.audio(*time_ms, body),
        _ => rig.video(*time_ms, body),
    };
    tags.iter().flat_map(of_tag).collect()
}

/// The headers again, as a stream that goes on has them.
fn send_headers(rig: &mut Rig, tags: &[(u64, MediaKind, Vec<u8>)]) {
    let is_header = |body: &[u8]| match body[0] {
        // Of legacy codecs, and of others.
        0x17 | 0xaf => body[1] == 0,
        first => first & 0x8f == 0x80,
    };
    let headers: Vec<_> = tags.iter().filter(|(_, _, body)| is_header(body)).cloned().collect();
    assert_eq!(send(rig, &headers), []);
}

#[test]
fn every_codec_goes_on_in_the_middle() {
    for (name, tags) in samples() {
        let mut whole = Rig::new();
        let mut parts = Rig::new();
        for (at, tag) in tags.iter().enumerate() {
            let expected = send(&mut whole, std::slice::from_ref(tag));
            assert_eq!(send(&mut parts, std::slice::from_ref(tag)), expected, "{name}, tag {at}");
            if whole.bridge.formats().refused.is_some() {
                // Another process looks at it again.
                break;
            }
            if at % 7 == 5 {
                let now = parts.at(tag.0);
                let state = arrived(&parts.bridge.state(now));
                parts.bridge = FrameToRtp::resumed(settings(), now, state);
                assert_eq!(parts.bridge.formats().video, whole.bridge.formats().video, "{name}");
                assert_eq!(parts.bridge.formats().audio, whole.bridge.formats().audio, "{name}");
                send_headers(&mut parts, &tags[..=at]);
            }
        }
        let jobs = |rig: &Rig| rig.audio_jobs.iter().map(|job| job.data.clone()).collect::<Vec<_>>();
        assert_eq!(jobs(&parts), jobs(&whole), "{name}");
    }
}

#[test]
fn another_transcoder_hears_the_format_first() {
    let tags = demo_tags();
    let mut rig = Rig::new();
    send(&mut rig, &tags[..50]);
    let format = rig.audio_jobs[0].format.clone();
    assert!(format.is_some() && rig.audio_jobs[1..].iter().all(|job| job.format.is_none()));
    rig.audio_jobs.clear();
    rig.bridge = FrameToRtp::resumed(settings(), rig.start, arrived(&rig.bridge.state(rig.start)));
    send_headers(&mut rig, &tags[..50]);
    send(&mut rig, &tags[50..100]);
    assert_eq!(rig.audio_jobs[0].format, format);
    assert!(rig.audio_jobs[1..].iter().all(|job| job.format.is_none()));
    // One that could not be had may be had in another process.
    rig.bridge.refuse_audio("there are too many", &mut rig.out);
    assert!(rig.bridge.formats().refused.is_some());
    rig.bridge = FrameToRtp::resumed(settings(), rig.start, arrived(&rig.bridge.state(rig.start)));
    send_headers(&mut rig, &tags[..50]);
    assert_eq!((rig.bridge.formats().audio, rig.bridge.formats().refused), (Some(Codec::Opus), None));
}

#[test]
fn reports_go_on_where_they_were() {
    let tags = demo_tags();
    let mut rig = Rig::new();
    send(&mut rig, &tags[..100]);
    let at = rig.at(tags[99].0);
    let before = rig.bridge.report(at);
    assert!(before.video.is_some());
    let mut other = FrameToRtp::resumed(settings(), at, arrived(&rig.bridge.state(at)));
    // The frames of a pause of 300 ms come at once.
    let later = rig.at(tags[99].0 + 300);
    let mut expected = None;
    for bridge in [&mut rig.bridge, &mut other] {
        for (time_ms, kind, body) in &tags[100..103] {
            for frame in crate::frame_to_rtp::frames(*kind, body) {
                bridge.frame(later, crate::frame_to_rtp::time(*time_ms), &frame, &mut rig.out);
            }
        }
        rig.out.clear();
        let timeout = bridge.next_timeout().expect("a track has sent something");
        let mappings = bridge.report(timeout.max(later));
        let mapping = mappings.video.map(|mapping| mapping.timestamp_at(later, 90_000));
        assert_eq!(*expected.get_or_insert(mapping), mapping);
    }
}

#[test]
fn what_is_damaged_is_not_read_or_harms_nobody() {
    let mut random = netsim::Random::new(11);
    for (name, tags) in samples() {
        let mut rig = Rig::new();
        send(&mut rig, &tags[..tags.len() / 2]);
        let whole = rmp_serde::to_vec_named(&rig.bridge.state(rig.start)).unwrap();
        for _ in 0..300 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            let Ok(state) = rmp_serde::from_slice::<FrameToRtpState>(&bytes) else { continue };
            let mut bridge = FrameToRtp::resumed(settings(), rig.start, state);
            for (time_ms, kind, body) in &tags[tags.len() / 2..] {
                for frame in crate::frame_to_rtp::frames(*kind, body) {
                    let time = crate::frame_to_rtp::time(*time_ms);
                    bridge.frame(rig.at(*time_ms), time, &frame, &mut rig.out);
                }
                bridge.report(rig.at(*time_ms));
                rig.out.clear();
            }
            assert!(bridge.stats().video_frames <= tags.len() as u64, "{name}");
        }
    }
}
