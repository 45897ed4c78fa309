//! Packets sent again: as RTX from one cache, or as they were, not twice within a round trip, never more
//! than 30 % of the media.

use std::collections::BTreeMap;
use std::time::Duration;

use rtp::rtcp::{Nack, NtpMiddle, ReceiverReport, ReportBlock};
use sfu::ViewerId;

use crate::packets::common::{
    VP8, World, audio_packet, audio_ssrc, frame, rtx_ssrc, video_ssrc, viewer, written,
};

fn nack(world: &mut World, id: ViewerId, token: u64, lost: &[u16]) -> Vec<Vec<u8>> {
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(token), lost));
    assert!(resent.iter().all(|resend| resend.token() == token));
    resent.iter().map(written).collect()
}

#[test]
fn rtx_carries_the_original_under_a_number_of_its_own() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(65_500, 0, 60, 100);
    let sent = world.video(1).to_vec();
    let lost: Vec<u16> = [3, 4, 40].map(|at: usize| sent[at].number()).to_vec();
    for (at, bytes) in nack(&mut world, id, 1, &lost).iter().enumerate() {
        let packet = rtp::Packet::parse(bytes).unwrap();
        let original = &sent[[3, 4, 40][at]];
        assert_eq!((packet.ssrc(), packet.payload_type()), (rtx_ssrc(1), 61));
        assert_eq!(packet.sequence_number(), at as u16, "numbers of its own, in a row");
        assert_eq!(packet.timestamp(), original.timestamp());
        let (number, payload) = rtp::rtx::unwrap(packet.payload()).unwrap();
        assert_eq!((number, payload), (original.number(), original.packet().payload()));
    }
}

/// What the NACK was answered with, and what it was charged: packets resent, their bytes, packets
/// not resent.
fn refused(world: &mut World, id: ViewerId, ssrc: u32, lost: &[u16]) -> (usize, u64, u64, u64) {
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, ssrc, lost));
    let stats = world.stream.viewer_stats(id).unwrap();
    (resent.len(), stats.resent_packets, stats.resent_bytes, stats.not_resent)
}

#[test]
fn a_viewer_without_rtx_gets_the_very_same_packets_again() {
    let mut world = World::published();
    let mut input = viewer(1);
    for track in &mut input.tracks {
        track.rtx_ssrc = None;
        track.payloads.iter_mut().for_each(|payload| payload.rtx = None);
    }
    // It joins late, so that timestamps of the first packets are squeezed and their extensions left out.
    world.play(65_500, 0, 30, 100);
    let id = world.join_as(&input);
    world.play(65_530, 30 * 3_600, 30, 100);
    let sent: Vec<Vec<u8>> = world.video(1).iter().map(|got| got.bytes.clone()).collect();
    let numbers = world.numbers(1);
    assert!(sent.len() >= 59, "{}", sent.len());
    for (number, sent) in numbers.iter().zip(&sent) {
        world.wait(Duration::from_millis(1));
        let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(1), &[*number]));
        for resent in &resent {
            assert!(resent.is_same());
            assert_eq!(&written(resent), sent, "{number}");
        }
    }
    // Within the limits of all that is sent again.
    let stats = world.stream.viewer_stats(id).unwrap();
    assert!(stats.resent_packets >= 5 && stats.not_resent > 20, "{stats:?}");
}

#[test]
fn without_rtx_nothing_is_sent_again_twice_within_a_round_trip() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].rtx_ssrc = None;
    let id = world.join_as(&input);
    world.play(100, 0, 60, 100);
    let number = world.numbers(1)[50];
    assert_eq!(nack(&mut world, id, 1, &[number, number]).len(), 1);
    world.wait(Duration::from_millis(20));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 0);
    world.wait(Duration::from_millis(40));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 1);
}

#[test]
fn of_one_track_formats_with_rtx_are_sent_again_and_others_are_not() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].payloads[1].rtx = None;
    let id = world.join_as(&input);
    world.play(100, 0, 20, 100);
    // The publisher goes on with VP8, for which the viewer has no RTX.
    for at in 0..20u16 {
        let mut packet = frame(120 + at, u32::from(20 + at) * 3_600, at == 0);
        packet.fields.payload_type = VP8;
        packet.payload = vec![0x10, u8::from(at != 0), 0, 0, 0x9d, 0x01, 0x2a, 0, 1, 0, 1];
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(10));
    }
    let sent = world.video(1).to_vec();
    assert_eq!(sent.iter().map(|got| got.packet().payload_type()).filter(|sent| *sent == 62).count(), 20);
    let (h264, vp8) = (sent[10].number(), sent[30].number());
    assert_eq!(refused(&mut world, id, video_ssrc(1), &[vp8]), (0, 0, 0, 1));
    let resent = nack(&mut world, id, 1, &[h264, vp8]);
    assert_eq!(resent.len(), 1);
    let packet = rtp::Packet::parse(&resent[0]).unwrap();
    assert_eq!((packet.payload_type(), packet.sequence_number()), (61, 0), "no number was used up");
    assert_eq!(rtp::rtx::unwrap(packet.payload()).unwrap().0, h264);
}

#[test]
fn a_second_request_within_a_round_trip_is_a_repeat() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(0, 0, 50, 100);
    let number = world.numbers(1)[45];
    assert_eq!(nack(&mut world, id, 1, &[number, number]).len(), 1);
    world.wait(Duration::from_millis(10));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 0);
    world.wait(Duration::from_millis(40));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 1, "50 ms are assumed at first");

    // A report tells that the round trip is 200 ms: what we sent 300 ms ago was answered after 100
    // ms.
    let sent_at = world.stream_ntp_middle(Duration::from_millis(300));
    let block = ReportBlock {
        ssrc: video_ssrc(1),
        last_report: sent_at,
        delay_since_last_report: NtpMiddle::from_duration(Duration::from_millis(100)),
        ..ReportBlock::default()
    };
    world.viewer_says(id, |rtcp| ReceiverReport::write(rtcp, 5, &[block]));
    let learnt = world.stream.viewer_stats(id).unwrap().round_trip.unwrap();
    assert!((199..=201).contains(&learnt.as_millis()), "{learnt:?}");
    let number = world.numbers(1)[46];
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 1);
    world.wait(Duration::from_millis(100));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 0);
    world.wait(Duration::from_millis(100));
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 1);
}

#[test]
fn a_nack_storm_gets_30_percent_of_the_media_and_no_more() {
    let mut world = World::published();
    let id = world.join(1);
    let mut resent = BTreeMap::<u16, usize>::new();
    let (mut resent_bytes, mut media_bytes) = (0, 0);
    for at in 0..3_000u16 {
        let mut packet = frame(at, u32::from(at) * 900, at % 100 == 0);
        packet.payload.resize(1_000, 3);
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(10));
        media_bytes = world.video(1).iter().map(|got| got.packet().payload().len()).sum();
        let newest = world.numbers(1).last().copied().unwrap();
        let everything: Vec<u16> = (0..100).map(|back| newest.wrapping_sub(99 - back)).collect();
        for bytes in nack(&mut world, id, 1, &everything) {
            let packet = rtp::Packet::parse(&bytes).unwrap();
            *resent.entry(rtp::rtx::unwrap(packet.payload()).unwrap().0).or_default() += 1;
            resent_bytes += packet.payload().len();
        }
        if at == 100 {
            // The others are not concerned.
            world.join(2);
        }
    }
    assert!(resent_bytes * 100 <= media_bytes * 30, "{resent_bytes} of {media_bytes}");
    assert!(
        resent_bytes * 100 >= media_bytes * 29,
        "and the share can be used: {resent_bytes} of {media_bytes}"
    );
    assert!(world.stream.viewer_stats(id).unwrap().not_resent > 100_000);
}

#[test]
fn the_rare_packets_of_a_still_screen_are_sent_again() {
    let mut world = World::published();
    let id = world.join(1);
    let mut resent = 0;
    for at in 0..60u16 {
        world.receive(&frame(at, u32::from(at) * 135_000, at == 0)).unwrap();
        world.wait(Duration::from_millis(20));
        if at % 10 == 9 {
            let number = world.numbers(1)[usize::from(at)];
            resent += nack(&mut world, id, 1, &[number]).len();
        }
        world.wait(Duration::from_millis(1_480));
    }
    assert_eq!(resent, 6, "one lost in ten");
    // Not more than the share of all.
    let mut bytes = 0;
    for _ in 0..100 {
        world.wait(Duration::from_millis(500));
        let number = world.numbers(1)[59];
        bytes += nack(&mut world, id, 1, &[number]).iter().map(Vec::len).sum::<usize>();
    }
    assert!(bytes <= 60 * 80 * 3 / 10, "{bytes}");
}

#[test]
fn what_was_never_sent_is_not_sent_again() {
    let mut world = World::published();
    world.play(0, 0, 100, 50);
    let id = world.join(1);
    world.play(100, 360_000, 3, 50);
    let numbers = world.numbers(1);
    let before = numbers[0].wrapping_sub(1);
    let after = numbers.last().unwrap().wrapping_add(1);
    assert_eq!(nack(&mut world, id, 1, &[before, after, before.wrapping_sub(40), 50_000]).len(), 0);
    assert_eq!(nack(&mut world, id, 2, &numbers).len(), 0, "the SSRC of somebody else");
}

#[test]
fn nacks_are_not_answered_where_not_negotiated() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].nack = false;
    let id = world.join_as(&input);
    world.play(0, 0, 50, 50);
    let number = world.numbers(1)[40];
    assert_eq!(nack(&mut world, id, 1, &[number]).len(), 0);
}

#[test]
fn audio_without_rtx_is_sent_again_as_it_was() {
    let mut world = World::published();
    let id = world.join(1);
    for at in 0..50 {
        world.receive(&audio_packet(at, u32::from(at) * 960)).unwrap();
        world.wait(Duration::from_millis(20));
    }
    let lost = &world.audio(1)[40];
    let (number, bytes) = (lost.number(), lost.bytes.clone());
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, audio_ssrc(1), &[number]));
    assert_eq!(resent.iter().map(written).collect::<Vec<_>>(), [bytes]);
}

#[test]
fn what_is_older_than_the_history_is_gone() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(0, 0, 1, 1);
    let old = world.numbers(1)[0];
    // Key frames, so that the cache does not keep it for longer.
    world.play(1, 3_600, 100, 1);
    assert_eq!(nack(&mut world, id, 1, &[old]).len(), 0);
    let stats = world.stream.stats();
    assert!(stats.cached_packets <= 40, "{} of 25 a second are kept for 1.5 s", stats.cached_packets);
}

#[test]
fn a_resend_says_when_it_does_not_fit() {
    let mut world = World::published();
    let id = world.join(1);
    world.play(0, 0, 10, 100);
    let number = world.numbers(1)[5];
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, video_ssrc(1), &[number]));
    let len = resent[0].packet_len();
    assert_eq!(resent[0].write(&mut vec![0; len - 1]), None);
    assert_eq!(resent[0].write(&mut vec![0; len]), Some(len));
}
