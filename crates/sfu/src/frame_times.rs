//! When the frames of the last second came: the rate of a video track.

use std::collections::VecDeque;
use std::time::Instant;

/// Timestamps of recent frames, in the order in which their first packets came.
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
        now_ms.wrapping_sub(self.arrival_ms) > PERIOD_MS
    }
}

/// Over which frames are counted.
const PERIOD_MS: u32 = 1_000;
/// Frames of a second that count at most.
const FRAMES_MAX: usize = 256;
