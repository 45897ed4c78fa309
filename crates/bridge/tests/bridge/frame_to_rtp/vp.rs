//! VP8 and VP9 by Enhanced RTMP: pictures of real encoders arrive as they were.
//!
//! The pictures are those of the RTP streams beside the tests of `rtp`, put into tag bodies again.

use rtp::Packet;
use rtp::depacketize::Depacketizer;
use rtp::payload::{Codec, vp8, vp9};

use crate::frame_to_rtp::Rig;

/// Whole pictures of a stream.
pub(crate) fn pictures(codec: Codec, name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../rtp/tests/data/{name}.rtp", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[..];
    let mut depacketizer = Depacketizer::new(codec);
    let mut pictures = Vec::new();
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (bytes, behind) = behind.split_at(usize::from(u16::from_be_bytes(*len)));
        rest = behind;
        let packet = Packet::parse(bytes).unwrap();
        depacketizer.push(packet.payload()).unwrap();
        if packet.marker() {
            pictures.push(depacketizer.finish().unwrap().to_vec());
        }
    }
    assert!(pictures.len() >= 6);
    pictures
}

/// Tag body of coded frames: not of the codecs that have a composition time.
pub(crate) fn body(fourcc: &[u8; 4], is_key: bool, data: &[u8]) -> Vec<u8> {
    [&[if is_key { 0x91 } else { 0xa1 }], &fourcc[..], data].concat()
}

#[test]
fn vp8() {
    let mut rig = Rig::new();
    let mut key_frames = 0;
    for (index, picture) in pictures(Codec::Vp8, "vp8").iter().enumerate() {
        // The tag says of none that it is a key frame: the bitstream counts.
        let sent = rig.video(100 * index as u64, &body(b"vp08", false, picture));
        assert_eq!(sent.len(), 1);
        assert_eq!(&sent[0].data, picture);
        let descriptor = vp8::Descriptor::parse(&sent[0].first).unwrap();
        assert_eq!(descriptor.picture_id, Some(vp8::PictureId::Long(index as u16)));
        key_frames += usize::from(picture[0] & 1 == 0);
    }
    assert!(key_frames >= 2);
    let video = rig.bridge.formats().video.clone().unwrap();
    assert_eq!((video.codec, video.fmtp.as_str()), (Codec::Vp8, ""));
    assert_eq!(rig.broken(), 0);
}

#[test]
fn vp9() {
    let mut rig = Rig::new();
    let mut key_frames = 0;
    for (index, picture) in pictures(Codec::Vp9, "vp9").iter().enumerate() {
        let sent = rig.video(100 * index as u64, &body(b"vp09", index == 0, picture));
        assert_eq!(sent.len(), 1);
        assert_eq!(&sent[0].data, picture);
        let descriptor = vp9::Descriptor::parse(&sent[0].first).unwrap();
        assert_eq!(descriptor.picture_id, Some(vp8::PictureId::Long(index as u16)));
        assert!(!descriptor.flexible && descriptor.layer.is_none());
        key_frames += usize::from(!descriptor.inter_predicted);
    }
    assert!(key_frames >= 2, "every fifth");
    let video = rig.bridge.formats().video.clone().unwrap();
    assert_eq!((video.codec, video.fmtp.as_str()), (Codec::Vp9, "profile-id=0"));
    assert_eq!(rig.broken(), 0);
}

#[test]
fn nothing_is_sent_before_the_first_key_frame() {
    for (codec, name, fourcc) in [(Codec::Vp8, "vp8", b"vp08"), (Codec::Vp9, "vp9", b"vp09")] {
        let pictures = pictures(codec, name);
        let mut rig = Rig::new();
        let mut sent = Vec::new();
        for (index, picture) in pictures.iter().enumerate().skip(1) {
            sent.extend(rig.video(100 * index as u64, &body(fourcc, false, picture)));
        }
        // The second key frame is the sixth picture.
        assert_eq!(sent.len(), pictures.len() - 5, "{name}");
        assert_eq!(sent[0].data, pictures[5], "{name}");
    }
}

#[test]
fn behind_a_broken_picture_the_next_key_frame_is_waited_for() {
    let pictures = pictures(Codec::Vp8, "vp8");
    let mut rig = Rig::new();
    let mut sent = 0;
    for (index, picture) in pictures.iter().enumerate() {
        // The third has no bytes, which nobody misses; the fourth claims to be a key frame and is none.
        let damaged = [&[0][..], &picture[1..]].concat();
        let data = match index {
            2 => &[][..],
            3 => &damaged,
            _ => picture,
        };
        let packets = rig.video(100 * index as u64, &body(b"vp08", false, data));
        assert_eq!(packets.len(), usize::from(!(2..5).contains(&index)), "picture {index}");
        sent += packets.len();
    }
    assert_eq!((sent, rig.broken()), (pictures.len() - 3, 2));
}
