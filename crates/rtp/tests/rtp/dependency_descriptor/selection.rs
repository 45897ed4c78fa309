//! Receivers of decode targets never lack a frame that they need, whatever layers they want and
//! whenever.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::extension::{DecodeTarget, DependencyReader, FrameDependencies, Indication, TargetSelector};

use super::{Descriptor, Structure, l1t3, l3t3, l3t3_key_shift};

/// An encoding: a key frame and what follows it, as often as it has key frames.
struct Stream {
    reader: DependencyReader,
    frames: Vec<FrameDependencies>,
}

impl Stream {
    /// Templates of the frames from a key frame up to a repeated period, and of that period.
    fn new(structure: &Structure, first: &[u8], period: &[u8], periods: usize, key_frames: usize) -> Self {
        let between = first.iter().chain(std::iter::repeat_n(period, periods).flatten());
        let templates = std::iter::repeat_n(between, key_frames).flatten();
        let mut reader = DependencyReader::new();
        let frames = templates
            .enumerate()
            .map(|(at, template)| {
                let descriptor = Descriptor {
                    template_id: *template,
                    frame_number: 65_500u16.wrapping_add(at as u16), // wraps soon
                    has_structure: *template == 0,
                    ..Descriptor::default()
                };
                reader.read(&descriptor.write(structure)).unwrap()
            })
            .collect();
        Self { reader, frames }
    }

    fn l1t3(periods: usize, key_frames: usize) -> Self {
        Self::new(&l1t3(), &[0, 3, 2, 4], &[1, 3, 2, 4], periods, key_frames)
    }

    fn l3t3(periods: usize, key_frames: usize) -> Self {
        let first = [0, 5, 10, 3, 8, 13, 2, 7, 12, 4, 9, 14];
        let period = [1, 6, 11, 3, 8, 13, 2, 7, 12, 4, 9, 14];
        Self::new(&l3t3(), &first, &period, periods, key_frames)
    }

    fn l3t3_key_shift(periods: usize, key_frames: usize) -> Self {
        let first = [0, 7, 14, 1, 11, 17, 4, 8, 16, 3, 12, 18, 5, 10, 15];
        let period = [2, 13, 19, 6, 9, 16, 3, 12, 18, 5, 10, 15];
        Self::new(&l3t3_key_shift(), &first, &period, periods, key_frames)
    }

    /// Which of the frames a receiver gets that wants `wanted(index of the frame)`, and what decode
    /// target it has after each.
    fn play(&self, wanted: impl Fn(usize) -> u8) -> Vec<(bool, Option<u8>)> {
        let mut selector = TargetSelector::new();
        let mut sent = BTreeSet::new();
        let answers = self.frames.iter().enumerate().map(|(at, frame)| {
            let structure = self.reader.structure();
            let is_sent = selector.forwards(structure, frame, DecodeTarget(wanted(at)));
            let current = selector.current();
            if is_sent {
                assert!(frame.referred_frames().all(|number| sent.contains(&number)), "frame {at} lacks one");
                sent.insert(frame.head.frame_number);
            }
            let is_part = current.is_some_and(|target| frame.indication(target) != Indication::NotPresent);
            assert_eq!(is_sent, is_part, "frame {at} of {current:?}");
            assert!(current.is_none() || selector.is_intact(structure), "nothing was lost");
            (is_sent, current.map(|target| target.0))
        });
        answers.collect()
    }
}

/// Index of the first frame with which a receiver that has `from` since the key frame gets to `to`,
/// which it wants from the frame `at` on.
fn changes_at(stream: &Stream, from: u8, to: u8, at: usize) -> Option<usize> {
    let answers = stream.play(|index| if index < at { from } else { to });
    answers.iter().position(|(_, current)| *current == Some(to))
}

#[test]
fn temporal_layers_are_changed_in_both_directions_within_a_period() {
    let stream = Stream::l1t3(4, 1);
    for at in 4..8 {
        // Up with the first frame that it can decode, since the chain has all it needs.
        assert!(changes_at(&stream, 2, 0, at).unwrap() < at + 4, "up at {at}");
        assert!(changes_at(&stream, 0, 2, at).unwrap() < at + 4, "down at {at}");
    }
    let stream = Stream::l3t3(4, 1);
    for at in 12..24 {
        for (from, to) in [(8, 6), (6, 8), (5, 3), (3, 5), (2, 0), (0, 2), (1, 0)] {
            assert!(changes_at(&stream, from, to, at).unwrap() < at + 12, "{from} to {to} at {at}");
        }
    }
}

#[test]
fn spatial_layers_are_left_within_a_period_and_entered_with_a_key_frame() {
    let stream = Stream::l3t3(4, 2);
    let second_key_frame = 5 * 12;
    for at in 12..24 {
        for (from, to) in [(0, 3), (0, 6), (0, 8), (3, 6), (3, 8)] {
            assert!(changes_at(&stream, from, to, at).unwrap() < at + 12, "{from} to {to} at {at}");
        }
        for (from, to) in [(6, 3), (6, 0), (3, 0), (8, 2)] {
            assert_eq!(changes_at(&stream, from, to, at), Some(second_key_frame), "{from} to {to} at {at}");
        }
    }
}

/// Frames of the lower layer have not been sent since the key picture.
#[test]
fn spatial_layers_of_k_svc_are_entered_and_left_with_a_key_frame() {
    let stream = Stream::l3t3_key_shift(4, 2);
    let second_key_frame = 15 + 4 * 12;
    for at in 15..27 {
        for (from, to) in [(0, 3), (0, 6), (3, 6), (6, 3), (6, 0), (3, 0)] {
            assert_eq!(changes_at(&stream, from, to, at), Some(second_key_frame), "{from} to {to} at {at}");
        }
        for (from, to) in [(2, 0), (0, 2), (5, 3), (8, 6)] {
            assert!(changes_at(&stream, from, to, at).unwrap() < at + 12, "{from} to {to} at {at}");
        }
    }
}

#[test]
fn a_lost_frame_breaks_the_chain_if_it_is_part_of_it() {
    let stream = Stream::l1t3(4, 2);
    let structure = stream.reader.structure();
    for (lost, is_intact, remark) in
        [(4, false, "a frame of the base layer"), (5, true, "a discardable one"), (6, true, "of layer 1")]
    {
        let mut selector = TargetSelector::new();
        for (at, frame) in stream.frames.iter().enumerate().filter(|(at, _)| *at != lost) {
            assert!(selector.forwards(structure, frame, DecodeTarget(0)), "{remark}: frame {at} is sent");
            // Until the next key frame.
            let expected = is_intact || !(lost..20).contains(&at);
            assert_eq!(selector.is_intact(structure), expected, "{remark}, frame {at}");
        }
    }
}

#[test]
fn nothing_is_sent_before_a_key_frame() {
    let stream = Stream::l1t3(2, 2);
    let mut selector = TargetSelector::new();
    for (at, frame) in stream.frames.iter().enumerate().skip(1) {
        assert_eq!(
            selector.forwards(stream.reader.structure(), frame, DecodeTarget(0)),
            at >= 12,
            "frame {at}"
        );
    }
}

#[test]
fn a_frame_gets_one_answer_whenever_its_packets_arrive() {
    let stream = Stream::l1t3(2, 1);
    let (frames, structure) = (&stream.frames, stream.reader.structure());
    let mut selector = TargetSelector::new();
    let mut send = |at: usize, target| selector.forwards(structure, &frames[at], DecodeTarget(target));
    assert_eq!([send(0, 2), send(1, 2), send(2, 2)], [true, false, false]);
    // The frames of the base and the highest layer change places.
    assert_eq!([send(4, 2), send(3, 2), send(5, 2), send(6, 2)], [true, false, false, false]);
    assert!(send(8, 0), "it goes up");
    assert_eq!(
        [send(3, 0), send(5, 0), send(6, 0)],
        [false, false, false],
        "late packets of what was left out"
    );
    assert_eq!([send(0, 0), send(4, 0), send(8, 0)], [true, true, true], "late packets of what was sent");
    assert_eq!([send(10, 0), send(9, 0)], [true, true], "a late frame that was not decided yet");
    assert!(!send(7, 0), "a late frame that refers to one that was left out");
}

#[test]
fn an_encoder_that_begins_again_with_lower_numbers_is_followed() {
    let stream = Stream::l1t3(90, 1);
    let mut selector = TargetSelector::new();
    let structure = stream.reader.structure();
    for frame in &stream.frames {
        assert!(selector.forwards(structure, frame, DecodeTarget(0)));
    }
    assert!(!selector.forwards(structure, &stream.frames[1], DecodeTarget(0)), "too old");
    for (at, frame) in stream.frames.iter().enumerate() {
        assert!(selector.forwards(structure, frame, DecodeTarget(0)), "frame {at}");
    }
}

proptest! {
    #[test]
    fn no_frame_is_sent_without_those_that_it_needs(
        pattern in 0..3,
        plan in vec((1..20usize, 0..9u8), 1..20),
    ) {
        let stream = match pattern {
            0 => Stream::l1t3(40, 2),
            1 => Stream::l3t3(12, 2),
            _ => Stream::l3t3_key_shift(12, 2),
        };
        let plan: Vec<u8> = plan.iter().flat_map(|(frames, target)| vec![*target; *frames]).collect();
        let targets = stream.reader.structure().decode_targets().len() as u8;
        // `play` has the assertions.
        let answers = stream.play(|at| plan[at % plan.len()] % targets);
        prop_assert!(answers[0].0);
    }

    #[test]
    fn whatever_is_lost_or_late_a_frame_is_not_sent_without_those_that_were_left_out(
        pattern in 0..3,
        plan in vec(0..9u8, 1..20),
        fates in vec(0..12usize, 60),
    ) {
        let stream = match pattern {
            0 => Stream::l1t3(15, 2),
            1 => Stream::l3t3(5, 2),
            _ => Stream::l3t3_key_shift(5, 2),
        };
        let structure = stream.reader.structure();
        let targets = structure.decode_targets().len() as u8;
        // A fate of 11 is a loss, the others are delays.
        let mut arrivals: Vec<(usize, &FrameDependencies)> = stream.frames.iter().enumerate()
            .filter(|(at, _)| fates[at % 60] != 11)
            .map(|(at, frame)| (at + fates[at % 60].saturating_sub(7), frame))
            .collect();
        arrivals.sort_by_key(|(at, _)| *at);
        let mut selector = TargetSelector::new();
        let (mut sent, mut left_out) = (BTreeSet::new(), BTreeSet::new());
        for (at, frame) in arrivals {
            let wanted = DecodeTarget(plan[at / 3 % plan.len()] % targets);
            let is_sent = selector.forwards(structure, frame, wanted);
            prop_assert_eq!(selector.forwards(structure, frame, wanted), is_sent, "another packet of it");
            if is_sent {
                prop_assert!(frame.referred_frames().all(|number| !left_out.contains(&number)));
                sent.insert(frame.head.frame_number);
            } else {
                left_out.insert(frame.head.frame_number);
            }
        }
        prop_assert!(sent.is_disjoint(&left_out));
    }
}
