//! RTP timestamps of frames whose times are rounded to milliseconds.
//!
//! RTMP rounds: 60 frames a second are 17, 17 and 16 ms apart, and an Opus packet of 2.5 ms starts
//! at a whole one. Receivers pace pictures by timestamps, and for audio they hide or cut what they
//! take for a gap or an overlap, so rounding is taken out where the frames are regular. Nothing
//! here adds up: an output is never further from its input than a few milliseconds, whatever the
//! publisher's clocks do.

use serde::{Deserialize, Serialize};

/// A time in microseconds in units of a clock, modulo 2^32 as on the wire.
pub fn rtp_timestamp(time_us: i64, clock_rate: u32) -> u32 {
    let rate = i64::from(clock_rate);
    let seconds = time_us.div_euclid(MICROS).wrapping_mul(rate);
    let rest = time_us.rem_euclid(MICROS) * rate / MICROS;
    seconds.wrapping_add(rest) as u32
}

/// Timestamps of video, 90 kHz: strictly rising, and evenly spaced if the pictures are.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct VideoTimestamps {
    last: Option<LastPicture>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct LastPicture {
    /// What was given out.
    given: i64,
    /// The same before it was rounded.
    at: f64,
    /// Distance of two pictures, 0 while unknown.
    interval: f64,
    /// Pictures that were where they were expected, at most [`MEMORY`].
    regular: f64,
}

impl VideoTimestamps {
    /// Of another process, which may have written anything: what makes no sense is a new beginning.
    pub(crate) fn resumed(self) -> Self {
        let makes_sense = |last: &LastPicture| {
            let numbers = [last.given as f64, last.at, last.interval];
            numbers.iter().all(|number| number.abs() <= UNITS_MAX)
                && last.interval >= 0.0
                && (1.0..=MEMORY).contains(&last.regular)
        };
        Self { last: self.last.filter(makes_sense) }
    }

    /// The timestamp of a picture that is to be shown at `pts_us` of stream time. Pictures come in
    /// the order they are shown; one that is not later than that before it is stamped one unit
    /// later.
    pub fn next(&mut self, pts_us: i64) -> u32 {
        let target = pts_us as f64 * VIDEO_UNITS_PER_MICRO;
        let Some(last) = self.last else {
            let given = target.round() as i64;
            self.last = Some(LastPicture { given, at: target, interval: 0.0, regular: 1.0 });
            return given as u32;
        };
        let step = target - last.at;
        let steps =
            if last.interval > 0.0 { (step / last.interval).round().clamp(1.0, STEPS_MAX) } else { 1.0 };
        let expected = last.at + steps * last.interval;
        let off = target - expected;
        let (at, interval, regular) = if last.interval <= 0.0 || off.abs() > TOLERANCE {
            (target, step.max(0.0), 1.0)
        } else {
            // A line is fitted through the pictures so far by least squares with fading memory: `4 / n` of
            // the distance from it moves the line, `6 / n^2` of it the slope (for `n` pictures, both falling
            // with it).
            let n = (last.regular + 1.0).min(MEMORY);
            let (move_by, turn_by) = (2.0 * (2.0 * n - 1.0) / (n * (n + 1.0)), 6.0 / (n * (n + 1.0)));
            (expected + off * move_by.min(1.0), last.interval + off * turn_by.min(1.0) / steps, n)
        };
        let given = (at.round() as i64).max(last.given + 1);
        self.last = Some(LastPicture { given, at, interval, regular });
        given as u32
    }
}

/// Timestamps of audio: they follow the samples while the times agree with those, and the times where not.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AudioTimestamps {
    clock_rate: u32,
    last: Option<LastAudio>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct LastAudio {
    /// Given out last, and the duration of that piece; in units.
    given: i64,
    duration: i64,
    /// How far times are ahead of samples on average, in units.
    ahead: f64,
}

impl AudioTimestamps {
    /// The same for audio.
    pub(crate) fn resumed(self) -> Self {
        let makes_sense = |last: &LastAudio| {
            let numbers = [last.given as f64, last.duration as f64, last.ahead];
            numbers.iter().all(|number| number.abs() <= UNITS_MAX)
        };
        Self { last: self.last.filter(makes_sense), ..self }
    }

    /// For a clock of `clock_rate` Hz: 48,000 for Opus (RFC 7587 section 4.1), 8,000 for G.711.
    pub fn new(clock_rate: u32) -> Self {
        Self { clock_rate, last: None }
    }

    /// The timestamp of an audio frame heard at `pts_us` of stream time that has `duration` units
    /// of audio. Strictly rising.
    pub fn next(&mut self, pts_us: i64, duration: u32) -> u32 {
        let target = (i128::from(pts_us) * i128::from(self.clock_rate)).div_euclid(i128::from(MICROS)) as i64;
        let (given, ahead) = match self.last {
            None => (target, 0.0),
            Some(last) => {
                let expected = last.given + last.duration;
                let off = target - expected;
                let millis = |millis: i64| millis * i64::from(self.clock_rate) / 1_000;
                let ahead = last.ahead + (off as f64 - last.ahead) / AVERAGE_PIECES;
                let (given, ahead) = if off.abs() > millis(GAP_MS) {
                    (target, 0.0)
                } else if ahead.abs() > millis(AHEAD_MS_MAX) as f64 {
                    (expected + ahead as i64, 0.0)
                } else {
                    (expected, ahead)
                };
                (given.max(last.given + 1), ahead)
            }
        };
        self.last = Some(LastAudio { given, duration: i64::from(duration), ahead });
        given as u32
    }
}

const MICROS: i64 = 1_000_000;
/// Timestamps of this and other processes are below, whatever the times of frames are.
const UNITS_MAX: f64 = (1_u64 << 61) as f64;
const VIDEO_UNITS_PER_MICRO: f64 = 0.09;

/// Rounding to milliseconds, cut or not, moves the distance of two pictures by 1 ms at most; half
/// of it again for what is not known yet of the line. In units of 90 kHz.
const TOLERANCE: f64 = 135.0;
/// Pictures the line remembers: half a second of 60 a second.
const MEMORY: f64 = 32.0;
/// Pictures left out in a row that keep the line.
const STEPS_MAX: f64 = 16.0;

/// Audio whose time is further than this from where the samples end has a gap, or is a new beginning.
const GAP_MS: i64 = 15;
/// How far the times may be from the samples on average.
const AHEAD_MS_MAX: i64 = 5;
/// Pieces the average is taken over: a third of a second.
const AVERAGE_PIECES: f64 = 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_units_before_and_after_the_wrap() {
        let rows = [
            (0, 90_000, 0, "the beginning"),
            (1_000_000, 48_000, 48_000, "a second"),
            (20_833, 48_000, 999, "never rounded up"),
            (-1, 90_000, u32::MAX, "before the beginning"),
            (47_721_858_844, 90_000, 4_294_967_295, "the last unit, 13 h 15 min"),
            (47_721_858_845, 90_000, 0, "and the wrap"),
            (i64::MAX, 90_000, 1_374_389_534, "no overflow"),
        ];
        for (time_us, rate, units, remark) in rows {
            assert_eq!(rtp_timestamp(time_us, rate), units, "{remark}");
        }
    }

    /// Steps of timestamps of pictures at these times in milliseconds.
    fn steps(times_ms: impl IntoIterator<Item = i64>) -> Vec<i64> {
        let mut timestamps = VideoTimestamps::default();
        let mut before = None;
        let mut steps = Vec::new();
        for time_ms in times_ms {
            let given = timestamps.next(time_ms * 1_000);
            let off = given.wrapping_sub(rtp_timestamp(time_ms * 1_000, 90_000)).cast_signed();
            assert!(off.abs() <= TOLERANCE as i32, "{off} units off at {time_ms} ms");
            steps.extend(before.map(|before: u32| i64::from(given.wrapping_sub(before).cast_signed())));
            before = Some(given);
        }
        steps
    }

    #[test]
    fn regular_pictures_lose_the_rounding_of_their_times() {
        type Rounding = fn(f64) -> f64;
        let rows: [(f64, Rounding, &str); 6] = [
            (60.0, f64::floor, "60 a second, cut"),
            (60.0, f64::round, "60 a second, rounded"),
            (59.94, f64::floor, "59.94 a second"),
            (29.97, f64::round, "29.97 a second"),
            (144.0, f64::round, "144 a second"),
            (24.0, f64::floor, "24 a second"),
        ];
        for (per_second, rounding, remark) in rows {
            let time_ms = |at: i64| rounding(at as f64 * 1_000.0 / per_second) as i64;
            let steps = steps((0..2_000).map(time_ms));
            let ideal = 90_000.0 / per_second;
            for (at, step) in steps.iter().enumerate().skip(40) {
                assert!((*step as f64 - ideal).abs() <= 12.0, "{remark}: {step} instead of {ideal} at {at}");
            }
        }
    }

    #[test]
    fn whole_milliseconds_stay_exactly_what_they_are() {
        for interval_ms in [20, 25, 40, 100, 1_000] {
            let expected = interval_ms * 90;
            assert!(steps((0..500).map(|at| at * interval_ms)).iter().all(|step| *step == expected));
        }
    }

    #[test]
    fn pictures_left_out_keep_the_line() {
        // 60 a second; of each four the second and third are missing.
        let times = (0..2_000).filter(|at| !matches!(at % 4, 1 | 2)).map(|at| at * 1_000 / 60);
        let steps = steps(times);
        for pair in steps[200..].chunks_exact(2) {
            assert!((4_485..=4_515).contains(&pair[0].max(pair[1])), "{pair:?}");
            assert!((1_485..=1_515).contains(&pair[0].min(pair[1])), "{pair:?}");
        }
    }

    #[test]
    fn irregular_pictures_keep_their_times() {
        let mut random = netsim::Random::new(3);
        let mut time_ms = 0;
        steps((0..10_000).map(|_| {
            time_ms += 5 + random.below(60) as i64;
            time_ms
        }));
    }

    #[test]
    fn a_picture_not_later_than_the_last_is_one_unit_later() {
        let mut timestamps = VideoTimestamps::default();
        assert_eq!(timestamps.next(1_000_000), 90_000);
        assert_eq!(timestamps.next(1_000_000), 90_001);
        assert_eq!(timestamps.next(900_000), 90_002);
        assert_eq!(timestamps.next(2_000_000), 180_000);
    }

    #[test]
    fn pictures_go_through_the_wrap() {
        let wrap_ms = 47_721_858;
        let steps = steps((-50..50).map(|at| wrap_ms + at * 40));
        assert!(steps.iter().all(|step| *step == 3_600));
    }

    #[test]
    fn audio_follows_its_samples_while_times_agree() {
        // 2.5 ms of Opus each, stamped in whole milliseconds; 20 ms whose times reorder by 9 ms.
        let mut short = AudioTimestamps::new(48_000);
        let mut jittery = AudioTimestamps::new(48_000);
        for at in 0..10_000 {
            assert_eq!(short.next(at * 5 / 2 * 1_000, 120), (at * 120) as u32);
            let jitter_ms = if at == 0 { 0 } else { [0, 9, -9, 4, -4][(at % 5) as usize] };
            assert_eq!(jittery.next((at * 20 + jitter_ms) * 1_000, 960), (at * 960) as u32);
        }
    }

    #[test]
    fn audio_follows_its_times_where_samples_are_missing_or_too_many() {
        let mut timestamps = AudioTimestamps::new(8_000);
        let rows = [
            (0, 0, "the beginning"),
            (20, 160, "follows"),
            (60, 480, "a piece is missing"),
            (80, 640, "follows"),
            (10_000, 80_000, "silence"),
            (10_020, 80_160, "follows"),
            (9_000, 80_161, "never back"),
            (10_060, 80_480, "and on"),
        ];
        for (time_ms, expected, remark) in rows {
            assert_eq!(timestamps.next(time_ms * 1_000, 160), expected, "{remark}");
        }
    }

    #[test]
    fn audio_of_a_drifting_clock_stays_within_milliseconds_of_its_times() {
        for ppm in [100, -100] {
            let mut timestamps = AudioTimestamps::new(48_000);
            let mut corrections = 0;
            let mut before = 0;
            for at in 0..1_080_000i64 {
                let time_us = (at * 20_000 + at * 2 * ppm / 100) / 1_000 * 1_000;
                let given = timestamps.next(time_us, 960);
                let off = given.wrapping_sub(rtp_timestamp(time_us, 48_000)).cast_signed();
                assert!(off.abs() <= 8 * 48, "{off} units off after {at} pieces");
                corrections += u32::from(at > 0 && given.wrapping_sub(before) != 960);
                before = given;
            }
            assert!((300..=500).contains(&corrections), "{corrections} in 6 h that drift by 2.16 s");
        }
    }
}
