//! Dates of HTTP (RFC 9110, 5.6.7), only to compute the difference between two of them.

/// Seconds since 1970 of a date in the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`; `None` for
/// anything else. The two obsolete forms are left out: no server in use sends them.
pub(crate) fn seconds(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year) = (digits(words.next()?, 2)?, words.next()?, digits(words.next()?, 4)?);
    let mut clock = words.next()?.split(':');
    let (hour, minute, second) =
        (digits(clock.next()?, 2)?, digits(clock.next()?, 2)?, digits(clock.next()?, 2)?);
    if words.next() != Some("GMT") || words.next().is_some() || clock.next().is_some() {
        return None;
    }
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let is_valid = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_valid.then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, counted in years that begin in March,
/// so that the day which some years have more is the last one of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719_468 days lie between the first of March of the year 0 and 1970-01-01.
    year * 365 + leap_days + day_of_year - 719_468
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_counted_from_1970() {
        let cases = [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)), // RFC 9110, 5.6.7; value by date(1)
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Tue, 29 Feb 2000 23:59:59 GMT", Some(951_868_799)),
            ("Wed, 01 Mar 2000 00:00:00 GMT", Some(951_868_800)),
            ("Mon, 01 Mar 2100 00:00:00 GMT", Some(4_107_542_400)), // 2100 is no leap year
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun Nov  6 08:49:37 1994", None),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 6 Nov 1994 08:49:37 GMT", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }
}
