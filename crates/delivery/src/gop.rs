//! The frames since the last key frame, so that a new player has a picture at once.
//!
//! Bounded in bytes and in media time. A GOP that outgrows its bounds is dropped as a whole: half
//! of it cannot be decoded, and the next key frame starts a new one.

use std::collections::VecDeque;
use std::sync::Arc;

use media::{Frame, Timestamp};

/// Memory a frame takes besides its data, so that many empty ones count too: the frame itself,
/// its reference counts, its slot in the queue and the allocator's rounding, in bytes.
const FRAME_BYTES: usize = 128;

/// Bounds of a [`GopCache`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GopLimits {
    /// Whether anything is kept at all.
    pub enabled: bool,
    /// Most bytes kept: those of the frames and 128 for each frame.
    pub bytes_max: usize,
    /// Longest media time kept, milliseconds.
    pub duration_ms_max: u64,
}

/// Frames of the current group of pictures, key frame first, each with its stream time.
#[derive(Debug, Clone)]
pub struct GopCache {
    limits: GopLimits,
    frames: VecDeque<(Timestamp, Arc<Frame>)>,
    bytes: usize,
}

impl GopCache {
    /// An empty cache.
    pub fn new(limits: GopLimits) -> Self {
        Self { limits, frames: VecDeque::new(), bytes: 0 }
    }

    /// Adds a frame. One that `begins` a GOP, a key frame of the track that players begin with, replaces
    /// all before it; frames before the first such are not kept.
    pub fn push(&mut self, time: Timestamp, frame: &Arc<Frame>, begins: bool) {
        if begins {
            self.clear();
        } else if self.frames.is_empty() {
            return;
        }
        if !self.limits.enabled {
            return;
        }
        self.bytes += frame.bytes_held();
        self.frames.push_back((time, Arc::clone(frame)));
        // Compared as it is: in milliseconds would be a division per frame.
        let too_long = Timestamp::from_millis(self.limits.duration_ms_max.saturating_add(1).cast_signed());
        if self.memory_bytes() > self.limits.bytes_max || self.duration() >= too_long {
            self.clear();
            self.frames.shrink_to(0);
        }
    }

    /// Keeps at most this much from now on: what is there goes if it is more.
    pub fn limit(&mut self, bytes_max: usize) {
        self.limits.bytes_max = bytes_max;
        if self.memory_bytes() > bytes_max {
            self.clear();
            self.frames.shrink_to(0);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.bytes = 0;
    }

    /// The frames in order with their stream times; empty when a new player must wait for a key
    /// frame.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &(Timestamp, Arc<Frame>)> {
        self.frames.iter()
    }

    /// Whether it keeps no more than its limits, for tests of whole servers.
    pub fn is_within_limits(&self) -> bool {
        self.memory_bytes() <= self.limits.bytes_max && self.duration_ms() <= self.limits.duration_ms_max
    }

    fn memory_bytes(&self) -> usize {
        self.bytes + self.frames.len() * FRAME_BYTES
    }

    /// Bytes of the frames held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Media time from the key frame to the newest frame, milliseconds.
    pub fn duration_ms(&self) -> u64 {
        self.duration().millis().max(0) as u64
    }

    fn duration(&self) -> Timestamp {
        match (self.frames.front(), self.frames.back()) {
            (Some((first, _)), Some((last, _))) => *last - *first,
            _ => Timestamp::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use media::{Codec, FrameRole, TrackId};

    use super::*;

    fn push(cache: &mut GopCache, time_ms: i64, role: FrameRole, bytes: usize) {
        let time = Timestamp::from_millis(time_ms);
        let frame = Frame::new(TrackId::VIDEO, role, Codec::H264, (time, time), vec![0; bytes]);
        cache.push(time, &Arc::new(frame), role == FrameRole::Key);
    }

    fn cache() -> GopCache {
        GopCache::new(GopLimits { enabled: true, bytes_max: 100 + 2 * FRAME_BYTES, duration_ms_max: 1000 })
    }

    #[test]
    fn starts_with_the_last_key_frame() {
        let mut cache = cache();
        for (time, role) in [(0, FrameRole::Inter), (40, FrameRole::Key), (80, FrameRole::Inter)] {
            push(&mut cache, time, role, 10);
        }
        assert_eq!(cache.frames().map(|(time, _)| time.millis()).collect::<Vec<_>>(), [40, 80]);
        push(&mut cache, 120, FrameRole::Key, 7);
        assert_eq!((cache.frames().len(), cache.bytes()), (1, 7));
    }

    #[test]
    fn gives_up_a_group_that_is_too_large_or_too_long() {
        for (time, bytes, remark) in [(40, 95, "bytes"), (1041, 1, "duration")] {
            let mut cache = cache();
            push(&mut cache, 0, FrameRole::Key, 10);
            push(&mut cache, time, FrameRole::Inter, bytes);
            assert_eq!((cache.frames().len(), cache.bytes()), (0, 0), "{remark}");
            push(&mut cache, 2000, FrameRole::Inter, 1);
            assert_eq!(cache.frames().len(), 0, "{remark}: nothing until the next key frame");
            push(&mut cache, 2040, FrameRole::Key, 1);
            assert_eq!(cache.frames().len(), 1, "{remark}");
        }
    }

    #[test]
    fn empty_frames_count_too() {
        let mut cache = cache();
        push(&mut cache, 0, FrameRole::Key, 0);
        push(&mut cache, 0, FrameRole::Inter, 0);
        assert_eq!(cache.frames().len(), 2);
        push(&mut cache, 0, FrameRole::Inter, 0);
        assert_eq!(cache.frames().len(), 0);
    }

    #[test]
    fn disabled_keeps_nothing() {
        let mut cache = GopCache::new(GopLimits { enabled: false, bytes_max: 100, duration_ms_max: 1000 });
        push(&mut cache, 0, FrameRole::Key, 10);
        assert_eq!(cache.frames().len(), 0);
    }
}
