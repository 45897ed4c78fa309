//! Which stream time it is now, by the times of frames as they arrive.
//!
//! The times are the publisher's, whose clock runs fast or slow, and frames arrive late: some at once (a GOP the bridge
//! begins with, a network that stalled). The frame with the least delay counts, and what was told moves towards it by
//! very little, because receivers fit a line through it. Both tracks share the result, so an error shifts sound and
//! picture alike.

use std::time::Instant;

use super::delay::LeastDelay;
use super::micros;

/// Stream time in terms of our clock.
#[derive(Debug)]
pub struct StreamClock {
    base: Instant,
    least: LeastDelay,
    told: Option<Told>,
    /// Delay of a frame that seems to come from the future, until a second one confirms it.
    suspect_us: Option<i64>,
}

/// What is told: `stream time = time since base - delay`.
#[derive(Debug, Clone, Copy)]
struct Told {
    delay_us: i64,
    /// When it began and when it last moved, in time since base.
    since_us: i64,
    moved_us: i64,
}

impl StreamClock {
    /// A clock of a stream of which nothing has arrived.
    pub fn new(now: Instant) -> Self {
        Self { base: now, least: LeastDelay::default(), told: None, suspect_us: None }
    }

    /// Another publisher begins: how late the frames of the last one were says nothing about its own.
    pub fn publisher_started(&mut self) {
        (self.least, self.suspect_us) = (LeastDelay::default(), None);
    }

    /// A frame with this decoding time arrived, in microseconds of stream time.
    pub fn arrived(&mut self, now: Instant, time_us: i64) {
        let at_us = micros(self.base, now);
        let delay_us = at_us.saturating_sub(time_us);
        let Some(told) = self.told else {
            self.least.note(at_us, delay_us);
            self.told = Some(Told { delay_us, since_us: at_us, moved_us: at_us });
            return;
        };
        let is_settled = at_us.saturating_sub(told.since_us) > SETTLING_US;
        let ahead_of = |reference_us: i64| reference_us.saturating_sub(delay_us);
        if is_settled && ahead_of(told.delay_us) > STEP_US {
            let is_confirmed = self.suspect_us.is_some_and(|suspect| ahead_of(suspect).abs() <= STEP_US);
            self.suspect_us = Some(delay_us);
            if !is_confirmed {
                return;
            }
        }
        self.suspect_us = self.suspect_us.filter(|suspect| *suspect == delay_us);
        let least_us = self.least.note(at_us, delay_us);
        self.told = Some(told.towards(least_us, at_us, is_settled));
    }

    /// Stream time at `now` in microseconds; `None` before the first frame.
    pub fn time_us(&self, now: Instant) -> Option<i64> {
        let told = self.told?;
        Some(micros(self.base, now).saturating_sub(told.delay_us))
    }

    /// Delay that is told, to see that it has stepped.
    pub(super) fn delay_us(&self) -> Option<i64> {
        self.told.map(|told| told.delay_us)
    }
}

impl Told {
    fn towards(self, least_us: i64, at_us: i64, is_settled: bool) -> Self {
        let off = least_us.saturating_sub(self.delay_us);
        if off.abs() > STEP_US || (!is_settled && off < 0) {
            return Self { delay_us: least_us, moved_us: at_us, ..self };
        }
        let slew_us = at_us.saturating_sub(self.moved_us) / SLEW_DIVISOR;
        if slew_us <= 0 {
            // Too short a time to move by a microsecond: it counts with the next.
            return self;
        }
        Self { delay_us: self.delay_us + off.clamp(-slew_us, slew_us), moved_us: at_us, ..self }
    }
}

/// For so long after the beginning a smaller delay is believed at once: the GOP a bridge begins with comes first.
const SETTLING_US: i64 = 500_000;
/// A difference beyond this is a new beginning.
const STEP_US: i64 = 500_000;
/// 500 ppm: several times what quartz drifts.
const SLEW_DIVISOR: i64 = 2_000;
