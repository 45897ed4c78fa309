//! Wall time from the caller's monotonic clock, and a publisher's clock in terms of ours.
//!
//! Receivers play audio and video in sync by the NTP times in sender reports (RFC 3550 section
//! 6.4.1). All tracks of a publisher are stamped by its one clock, so that clock is translated to
//! ours once for all of them; an error of the translation shifts both alike and does no harm. Each
//! packet carries the mapping ([`NtpRtpMapping`]), so whoever holds a packet can write a report.

use std::time::{Duration, Instant};

use rtp::rtcp::NtpTime;

use super::rtp_rewriter::rtp_units;

/// Wall time at one instant, from which any other follows. The same value serves all workers.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    /// Some instant.
    pub at: Instant,
    /// Wall time at that instant.
    pub ntp: NtpTime,
}

impl WallClock {
    /// Wall time at `now`. Wraps with NTP's era in 2036, as the wire does.
    pub fn ntp(&self, now: Instant) -> NtpTime {
        let bits = match now.checked_duration_since(self.at) {
            Some(later) => self.ntp.0.wrapping_add(ntp_units(later)),
            None => self.ntp.0.wrapping_sub(ntp_units(self.at - now)),
        };
        NtpTime(bits)
    }

    /// The instant of a wall time; `None` if this clock does not go back that far.
    pub fn instant(&self, ntp: NtpTime) -> Option<Instant> {
        instant_of(ntp, (self.ntp, self.at))
    }
}

/// An RTP timestamp and the instant it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NtpRtpMapping {
    /// When this was captured, by our clock.
    pub at: Instant,
    /// Its timestamp, in units of the clock rate.
    pub timestamp: u32,
}

impl NtpRtpMapping {
    /// The timestamp of `now`.
    pub fn timestamp_at(&self, now: Instant, clock_rate: u32) -> u32 {
        match now.checked_duration_since(self.at) {
            Some(later) => self.timestamp.wrapping_add(rtp_units(later, clock_rate)),
            None => self.timestamp.wrapping_sub(rtp_units(self.at - now, clock_rate)),
        }
    }
}

/// A publisher's clock in terms of ours.
///
/// The first report sets it. Later ones move it by half a millisecond at most, so that it follows a
/// clock that drifts while reports already sent to viewers still agree. RTP timestamps tell a
/// publisher clock that was set from a report that was delayed: nobody sets them, they go on by the
/// time that passed.
#[derive(Debug, Clone, Copy, Default)]
pub struct RemoteClock {
    known: Option<(NtpTime, Instant)>,
}

impl RemoteClock {
    /// The instant of `ntp` of the publisher's clock, in a report that has arrived at `now`.
    /// `continued` is the same instant by the last report of the same source and its timestamps.
    pub fn instant_of(&mut self, ntp: NtpTime, continued: Option<Instant>, now: Instant) -> Instant {
        let instant = match (self.translate(ntp), continued) {
            (Some(instant), Some(continued)) if distance_of(instant, continued) <= AGREE => Some(instant),
            (instant, continued) => {
                // One of the two has jumped: what is nearer to the arrival has not.
                let believed = [instant, continued].into_iter().flatten();
                believed.min_by_key(|at| distance_of(*at, now)).filter(|at| distance_of(*at, now) <= STEP)
            }
        };
        let instant = match instant {
            Some(instant) if instant < now => instant + (now - instant).min(SLEW),
            Some(instant) => instant.checked_sub((instant - now).min(SLEW)).unwrap_or(instant),
            None => now,
        };
        self.known = Some((ntp, instant));
        instant
    }

    /// A publisher whose clock is ours says what its reports would.
    pub(crate) fn set(&mut self, ntp: NtpTime, at: Instant) {
        self.known = Some((ntp, at));
    }

    /// Whether the publisher has reported.
    pub(crate) fn is_known(&self) -> bool {
        self.known.is_some()
    }

    fn translate(&self, ntp: NtpTime) -> Option<Instant> {
        instant_of(ntp, self.known?)
    }
}

/// The instant of a time of a clock that has said `reference` at an instant.
fn instant_of(ntp: NtpTime, (reference, at): (NtpTime, Instant)) -> Option<Instant> {
    let distance = ntp.0.wrapping_sub(reference.0).cast_signed();
    let length = NtpTime(distance.unsigned_abs()).since(NtpTime(0));
    if distance < 0 { at.checked_sub(length) } else { at.checked_add(length) }
}

fn ntp_units(duration: Duration) -> u64 {
    (duration.as_secs() << 32) | ((u64::from(duration.subsec_nanos()) << 32) / 1_000_000_000)
}

fn distance_of(one: Instant, other: Instant) -> Duration {
    one.saturating_duration_since(other).max(other.saturating_duration_since(one))
}

/// Between two reports, timestamps and wall clock of a publisher differ by less than this, unless
/// one was set.
const AGREE: Duration = Duration::from_millis(50);

/// Where they do not agree, a time further than this from the arrival of the report is not
/// believed.
const STEP: Duration = Duration::from_secs(2);

/// How far one report moves the clock. At one report a second this follows 500 ppm, several times
/// what quartz drifts; and the reports of two tracks differ by no more than this, which is
/// inaudible.
const SLEW: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1_000_000)
    }

    #[test]
    fn wall_time_goes_both_ways_and_wraps() {
        let at = start();
        let clock = WallClock { at, ntp: NtpTime(u64::MAX - (1 << 31)) };
        let second = Duration::from_secs(1);
        assert_eq!(clock.ntp(at + second).0, (1 << 31) - 1, "the era ends in 2036");
        assert_eq!(clock.ntp(at - second).0, u64::MAX - (3 << 31));
        assert_eq!(clock.ntp(at), clock.ntp);
        for instant in [at, at + 2 * second, at - second] {
            assert_eq!(clock.instant(clock.ntp(instant)), Some(instant));
        }
    }

    #[test]
    fn mappings_count_in_the_clock_of_the_track() {
        let at = start();
        let mapping = NtpRtpMapping { at, timestamp: u32::MAX - 8_999 };
        for (rate, half_a_second) in [(8_000, 4_000), (48_000, 24_000), (90_000, 45_000)] {
            let half = Duration::from_millis(500);
            assert_eq!(mapping.timestamp_at(at + half, rate), mapping.timestamp.wrapping_add(half_a_second));
            assert_eq!(mapping.timestamp_at(at - half, rate), mapping.timestamp.wrapping_sub(half_a_second));
        }
        let hour = Duration::from_secs(3_600 * 24);
        let expected = (3_600u64 * 24 * 90_000) as u32;
        assert_eq!(mapping.timestamp_at(at + hour, 90_000), mapping.timestamp.wrapping_add(expected));
    }

    #[test]
    fn late_reports_move_the_clock_by_very_little_and_a_new_clock_at_once() {
        let at = start();
        let seconds = |seconds: u64| NtpTime(seconds << 32);
        let mut clock = RemoteClock::default();
        assert!(!clock.is_known());
        assert_eq!(clock.instant_of(seconds(100), None, at), at);
        let second = Duration::from_secs(1);
        let late = clock.instant_of(seconds(101), None, at + second + Duration::from_millis(300));
        assert_eq!(late, at + second + SLEW);
        let early = clock.instant_of(seconds(102), None, at + 2 * second);
        assert_eq!(early, at + 2 * second, "and back");
        let later = at + 3 * second;
        assert_eq!(clock.instant_of(seconds(1_000_000), None, later), later, "it was set");
        assert_eq!(clock.instant_of(seconds(5), None, later + second), later + second, "and set back");
        assert_eq!(clock.instant_of(seconds(7), None, later + 3 * second), later + 3 * second);
    }

    #[test]
    fn timestamps_tell_a_clock_that_was_set_from_a_report_that_was_held_up() {
        let at = start();
        let second = Duration::from_secs(1);
        let ntp = |seconds: f64| NtpTime((seconds * 4_294_967_296.0) as u64);
        // What the wall clock says, and the timestamps, 5 s after the first report; when the report
        // arrives; what is believed.
        let rows = [
            (5.0, 5, 5, 5, "nothing happened"),
            (5.0, 5, 15, 5, "the network stalled"),
            (5.0, 5, 3, 5, "it was the first report that was held up"),
            (6.5, 5, 5, 5, "set forward"),
            (3.5, 5, 5, 5, "set back"),
            (9_000.0, 5, 5, 5, "by much"),
            (5.0, 9_000, 5, 5, "timestamps that jumped"),
            (5.0, 0, 5, 5, "timestamps that stood still"),
            (9_000.0, 0, 7, 7, "both: its arrival is all there is"),
        ];
        for (wall, continued, arrival, believed, remark) in rows {
            let mut clock = RemoteClock::default();
            clock.instant_of(ntp(100.0), None, at);
            let now = at + arrival * second;
            let instant = clock.instant_of(ntp(100.0 + wall), Some(at + continued * second), now);
            assert!(distance_of(instant, at + believed * second) <= SLEW, "{remark}");
        }
    }
}
