//! A file of a real encoder goes to packets and comes back as it was.

use media::{FrameRole, MediaKind};
use rtp::packetize::{PacketSlab, Sender, h264};
use rtp::payload::Codec;

use crate::rtp_to_frame::{Rig, units};

/// Video tags of `media/demo.flv`: x264 without B-frames.
fn video_tags() -> Vec<(u64, Vec<u8>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../media/demo.flv");
    let file = std::fs::read(path).unwrap();
    let mut rest = &file[13..];
    let mut tags = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<11>() {
        let len = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let time_ms = u64::from(u32::from_be_bytes([head[7], head[4], head[5], head[6]]));
        if head[0] == 9 {
            tags.push((time_ms, behind[..len].to_vec()));
        }
        rest = &behind[len + 4..];
    }
    tags
}

/// Parameter sets of a configuration with one of each.
fn parameter_sets(config: &[u8]) -> [&[u8]; 2] {
    let record = &config[5..];
    let sps_len = usize::from(u16::from_be_bytes([record[6], record[7]]));
    let (sps, rest) = record[8..].split_at(sps_len);
    let pps_len = usize::from(u16::from_be_bytes([rest[1], rest[2]]));
    [sps, &rest[3..3 + pps_len]]
}

#[test]
fn every_tag_is_what_it_was() {
    let tags = video_tags();
    let sets = parameter_sets(&tags[0].1);
    let mut rig = Rig::new(Codec::H264);
    let (mut sender, mut slab) = (Sender::new(1, 0), PacketSlab::default());
    let mut expected = Vec::new();
    for (time_ms, body) in tags.iter().filter(|(_, body)| body[1] == 1) {
        let of_body = units(&body[5..]);
        let kept = of_body.iter().filter(|(kind, _)| !matches!(kind, 7..=12));
        let (mut frame, mut whole) = (body[..5].to_vec(), Vec::new());
        if body[0] == 0x17 {
            whole.extend(sets);
        }
        for (_, unit) in kept {
            frame.extend_from_slice(&(unit.len() as u32).to_be_bytes());
            frame.extend_from_slice(unit);
            whole.push(unit);
        }
        slab.clear();
        let mut writer = sender.frame(96, 0, &mut slab);
        h264::packetize(whole.into_iter(), 1_160, &mut writer);
        writer.end_frame(true);
        for (fields, payload) in slab.iter() {
            rig.video(*time_ms, payload, fields.marker);
        }
        expected.push((*time_ms, frame));
    }
    let begin = u64::from(rig.pictures()[0].1) - expected[0].0;
    let video =
        rig.frames.iter().filter(|frame| frame.track == MediaKind::Video && frame.role != FrameRole::Config);
    let got: Vec<_> =
        video.map(|frame| (u64::from(frame.timestamp) - begin, frame.payload.clone())).collect();
    assert_eq!(got.len(), 250);
    assert!(got == expected, "a frame or its time differs");
    let configs = rig.of(MediaKind::Video, FrameRole::Config);
    assert_eq!(configs.len(), 1);
    assert_eq!(parameter_sets(&configs[0].payload), sets);
}
