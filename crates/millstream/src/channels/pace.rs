//! When a frame leaves: at an absolute time, so that a late wake-up delays nothing after it.
//!
//! Two kinds of lateness differ. Frames that lay ready while this machine had no time for them leave at once, and the
//! pace stays: nothing is lost but a moment. A channel whose source was late does not hurry after it: the pace starts
//! anew with the late frame, and players see a pause instead of a fast picture. Only when a playlist is joined in its
//! middle, frames since the last key frame leave at once, and the pace is that of the clock on the wall.

use std::time::Duration;

use tokio::time::Instant;

/// Later than this because of its source, the pace starts anew.
const LATE_MAX: Duration = Duration::from_millis(250);
/// A channel that is joined and has not caught up with its schedule after this long plays late from then on.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// Later than this for whatever reason it does: a machine that stood still does not send the whole time at once.
const OWN_LATE_MAX: Duration = Duration::from_secs(10);

/// Relates timestamps to the clock.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// A moment, and the timestamp that is due then.
    anchor: Option<(Instant, u64)>,
    /// Lateness is no reason to start anew before this.
    catching_up_until: Option<Instant>,
}

impl Pace {
    /// The first frame is due when it comes.
    pub fn new() -> Self {
        Self { anchor: None, catching_up_until: None }
    }

    /// `timestamp_ms` is due at `moment`, which may have passed: what should have left before leaves at once.
    pub fn anchored(moment: Instant, timestamp_ms: u64, now: Instant) -> Self {
        Self { anchor: Some((moment, timestamp_ms)), catching_up_until: Some(now + CATCH_UP_MAX) }
    }

    /// The timestamp that is due at `now`; `None` before the first frame.
    pub fn timestamp_at(&self, now: Instant) -> Option<u64> {
        let (moment, anchored_ms) = self.anchor?;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let before = ms(moment.saturating_duration_since(now));
        Some((anchored_ms + ms(now.saturating_duration_since(moment))).saturating_sub(before))
    }

    /// When a frame that is ready at `now` leaves, and by how much the channel is later than before because of it.
    ///
    /// `was_awaited`: the source had not brought it when it was asked for.
    pub fn due(&mut self, now: Instant, timestamp_ms: u64, was_awaited: bool) -> (Instant, Duration) {
        let Some((moment, anchored_ms)) = self.anchor else {
            self.anchor = Some((now, timestamp_ms));
            return (now, Duration::ZERO);
        };
        let distance = |from: u64, to: u64| Duration::from_millis(to.saturating_sub(from));
        let due = match timestamp_ms >= anchored_ms {
            true => moment + distance(anchored_ms, timestamp_ms),
            // Before the clock began, which only a machine just started can reach.
            false => moment.checked_sub(distance(timestamp_ms, anchored_ms)).unwrap_or(now),
        };
        let late = now.saturating_duration_since(due);
        if late.is_zero() {
            self.catching_up_until = None;
        }
        let late_max = if was_awaited { LATE_MAX } else { OWN_LATE_MAX };
        if late > late_max && self.catching_up_until.is_none_or(|until| now > until) {
            self.anchor = Some((now, timestamp_ms));
            self.catching_up_until = None;
            return (now, late);
        }
        (due, Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn frames_leave_at_their_time_however_late_the_task_wakes() {
        let began = Instant::now();
        let mut pace = Pace::new();
        assert_eq!(pace.due(began, 1_000, true), (began, Duration::ZERO));
        for (wakes_ms, timestamp_ms) in [(39, 1_040), (95, 1_080), (120, 1_120), (410, 1_160)] {
            let expected = began + (timestamp_ms as u32 - 1_000) * MS;
            assert_eq!(pace.due(began + wakes_ms * MS, timestamp_ms, true), (expected, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_of_the_source_frames_are_not_hurried_after() {
        let began = Instant::now();
        let mut pace = Pace::new();
        pace.due(began, 0, true);
        let late = began + 5_000 * MS;
        assert_eq!(pace.due(late, 40, true), (late, 4_960 * MS));
        assert_eq!(pace.due(late, 80, true), (late + 40 * MS, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_lay_ready_leaves_at_once_and_the_pace_stays() {
        let began = Instant::now();
        let mut pace = Pace::new();
        pace.due(began, 0, true);
        let late = began + 3_000 * MS;
        for timestamp_ms in (40..3_000).step_by(40) {
            let due = began + timestamp_ms as u32 * MS;
            assert_eq!(pace.due(late, timestamp_ms, false), (due, Duration::ZERO));
        }
        assert_eq!(pace.due(late, 3_040, false), (late + 40 * MS, Duration::ZERO), "it has caught up");
        assert_eq!(pace.timestamp_at(late), Some(3_000));
        let hour = late + 3_600_000 * MS;
        assert_eq!(pace.due(hour, 3_080, false), (hour, 3_599_920 * MS), "an hour is not sent at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_playlist_that_is_joined_catches_up_and_keeps_to_its_schedule() {
        let now = Instant::now() + 100_000 * MS;
        let mut pace = Pace::anchored(now, 4_000, now);
        // From the key frame, four seconds back; opening took another second.
        for timestamp_ms in (0..5_000).step_by(40) {
            let (due, late) = pace.due(now + 1_000 * MS, timestamp_ms, true);
            assert!(due <= now + 1_000 * MS && late.is_zero(), "{timestamp_ms} leaves at once");
        }
        assert_eq!(pace.due(now + 1_000 * MS, 5_040, true), (now + 1_040 * MS, Duration::ZERO));
        let (_, late) = pace.due(now + 9_000 * MS, 5_080, true);
        assert_eq!(late, 7_920 * MS, "once it has caught up, a pause is a pause");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_too_slow_to_catch_up_is_played_late() {
        let now = Instant::now() + 100_000 * MS;
        let mut pace = Pace::anchored(now, 60_000, now);
        assert!(pace.due(now + 29_000 * MS, 0, true).1.is_zero());
        let after = now + 30_001 * MS;
        assert_eq!(pace.due(after, 40, true), (after, 90_001 * MS - 40 * MS));
        assert_eq!(pace.due(after, 80, true), (after + 40 * MS, Duration::ZERO));
    }
}
