//! Packets sent again: as RTX from one history, not twice within a round trip, never more than 30 % of the media.

use std::collections::BTreeMap;
use std::time::Duration;

use relay::packets::ViewerId;
use rtp::rtcp::{Nack, NtpMiddle, ReceiverReport, ReportBlock};

use crate::common::{World, audio_ssrc, frame, rtx_ssrc, sound, video_ssrc, viewer, written};

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

#[test]
fn without_rtx_the_very_same_bytes_are_sent_again() {
    let mut world = World::published();
    let mut input = viewer(1);
    input.tracks[1].rtx_ssrc = None;
    world.play(100, 0, 30, 100);
    let id = world.join_as(&input);
    world.play(130, 30 * 3_600, 30, 100);
    let sent = world.video(1).to_vec();
    assert_eq!(sent.len(), 60);
    for original in &sent {
        world.wait(Duration::from_millis(100));
        let resent = nack(&mut world, id, 1, &[original.number()]);
        // What was sent first may have left the history.
        for bytes in resent {
            assert_eq!(bytes, original.bytes);
        }
    }
    assert!(world.stream.viewer_stats(id).unwrap().resent_packets >= 10);
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

    // A report tells that the round trip is 200 ms: what we sent 300 ms ago was answered after 100 ms.
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
fn sound_is_sent_again_as_it_was() {
    let mut world = World::published();
    let id = world.join(1);
    for at in 0..50 {
        world.receive(&sound(at, u32::from(at) * 960)).unwrap();
        world.wait(Duration::from_millis(20));
    }
    let lost = world.audio(1)[40].clone();
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, audio_ssrc(1), &[lost.number()]));
    assert!(resent[0].is_repeat());
    assert_eq!(written(&resent[0]), lost.bytes);
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
    assert!(stats.kept_packets <= 40, "{} of 25 a second are kept for 1.5 s", stats.kept_packets);
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
