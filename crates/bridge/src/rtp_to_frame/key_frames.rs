//! When to ask the publisher for a key frame.

use std::time::{Duration, Instant};

/// Requests of one bridge. `PacketStream` merges them with those of viewers and repeats them to the
/// publisher.
#[derive(Debug)]
pub(super) struct KeyFrames {
    /// Longest distance between key frames; zero: as the publisher likes.
    interval_max: Duration,
    last_key: Option<Instant>,
    asked: Option<Instant>,
    /// From asking to the key frame: the longest lately.
    answer: Duration,
}

impl KeyFrames {
    pub(super) fn new(interval_max: Duration) -> Self {
        Self { interval_max, last_key: None, asked: None, answer: ANSWER_FIRST }
    }

    /// A key frame has come through.
    pub(super) fn came(&mut self, now: Instant) {
        if let Some(asked) = self.asked.take() {
            let took = now.saturating_duration_since(asked).min(ANSWER_MAX);
            self.answer = took.max(self.answer - self.answer / 8);
        }
        self.last_key = Some(now);
    }

    /// Whether to ask now; `needed`: nothing can be shown without one.
    pub(super) fn poll(&mut self, now: Instant, needed: bool) -> bool {
        // So much ahead of the interval's end that the answer comes in time.
        let after = self.interval_max - (self.answer + FRAME).min(self.interval_max / 2);
        let last = self.last_key.filter(|_| !self.interval_max.is_zero());
        let is_due = needed || last.is_some_and(|last| last + after <= now);
        let is_new = self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= AGAIN);
        if is_due && is_new {
            self.asked = Some(now);
        }
        is_due && is_new
    }
}

/// An encoder answers with its next frame, after one round trip.
const ANSWER_FIRST: Duration = Duration::from_millis(100);
/// Frames come one by one, and a request leaves with one: so much more.
const FRAME: Duration = Duration::from_millis(50);
/// Longer than this was no answer.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Asked again after this: what came may have been broken. `PacketStream` itself repeats what is lost.
const AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn one_is_asked_for_when_needed_and_again_after_a_second() {
        let now = start();
        let mut key_frames = KeyFrames::new(Duration::from_secs(2));
        assert!(!key_frames.poll(now, false), "before the first, only when needed");
        assert!(key_frames.poll(now, true));
        assert!(!key_frames.poll(now + AGAIN / 2, true));
        assert!(key_frames.poll(now + AGAIN, true));
    }

    #[test]
    fn the_interval_is_kept_ahead_of_the_answer() {
        let now = start();
        let interval = Duration::from_secs(2);
        let mut key_frames = KeyFrames::new(interval);
        key_frames.came(now);
        let due = now + interval - ANSWER_FIRST - FRAME;
        assert!(!key_frames.poll(due - Duration::from_millis(1), false));
        assert!(key_frames.poll(due, false));
        // This one took 300 ms to answer.
        let slow = Duration::from_millis(300);
        let came = due + slow;
        key_frames.came(came);
        let due = came + interval - slow - FRAME;
        assert!(!key_frames.poll(due - Duration::from_millis(1), false));
        assert!(key_frames.poll(due, false));
    }

    #[test]
    fn an_interval_of_zero_asks_for_nothing() {
        let now = start();
        let mut key_frames = KeyFrames::new(Duration::ZERO);
        key_frames.came(now);
        assert!(!key_frames.poll(now + Duration::from_secs(100), false));
    }
}
