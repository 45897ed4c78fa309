//! Times of one stream on both sides of a bridge, so that audio and video stay together.
//!
//! Frames are stamped in milliseconds of one stream time, packets in units of a clock for each
//! track, tied together by sender reports only (RFC 3550 section 6.4.1). To packets,
//! [`StreamClock`] says which stream time it is now, [`VideoTimestamps`] and [`AudioTimestamps`]
//! stamp the packets and [`ClockMappings`] say which timestamps belong together. To frames,
//! [`CaptureClock`] puts the timestamps of both tracks on one stream time. What is measured are
//! clocks of others: all of them may drift, jump and stand still.

mod capture;
mod mappings;
mod timestamps;

pub use capture::{CaptureClock, START_US, Stamp};
pub use mappings::ClockMappings;
pub(crate) use mappings::MappingSchedule;
pub use timestamps::{AudioTimestamps, VideoTimestamps, rtp_timestamp};

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Stream time in terms of our clock: which stream time it is now, by the times of frames as they arrive.
///
/// The times are the publisher's, whose clock runs fast or slow, and frames arrive late: some at
/// once (a GOP the bridge begins with, a network that stalled). The frame with the least delay
/// counts, and what was reported moves towards it by very little, because receivers fit a line
/// through it. Both tracks share the result, so an error shifts audio and picture alike.
#[derive(Debug)]
pub struct StreamClock {
    base: Instant,
    least: LeastDelay,
    reported: Option<ReportedDelay>,
    /// Delay of a frame that seems to come from the future, until a second one confirms it.
    suspect_us: Option<i64>,
}

/// What is reported: `stream time = time since base - delay`.
#[derive(Debug, Clone, Copy)]
struct ReportedDelay {
    delay_us: i64,
    /// When it began and when it last moved, in time since base.
    since_us: i64,
    moved_us: i64,
}

/// Where a [`StreamClock`] is, for another process to go on with: as of the instant it was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamClockState {
    /// How long ago the stretch of the least delay began, and the least delays.
    since_us: i64,
    before: Option<i64>,
    current: Option<i64>,
    /// What is reported: the delay, how long since, and how long ago it moved.
    reported: Option<(i64, i64, i64)>,
}

impl StreamClock {
    /// A clock of a stream of which nothing has arrived.
    pub fn new(now: Instant) -> Self {
        Self { base: now, least: LeastDelay::default(), reported: None, suspect_us: None }
    }

    /// Where it is.
    pub fn state(&self, now: Instant) -> StreamClockState {
        let at_us = micros(self.base, now);
        let LeastDelay { since_us, before, current } = self.least;
        let moved = |of: ReportedDelay| (of.delay_us - at_us, at_us - of.since_us, at_us - of.moved_us);
        StreamClockState {
            since_us: at_us - since_us,
            before: before.map(|delay_us| delay_us - at_us),
            current: current.map(|delay_us| delay_us - at_us),
            reported: self.reported.map(moved),
        }
    }

    /// One that goes on where another was at `at`.
    pub fn resumed(at: Instant, state: StreamClockState) -> Self {
        let StreamClockState { since_us, before, current, reported } = state;
        // Of a process that may have written anything.
        let fit = |us: i64| us.clamp(-TIME_US_MAX, TIME_US_MAX);
        let moved = |(delay_us, since_us, moved_us): (i64, i64, i64)| ReportedDelay {
            delay_us: fit(delay_us),
            since_us: -fit(since_us),
            moved_us: -fit(moved_us),
        };
        Self {
            base: at,
            least: LeastDelay {
                since_us: -fit(since_us),
                before: before.map(fit),
                current: current.map(fit),
            },
            reported: reported.map(moved),
            suspect_us: None,
        }
    }

    /// A frame with this decoding time arrived, in microseconds of stream time.
    pub fn arrived(&mut self, now: Instant, time_us: i64) {
        let at_us = micros(self.base, now);
        let delay_us = at_us - time_us.clamp(-TIME_US_MAX, TIME_US_MAX);
        let Some(reported) = self.reported else {
            self.least.note(at_us, delay_us);
            self.reported = Some(ReportedDelay { delay_us, since_us: at_us, moved_us: at_us });
            return;
        };
        let is_settled = at_us - reported.since_us > SETTLING_US;
        let ahead_of = |reference_us: i64| reference_us - delay_us;
        if is_settled && ahead_of(reported.delay_us) > STEP_US {
            let is_confirmed = self.suspect_us.is_some_and(|suspect| ahead_of(suspect).abs() <= STEP_US);
            self.suspect_us = Some(delay_us);
            if !is_confirmed {
                return;
            }
        }
        self.suspect_us = self.suspect_us.filter(|suspect| *suspect == delay_us);
        let least_us = self.least.note(at_us, delay_us);
        let off_us = least_us - reported.delay_us;
        let slew_us = (at_us - reported.moved_us) / SLEW_DIVISOR;
        if off_us.abs() > STEP_US || (!is_settled && off_us < 0) {
            self.reported = Some(ReportedDelay { delay_us: least_us, moved_us: at_us, ..reported });
        } else if slew_us > 0 {
            let delay_us = reported.delay_us + off_us.clamp(-slew_us, slew_us);
            self.reported = Some(ReportedDelay { delay_us, moved_us: at_us, ..reported });
        }
        // Else too short a time has passed to move by a microsecond: it counts with the next frame.
    }

    /// Stream time at `now` in microseconds; `None` before the first frame.
    pub fn time_us(&self, now: Instant) -> Option<i64> {
        let reported = self.reported?;
        Some(micros(self.base, now) - reported.delay_us)
    }

    /// Delay that is reported, to see that it has stepped.
    fn delay_us(&self) -> Option<i64> {
        self.reported.map(|reported| reported.delay_us)
    }
}

/// Times beyond (36,000 years) are taken for this, so that nothing overflows.
const TIME_US_MAX: i64 = 1 << 60;
/// For so long after the beginning a smaller delay is believed at once: the GOP a bridge begins
/// with comes first.
const SETTLING_US: i64 = 500_000;
/// A difference beyond this is a new beginning.
const STEP_US: i64 = 500_000;
/// 500 ppm: several times what quartz drifts.
const SLEW_DIVISOR: i64 = 2_000;

/// Microseconds from `base` to `at`, negative if `at` is before.
fn micros(base: Instant, at: Instant) -> i64 {
    let length = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match at.checked_duration_since(base) {
        Some(later) => length(later),
        None => -length(base - at),
    }
}

/// Least delay in the last 10 to 20 s, in microseconds; only differences of delays mean something.
///
/// What arrives was stamped by a clock that cannot be read here, and delayed by an unknown time. The piece
/// that was under way for the shortest time says best how that clock stands to ours; but clocks drift, so old
/// pieces are forgotten. Two stretches of time take turns, as a window that moves would need every piece to
/// be kept.
#[derive(Debug, Clone, Default)]
struct LeastDelay {
    since_us: i64,
    before: Option<i64>,
    current: Option<i64>,
}

impl LeastDelay {
    /// Notes the delay of a piece that arrived at `at_us`, and returns the least.
    fn note(&mut self, at_us: i64, delay_us: i64) -> i64 {
        if self.current.is_none() {
            self.since_us = at_us;
        } else if at_us - self.since_us >= STRETCH_US {
            (self.since_us, self.before) = (at_us, self.current.take());
        }
        let current = self.current.map_or(delay_us, |least| least.min(delay_us));
        self.current = Some(current);
        self.before.map_or(current, |before| before.min(current))
    }

    /// The least, if anything was noted.
    fn least(&self) -> Option<i64> {
        let current = self.current?;
        Some(self.before.map_or(current, |before| before.min(current)))
    }
}

/// At 100 ppm clocks move apart by 1 ms in it, and in 10 s some piece comes through every network undelayed.
const STRETCH_US: i64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_forgotten_after_one_to_two_stretches() {
        let mut delay = LeastDelay::default();
        assert_eq!(delay.least(), None);
        assert_eq!(delay.note(0, 5), 5);
        assert_eq!(delay.note(STRETCH_US - 1, 9), 5);
        assert_eq!(delay.note(STRETCH_US, 9), 5, "the stretch before still counts");
        assert_eq!(delay.note(2 * STRETCH_US, 8), 8);
        assert_eq!(delay.note(2 * STRETCH_US, -3), -3);
        assert_eq!(delay.least(), Some(-3));
    }

    #[test]
    fn silence_forgets_nothing_before_the_next_piece() {
        let mut delay = LeastDelay::default();
        delay.note(0, 5);
        assert_eq!(delay.note(100 * STRETCH_US, 50), 5);
        assert_eq!(delay.note(101 * STRETCH_US, 60), 50);
    }

    #[test]
    fn what_another_process_says_overflows_nothing() {
        let at = netsim::Clock::new().now();
        for value in [i64::MIN, -1, 0, 1, i64::MAX] {
            for other in [i64::MIN, 0, i64::MAX] {
                let (before, current) = (Some(value), Some(other));
                let reported = Some((value, other, value));
                let state = StreamClockState { since_us: value, before, current, reported };
                let mut clock = StreamClock::resumed(at, state);
                for time_us in [0, i64::MIN, i64::MAX, 40_000] {
                    clock.arrived(at + Duration::from_millis(40), time_us);
                    clock.time_us(at + Duration::from_secs(3_600)).expect("something has arrived");
                }
                StreamClock::resumed(at, clock.state(at + Duration::from_millis(40)));
            }
        }
    }

    const SECOND: i64 = 1_000_000;

    /// A clock, and the time of a simulation in microseconds.
    struct World {
        clock: StreamClock,
        start: Instant,
        now_us: i64,
    }

    impl World {
        fn new() -> Self {
            let start = netsim::Clock::new().now();
            Self { clock: StreamClock::new(start), start, now_us: 0 }
        }

        fn now(&self) -> Instant {
            self.start + Duration::from_micros(self.now_us as u64)
        }

        fn arrived(&mut self, time_us: i64) {
            self.clock.arrived(self.now(), time_us);
        }

        /// What is reported, minus what is true if stream time `shift_us` was 0 at the beginning and runs
        /// `ppm` fast.
        fn off_us(&self, shift_us: i64, ppm: i64) -> i64 {
            let reported_us = self.clock.time_us(self.now()).unwrap();
            reported_us - (shift_us + self.now_us + self.now_us * ppm / 1_000_000)
        }
    }

    #[test]
    fn of_frames_that_come_at_once_the_last_tells_the_time() {
        let mut world = World::new();
        assert_eq!(world.clock.time_us(world.now()), None);
        (0..100).for_each(|frame| world.arrived(frame * 40_000));
        assert_eq!(world.clock.time_us(world.now()), Some(99 * 40_000));
        world.now_us = 10_000;
        assert_eq!(world.clock.time_us(world.now()), Some(99 * 40_000 + 10_000));
        world.now_us = 40_000;
        world.arrived(50 * 40_000);
        assert_eq!(world.off_us(99 * 40_000, 0), 0, "an old frame says nothing");
    }

    #[test]
    fn six_hours_of_drift_are_followed_slowly() {
        for ppm in [100, -100] {
            let mut world = World::new();
            let mut before_us = None;
            for second in 0..6 * 3_600 {
                world.now_us = second * SECOND;
                // One frame in ten comes at once, others up to 90 ms late.
                let late_us = second % 10 * 10_000;
                world.arrived(world.now_us + world.now_us * ppm / 1_000_000 - late_us);
                let off_us = world.off_us(0, ppm);
                assert!((-1_000..=3_000).contains(&off_us), "{off_us} us off after {second} s at {ppm} ppm");
                let moved_us = before_us.map_or(0, |before: i64| off_us - before);
                assert!(moved_us.abs() <= 620, "moved by {moved_us} us in a second");
                before_us = Some(off_us);
            }
        }
    }

    #[test]
    fn a_stall_is_no_delay_for_good_and_a_longer_way_is_followed() {
        let mut world = World::new();
        (0..50).for_each(|at| {
            world.now_us = at * SECOND / 10;
            world.arrived(world.now_us);
        });
        world.now_us = 12 * SECOND;
        (50..120).for_each(|at| world.arrived(at * SECOND / 10));
        assert!(world.off_us(0, 0).abs() <= 1_000);
        // From now on everything takes 200 ms more.
        for at in 120..3_000 {
            world.now_us = at * SECOND / 10;
            world.arrived(world.now_us - 200_000);
        }
        let off_us = world.off_us(0, 0);
        assert!((-145_000..=-100_000).contains(&off_us), "{off_us} us off after 288 s of 0.5 ms each");
    }

    #[test]
    fn times_that_jump_are_believed_if_they_stay() {
        for jump_us in [-3_600 * SECOND, -SECOND, SECOND, 3_600 * SECOND] {
            let mut world = World::new();
            for at in 0..400 {
                world.now_us = at * SECOND / 10;
                let shift_us = if at < 100 { 0 } else { jump_us };
                world.arrived(world.now_us + shift_us);
            }
            assert_eq!(world.off_us(jump_us, 0), 0, "jump of {jump_us} us");
        }
    }

    #[test]
    fn a_single_frame_from_the_future_is_not_believed() {
        let mut world = World::new();
        for at in 0..400 {
            world.now_us = at * SECOND / 10;
            world.arrived(world.now_us + if at == 200 { 9 * SECOND } else { 0 });
            assert_eq!(world.off_us(0, 0), 0, "at {at}");
        }
    }

    #[test]
    fn a_jump_after_a_silence_is_believed() {
        let mut world = World::new();
        world.arrived(0);
        world.now_us = 30 * SECOND;
        world.arrived(32 * SECOND);
        world.now_us += SECOND / 10;
        world.arrived(32 * SECOND + SECOND / 10);
        assert_eq!(world.off_us(2 * SECOND, 0), 0);
        world.arrived(i64::MAX);
        world.arrived(i64::MIN);
        world.arrived(i64::MIN);
    }
}
