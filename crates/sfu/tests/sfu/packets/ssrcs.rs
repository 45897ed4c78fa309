//! Whose packet it is: by signalled SSRC, by MID and RID, by payload type; and how many SSRCs a
//! publisher may invent.

use std::time::Duration;

use rtp::rtcp::{Rtcp, SenderInfo};
use sfu::{DropReason, TrackInput};

use crate::packets::common::{
    H264_RTX, LEVEL_ID, MID_ID, VIDEO_RTX_SSRC, VIDEO_SSRC, World, audio, audio_input, audio_packet, frame,
    video, video_input,
};

fn unsignalled(input: TrackInput) -> TrackInput {
    TrackInput { ssrcs: Vec::new(), ..input }
}

#[test]
fn packets_of_signalled_ssrcs_need_no_extension() {
    let mut world = World::published();
    assert_eq!(world.receive(&frame(1, 0, true)).unwrap().track, video());
    assert_eq!(world.receive(&audio_packet(1, 0)).unwrap().track, audio());
}

#[test]
fn mid_names_the_track_of_an_ssrc_and_is_needed_once() {
    let mut world = World::published();
    world.publish(vec![unsignalled(audio_input()), unsignalled(video_input())]);
    let named = frame(1, 0, true).ssrc(77).with(MID_ID, b"v");
    assert_eq!(world.receive(&named).unwrap().track, video());
    assert_eq!(world.receive(&frame(2, 0, false).ssrc(77)).unwrap().track, video());
    let wrong = frame(1, 0, true).ssrc(78).with(MID_ID, b"a");
    assert_eq!(world.receive(&wrong), Err(DropReason::UnknownSsrc), "the m-line has no such payload type");
}

#[test]
fn a_payload_type_of_one_track_names_it() {
    let mut world = World::published();
    world.publish(vec![unsignalled(audio_input()), unsignalled(video_input())]);
    assert_eq!(world.receive(&frame(1, 0, true).ssrc(5)).unwrap().track, video());
    assert_eq!(world.receive(&audio_packet(1, 0).ssrc(6)).unwrap().track, audio());
    let mut other = frame(1, 0, true).ssrc(7);
    other.fields.payload_type = 35;
    assert_eq!(world.receive(&other), Err(DropReason::UnknownSsrc));
}

#[test]
fn a_payload_type_of_two_tracks_names_neither() {
    let mut world = World::published();
    let second = TrackInput { mid: "w".to_owned(), ..unsignalled(video_input()) };
    world.publish(vec![unsignalled(video_input()), second]);
    assert_eq!(world.receive(&frame(1, 0, true).ssrc(5)), Err(DropReason::UnknownSsrc));
    let named = frame(1, 0, true).ssrc(5).with(MID_ID, b"w");
    let received = world.receive(&named).unwrap();
    assert_ne!(received.track, video());
}

#[test]
fn a_payload_type_that_was_not_negotiated_is_dropped() {
    let mut world = World::published();
    let mut packet = frame(1, 0, true);
    packet.fields.payload_type = 35;
    assert_eq!(world.receive(&packet), Err(DropReason::UnknownPayloadType));
}

#[test]
fn retransmissions_are_unwrapped_and_fill_the_gap() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(10, 0, true)).unwrap();
    world.receive(&frame(12, 7_200, false)).unwrap();
    let lost = frame(11, 3_600, false).with(LEVEL_ID, &[9]);
    world.receive(&lost.rtx(VIDEO_RTX_SSRC, H264_RTX, 4_000)).unwrap();
    let got = world.video(1).last().unwrap();
    assert_eq!(got.packet().payload(), lost.payload);
    assert_eq!((got.origin(), got.timestamp()), (11, 3_600));
    assert_eq!(got.number().wrapping_add(1), world.numbers(1)[1]);
    // It is known now, in either form.
    assert_eq!(world.receive(&lost), Err(DropReason::Duplicate));
    assert_eq!(world.receive(&lost.rtx(VIDEO_RTX_SSRC, H264_RTX, 4_001)), Err(DropReason::Duplicate));
    // A probe: a retransmission of nothing.
    let mut probe = frame(0, 0, false).ssrc(VIDEO_RTX_SSRC).padded(200);
    probe.fields.payload_type = H264_RTX;
    probe.payload.clear();
    assert!(!world.receive(&probe).unwrap().forwarded);
}

#[test]
fn an_ssrc_that_is_replaced_goes_on_as_the_same_track() {
    let mut world = World::published();
    world.join(1);
    world.play(100, 0, 3, 5);
    let new = |sequence_number, key| frame(sequence_number, 50_000, key).ssrc(99).with(MID_ID, b"v");
    assert!(world.receive(&new(7, true)).unwrap().forwarded);
    assert_eq!(
        world.receive(&frame(103, 0, false)),
        Err(DropReason::RetiredSsrc),
        "two at once do not alternate"
    );
    let numbers = world.numbers(1);
    assert_eq!(numbers[3], numbers[2].wrapping_add(1));
    // The old one returns when the new one is silent.
    world.wait(Duration::from_secs(2));
    assert!(world.receive(&frame(300, 1_000, true)).unwrap().forwarded);
    assert_eq!(world.receive(&new(8, false)), Err(DropReason::RetiredSsrc));
}

#[test]
fn a_flood_of_ssrcs_stops_at_the_cap_and_the_stream_goes_on() {
    let mut world = World::published();
    world.publish(vec![audio_input(), unsignalled(video_input())]);
    let named = |ssrc: u32| frame(1, 0, true).ssrc(ssrc).with(MID_ID, b"v");
    let outcomes: Vec<_> =
        (1_000..101_000).map(|ssrc| world.stream.receive(world.now, &named(ssrc).bytes())).collect();
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(accepted <= 512, "{accepted} accepted");
    assert_eq!(outcomes.last(), Some(&Err(DropReason::SsrcFlood)));
    assert!(world.receive(&audio_packet(1, 0)).is_ok(), "the other track is not concerned");
}

#[test]
fn datagrams_of_every_length_are_refused_or_taken_but_never_more() {
    let mut world = World::published();
    let whole = frame(1, 0, true).with(MID_ID, b"v").padded(4).bytes();
    for len in 0..whole.len() {
        let _ = world.stream.receive(world.now, &whole[..len]);
        let noise: Vec<u8> = (0..len).map(|at| (at * 31) as u8 ^ whole[at]).collect();
        let _ = world.stream.receive(world.now, &noise);
        let _ = world.stream.receive_rtcp(world.now, &noise);
    }
    world.settle();
}

#[test]
fn goodbye_counts_when_it_is_for_all_sources() {
    let mut world = World::published();
    world.receive(&frame(1, 0, true)).unwrap();
    world.receive(&audio_packet(1, 0)).unwrap();
    let bye = |world: &mut World, ssrcs: &[u32]| {
        let mut rtcp = Vec::new();
        rtp::rtcp::SenderReport::write(&mut rtcp, ssrcs[0], &SenderInfo::default(), &[]);
        rtp::rtcp::Bye::write(&mut rtcp, ssrcs, "");
        assert!(
            rtp::rtcp::packets(&rtcp)
                .all(|packet| matches!(packet, Ok(Rtcp::SenderReport(_) | Rtcp::Bye(_))))
        );
        world.stream.receive_rtcp(world.now, &rtcp).bye
    };
    assert!(!bye(&mut world, &[4_711]), "nobody");
    assert!(!bye(&mut world, &[VIDEO_SSRC]), "audio goes on");
    assert!(bye(&mut world, &[crate::packets::common::AUDIO_SSRC]));
}

#[test]
fn a_hundred_tracks_in_one_bundle_are_all_received_reported_on_and_forwarded() {
    let mut world = World::published();
    let input = |at: u32| TrackInput {
        mid: at.to_string(),
        ssrcs: vec![(1_000 + at, Some(2_000 + at))],
        ..if at < 50 { video_input() } else { audio_input() }
    };
    world.publish((0..100).map(input).collect());
    let last = sfu::TrackIndex::new(rtp::payload::MediaKind::Video, 49).unwrap();
    let mut viewer = crate::packets::common::viewer(1);
    viewer.tracks.remove(0);
    viewer.tracks[0].track = last;
    world.join_as(&viewer);
    let mut reported = std::collections::BTreeSet::new();
    for second in 0..5u16 {
        for at in 0..100 {
            let packet = if at < 50 { frame(second, 0, true) } else { audio_packet(second, 0) };
            assert!(world.receive(&packet.ssrc(1_000 + at)).unwrap().forwarded, "track {at}");
        }
        world.wait(Duration::from_secs(1));
        world.told(|_, packet| {
            if let Rtcp::ReceiverReport(report) = packet {
                reported.extend(report.blocks.iter().map(|block| block.ssrc));
            }
        });
    }
    assert_eq!(reported.len(), 100, "in turn");
    assert_eq!(world.video(1).len(), 5);
}
