//! A publisher's padding: never forwarded, and no gap where it was.

use crate::packets::common::{Rtp, World, frame, part};

fn probe(sequence_number: u16, timestamp: u32) -> Rtp {
    let mut probe = part(sequence_number, timestamp, false, false).padded(255);
    probe.payload.clear();
    probe
}

#[test]
fn probes_are_taken_out_and_numbers_close_up() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(10, 0, true)).unwrap();
    for sequence_number in [11, 12, 13] {
        assert!(!world.receive(&probe(sequence_number, 0)).unwrap().forwarded);
    }
    world.receive(&frame(14, 3_600, false)).unwrap();
    world.receive(&probe(15, 3_600)).unwrap();
    world.receive(&frame(17, 7_200, false)).unwrap();
    let numbers = world.numbers(1);
    let relative: Vec<u16> = numbers.iter().map(|number| number - numbers[0]).collect();
    assert_eq!(relative, [0, 1, 3], "16 is lost, the padding is not missed");
    world.receive(&frame(16, 7_200, false)).unwrap();
    let late = world.video(1).last().unwrap();
    assert_eq!((late.origin(), late.number() - numbers[0]), (16, 2));
}

#[test]
fn padding_behind_media_is_left_behind() {
    let mut world = World::published();
    world.join(1);
    let padded = frame(10, 0, true).padded(100);
    world.receive(&padded).unwrap();
    let got = &world.video(1)[0];
    assert_eq!((got.packet().payload(), got.packet().padding_len()), (&padded.payload[..], 0));
    assert_eq!(got.bytes.len(), 12 + padded.payload.len());
}

#[test]
fn padding_that_comes_too_late_to_close_up_fills_its_number() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(10, 0, true)).unwrap();
    world.receive(&frame(12, 3_600, false)).unwrap();
    world.receive(&probe(11, 0)).unwrap();
    let numbers = world.numbers(1);
    assert_eq!(numbers[2], numbers[0] + 1);
    let filler = world.video(1)[2].packet();
    assert_eq!((filler.payload().len(), filler.padding_len()), (0, 1), "the smallest packet there is");
}

#[test]
fn padding_ahead_of_the_first_packet_closes_up_as_well() {
    // Behind which of the packets the first one of the key frame, 10, comes.
    for behind in 0..4 {
        let mut world = World::published();
        world.join(1);
        let mut slice = part(11, 0, true, true);
        slice.payload[1] = 0x48;
        let mut batch = vec![slice, probe(12, 0), frame(13, 3_600, false), probe(14, 3_600)];
        batch.insert(behind, part(10, 0, true, false));
        for rtp in batch {
            world.receive(&rtp).unwrap();
        }
        world.receive(&frame(15, 7_200, false)).unwrap();
        let numbers = world.numbers(1);
        let relative: Vec<u16> = numbers.iter().map(|number| number - numbers[0]).collect();
        assert_eq!(relative, [0, 1, 2, 3], "{behind}");
    }
}

#[test]
fn more_padding_than_is_remembered_still_closes_up() {
    let mut world = World::published();
    world.join(1);
    world.receive(&frame(10, 0, true)).unwrap();
    for sequence_number in 11..1_011 {
        world.receive(&probe(sequence_number, 0)).unwrap();
    }
    world.receive(&frame(1_011, 3_600, false)).unwrap();
    let numbers = world.numbers(1);
    assert_eq!(numbers[1], numbers[0] + 1);
}

#[test]
fn frames_are_made_of_equal_packets_if_asked_for() {
    let limits = sfu::Limits { equalise_runs: true, ..Default::default() };
    let mut world = World::new(limits);
    world.publish(vec![crate::packets::common::audio_input(), crate::packets::common::video_input()]);
    let id = world.join(1);
    let mut batch: Vec<Rtp> = (0..5).map(|at| part(50 + at, 9_000, true, at == 4)).collect();
    for (rtp, extra) in batch.iter_mut().zip([0, 0, 1, 1, 0]) {
        rtp.payload.extend(vec![7; 100 + extra]);
    }
    batch[4].payload.truncate(40);
    world.receive_batch(&batch);
    let lens: Vec<usize> = world.video(1).iter().map(|got| got.bytes.len()).collect();
    assert_eq!(lens, [lens[2], lens[2], lens[2], lens[2], 12 + 40], "the rest of a frame stays shorter");
    for (got, sent) in world.video(1).iter().zip(&batch) {
        assert_eq!(got.packet().payload(), sent.payload);
    }
    // Sent again, it has the same bytes.
    let first = world.video(1)[0].clone();
    let resent = world.viewer_says(id, |rtcp| {
        rtp::rtcp::Nack::write(rtcp, 5, crate::packets::common::video_ssrc(1), &[first.number()]);
    });
    assert_eq!(resent.len(), 1);
    let rtx = crate::packets::common::written(&resent[0]);
    let rtx = rtp::Packet::parse(&rtx).unwrap();
    assert_eq!(rtp::rtx::unwrap(rtx.payload()), Some((first.number(), &batch[0].payload[..])));
}
