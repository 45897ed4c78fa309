//! How many bytes of a track were sent in the last seconds, and how many were sent again to one viewer:
//! what the limit on retransmission compares.
//!
//! ```text
//!  media   |..#..|.#...|#..#.|..     the least of any 3 s of late        x 30 %
//!  resent        |.#...|..#..|.      all of the last 3 s               <=
//! ```
//! The least and not the last 3 s, because some time later a window begins behind the key frame that fills
//! the last ones: at 200 kbit/s a key frame weighs as much as seconds of other pictures. Bytes are counted
//! in steps of time, those of media over one step less than 3 s and those sent again over one more, so that
//! what is compared holds for any 3 s, wherever they begin.

use std::time::{Duration, Instant};

/// Bytes by step of time, of the last `STEPS` steps.
#[derive(Debug)]
pub(crate) struct RecentBytes<const STEPS: usize> {
    /// Step 0 begins here.
    base: Instant,
    newest: u64,
    /// In units of [`UNIT_BYTES`], by step.
    units: [u16; STEPS],
}

impl<const STEPS: usize> RecentBytes<STEPS> {
    pub(crate) fn new(base: Instant) -> Self {
        Self { base, newest: 0, units: [0; STEPS] }
    }

    /// `false` if a step cannot hold that many.
    fn add(&mut self, now: Instant, units: u64) -> bool {
        let step = self.step_of(now).max(self.newest);
        for gone in (self.newest + 1..=step).take(STEPS) {
            self.units[gone as usize % STEPS] = 0;
        }
        self.newest = step;
        let held = &mut self.units[step as usize % STEPS];
        let sum = u64::from(*held) + units;
        *held = u16::try_from(sum).unwrap_or(u16::MAX);
        sum <= u64::from(u16::MAX)
    }

    fn get(&self, step: u64) -> u64 {
        let is_held = step <= self.newest && self.newest - step < STEPS as u64;
        if is_held { u64::from(self.units[step as usize % STEPS]) } else { 0 }
    }

    fn step_of(&self, now: Instant) -> u64 {
        (self.since_base(now).as_millis() / STEP.as_millis()) as u64
    }

    /// Time since it was made.
    pub(crate) fn since_base(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.base)
    }
}

/// What was sent again to one viewer.
pub(crate) type RecentlyResent = RecentBytes<{ WINDOW_STEPS + 1 }>;

impl RecentlyResent {
    /// Counts a packet. `false` if there were more than can be counted.
    pub(crate) fn note(&mut self, now: Instant, bytes: usize) -> bool {
        self.add(now, (bytes as u64).div_ceil(UNIT_BYTES))
    }

    /// Bytes in the last 3 s.
    pub(crate) fn bytes(&self, now: Instant) -> u64 {
        let step = self.step_of(now);
        (step.saturating_sub(WINDOW_STEPS as u64)..=step).map(|step| self.get(step)).sum::<u64>() * UNIT_BYTES
    }
}

/// The media of one track, of twice 3 s.
#[derive(Debug)]
pub(crate) struct RecentMedia {
    bytes: RecentBytes<{ 2 * WINDOW_STEPS }>,
    /// When it began after a pause.
    began: u64,
}

impl RecentMedia {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bytes: RecentBytes::new(now), began: 0 }
    }

    /// Counts a packet.
    pub(crate) fn note(&mut self, now: Instant, bytes: usize) {
        let before = self.bytes.newest;
        self.bytes.add(now, bytes as u64 / UNIT_BYTES);
        if self.bytes.newest - before > PAUSE_STEPS {
            self.began = self.bytes.newest;
        }
    }

    /// Bytes in those 3 s of the last 6 s that had the least.
    ///
    /// For some seconds after a beginning it is what there was since, or what any second and more of it
    /// would be in 3 s if that is less: behind the first key frame less follows.
    pub(crate) fn least(&self, now: Instant) -> u64 {
        const LEN: u64 = WINDOW_STEPS as u64 - 1;
        let end = self.bytes.step_of(now);
        let is_young = end.saturating_sub(self.began) < 2 * LEN;
        let (first, shortest) = if is_young { (self.began, PAUSE_STEPS) } else { (end - 2 * LEN, LEN) };
        // Units before each step from the first one on.
        let mut before = [0; 2 * WINDOW_STEPS + 1];
        let mut sum = 0;
        for (step, before) in (first..=end).zip(&mut before) {
            *before = sum;
            sum += self.bytes.get(step);
        }
        let mut least = if end.saturating_sub(self.began) < LEN { sum } else { u64::MAX };
        for from in first..(end + 1).saturating_sub(shortest) {
            let len = LEN.min(end - from);
            let units = before[(from + len - first) as usize] - before[(from - first) as usize];
            least = least.min(units * LEN / len);
        }
        least * UNIT_BYTES
    }
}

/// Time over which retransmission is compared with media: 3 s, in steps.
const WINDOW_STEPS: usize = 100;
const STEP: Duration = Duration::from_millis(30);
/// After a pause of a second without media, counting starts again.
const PAUSE_STEPS: u64 = 33;
/// A step holds 262 kB, which are 70 Mbit/s.
const UNIT_BYTES: u64 = 4;
