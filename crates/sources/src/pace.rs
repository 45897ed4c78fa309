//! When a frame leaves: at an absolute time, so that a late wake-up delays nothing after it.
//!
//! There are two kinds of lateness. Frames that were ready while this machine had no time for them
//! leave at once, and the pace stays. A channel whose source was late does not catch up: the pace
//! restarts with the late frame, and players see a pause instead of fast motion. Only when a
//! playlist is joined in its middle do the frames since the last key frame leave at once, and the
//! pace follows the wall clock.
//!
//! A source that is slightly too slow would be late again soon: without a buffer each frame leaves
//! when it arrives, and players, whose buffers are small, stall again and again. So from the second
//! time in a row on, the late frame is held back while others are buffered behind it, for a second
//! at first, twice as long each time. A source of rate `r` then plays for `wait * r / (1 - r)`.
//! Playback stands still for the same time in total, but less often.

use std::time::Duration;

use tokio::time::Instant;

/// Later than this because of its source, pacing restarts.
const LATE_MAX: Duration = Duration::from_millis(250);
/// A channel that is joined and has not caught up with its schedule after this long plays late from
/// then on.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// Later than this, pacing restarts for whatever reason: a machine that stood still does not send
/// all of it at once.
const OWN_LATE_MAX: Duration = Duration::from_secs(10);

/// For how long frames are gathered at a second stop,
const GATHER_MIN: Duration = Duration::from_secs(1);
/// and at any.
const GATHER_MAX: Duration = Duration::from_secs(8);
/// A stop so soon after the one before shows that what was gathered was not enough.
const PLAYED_MIN: Duration = Duration::from_secs(30);
/// A stop so long after the one before has nothing to do with it.
const PLAYED_WELL: Duration = Duration::from_secs(300);

/// Relates timestamps to the clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// A moment, and the timestamp that is due then.
    anchor: Option<(Instant, u64)>,
    /// Before this, lateness does not restart pacing.
    catching_up_until: Option<Instant>,
    /// An item begins with the next frame.
    item_begins: bool,
    /// When the last stop because of the source ended or ends, and for how long frames were
    /// gathered then.
    stopped: Option<(Instant, Duration)>,
    /// Frames are gathered no longer than this.
    gather_max: Duration,
}

impl Pace {
    /// The first frame is due when it comes. `stall_timeout`: a source is waited for no longer than
    /// this.
    pub(crate) fn new(stall_timeout: Duration) -> Self {
        Self {
            anchor: None,
            catching_up_until: None,
            item_begins: false,
            stopped: None,
            gather_max: GATHER_MAX.min(stall_timeout),
        }
    }

    /// The next frame is due when it comes.
    pub(crate) fn restart(&mut self) {
        (self.anchor, self.catching_up_until) = (None, None);
    }

    /// `timestamp_ms` is due at `moment`, which may have passed: what should have left before
    /// leaves at once.
    pub(crate) fn join(&mut self, moment: Instant, timestamp_ms: u64, now: Instant) {
        (self.anchor, self.catching_up_until) = (Some((moment, timestamp_ms)), Some(now + CATCH_UP_MAX));
    }

    /// An item begins. If its first frame is late, that was the time for opening it, and a reserve
    /// would not have helped.
    pub(crate) fn begin_item(&mut self) {
        self.item_begins = true;
    }

    /// The timestamp that is due at `now`; `None` before the first frame.
    pub(crate) fn timestamp_at(&self, now: Instant) -> Option<u64> {
        let (moment, anchored_ms) = self.anchor?;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let before = ms(moment.saturating_duration_since(now));
        Some((anchored_ms + ms(now.saturating_duration_since(moment))).saturating_sub(before))
    }

    /// When a frame that is ready at `now` leaves, and by how much the channel is later than before
    /// because of it. Where that is something and the time has not come, frames are gathered until
    /// then.
    ///
    /// `was_awaited`: the source had not brought it when it was asked for.
    pub(crate) fn due(&mut self, now: Instant, timestamp_ms: u64, was_awaited: bool) -> (Instant, Duration) {
        let is_first = std::mem::take(&mut self.item_begins);
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
            let gather = if was_awaited && !is_first { self.stop(now) } else { Duration::ZERO };
            self.anchor = Some((now + gather, timestamp_ms));
            self.catching_up_until = None;
            return (now + gather, late + gather);
        }
        (due, Duration::ZERO)
    }

    /// No more frames can be gathered: the frame that is due at `due` leaves at `now`.
    pub(crate) fn go_on(&mut self, now: Instant, due: Instant) {
        let spared = due.saturating_duration_since(now);
        if let Some((moment, _)) = &mut self.anchor {
            *moment -= spared;
        }
        if let Some((ends, _)) = &mut self.stopped {
            *ends -= spared;
        }
    }

    /// The source has nothing at `now`; for how long frames are gathered before the channel goes
    /// on.
    fn stop(&mut self, now: Instant) -> Duration {
        let gather = match self.stopped {
            Some((before, gathered)) => match now.saturating_duration_since(before) {
                played if played < PLAYED_MIN => (gathered * 2).max(GATHER_MIN).min(self.gather_max),
                played if played < PLAYED_WELL => gathered,
                _ => Duration::ZERO,
            },
            None => Duration::ZERO,
        };
        self.stopped = Some((now + gather, gather));
        gather
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const STALL_TIMEOUT: Duration = Duration::from_secs(10);

    fn joined(moment: Instant, timestamp_ms: u64, now: Instant) -> Pace {
        let mut pace = Pace::new(STALL_TIMEOUT);
        pace.join(moment, timestamp_ms, now);
        pace
    }

    /// Stops of a channel whose source brings frames of 40 ms when `arrives` says, by their
    /// numbers: when each was, in milliseconds, and for how long playback stood still.
    fn stops(frames: u32, arrives: impl Fn(u32) -> Duration) -> Vec<(u128, Duration)> {
        let began = Instant::now();
        let (mut now, mut pace, mut stops) = (began, Pace::new(STALL_TIMEOUT), Vec::new());
        for index in 0..frames {
            let arrived = began + arrives(index);
            let was_awaited = arrived > now;
            now = now.max(arrived);
            let (due, late) = pace.due(now, u64::from(index) * 40, was_awaited);
            if !late.is_zero() {
                stops.push(((now - began).as_millis(), late));
            }
            now = now.max(due);
        }
        stops
    }

    #[tokio::test(start_paused = true)]
    async fn frames_leave_at_their_time_however_late_the_task_wakes() {
        let began = Instant::now();
        let mut pace = Pace::new(STALL_TIMEOUT);
        assert_eq!(pace.due(began, 1_000, true), (began, Duration::ZERO));
        for (wakes_ms, timestamp_ms) in [(39, 1_040), (95, 1_080), (120, 1_120), (410, 1_160)] {
            let expected = began + (timestamp_ms as u32 - 1_000) * MS;
            assert_eq!(pace.due(began + wakes_ms * MS, timestamp_ms, true), (expected, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_pause_of_the_source_frames_are_not_hurried_after() {
        let began = Instant::now();
        let mut pace = Pace::new(STALL_TIMEOUT);
        pace.due(began, 0, true);
        let late = began + 5_000 * MS;
        assert_eq!(pace.due(late, 40, true), (late, 4_960 * MS));
        assert_eq!(pace.due(late, 80, true), (late + 40 * MS, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn what_lay_ready_leaves_at_once_and_the_pace_stays() {
        let began = Instant::now();
        let mut pace = Pace::new(STALL_TIMEOUT);
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
        let mut pace = joined(now, 4_000, now);
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
        let mut pace = joined(now, 60_000, now);
        assert!(pace.due(now + 29_000 * MS, 0, true).1.is_zero());
        let after = now + 30_001 * MS;
        assert_eq!(pace.due(after, 40, true), (after, 90_001 * MS - 40 * MS));
        assert_eq!(pace.due(after, 80, true), (after + 40 * MS, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_a_little_too_slow_is_waited_for_seldom_and_for_a_few_seconds() {
        // Six sevenths of real time, for ten minutes: without a reserve more than two hundred stops
        // of a third of a second.
        let stops = stops(12_857, |index| index * 140 * MS / 3);
        let seconds: Vec<u64> = stops.iter().map(|(_, late)| late.as_secs()).collect();
        assert_eq!(seconds[..5], [0, 1, 2, 4, 8], "the wait grows");
        assert!(seconds.iter().all(|wait| *wait <= 8) && stops.len() <= 17, "{stops:?}");
        let behind: Duration = stops.iter().map(|(_, late)| *late).sum();
        assert!(
            behind < 600_000 * MS / 7 + GATHER_MAX,
            "no longer in all than the source is short of: {behind:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_hardly_too_slow_needs_a_small_reserve() {
        // Ninety-nine hundredths, for an hour.
        let stops = stops(90_000, |index| index * 400 * MS / 99 * 10);
        assert!(stops.iter().all(|(_, late)| *late < 2_500 * MS), "{stops:?}");
        assert!(stops.len() < 40, "in place of 144: {stops:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn stops_that_are_far_apart_are_none_of_a_row() {
        let arrives = |lost: [(u32, u32); 3]| {
            move |index: u32| {
                let lost_ms: u32 = lost.iter().filter(|(at, _)| *at <= index).map(|(_, ms)| ms).sum();
                (index * 40 + lost_ms) * MS
            }
        };
        let waits =
            |lost| stops(30_000, arrives(lost)).iter().map(|(_, late)| late.as_millis()).collect::<Vec<_>>();
        let (minute, well) = (1_500, 7_501); // in frames
        assert_eq!(waits([(100, 1_000), (100 + minute, 1_000), (100 + 2 * minute, 1_000)]), [1_000; 3]);
        // What was gathered once, a second, covers the first of five.
        assert_eq!(waits([(100, 1_000), (200, 1_000), (200 + well, 5_000)]), [1_000, 2_000, 4_000]);
        assert_eq!(waits([(100, 1_000), (200, 1_000), (200 + minute, 5_000)]), [1_000, 2_000, 5_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_for_opening_an_item_is_no_stop_of_a_row() {
        let mut now = Instant::now();
        let mut pace = Pace::new(STALL_TIMEOUT);
        pace.due(now, 0, true);
        for item in 1..10 {
            now += 1_040 * MS;
            pace.begin_item();
            assert_eq!(pace.due(now, item * 40, true), (now, 1_000 * MS));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_gathered_until_no_more_have_room() {
        let mut now = Instant::now();
        let mut pace = Pace::new(STALL_TIMEOUT);
        pace.due(now, 0, true);
        now += 1_040 * MS;
        assert_eq!(pace.due(now, 40, true), (now, 1_000 * MS));
        now += 1_040 * MS;
        let (due, late) = pace.due(now, 80, true);
        assert_eq!((due, late), (now + GATHER_MIN, 2_000 * MS));
        now += 300 * MS;
        pace.go_on(now, due);
        assert_eq!(pace.due(now, 80, false), (now, Duration::ZERO));
        assert_eq!(pace.due(now, 120, false), (now + 40 * MS, Duration::ZERO));
        let mut hasty = Pace::new(500 * MS);
        hasty.due(now, 0, true);
        for _ in 0..9 {
            now += 2_000 * MS;
            let (due, _) = hasty.due(now, 0, true);
            assert!(due <= now + 500 * MS, "no longer than any source is waited for");
            now = due;
        }
    }
}
