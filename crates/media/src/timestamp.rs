//! Times of a stream, exact in every clock that media uses.

use std::ops::{Add, AddAssign, Neg, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A time on a stream's timeline, or the distance between two.
///
/// One unit is 1/705,600,000 s, the smallest in which a millisecond, a tick of 90 kHz, and a sample at any
/// usual rate (8, 11.025, 16, 22.05, 24, 32, 44.1, 48, 96, 192 kHz) are all whole numbers, so that a time
/// survives any way through the server unchanged. 2^63 units are 414 years; arithmetic saturates there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Units per second.
    pub const UNITS_PER_SECOND: i64 = 705_600_000;
    /// The beginning of the timeline.
    pub const ZERO: Self = Self(0);

    /// So many units.
    pub const fn from_units(units: i64) -> Self {
        Self(units)
    }

    /// In units.
    pub const fn units(self) -> i64 {
        self.0
    }

    /// So many milliseconds; exact.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(Self::UNITS_PER_SECOND / 1_000))
    }

    /// In whole milliseconds, rounded down.
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(Self::UNITS_PER_SECOND / 1_000)
    }

    /// So many microseconds, to the nearest unit: back in microseconds it is the same number.
    pub fn from_micros(micros: i64) -> Self {
        Self(scale(micros, UNITS_PER_MICROS.0, UNITS_PER_MICROS.1))
    }

    /// In microseconds, to the nearest.
    pub fn micros(self) -> i64 {
        scale(self.0, UNITS_PER_MICROS.1, UNITS_PER_MICROS.0)
    }

    /// So many ticks of a clock, to the nearest unit; exact for the rates above. A rate of 0 is taken for 1.
    pub fn from_ticks(ticks: i64, ticks_per_second: u32) -> Self {
        let ticks_per_second = i64::from(ticks_per_second.max(1));
        match Self::UNITS_PER_SECOND % ticks_per_second {
            0 => Self(ticks.saturating_mul(Self::UNITS_PER_SECOND / ticks_per_second)),
            _ => Self(scale(ticks, Self::UNITS_PER_SECOND, ticks_per_second)),
        }
    }

    /// As a duration, to the nearest nanosecond, which gives the same time again; zero for times before the
    /// beginning.
    pub fn to_duration(self) -> Duration {
        Duration::from_nanos(self.ticks(1_000_000_000).max(0).cast_unsigned())
    }

    /// In ticks of a clock, to the nearest.
    pub fn ticks(self, ticks_per_second: u32) -> i64 {
        let ticks_per_second = i64::from(ticks_per_second.max(1));
        match Self::UNITS_PER_SECOND % ticks_per_second {
            0 => scale(self.0, 1, Self::UNITS_PER_SECOND / ticks_per_second),
            _ => scale(self.0, ticks_per_second, Self::UNITS_PER_SECOND),
        }
    }
}

/// Units and microseconds that are equally long.
const UNITS_PER_MICROS: (i64, i64) = (3_528, 5);

/// `value * numerator / denominator`, rounded to the nearest and upwards in the middle. `denominator` is
/// positive.
fn scale(value: i64, numerator: i64, denominator: i64) -> i64 {
    // A division of 128 bits costs as much as all else that is done to a frame's time.
    if let Some(product) = value.checked_mul(2 * numerator).and_then(|double| double.checked_add(denominator))
    {
        return product.div_euclid(2 * denominator);
    }
    let (product, denominator) = (i128::from(value) * i128::from(numerator), i128::from(denominator));
    let nearest = (2 * product + denominator).div_euclid(2 * denominator);
    nearest.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// To the nearest unit.
impl From<Duration> for Timestamp {
    fn from(duration: Duration) -> Self {
        Self::from_ticks(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX), 1_000_000_000)
    }
}

impl Add for Timestamp {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Timestamp {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Timestamp {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Timestamp {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNITS: i64 = Timestamp::UNITS_PER_SECOND;

    #[test]
    fn every_usual_clock_is_exact() {
        for rate in [
            1, 1_000, 8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 90_000,
            96_000, 176_400, 192_000,
        ] {
            assert_eq!(Timestamp::UNITS_PER_SECOND % i64::from(rate), 0, "{rate}");
        }
        // A frame of 30000/1001 Hz is a whole number of ticks of 30 kHz, and so of units.
        assert_eq!(Timestamp::from_ticks(1_001, 30_000).ticks(90_000), 3_003);
    }

    #[test]
    fn milliseconds_are_rounded_down_on_both_sides_of_zero() {
        assert_eq!(Timestamp::from_ticks(89, 90_000).millis(), 0);
        assert_eq!(Timestamp::from_ticks(-1, 90_000).millis(), -1);
        assert_eq!(Timestamp::from_millis(-5).millis(), -5);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let end = Timestamp::from_units(i64::MAX);
        assert_eq!(end + end, end);
        assert_eq!(-Timestamp::from_units(i64::MIN), end);
        assert_eq!(Timestamp::from_millis(i64::MAX), end);
        assert_eq!(Timestamp::from_ticks(i64::MAX, 1), end);
        assert_eq!(Timestamp::from_ticks(7, 0), Timestamp::from_ticks(7, 1));
        assert_eq!(end.ticks(u32::MAX), i64::MAX);
        assert_eq!(Timestamp::from_micros(i64::MIN).units(), i64::MIN);
    }

    #[test]
    fn a_time_is_the_same_again_as_a_duration() {
        for units in [0, 1, 2, 3, 470_400, 705_600_001, 86_400 * Timestamp::UNITS_PER_SECOND + 7] {
            let time = Timestamp::from_units(units);
            assert_eq!(Timestamp::from(time.to_duration()), time);
        }
        assert_eq!(Timestamp::from_millis(-1).to_duration(), Duration::ZERO);
        assert_eq!(Timestamp::from(Duration::MAX), Timestamp::from_ticks(i64::MAX, 1_000_000_000));
    }

    proptest! {
        #[test]
        fn conversions_are_those_of_exact_arithmetic(units in any::<i64>(), rate in 1_u32..=1_000_000) {
            let exact = |rate: i64| {
                let (double, per) = (2 * i128::from(units) * i128::from(rate), i128::from(UNITS));
                (double + per).div_euclid(2 * per) as i64
            };
            prop_assert_eq!(Timestamp::from_units(units).micros(), exact(1_000_000));
            for rate in [rate, 1_000, 48_000, 90_000] {
                prop_assert_eq!(Timestamp::from_units(units).ticks(rate), exact(rate.into()));
            }
        }

        #[test]
        fn ticks_come_back_unchanged(ticks in -(1_i64 << 40)..1 << 40, rate in 1_u32..=1_000_000) {
            // Times saturate at 414 years.
            prop_assume!(ticks.unsigned_abs() / u64::from(rate) < 400 * 365 * 86_400);
            prop_assert_eq!(Timestamp::from_ticks(ticks, rate).ticks(rate), ticks);
        }
    }
}
