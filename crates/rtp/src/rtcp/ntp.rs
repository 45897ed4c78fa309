//! NTP time as RTCP carries it (RFC 3550 section 4): seconds since 1900, 32 bits before the point
//! and 32 after.
//!
//! The seconds wrap in 2036; differences are taken modulo 2^64 and 2^32, so that nothing happens then.

use std::time::Duration;

/// NTP time, seconds since 1900 in units of 2^-32 s; wraps in 2036.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NtpTime(pub u64);

/// The middle 32 bits of an NTP time, in units of 2^-16 s; wraps after 18 hours. Zero stands for "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NtpMiddle(pub u32);

impl NtpTime {
    /// The time that is `since_unix_epoch` after 1970-01-01T00:00:00Z.
    pub fn from_unix(since_unix_epoch: Duration) -> Self {
        let seconds = since_unix_epoch.as_secs().wrapping_add(UNIX_EPOCH_SECONDS);
        let fraction = (u64::from(since_unix_epoch.subsec_nanos()) << 32) / 1_000_000_000;
        Self(seconds << 32 | fraction)
    }

    /// Its middle 32 bits, as LSR has them (RFC 3550 section 6.4.1).
    pub fn middle(self) -> NtpMiddle {
        NtpMiddle((self.0 >> 16) as u32)
    }

    /// How long `earlier` was before it; zero if it was not, by less than half a cycle of 136 years.
    pub fn since(self, earlier: Self) -> Duration {
        let difference = self.0.wrapping_sub(earlier.0);
        if difference.cast_signed() < 0 {
            return Duration::ZERO;
        }
        let nanos = ((difference & 0xffff_ffff) * 1_000_000_000) >> 32;
        Duration::new(difference >> 32, nanos as u32)
    }
}

impl NtpMiddle {
    /// Round trip time when a report with `last_report` and `delay` arrives at this time (RFC 3550
    /// section 6.4.1).
    ///
    /// `None` without a last report, and for figures that would make it negative or longer than half a cycle.
    pub fn round_trip(self, last_report: Self, delay: Self) -> Option<Duration> {
        if last_report.0 == 0 {
            return None;
        }
        let units = self.0.wrapping_sub(last_report.0).wrapping_sub(delay.0);
        (units.cast_signed() >= 0).then(|| Self(units).duration())
    }

    /// A duration in units of 2^-16 s, at most 18 hours.
    pub fn from_duration(duration: Duration) -> Self {
        let units = (duration.as_nanos() << 16) / 1_000_000_000;
        Self(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        Duration::from_nanos((u64::from(self.0) * 1_000_000_000) >> 16)
    }
}

/// Seconds from 1900 to 1970.
const UNIX_EPOCH_SECONDS: u64 = 2_208_988_800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unix_time_becomes_ntp_time_across_its_wrap() {
        assert_eq!(NtpTime::from_unix(Duration::ZERO), NtpTime(0x83aa_7e80_0000_0000));
        assert_eq!(NtpTime::from_unix(Duration::from_millis(500)).0 as u32, 0x8000_0000);
        // 2036-02-07T06:28:16Z.
        let wrap = Duration::from_secs(2_085_978_496);
        assert_eq!(NtpTime::from_unix(wrap), NtpTime(0));
        let before = NtpTime::from_unix(wrap - Duration::from_millis(250));
        assert_eq!(before.0, 0xffff_ffff_c000_0000);
        assert_eq!(NtpTime::from_unix(wrap).since(before), Duration::from_millis(250));
        assert_eq!(before.since(NtpTime::from_unix(wrap)), Duration::ZERO);
    }

    /// The example of RFC 3550 section 6.4.1, figure 2.
    #[test]
    fn round_trip_is_that_of_the_example_in_the_rfc() {
        let arrived = NtpMiddle(0xb710_8000); // 46864.500 s
        let delay = NtpMiddle(0x0005_4000); // 5.250 s
        let last = NtpMiddle(0xb705_2000); // 46853.125 s
        assert_eq!(arrived.round_trip(last, delay), Some(Duration::from_millis(6125)));
        assert_eq!(arrived.round_trip(NtpMiddle(0), delay), None, "no report yet");
        assert_eq!(arrived.round_trip(arrived, delay), None, "negative");
        let wrapped = NtpMiddle(0x0000_8000).round_trip(NtpMiddle(0xffff_8000), NtpMiddle(0));
        assert_eq!(wrapped, Some(Duration::from_secs(1)), "the middle wraps");
    }

    #[test]
    fn durations_are_capped() {
        assert_eq!(NtpMiddle::from_duration(Duration::from_millis(5250)), NtpMiddle(0x0005_4000));
        assert_eq!(NtpMiddle::from_duration(Duration::MAX), NtpMiddle(u32::MAX));
        assert_eq!(NtpMiddle(0x8000).duration(), Duration::from_millis(500));
    }
}
