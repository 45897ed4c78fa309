//! Keeps sample counts and timestamps together: how far the resampler is to be sped up or slowed
//! down, and when samples must be put in or left out instead.
//!
//! Input timestamps are rounded to milliseconds and come from another clock than the one that
//! sampled. The error (timestamp minus the time the samples are due by counting) goes through a
//! low-pass filter and a proportional and integral controller: rounding does not move the output,
//! and a constant drift leaves no error behind. An error that stays is a hole, not drift, and is
//! corrected at once.

/// Largest change of speed, parts of one: 500 ppm is less than a cent, far below the 5 cents a
/// trained ear hears.
const SPEED_MAX: f64 = 500e-6;
/// Natural frequency of the control loop, 1/s. A drift of 100 ppm is followed with at most `100e-6
/// / (e * LOOP_RATE)` = 0.74 ms of error on the way; rounding of 0.5 ms moves the speed by less
/// than 50 ppm.
const LOOP_RATE: f64 = 0.05;
/// Time constant of the low-pass filter, seconds.
const FILTER_SECONDS: f64 = 2.0;
/// An error is a hole (or an overlap) when it stays above this, seconds. Below, slewing takes at
/// most half a minute.
const STEP_MIN: f64 = 0.015;
/// How long it must stay there, seconds: timestamps that jitter return before.
const STEP_AFTER: f64 = 0.5;
/// An error above this is corrected without waiting, seconds.
const STEP_NOW: f64 = 0.1;
/// An error above this is a new beginning: nothing is filled or left out, timestamps jump.
const RESTART: f64 = 1.0;

/// What to do about an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Correction {
    /// Resample at the nominal ratio times this (above 1: more samples come out).
    Speed(f64),
    /// Put in (positive) or leave out (negative) this many seconds at once.
    Step(f64),
    /// Begin again at the timestamp.
    Restart,
}

/// State of the control loop.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    filtered: f64,
    integral: f64,
    /// Seconds for which the error was beyond [`STEP_MIN`] on one side, and the smallest of that time.
    beyond: f64,
    smallest: f64,
}

impl Lock {
    /// Takes the error of one piece, seconds, `elapsed` seconds of audio after the one before.
    pub(crate) fn update(&mut self, error: f64, elapsed: f64) -> Correction {
        if error.abs() > RESTART {
            *self = Self::default();
            return Correction::Restart;
        }
        if let Some(step) = self.step(error, elapsed) {
            self.filtered -= step;
            if self.filtered.abs() > STEP_MIN {
                self.filtered = 0.0;
            }
            return Correction::Step(step);
        }
        self.filtered += (error - self.filtered) * (1.0 - (-elapsed / FILTER_SECONDS).exp());
        let steered = self.filtered.clamp(-STEP_MIN, STEP_MIN);
        // Critically damped: both poles at -LOOP_RATE.
        let proportional = 2.0 * LOOP_RATE * steered;
        let integral = self.integral + LOOP_RATE * LOOP_RATE * steered * elapsed;
        self.integral = integral.clamp(-SPEED_MAX, SPEED_MAX);
        Correction::Speed(1.0 + (proportional + self.integral).clamp(-SPEED_MAX, SPEED_MAX))
    }

    fn step(&mut self, error: f64, elapsed: f64) -> Option<f64> {
        if error.abs() < STEP_MIN {
            self.beyond = 0.0;
            return None;
        }
        if self.beyond == 0.0 || (error < 0.0) != (self.smallest < 0.0) {
            (self.beyond, self.smallest) = (0.0, error);
        }
        self.beyond += elapsed;
        if error.abs() < self.smallest.abs() {
            self.smallest = error;
        }
        if error.abs() < STEP_NOW && self.beyond < STEP_AFTER {
            return None;
        }
        let step = if error.abs() < STEP_NOW { self.smallest } else { error };
        self.beyond = 0.0;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream whose sampling clock and timestamps disagree, and what follows from the corrections.
    struct Plant {
        lock: Lock,
        /// Seconds of audio that came in by the sampling clock, and that came out.
        due: f64,
        speed: f64,
        steps: Vec<f64>,
        last_pts: f64,
    }

    const PIECE: f64 = 1_024.0 / 44_100.0;

    impl Plant {
        fn new() -> Self {
            Self { lock: Lock::default(), due: 0.0, speed: 1.0, steps: Vec::new(), last_pts: 0.0 }
        }

        /// A piece with this timestamp; the error it has.
        fn push(&mut self, pts: f64) -> f64 {
            let error = pts - self.due;
            match self.lock.update(error, (pts - self.last_pts).clamp(0.0, 1.0)) {
                Correction::Speed(speed) => self.speed = speed,
                Correction::Step(step) => {
                    self.steps.push(step);
                    self.due += step;
                }
                Correction::Restart => self.due = pts,
            }
            self.last_pts = pts;
            self.due += PIECE * self.speed;
            error
        }
    }

    fn milliseconds(seconds: f64) -> f64 {
        (seconds * 1e3).round() / 1e3
    }

    #[test]
    fn a_drift_of_100_ppm_is_followed_for_six_hours_from_timestamps_in_milliseconds() {
        for drift in [100e-6, -100e-6] {
            let mut plant = Plant::new();
            let (mut worst, mut settled, mut slowest, mut fastest) = (0.0_f64, 0.0_f64, 2.0_f64, 0.0_f64);
            for index in 0..(6.0 * 3_600.0 / PIECE) as u64 {
                let exact = index as f64 * PIECE * (1.0 + drift);
                plant.push(milliseconds(exact));
                let error = (exact - plant.due + PIECE * plant.speed).abs();
                worst = worst.max(error);
                if index > 10_000 {
                    settled = settled.max(error);
                    (slowest, fastest) = (slowest.min(plant.speed), fastest.max(plant.speed));
                }
            }
            assert!(worst < 1.5e-3 && settled < 0.2e-3, "{worst} s on the way, {settled} s later");
            // The rounding of the timestamps does not reach the speed.
            assert!((slowest - 1.0 - drift).abs() < 10e-6 && (fastest - 1.0 - drift).abs() < 10e-6);
            assert_eq!(plant.steps, []);
        }
    }

    #[test]
    fn timestamps_that_jitter_by_20_ms_are_averaged_not_followed() {
        let mut plant = Plant::new();
        let mut random = 1_u32;
        for index in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let jitter = f64::from(random >> 16) / 65_536.0 * 0.04 - 0.02;
            plant.push(index as f64 * PIECE + jitter);
            assert!((index as f64 * PIECE - plant.due).abs() < 0.03, "{index}");
        }
        assert_eq!(plant.steps, []);
    }

    #[test]
    fn holes_are_corrected_once_and_jumps_begin_anew() {
        // (hole in seconds, pieces until it is corrected at the latest, corrections)
        let cases = [
            (0.005, usize::MAX, 0), // slewed
            (0.023, 24, 1),         // a lost piece: after half a second
            (-0.023, 24, 1),
            (0.15, 1, 1), // at once
            (-0.15, 1, 1),
            (3.0, 1, 0), // a new beginning, nothing is filled
            (-3_600.0, 1, 0),
        ];
        for (hole, pieces, corrections) in cases {
            let mut plant = Plant::new();
            for index in 0..1_000 {
                plant.push(index as f64 * PIECE);
            }
            let mut corrected = usize::MAX;
            for index in 0..3_000 {
                let pts = (1_000 + index) as f64 * PIECE + hole;
                plant.push(pts);
                if corrected == usize::MAX && (pts + PIECE - plant.due).abs() < 0.002 {
                    corrected = index + 1;
                }
            }
            assert!(corrected <= pieces, "{hole}: {corrected}");
            assert_eq!(plant.steps.len(), corrections, "{hole}: {:?}", plant.steps);
            assert!((3_999.0 * PIECE + hole + PIECE - plant.due).abs() < 0.001, "{hole}");
        }
    }

    #[test]
    fn speed_stays_imperceptible_whatever_the_timestamps_say() {
        let mut lock = Lock::default();
        for error in [0.0149, -0.0149, 0.0, f64::MIN_POSITIVE] {
            for _ in 0..100_000 {
                let Correction::Speed(speed) = lock.update(error, PIECE) else {
                    panic!("{error} is no hole")
                };
                assert!((speed - 1.0).abs() <= SPEED_MAX);
            }
        }
    }
}
