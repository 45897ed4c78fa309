//! What viewers are offered, and the reasons they get for the rest.

use bridge::{BFrames, FrameToRtpSettings, PublishedFormats};
use rtp::payload::Codec;

use crate::frame_to_rtp::{PAYLOAD_BYTES_MAX, Rig, demo_tags, flv_tags, frames, settings, time};

#[test]
fn formats_are_news_once() {
    let mut rig = Rig::new();
    assert!(!rig.take_formats_change());
    let config = demo_tags().into_iter().find(|(.., body)| body.starts_with(&[0x17, 0])).unwrap().2;
    rig.video(0, &config);
    assert!(rig.take_formats_change());
    assert!(!rig.take_formats_change());
    rig.video(40, &config);
    assert!(!rig.take_formats_change(), "the same again");
    rig.audio(40, &[0xaf, 0, 0x12, 0x10]);
    assert!(rig.take_formats_change());
    rig.audio(60, &[0xaf, 0, 0x11, 0x90]);
    assert!(!rig.take_formats_change(), "another rate, and Opus as before");
}

#[test]
fn codecs_webrtc_has_not_are_refused_by_name() {
    for (track_is_video, body, reason) in [
        (true, &b"\x12\0\0"[..], "video: WebRTC has no codec 2"),
        (true, b"\x91vvc1\0\0\0abc", "video: WebRTC has no vvc1"),
        (false, b"\xb2abc", "audio: Speex is not transcoded"),
        (false, b"\x90fLaCabc", "audio: FLAC is not transcoded"),
        (false, b"\x91ac-3\x0b\x77", "audio: AC-3 is not transcoded"),
    ] {
        let mut rig = Rig::new();
        let sent = if track_is_video { rig.video(0, body) } else { rig.audio(0, body) };
        assert_eq!(sent, []);
        assert!(rig.take_formats_change());
        let refused = rig.bridge.formats().refused;
        assert_eq!(refused.map(|refused| refused.to_string()).as_deref(), Some(reason));
        assert_eq!(rig.bridge.formats(), &PublishedFormats { refused, ..PublishedFormats::default() });
        let _ = if track_is_video { rig.video(40, body) } else { rig.audio(40, body) };
        assert!(!rig.take_formats_change(), "said already");
        assert_eq!(rig.broken(), 0);
    }
}

#[test]
fn what_is_refused_of_both_tracks_has_a_reason_for_each() {
    let mut rig = Rig::new();
    rig.video(0, b"\x12\0\0");
    rig.audio(0, b"\xb2abc");
    let expected = "video: WebRTC has no codec 2; audio: Speex is not transcoded";
    assert_eq!(rig.bridge.formats().refused.map(|refused| refused.to_string()).as_deref(), Some(expected));
}

#[test]
fn another_codec_within_a_stream_takes_the_place_of_the_first() {
    let mut rig = Rig::new();
    let tags = demo_tags();
    for (time_ms, _, body) in tags.iter().filter(|(.., body)| body[0] & 0x8f == 0x07).take(3) {
        rig.video(*time_ms, body);
    }
    rig.video(200, b"\x12\0\0");
    assert_eq!(rig.bridge.formats().video, None);
    let key = [&b"\x91vp08"[..], &[0x10, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1, 9]].concat();
    assert_eq!(rig.video(240, &key).len(), 1);
    assert_eq!(rig.bridge.formats().video.as_ref().map(|video| video.codec), Some(Codec::Vp8));
    assert_eq!(rig.bridge.formats().refused, None);
    let h264: Vec<_> = tags.iter().filter(|(.., body)| body[0] & 0x8f == 0x07).take(2).collect();
    for refused in [false, true] {
        if refused {
            rig.video(260, b"\x12\0\0");
        }
        rig.video(280, &h264[0].2);
        assert_eq!(rig.video(280, &h264[1].2).len(), 1, "and back, with the sequence header it had");
        assert_eq!(rig.bridge.formats().video.as_ref().map(|video| video.codec), Some(Codec::H264));
    }
}

#[test]
fn of_several_tracks_the_first_is_sent() {
    let mut rig = Rig::new();
    let key = [0x10, 0, 0, 0x9d, 1, 0x2a, 0, 1, 0, 1, 9];
    // Many tracks of one codec: each has its id and its length ahead of it.
    let many = [&b"\x96\x11vp08\0\0\0\x0b"[..], &key, b"\x01\0\0\x02xx"].concat();
    assert_eq!(rig.video(0, &many)[0].data, key);
    let modified = [&b"\x97\x02\0\0\x00\x01vp08"[..], &key].concat();
    assert_eq!(rig.video(40, &modified)[0].data, key, "behind a ModEx");
    let other = [&b"\x96\x01vp08\x01"[..], &key].concat();
    assert_eq!(rig.video(80, &other), [], "a body of the second track alone");
    for (track, sent) in [(3u8, 1), (0, 0), (4, 0), (3, 1)] {
        let body = [&b"\x95\x01Opus"[..], &[track, 0xfc, 1, 2]].concat();
        assert_eq!(rig.audio(80, &body).len(), sent, "audio of track {track}");
    }
}

#[test]
fn the_size_of_payloads_is_that_of_the_settings() {
    for payload_bytes_max in [200, PAYLOAD_BYTES_MAX, 1_400] {
        let mut rig = Rig::with(FrameToRtpSettings { b_frames: BFrames::Refuse, payload_bytes_max });
        let mut sent = Vec::new();
        for (time_ms, _, body) in demo_tags().iter().filter(|(.., body)| body[0] & 0x8f == 0x07).take(20) {
            sent.extend(rig.video(*time_ms, body));
        }
        let longest = sent.iter().flat_map(|sent| sent.sizes.iter().copied()).max().unwrap();
        assert!(longest <= payload_bytes_max && longest > payload_bytes_max * 9 / 10, "{longest}");
    }
}

#[test]
fn a_description_without_packets_says_what_a_bridge_says() {
    let samples = format!("{}/tests/samples", env!("CARGO_MANIFEST_DIR"));
    let mut streams = vec![demo_tags()];
    for entry in std::fs::read_dir(samples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "flv") {
            streams.push(flv_tags(&std::fs::read(path).unwrap()));
        }
    }
    let mut refused = 0;
    for tags in &streams {
        let frames: Vec<_> = tags.iter().flat_map(|(_, track, body)| frames(*track, body)).collect();
        let mut rig = Rig::new();
        for (at, (time_ms, _, _)) in tags.iter().enumerate() {
            rig.bridge.frame(rig.start, time(*time_ms), &frames[at], &mut rig.out);
            if at < 3 || at + 1 == tags.len() {
                assert_eq!(&bridge::describe(&settings(), [], &frames[..=at]), rig.bridge.formats());
            }
        }
        refused += usize::from(rig.bridge.formats().refused.is_some());
        let ended = bridge::describe(&settings(), &frames[..1], []);
        assert!(ended.video.is_some() && ended.refused.is_none(), "{ended:?}");
    }
    assert_eq!(refused, 3, "two pyramids and an intra refresh");
}
