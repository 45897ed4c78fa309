//! Down-mix of interleaved samples to one or two channels.
//!
//! Coefficients of ITU-R BS.775-3 annex 4: centre and surround channels at -3 dB, low-frequency
//! effects left out. The sum is scaled so that channels at full scale cannot clip: five channels of
//! the same loudness keep their balance, and none is pumped by a limiter.

use std::f32::consts::FRAC_1_SQRT_2;

/// Channels after the down-mix of `channels`.
pub(crate) fn channels_out(channels: usize) -> usize {
    channels.min(2)
}

/// Appends `interleaved`, which has `channels` in it, mixed down to [`channels_out`].
///
/// Channels are in the order of WAVE files: left, right, centre, low frequencies, then surround (a
/// single one before that order matters: three are L R C, four L R C S, five L R C Ls Rs). More
/// than eight, and none, give nothing.
pub(crate) fn append(interleaved: &[f32], channels: usize, out: &mut Vec<f32>) {
    match channels {
        1 | 2 => out.extend_from_slice(interleaved),
        3..=8 => {
            let gains = gains(channels);
            let scale = 1.0 / gains.iter().map(|(left, _)| left).sum::<f32>();
            for frame in interleaved.chunks_exact(channels) {
                let mut mixed = [0.0; 2];
                for (sample, (left, right)) in frame.iter().zip(gains) {
                    mixed[0] += sample * left;
                    mixed[1] += sample * right;
                }
                out.extend(mixed.map(|sample| sample * scale));
            }
        }
        _ => {}
    }
}

/// Gain of each channel into left and right.
fn gains(channels: usize) -> &'static [(f32, f32)] {
    const LEFT: (f32, f32) = (1.0, 0.0);
    const RIGHT: (f32, f32) = (0.0, 1.0);
    const CENTRE: (f32, f32) = (FRAC_1_SQRT_2, FRAC_1_SQRT_2);
    const LOW: (f32, f32) = (0.0, 0.0);
    const LEFT_SURROUND: (f32, f32) = (FRAC_1_SQRT_2, 0.0);
    const RIGHT_SURROUND: (f32, f32) = (0.0, FRAC_1_SQRT_2);
    // One surround channel for both sides, its power kept.
    const SURROUND: (f32, f32) = (0.5, 0.5);
    match channels {
        3 => &[LEFT, RIGHT, CENTRE],
        4 => &[LEFT, RIGHT, CENTRE, SURROUND],
        5 => &[LEFT, RIGHT, CENTRE, LEFT_SURROUND, RIGHT_SURROUND],
        6 => &[LEFT, RIGHT, CENTRE, LOW, LEFT_SURROUND, RIGHT_SURROUND],
        7 => &[LEFT, RIGHT, CENTRE, LOW, SURROUND, LEFT_SURROUND, RIGHT_SURROUND],
        _ => &[LEFT, RIGHT, CENTRE, LOW, LEFT_SURROUND, RIGHT_SURROUND, LEFT_SURROUND, RIGHT_SURROUND],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(frame: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        append(frame, frame.len(), &mut out);
        out
    }

    #[test]
    fn one_and_two_channels_stay_as_they_are() {
        assert_eq!(mixed(&[0.5]), [0.5]);
        assert_eq!(mixed(&[0.5, -0.25]), [0.5, -0.25]);
    }

    #[test]
    fn surround_goes_to_its_side_and_low_frequencies_nowhere() {
        let scale = 1.0 / (1.0 + 2.0 * FRAC_1_SQRT_2);
        let cases = [
            ([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 0.0]), // left
            ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0]), // right
            ([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [FRAC_1_SQRT_2, FRAC_1_SQRT_2]), // centre
            ([0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0]), // low frequencies
            ([0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [FRAC_1_SQRT_2, 0.0]), // left surround
            ([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.0, FRAC_1_SQRT_2]), // right surround
        ];
        for (frame, expected) in cases {
            for (got, expected) in mixed(&frame).iter().zip(expected) {
                assert!((got - expected * scale).abs() < 1e-6, "{frame:?}");
            }
        }
    }

    #[test]
    fn no_number_of_channels_clips_or_panics() {
        for channels in 0..=255 {
            let out = mixed(&vec![1.0; channels]);
            assert!(out.iter().all(|sample| (0.0..=1.000_001).contains(sample)), "{channels}: {out:?}");
            assert_eq!(out.len(), if channels <= 8 { channels_out(channels) } else { 0 });
        }
    }
}
