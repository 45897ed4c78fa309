//! Moments as RFC 3339 text (written in UTC and whole seconds, read in any form that has an offset), and CPU time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use media::calendar::date;
use nix::time::{ClockId, clock_gettime};

/// The time of day, for people: it can jump, so nothing is measured with it.
#[expect(clippy::disallowed_methods, reason = "the only reading of it outside workers")]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// The time of day since 1970.
pub fn since_1970() -> Duration {
    now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// CPU time of the calling thread so far; always zero where the system has no such clock.
pub fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// `2026-11-21T12:00:00Z`. Moments before 1970 become 1970.
pub fn rfc3339(moment: SystemTime) -> String {
    let seconds = moment.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (day, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(day);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// Reads a date and time with its offset from UTC (RFC 3339 section 5.6), such as `2026-11-21T12:00:00+01:00`.
///
/// Not before 1970 nor after 9999. Fractions of a second are read to the nanosecond; a leap second counts as the one
/// after it.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let bytes = text.as_bytes();
    let separated = bytes.len() >= 20
        && text.is_ascii()
        && [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")]
            .iter()
            .all(|(at, allowed)| allowed.as_bytes().contains(&bytes[*at]));
    if !separated {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
    let (hour, minute, second) = (digits(&text[11..13])?, digits(&text[14..16])?, digits(&text[17..19])?);
    let (nanoseconds, ahead_seconds) = fraction_and_offset(&text[19..])?;
    if !(1970..=9999).contains(&year) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = day_number(year, month, day)? * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = i64::try_from(seconds).ok()? - ahead_seconds;
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
}

/// What follows the seconds: `.5Z`, `+01:00`. Nanoseconds, and by how many seconds that clock is ahead of UTC.
fn fraction_and_offset(text: &str) -> Option<(u32, i64)> {
    let (fraction, offset) = match text.strip_prefix('.') {
        None => ("0", text),
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
    };
    let first_nine = &fraction[..fraction.len().min(9)];
    let nanoseconds = digits(first_nine)? * 10_u64.pow(9 - first_nine.len() as u32);
    let ahead_seconds = match offset.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign @ ("+" | "-"), rest) => {
            let (hours, minutes) = rest.split_once(':').filter(|_| rest.len() == 5)?;
            let (hours, minutes) = (digits(hours)?, digits(minutes)?);
            let seconds = i64::try_from(hours * 3_600 + minutes * 60).ok()?;
            (hours < 24 && minutes < 60).then_some(if sign == "-" { -seconds } else { seconds })?
        }
        _ => return None,
    };
    Some((u32::try_from(nanoseconds).ok()?, ahead_seconds))
}

/// A number of nothing but digits, at least one.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, which must exist.
fn day_number(year: u64, month: u64, day: u64) -> Option<u64> {
    // The inverse of `date`: years begin in March.
    let (years, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * month_from_march + 2) / 5 + day.checked_sub(1)?;
    let days = (years * 365 + years / 4 - years / 100 + years / 400 + of_year).checked_sub(719_468)?;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"), // a century with a leap day
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_795_262_400, "2026-11-21T12:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"), // a century without
        ];
        for (seconds, expected) in cases {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn what_is_written_is_read_again_on_every_day() {
        for day in 0..60_000_u64 {
            let moment = UNIX_EPOCH + Duration::from_secs(day * 86_400 + day % 86_400);
            assert_eq!(parse_rfc3339(&rfc3339(moment)), Some(moment), "day {day}");
        }
    }

    #[test]
    fn moments_are_read_with_fractions_and_offsets_or_not_at_all() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("1970-01-01T01:00:00+01:00", Some((0, 0))),
            ("1969-12-31T23:00:00-01:00", None), // the year as written counts
            ("1970-01-01 00:00:01.5z", Some((1, 500_000_000))),
            ("1970-01-01t00:00:01.0000000019Z", Some((1, 1))),
            ("2016-12-31T23:59:60Z", Some((1_483_228_800, 0))), // a leap second
            ("2000-02-29T00:00:00Z", Some((951_782_400, 0))),
            ("2100-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-00-01T00:00:00Z", None),
            ("2026-01-00T00:00:00Z", None),
            ("2026-01-01T24:00:00Z", None),
            ("2026-01-01T00:00:00", None), // whose clock?
            ("2026-01-01T00:00:00+1:00", None),
            ("2026-01-01T00:00:00+01:60", None),
            ("2026-01-01T00:00:00.Z", None),
            ("2026-01-01T00:00:00.5", None),
            ("2026-01-01", None),
            ("20260101T000000Z....", None),
            ("1970-01-01T00:00:00+01:00", None), // before 1970
            ("\u{e4}\u{e4}26-01-01T00:00:00Z", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(seconds, ns)| UNIX_EPOCH + Duration::new(seconds, ns));
            assert_eq!(parse_rfc3339(text), expected, "{text}");
        }
    }
}
