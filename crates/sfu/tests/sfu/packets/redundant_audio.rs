//! Redundant audio (RED, RFC 2198): viewers who took it get it as it came, all others each packet's own
//! payload, and what is malformed goes no further.

use std::sync::Arc;
use std::time::Duration;

use rtp::rtcp::Nack;
use sfu::{DropReason, Limits, Outputs, TrackInput, ViewerInput};

use crate::packets::common::{
    LEVEL_ID, OPUS, Rtp, World, audio_input, audio_packet, audio_ssrc, video_input, viewer, written,
};

/// Payload types of RED: the publisher's, and that of viewers.
const RED: u8 = 63;
const VIEWER_RED: u8 = 51;

fn with_red() -> TrackInput {
    let mut input = audio_input();
    input.payloads[0].red = Some(RED);
    input
}

/// A viewer of audio whose number for Opus is this.
fn listener(token: u64, opus: u8, red: Option<u8>) -> ViewerInput {
    let mut input = viewer(token);
    input.tracks.truncate(1);
    (input.tracks[0].payloads[0].payload_type, input.tracks[0].payloads[0].red) = (opus, red);
    input
}

/// The payload of a RED packet: blocks with their payload types and distances, then its own.
fn red(blocks: &[(u8, u16, &[u8])], own: (u8, &[u8])) -> Vec<u8> {
    let mut out = Vec::new();
    for (payload_type, offset, data) in blocks {
        let head = u32::from(*payload_type) << 24 | u32::from(*offset) << 10 | data.len() as u32;
        out.extend((head | 0x8000_0000).to_be_bytes());
    }
    out.push(own.0);
    blocks.iter().for_each(|(_, _, data)| out.extend(*data));
    out.extend(own.1);
    out
}

fn redundant(number: u16) -> Rtp {
    let own = audio_packet(number, u32::from(number) * 960);
    let before = audio_packet(number.wrapping_sub(1), 0).payload;
    let mut packet = Rtp { payload: red(&[(OPUS, 960, &before)], (OPUS, &own.payload)), ..own };
    packet.fields.payload_type = RED;
    packet.extensions = vec![(LEVEL_ID, vec![0x80 | number as u8 & 0x7f])];
    packet
}

/// Payload types and payloads that a viewer got.
fn got(world: &World, token: u64) -> Vec<(u8, Vec<u8>)> {
    let packets = world.audio(token).iter().map(|got| got.packet());
    packets.map(|packet| (packet.payload_type(), packet.payload().to_vec())).collect()
}

#[test]
fn viewers_who_took_it_get_it_as_it_came_and_others_the_payload_of_each_packet() {
    let mut world = World::new(Limits::default());
    world.publish(vec![with_red(), video_input()]);
    world.join_as(&listener(1, OPUS, Some(VIEWER_RED)));
    world.join_as(&listener(2, OPUS, None));
    world.join_as(&listener(3, OPUS, None));
    // What is in the packets would have to be another number for this one.
    world.join_as(&listener(4, 109, Some(VIEWER_RED)));
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in 0..30 {
        // It changes to plain packets and back, as it may.
        let is_red = !(10..20).contains(&number);
        let packet = if is_red { redundant(number) } else { audio_packet(number, u32::from(number) * 960) };
        let own = audio_packet(number, 0).payload;
        with.push((if is_red { VIEWER_RED } else { OPUS }, packet.payload.clone()));
        without.push(own);
        world.receive(&packet).unwrap();
        world.wait(Duration::from_millis(20));
    }
    let plain =
        |payload_type: u8| -> Vec<_> { without.iter().map(|own| (payload_type, own.clone())).collect() };
    assert_eq!(got(&world, 1), with);
    assert_eq!(got(&world, 2), plain(OPUS));
    assert_eq!(got(&world, 3), plain(OPUS));
    assert_eq!(got(&world, 4), plain(109));
}

#[test]
fn other_workers_can_pass_it_on_and_other_nodes_get_the_payload_of_each_packet() {
    let mut home = World::new(Limits::default());
    home.publish(vec![with_red(), video_input()]);
    let mut mirror = World::new(Limits::default());
    (mirror.start, mirror.now) = (home.start, home.now);
    mirror.join_as(&listener(1, OPUS, Some(VIEWER_RED)));
    mirror.join_as(&listener(2, OPUS, None));
    for number in 0..10 {
        let packet = redundant(number);
        home.stream.receive(home.now, &packet.bytes()).unwrap();
        let mut crossing = Vec::new();
        home.stream.take_arrivals(|packet, _| crossing.push(Arc::clone(packet)));
        home.settle();
        for crossing in &crossing {
            let mut relayed = Vec::new();
            crossing.write_relayed(OPUS, None, &mut relayed);
            let own = audio_packet(number, 0).payload;
            let relayed = rtp::Packet::parse(&relayed).unwrap();
            assert_eq!(relayed.payload(), own);
            assert_eq!(relayed.extensions().count(), 1, "its level");
            assert_eq!(crossing.media(), own, "and so do bridges");
            mirror.stream.receive_mirrored(mirror.now, crossing, Outputs::MAIN).unwrap();
        }
        mirror.settle();
        home.wait(Duration::from_millis(20));
        mirror.wait(Duration::from_millis(20));
    }
    assert_eq!(got(&mirror, 1)[5], (VIEWER_RED, redundant(5).payload));
    assert_eq!(got(&mirror, 2)[5], (OPUS, audio_packet(5, 0).payload));
}

#[test]
fn what_is_malformed_is_dropped_and_the_next_packet_is_not() {
    let mut world = World::new(Limits::default());
    world.publish(vec![with_red(), video_input()]);
    world.join_as(&listener(1, OPUS, Some(VIEWER_RED)));
    let long = vec![7; 1_023];
    let mut cut = red(&[(OPUS, 960, &long)], (OPUS, &[1]));
    cut.truncate(900);
    let nested = red(&[], (OPUS, &[1, 2]));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a head that is cut off", vec![0x80 | OPUS, 0]),
        ("heads without an end", vec![0x80 | OPUS; 64]),
        ("no payload of its own", red(&[(OPUS, 960, &[1, 2])], (OPUS, &[]))),
        ("only its head", vec![OPUS]),
        ("blocks that reach beyond it", cut),
        ("RED in RED", red(&[], (RED, &nested))),
        ("RED in a block", red(&[(RED, 960, &nested)], (OPUS, &[1]))),
        ("a block of another format", red(&[(0, 960, &[1, 2])], (OPUS, &[1]))),
        ("of another format itself", red(&[(OPUS, 960, &[1, 2])], (0, &[1]))),
        ("33 blocks", red(&[(OPUS, 960, &[][..]); 33], (OPUS, &[1]))),
    ];
    for (number, (remark, payload)) in (0..).zip(&cases) {
        let packet = Rtp { payload: payload.clone(), ..redundant(number) };
        assert_eq!(world.receive(&packet), Err(DropReason::MalformedRed), "{remark}");
    }
    // Allowed, if strange: no block at all, empty ones, as many as there may be.
    for (number, blocks) in [(40, 0), (41, 32)] {
        let payload = red(&vec![(OPUS, 960, &[][..]); blocks], (OPUS, &[number as u8]));
        world.receive(&Rtp { payload: payload.clone(), ..redundant(number) }).unwrap();
        assert_eq!(got(&world, 1).pop(), Some((VIEWER_RED, payload)));
    }
    // Without having agreed on it.
    let mut plain = World::published();
    assert_eq!(plain.receive(&redundant(0)), Err(DropReason::UnknownPayloadType));
}

#[test]
fn it_is_sent_again_as_it_was() {
    let mut world = World::new(Limits::default());
    world.publish(vec![with_red(), video_input()]);
    let id = world.join_as(&listener(1, OPUS, Some(VIEWER_RED)));
    for number in 0..50 {
        world.receive(&redundant(number)).unwrap();
        world.wait(Duration::from_millis(20));
    }
    let lost = &world.audio(1)[40];
    let (number, bytes) = (lost.number(), lost.bytes.clone());
    let resent = world.viewer_says(id, |rtcp| _ = Nack::write(rtcp, 5, audio_ssrc(1), &[number]));
    assert_eq!(resent.iter().map(written).collect::<Vec<_>>(), [bytes]);
}
