//! Keeps sample counts and timestamps together: how far the resampler is to be sped up or slowed down, and when samples
//! must be put in or left out instead.
//!
//! Input timestamps are rounded to milliseconds and come from another clock than the one that sampled. The error
//! (timestamp minus the time the samples are due by counting) goes through a low-pass filter and a proportional and
//! integral controller: rounding does not move the output, and a constant drift leaves no error behind. An error that
//! stays is a hole, not drift, and is corrected at once.

/// Largest change of speed, parts of one: 500 ppm is less than a cent, far below the 5 cents a trained ear hears.
const SPEED_MAX: f64 = 500e-6;
/// Natural frequency of the control loop, 1/s. A drift of 100 ppm is followed with at most
/// `100e-6 / (e * LOOP_RATE)` = 0.74 ms of error on the way; rounding of 0.5 ms moves the speed by less than 50 ppm.
const LOOP_RATE: f64 = 0.05;
/// Time constant of the low-pass filter, seconds.
const FILTER_SECONDS: f64 = 2.0;
/// An error is a hole (or an overlap) when it stays above this, seconds. Below, slewing takes at most half a minute.
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
    /// Begin anew at the timestamp.
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
    /// Takes the error of one piece, seconds, `elapsed` seconds of sound after the one before.
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
