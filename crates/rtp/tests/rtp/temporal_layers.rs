//! A receiver that goes up wherever the payloads allow it never lacks a frame that it needs.

use rtp::payload::{Codec, layers};

/// A frame of a repeated pattern: its payload, and how far back the frames are that it refers to.
type Frame = (&'static [u8], &'static [usize]);

/// Plays a pattern to receivers that have got the base layer for a period, and want all layers from
/// any frame of the next one on. Returns the layer that the slowest of them has after each frame.
fn play(codec: Codec, pattern: &[Frame]) -> Vec<u8> {
    let mut slowest = vec![u8::MAX; 3 * pattern.len()];
    for start in pattern.len()..2 * pattern.len() {
        let mut current = 0;
        let mut received: Vec<bool> = Vec::new();
        for at in 0..5 * pattern.len() {
            let (payload, references) = pattern[at % pattern.len()];
            let frame = layers(codec, payload);
            if at >= start {
                current = frame.temporal_reach(current).min(2);
            }
            let gets = frame.temporal <= current;
            if gets && at >= pattern.len() {
                for back in references {
                    assert!(received[at - back], "frame {at} needs that {back} before it, from {start}");
                }
            }
            received.push(gets);
            if let Some(slowest) = at.checked_sub(start).and_then(|after| slowest.get_mut(after)) {
                *slowest = current.min(*slowest);
            }
        }
    }
    slowest
}

const VP8_0: &[u8] = &[0x90, 0x20, 0x00, 1];
const VP8_1: &[u8] = &[0x90, 0x20, 0x40, 1];
const VP8_1_Y: &[u8] = &[0x90, 0x20, 0x60, 1];
const VP8_2: &[u8] = &[0x90, 0x20, 0x80, 1];
const VP8_2_Y: &[u8] = &[0x90, 0x20, 0xa0, 1];

#[test]
fn vp8_of_three_layers_is_climbed_within_two_periods() {
    let pattern = [(VP8_0, &[4][..]), (VP8_2_Y, &[1]), (VP8_1_Y, &[2]), (VP8_2, &[1, 2])];
    assert_eq!(play(Codec::Vp8, &pattern)[7], 2);
}

#[test]
fn vp8_whose_layer_1_refers_to_itself_is_climbed_where_it_does_not() {
    let pattern = [
        (VP8_0, &[4][..]),
        (VP8_2_Y, &[1]),
        (VP8_1_Y, &[2]),
        (VP8_2, &[1, 2]),
        (VP8_0, &[4]),
        (VP8_2_Y, &[1]),
        (VP8_1, &[2, 4]),
        (VP8_2, &[1, 2]),
    ];
    assert_eq!(play(Codec::Vp8, &pattern)[15], 2);
}

#[test]
fn vp9_is_climbed_behind_frames_that_say_so() {
    let pattern = [
        (&[0x68, 0x10, 0, 1][..], &[4][..]),
        (&[0x68, 0x50, 0, 1], &[1]),
        (&[0x68, 0x30, 0, 1], &[2]),
        (&[0x68, 0x50, 0, 1], &[1]),
    ];
    assert_eq!(play(Codec::Vp9, &pattern)[3], 2);
}

#[test]
fn h265_is_climbed_at_once_with_tsa_and_by_steps_with_stsa() {
    let (trail, tsa_1, stsa_1, tsa_2) =
        (&[0x02, 1, 0x80][..], &[0x06, 2, 0x80][..], &[0x0a, 2, 0x80][..], &[0x06, 3, 0x80][..]);
    let pattern = [(trail, &[4][..]), (tsa_2, &[1]), (tsa_1, &[2]), (tsa_2, &[1])];
    assert_eq!(play(Codec::H265, &pattern)[3], 2);
    let pattern = [(trail, &[4][..]), (tsa_2, &[1]), (stsa_1, &[2]), (tsa_2, &[1])];
    assert_eq!(play(Codec::H265, &pattern)[4], 2);
}
