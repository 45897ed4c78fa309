//! Figures for a narrow column: three significant digits, a unit, and a mark for unknown values.

/// Shown for a value that is unknown or has no meaning in its row.
pub(crate) const UNKNOWN: &str = "-";

/// `0`, `999`, `1.23k`, `45.6M`, `789G`: powers of 1000.
pub(crate) fn scaled(value: u64) -> String {
    const UNITS: [&str; 6] = ["k", "M", "G", "T", "P", "E"];
    if value < 1000 {
        return value.to_string();
    }
    let mut scaled = value as f64 / 1000.0;
    let mut unit = 0;
    // From 999.5 on, three digits round to 1000.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{}{}", three_digits(scaled), UNITS[unit])
}

/// Bits per second with their unit, `12.3 Mbit/s`.
pub(crate) fn bits_per_second(value: u64) -> String {
    let text = scaled(value);
    match text.char_indices().next_back() {
        Some((at, unit)) if unit.is_alphabetic() => format!("{} {unit}bit/s", &text[..at]),
        _ => format!("{text} bit/s"),
    }
}

/// An integer with thousands separators: `10,000`.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Milliseconds or percent: `0.4`, `21.3`, `340`; [`UNKNOWN`] for NaN.
pub(crate) fn real(value: f32) -> String {
    match value {
        value if !value.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0".to_owned(),
        value if value.abs() < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A time span in its two largest units: `12s`, `3m05s`, `2h07m`, `5d03h`.
pub(crate) fn duration_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    if days > 0 {
        format!("{days}d{:02}h", hours % 24)
    } else if hours > 0 {
        format!("{hours}h{:02}m", minutes % 60)
    } else if minutes > 0 {
        format!("{minutes}m{:02}s", seconds % 60)
    } else {
        format!("{seconds}s")
    }
}

/// The time of day of a moment in milliseconds since 1970, UTC: `12:05:09`.
pub(crate) fn time_of_day(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000 % 86_400;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1.00k"),
            (9994, "9.99k"),
            (9995, "10.0k"), // not 10.00k
            (99_949, "99.9k"),
            (99_950, "100k"),
            (999_499, "999k"),
            (999_500, "1.00M"), // not 1000k
            (6_020_000_000, "6.02G"),
            (u64::MAX, "18.4E"),
        ];
        for (value, expected) in cases {
            assert_eq!(scaled(value), expected, "{value}");
        }
        assert_eq!(bits_per_second(999), "999 bit/s");
        assert_eq!(bits_per_second(1_234_567), "1.23 Mbit/s");
    }

    #[test]
    fn thousands_are_set_apart() {
        for (value, expected) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (10_000, "10,000"), (1_234_567, "1,234,567")]
        {
            assert_eq!(grouped(value), expected);
        }
    }

    #[test]
    fn what_is_not_a_number_is_not_shown_as_one() {
        let cases = [
            (0.0, "0"),
            (0.04, "0.0"),
            (21.25, "21.2"),
            (99.94, "99.9"),
            (99.96, "100"),
            (1234.5, "1234"),
            (f32::NAN, "-"),
            (f32::INFINITY, "-"),
        ];
        for (value, expected) in cases {
            assert_eq!(real(value), expected, "{value}");
        }
    }

    #[test]
    fn times_have_their_two_largest_units() {
        let cases = [
            (999, "0s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_000, "59m59s"),
            (7_620_000, "2h07m"),
            (86_400_000 * 5 + 3_600_000 * 3, "5d03h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(duration_ms(ms), expected, "{ms}");
        }
        assert_eq!(time_of_day(1_795_262_400_000 + 3_661_000), "13:01:01");
    }
}
