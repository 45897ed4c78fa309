//! A publisher goes and another comes: viewers see one stream, with time passed in between.

use std::time::Duration;

use sfu::DropReason;

use crate::packets::common::{PCMU, Rtp, World, audio_input, audio_packet, frame, video_input, viewer};

#[test]
fn numbers_go_on_without_a_gap_and_timestamps_by_the_time_that_passed() {
    let mut world = World::published();
    world.join(1);
    world.play(65_000, 4_000_000_000, 5, 5);
    world.stream.publisher_ended(world.now);
    world.wait(Duration::from_millis(1_960));
    assert_eq!(world.receive(&frame(65_005, 0, false)), Err(DropReason::NoPublisher));
    world.publish(vec![audio_input(), video_input()]);
    world.play(7, 123, 3, 5);
    let numbers = world.numbers(1);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{numbers:?}");
    let timestamps = world.timestamps(1);
    // The last frame came two seconds before the first of the next publisher.
    assert_eq!(timestamps[5].wrapping_sub(timestamps[4]), 180_000);
    assert_eq!(timestamps[6].wrapping_sub(timestamps[5]), 3_600);
}

#[test]
fn time_passes_in_the_clock_of_the_track() {
    let mut world = World::published();
    world.join(1);
    world.receive(&audio_packet(1, 1_000)).unwrap();
    world.receive(&audio_packet(2, 1_960)).unwrap();
    world.wait(Duration::from_millis(500));
    world.publish(vec![audio_input(), video_input()]);
    world.receive(&audio_packet(900, 77)).unwrap();
    let last = world.audio(1).last().unwrap().timestamp();
    assert_eq!(last, 1_960 + 24_000, "half a second at 48 kHz");

    // Another codec with another clock: G.711 at 8 kHz.
    world.wait(Duration::from_millis(250));
    let mut narrow = audio_packet(901, 500);
    narrow.fields.payload_type = PCMU;
    world.publish(vec![audio_input(), video_input()]);
    world.receive(&narrow).unwrap();
    let got = world.audio(1).last().unwrap();
    assert_eq!(got.timestamp(), 1_960 + 24_000 + 2_000, "a quarter of a second at 8 kHz");
    assert_eq!(got.packet().payload_type(), 0, "the viewer's payload type of G.711");
}

#[test]
fn packets_of_a_codec_that_a_viewer_does_not_take_are_counted() {
    let mut world = World::published();
    let mut without_g711 = viewer(2);
    without_g711.tracks[0].payloads.truncate(1);
    world.join(1);
    world.join_as(&without_g711);
    world.receive(&audio_packet(1, 1_000)).unwrap();
    assert_eq!(world.stream.stats().unsupported_packets, 0);
    for number in 2..5 {
        let mut packet = audio_packet(number, 1_000);
        packet.fields.payload_type = PCMU;
        world.receive(&packet).unwrap();
    }
    assert_eq!((world.audio(1).len(), world.audio(2).len()), (4, 1));
    assert_eq!(world.stream.stats().unsupported_packets, 3);
}

#[test]
fn a_new_publisher_is_forwarded_from_its_first_key_frame_on() {
    let mut world = World::published();
    world.join(1);
    world.play(100, 0, 5, 5);
    world.publish(vec![audio_input(), video_input()]);
    world.key_frame_requests();
    assert!(!world.receive(&frame(1, 0, false)).unwrap().forwarded);
    assert_eq!(world.key_frame_requests().len(), 1, "it began without one");
    assert!(world.receive(&frame(2, 3_600, true)).unwrap().forwarded);
    assert_eq!(world.numbers(1).len(), 6);
}

#[test]
fn silence_keeps_timestamps_true() {
    let mut world = World::published();
    world.join(1);
    let talk = |world: &mut World, sequence_number, timestamp| {
        let spoken = Rtp { ..audio_packet(sequence_number, timestamp) };
        world.receive(&spoken).unwrap();
        world.wait(Duration::from_millis(20));
    };
    talk(&mut world, 1, 0);
    talk(&mut world, 2, 960);
    // Ten seconds without a packet: the next number, a later timestamp.
    world.wait(Duration::from_secs(10));
    talk(&mut world, 3, 960 + 480_960);
    let got: Vec<_> = world.audio(1).iter().map(|got| (got.number(), got.timestamp())).collect();
    assert_eq!(got.len(), 3);
    assert_eq!(got[2].0, got[1].0 + 1);
    assert_eq!(got[2].1 - got[1].1, 480_960);
}
