//! AV1 by Enhanced RTMP: temporal units arrive as they were, and begin with a sequence header where
//! a decoder can start.

use rtp::payload::{Codec, inspect};

use crate::frame_to_rtp::Rig;

const SEQUENCE_HEADER: &[u8] = &[0x0a, 0x0b, 0, 0, 0, 0x0c, 0xc5, 3, 0x69, 0x36, 0xbe, 0x40, 0x10];
const RECORD: &[u8] = &[0x81, 5, 0x0c, 0];

fn config(obus: &[u8]) -> Vec<u8> {
    [&b"\x90av01"[..], RECORD, obus].concat()
}

/// A tag body with a temporal unit of a delimiter and a frame of so many bytes.
fn unit(is_key: bool, ahead: &[u8], len: u8) -> Vec<u8> {
    let frame = [&[0x32, len][..], &vec![7; usize::from(len)]].concat();
    [if is_key { &b"\x91av01"[..] } else { b"\xa1av01" }, &[0x12, 0], ahead, &frame].concat()
}

#[test]
fn the_sequence_header_is_repeated_where_a_key_frame_has_none() {
    let mut rig = Rig::new();
    assert_eq!(rig.video(0, &config(SEQUENCE_HEADER)), []);
    assert_eq!(rig.video(0, &unit(false, &[], 100)), [], "no key frame yet");
    for (index, ahead) in [&[][..], SEQUENCE_HEADER].into_iter().enumerate() {
        let key = rig.video(40 * index as u64, &unit(true, ahead, 100));
        let expected = [SEQUENCE_HEADER, &[0x32, 100], &[7; 100]].concat();
        assert_eq!(key[0].data, expected, "once, whoever sent it");
        let info = inspect(Codec::Av1, &key[0].first, true).unwrap();
        assert!(info.key_frame && info.has_parameter_sets && key[0].first[0] & 0x08 != 0, "N");
    }
    let inter = rig.video(80, &unit(false, &[], 50));
    assert_eq!(inter[0].data, [&[0x32, 50][..], &[7; 50]].concat());
    assert!(!inspect(Codec::Av1, &inter[0].first, true).unwrap().key_frame);
    let video = rig.bridge.formats().video.clone().unwrap();
    assert_eq!((video.codec, video.fmtp.as_str()), (Codec::Av1, "profile=0;level-idx=5;tier=0"));
    assert_eq!((rig.broken(), rig.bridge.stats().video_frames), (0, 3));
}

#[test]
fn records_and_units_that_are_broken_are_counted() {
    for record in [
        &b"\x90av01"[..],
        b"\x90av01\x81\x05\x0c",
        b"\x90av01\x01\x05\x0c\0",
        b"\x90av01\x81\x05\x0c\0\x0a\x7f",
    ] {
        let mut rig = Rig::new();
        rig.video(0, record);
        assert_eq!(rig.broken(), 1, "{}", record.escape_ascii());
        assert_eq!(rig.bridge.formats().video, None);
        assert_eq!(
            rig.bridge.formats().refused.map(|refused| refused.to_string()).as_deref(),
            Some("video: the sequence header of AV1 is broken")
        );
        assert_eq!(rig.video(0, &unit(true, SEQUENCE_HEADER, 10)), []);
    }
    let mut rig = Rig::new();
    rig.video(0, &config(SEQUENCE_HEADER));
    let beyond = b"\x91av01\x0a\x0b\0\0";
    assert_eq!(rig.video(0, beyond), [], "an OBU that reaches beyond the tag");
    assert_eq!(rig.video(0, b"\x91av01\x12\0"), [], "a delimiter alone");
    assert_eq!(rig.broken(), 2 - u64::from(rig.bridge.stats().video_frames > 0));
    assert_eq!(rig.video(40, &unit(true, &[], 10)).len(), 1, "the next one is not affected");
    assert_eq!(rig.broken(), 2);
}
