//! RTP timestamps of frames whose times are rounded to milliseconds.
//!
//! RTMP rounds: 60 frames a second are 17, 17 and 16 ms apart, and an Opus packet of 2.5 ms starts at a whole one.
//! Receivers pace pictures by timestamps, and for sound they hide or cut what they take for a gap or an overlap, so
//! rounding is taken out where the frames are regular. Nothing here adds up: an output is never further from its
//! input than a few milliseconds, whatever the publisher's clocks do.

/// A time in microseconds in units of a clock, modulo 2^32 as on the wire.
pub fn rtp_timestamp(time_us: i64, clock_rate: u32) -> u32 {
    let rate = i64::from(clock_rate);
    let seconds = time_us.div_euclid(MICROS).wrapping_mul(rate);
    let rest = time_us.rem_euclid(MICROS) * rate / MICROS;
    seconds.wrapping_add(rest) as u32
}

/// Timestamps of video, 90 kHz: strictly rising, and evenly spaced if the pictures are.
#[derive(Debug, Clone, Default)]
pub struct VideoTimestamps {
    last: Option<LastPicture>,
}

#[derive(Debug, Clone, Copy)]
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
    /// The timestamp of a picture that is to be shown at `pts_us` of stream time. Pictures come in the order they are
    /// shown; one that is not later than that before it is stamped one unit later.
    pub fn next(&mut self, pts_us: i64) -> u32 {
        let target = pts_us as f64 * VIDEO_UNITS_PER_MICRO;
        let mut next = match &self.last {
            Some(last) => last.follow(target),
            None => LastPicture { given: i64::MIN, at: target, interval: 0.0, regular: 1.0 },
        };
        let floor = self.last.map_or(i64::MIN, |last| last.given + 1);
        next.given = (next.at.round() as i64).max(floor);
        self.last = Some(next);
        next.given as u32
    }
}

impl LastPicture {
    /// Where the next picture is put that is said to be at `target`.
    ///
    /// A line is fitted through the pictures so far by least squares with fading memory: `4 / n` of the distance from
    /// it moves the line, `6 / n^2` of it the slope (for `n` pictures, both falling with it).
    fn follow(&self, target: f64) -> Self {
        let step = target - self.at;
        let steps =
            if self.interval > 0.0 { (step / self.interval).round().clamp(1.0, STEPS_MAX) } else { 1.0 };
        let expected = self.at + steps * self.interval;
        let off = target - expected;
        if self.interval <= 0.0 || off.abs() > TOLERANCE {
            return Self { at: target, interval: step.max(0.0), regular: 1.0, ..*self };
        }
        let n = (self.regular + 1.0).min(MEMORY);
        let (move_by, turn_by) = (2.0 * (2.0 * n - 1.0) / (n * (n + 1.0)), 6.0 / (n * (n + 1.0)));
        Self {
            at: expected + off * move_by.min(1.0),
            interval: self.interval + off * turn_by.min(1.0) / steps,
            regular: n,
            ..*self
        }
    }
}

/// Timestamps of sound: they follow the samples while the times agree with those, and the times where not.
#[derive(Debug, Clone)]
pub struct SoundTimestamps {
    clock_rate: u32,
    last: Option<LastSound>,
}

#[derive(Debug, Clone, Copy)]
struct LastSound {
    /// Given out last, and the duration of that piece; in units.
    given: i64,
    duration: i64,
    /// How far times are ahead of samples on average, in units.
    ahead: f64,
}

impl SoundTimestamps {
    /// For a clock of `clock_rate` Hz: 48,000 for Opus (RFC 7587 section 4.1), 8,000 for G.711.
    pub fn new(clock_rate: u32) -> Self {
        Self { clock_rate, last: None }
    }

    /// The timestamp of a piece of sound heard at `pts_us` of stream time that has `duration` units of sound. Strictly
    /// rising.
    pub fn next(&mut self, pts_us: i64, duration: u32) -> u32 {
        let target = (i128::from(pts_us) * i128::from(self.clock_rate)).div_euclid(i128::from(MICROS)) as i64;
        let (given, ahead) = match self.last {
            Some(last) => self.follow(last, target),
            None => (target, 0.0),
        };
        self.last = Some(LastSound { given, duration: i64::from(duration), ahead });
        given as u32
    }

    fn follow(&self, last: LastSound, target: i64) -> (i64, f64) {
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
}

const MICROS: i64 = 1_000_000;
const VIDEO_UNITS_PER_MICRO: f64 = 0.09;

/// Rounding to milliseconds, cut or not, moves the distance of two pictures by 1 ms at most; half of it again for what
/// is not known yet of the line. In units of 90 kHz.
const TOLERANCE: f64 = 135.0;
/// Pictures the line remembers: half a second of 60 a second.
const MEMORY: f64 = 32.0;
/// Pictures left out in a row that keep the line.
const STEPS_MAX: f64 = 16.0;

/// Sound whose time is further than this from where the samples end has a gap, or is a new beginning.
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
}
