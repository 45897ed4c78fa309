//! What a track had in the last seconds: bytes and frames.
//!
//! The limit on retransmission compares the bytes of a track with those that were sent again to one viewer:
//!
//! ```text
//!  media   |..#..|.#...|#..#.|..     the least of any 3 s of late        x 30 %
//!  resent        |.#...|..#..|.      all of the last 3 s               <=
//! ```
//! The least and not the last 3 s, because some time later a window begins behind the key frame that fills
//! the last ones: at 200 kbit/s a key frame weighs as much as seconds of other pictures. Bytes are counted
//! in steps of time, those of media over one step less than 3 s and those sent again over one more, so that
//! what is compared holds for any 3 s, wherever they begin.

use std::collections::VecDeque;
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

    /// Bits per second of the last 3 s, or since it began if that is later.
    pub(crate) fn bits_per_second(&self, now: Instant) -> u64 {
        let end = self.bytes.step_of(now);
        // The step that is being filled is left out: it would be counted in full.
        let first = self.began.max(end.saturating_sub(WINDOW_STEPS as u64));
        let units: u64 = (first..end).map(|step| self.bytes.get(step)).sum();
        let steps = (end - first.min(end)).max(1);
        units * UNIT_BYTES * 8_000 / (steps * STEP.as_millis() as u64)
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

/// Timestamps of the frames of the last second, in the order in which their first packets came: the rate of
/// a video track.
#[derive(Debug, Default)]
pub(crate) struct FrameTimes {
    /// Arrivals count from here.
    base: Option<Instant>,
    frames: VecDeque<Frame>,
}

#[derive(Debug)]
struct Frame {
    timestamp: u32,
    /// Milliseconds since `base`.
    arrival_ms: u32,
}

impl FrameTimes {
    /// A packet of a frame has come.
    pub(crate) fn note(&mut self, now: Instant, timestamp: u32) {
        // One more of a frame that is known; nearly always of the newest.
        if self.frames.iter().rev().any(|frame| frame.timestamp == timestamp) {
            return;
        }
        let base = *self.base.get_or_insert(now);
        let arrival_ms = now.saturating_duration_since(base).as_millis() as u32;
        while self.frames.front().is_some_and(|frame| frame.is_past(arrival_ms))
            || self.frames.len() >= FRAMES_MAX
        {
            self.frames.pop_front();
        }
        self.frames.push_back(Frame { timestamp, arrival_ms });
    }

    /// Frames per second of the last second, by their timestamps.
    pub(crate) fn rate(&self, now: Instant, clock_rate: u32) -> Option<f32> {
        let now_ms = now.saturating_duration_since(self.base?).as_millis() as u32;
        let recent = self.frames.iter().filter(|frame| !frame.is_past(now_ms));
        let mut recent = recent.map(|frame| frame.timestamp);
        let first = recent.next()?;
        let (mut distances, mut earliest, mut latest) = (0_u16, 0, 0);
        for timestamp in recent {
            distances += 1;
            // With B-frames the times are not in order.
            let distance = timestamp.wrapping_sub(first).cast_signed();
            (earliest, latest) = (distance.min(earliest), distance.max(latest));
        }
        let duration = latest.wrapping_sub(earliest);
        (duration > 0).then(|| f32::from(distances) * clock_rate as f32 / duration as f32)
    }
}

impl Frame {
    fn is_past(&self, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.arrival_ms) > FRAME_PERIOD_MS
    }
}

/// Time over which retransmission is compared with media: 3 s, in steps.
const WINDOW_STEPS: usize = 100;
const STEP: Duration = Duration::from_millis(30);
/// After a pause of a second without media, counting starts again.
const PAUSE_STEPS: u64 = 33;
/// A step holds 262 kB, which are 70 Mbit/s.
const UNIT_BYTES: u64 = 4;
/// Over which frames are counted.
const FRAME_PERIOD_MS: u32 = 1_000;
/// Frames of a second that count at most.
const FRAMES_MAX: usize = 256;
