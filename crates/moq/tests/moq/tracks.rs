//! Tracks of publishers as frames, for each codec that browsers send.

use media::config::opus_head;
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use moq::catalog::{Audio, Catalog, Container, Renditions, Video};
use moq::incoming::{Incoming, Selection};
use moq::outgoing::Outgoing;

/// Baseline, 320x180, of libx264.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xda, 0x05, 0x06, 0x7e, 0x5c, 0x04, 0x40, 0x00, 0x00, 0x03, 0x00, 0x40, 0x00,
    0x00, 0x0c, 0x83, 0xc5, 0x0a, 0xa8,
];
const PPS: &[u8] = &[0x68, 0xce, 0x0f, 0xc8];

fn video(codec: &str, description: Option<&str>) -> Video {
    Video {
        codec: codec.to_owned(),
        container: Container::default(),
        description: description.map(str::to_owned),
        coded_width: None,
        coded_height: None,
    }
}

fn audio(codec: &str, description: Option<&str>) -> Audio {
    Audio {
        codec: codec.to_owned(),
        container: Container::default(),
        sample_rate: 48_000,
        number_of_channels: 2,
        description: description.map(str::to_owned),
    }
}

/// Time 1 s, and the access unit.
fn payload(data: &[u8]) -> Vec<u8> {
    [&[0x80, 0x0f, 0x42, 0x40], data].concat()
}

fn shown(frames: &[Frame]) -> Vec<(FrameRole, Vec<u8>)> {
    frames.iter().map(|frame| (frame.role, frame.data().to_vec())).collect()
}

#[test]
fn start_codes_become_lengths_and_parameter_sets_a_configuration() {
    let mut track = Incoming::video(&video("avc1.42c00d", None)).expect("H.264");
    assert_eq!(track.frames(&payload(&[0, 0, 1, 0x41, 9]), false), None, "it needs a key frame");
    let key = [&[0, 0, 0, 1, 9, 0x10, 0, 0, 0, 1][..], SPS, &[0, 0, 0, 1], PPS, &[0, 0, 1, 0x65, 7]].concat();
    let frames = track.frames(&payload(&key), true).expect("a key frame");
    let [(FrameRole::Config, record), (FrameRole::Key, data)] = &shown(&frames)[..] else {
        panic!("{frames:?}")
    };
    assert_eq!((&record[..4], &data[..]), (&[1, 0x42, 0xc0, 0x0d][..], &[0, 0, 0, 2, 0x65, 7][..]));
    assert_eq!((frames[1].pts, frames[1].codec), (Timestamp::from_millis(1_000), Codec::H264));
    let inter = track.frames(&payload(&[0, 0, 1, 0x41, 9]), false).expect("a frame");
    assert_eq!(shown(&inter), [(FrameRole::Inter, vec![0, 0, 0, 2, 0x41, 9])]);
    let again = track.frames(&payload(&key), true).expect("a key frame");
    assert_eq!(again.len(), 1, "the configuration is the same");
    track.interrupt();
    assert_eq!(track.frames(&payload(&[0, 0, 1, 0x41, 9]), false), None, "frames were left out");
}

#[test]
fn what_the_catalogue_describes_passes_as_it_is() {
    let avcc = media::config::avc_record(&[SPS], &[PPS]).expect("a record").bytes;
    let hex: String = avcc.iter().map(|byte| format!("{byte:02X}")).collect();
    let mut track = Incoming::video(&video("avc1.42c00d", Some(&hex))).expect("H.264");
    let frames = track.frames(&payload(&[0, 0, 0, 2, 0x65, 7]), true).expect("a key frame");
    assert_eq!(shown(&frames), [(FrameRole::Config, avcc), (FrameRole::Key, vec![0, 0, 0, 2, 0x65, 7])]);
    for broken in ["01", "xy", "016400"] {
        assert!(Incoming::video(&video("avc1.42c00d", Some(broken))).is_none(), "{broken}");
    }
}

#[test]
fn audio_has_its_configuration_first_and_once() {
    let mut aac = Incoming::audio(&audio("mp4a.40.2", None)).expect("AAC");
    let frames = aac.frames(&payload(b"raw"), true).expect("a frame");
    assert_eq!(shown(&frames), [(FrameRole::Config, vec![0x11, 0x90]), (FrameRole::Audio, b"raw".to_vec())]);
    assert_eq!(aac.frames(&payload(b"raw"), true).expect("a frame").len(), 1);
    let end = aac.end().expect("it had begun");
    assert_eq!((end.role, end.dts), (FrameRole::End, Timestamp::from_millis(1_000)));
    let mut opus = Incoming::audio(&audio("opus", None)).expect("Opus");
    assert_eq!(opus.end(), None);
    let frames = opus.frames(&payload(b"packet"), true).expect("a frame");
    assert_eq!(frames[0].data(), opus_head(2));
    assert_eq!((frames[1].track, frames[1].codec), (TrackId::AUDIO, Codec::Opus));
    let mut mp3 = Incoming::audio(&audio("mp3", None)).expect("MP3");
    let frames = mp3.frames(&payload(b"frame"), true).expect("a frame");
    assert_eq!((frames.len(), frames[0].channels), (1, 2));
    for empty in [&b""[..], &[0x80, 0x0f], &payload(b"")] {
        assert_eq!(mp3.frames(empty, true), None);
    }
}

#[test]
fn delimiters_of_av1_are_left_out() {
    // A delimiter, a sequence header of libaom and a frame.
    let header = [0x0a, 0x0b, 0, 0, 0, 0x0c, 0xc4, 0xff, 0x67, 0x00, 0xbe, 0x00, 0x10];
    let key = [&[0x12, 0][..], &header, &[0x32, 2, 1, 2]].concat();
    let mut track = Incoming::video(&video("av01.0.05M.08", None)).expect("AV1");
    let frames = track.frames(&payload(&key), true).expect("a key frame");
    assert_eq!((frames[0].role, frames[1].data()), (FrameRole::Config, &key[2..]));
    assert_eq!(track.frames(&payload(&[0x12, 0]), true), None, "nothing is left");
}

#[test]
fn the_largest_picture_that_is_understood_is_taken() {
    let sized = |codec: &str, width: u32| Video {
        coded_width: Some(width),
        coded_height: Some(9),
        ..video(codec, None)
    };
    let renditions = [
        ("huge", Video { container: Container { kind: "cmaf".to_owned() }, ..sized("vp8", 4_000) }),
        ("large", sized("vp8", 1_280)),
        ("small", sized("vp8", 640)),
        ("strange", sized("mpeg2", 1_920)),
    ];
    let renditions = renditions.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
    let sounds = [("a", audio("pcm", None)), ("b", audio("opus", None))];
    let sounds = sounds.into_iter().map(|(name, entry)| (name.to_owned(), entry)).collect();
    let catalog =
        Catalog { video: Some(Renditions { renditions }), audio: Some(Renditions { renditions: sounds }) };
    let selection = Selection::of(catalog);
    assert_eq!(selection.video.map(|(name, _)| name).as_deref(), Some("large"));
    assert_eq!(selection.audio.map(|(name, _)| name).as_deref(), Some("b"));
    assert_eq!(Selection::of(Catalog::default()), Selection::default());
}

#[test]
fn what_is_taken_in_is_sent_on_as_it_came() {
    let mut incoming = Incoming::audio(&audio("opus", None)).expect("Opus");
    let mut outgoing = Outgoing::default();
    let sent = payload(b"packet");
    let mut units = Vec::new();
    for frame in incoming.frames(&sent, true).expect("frames") {
        units.extend(outgoing.frame(&frame).map(|unit| unit.payload));
    }
    assert_eq!(units, [sent]);
}
