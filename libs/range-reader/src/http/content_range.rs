//! `Content-Range` (RFC 9110, 14.4), the field by which a response says which bytes it carries.
//!
//! ```text
//! bytes 0-499/1234     bytes 500..=999 of a whole of 1234
//! bytes 0-499/*        the same, of a whole of unknown length
//! bytes */1234         none (with 416), and the length of the whole
//! ```
//! Whether the range is one that was asked for is judged in `response.rs`.

use std::ops::Range;

/// What a `Content-Range` says. `range.start < range.end`, and `range.end <= total_bytes` where
/// both are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes carried; `None`: the request's range could not be satisfied.
    pub range: Option<Range<u64>>,
    /// Length of the whole.
    pub total_bytes: Option<u64>,
}

/// Reads the value of a `Content-Range` field; `None` for anything that does not follow the
/// grammar, for other units than bytes, for a range that is empty, or that ends behind the whole
/// (an invalid range, 14.4).
pub fn parse(value: &[u8]) -> Option<ContentRange> {
    let value = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    let (unit, rest) = value.split_once([' ', '\t'])?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (range, total) = rest.trim_start_matches([' ', '\t']).split_once('/')?;
    let total_bytes = if total == "*" { None } else { Some(number(total)?) };
    if range == "*" {
        // The length is all that such a value can say.
        return total_bytes.map(|total| ContentRange { range: None, total_bytes: Some(total) });
    }
    let (first, last) = range.split_once('-')?;
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let is_valid = start < end && total_bytes.is_none_or(|total| end <= total);
    is_valid.then_some(ContentRange { range: Some(start..end), total_bytes })
}

/// Digits only: `u64::from_str` would take a sign.
pub(crate) fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_follow_the_grammar_of_section_14_4() {
        type Parsed = Option<(Option<Range<u64>>, Option<u64>)>;
        let cases: &[(&str, Parsed)] = &[
            ("bytes 42-1233/1234", Some((Some(42..1234), Some(1234)))), // 14.4
            ("bytes 42-1233/*", Some((Some(42..1234), None))),          // 14.4
            ("bytes */1234", Some((None, Some(1234)))),                 // 14.4
            ("bytes */0", Some((None, Some(0)))),
            ("BYTES 0-0/1", Some((Some(0..1), Some(1)))), // units are case-insensitive (14.1)
            (" bytes  0-0/1 ", Some((Some(0..1), Some(1)))),
            ("bytes 0-18446744073709551614/*", Some((Some(0..u64::MAX), None))),
            ("bytes 0-18446744073709551615/*", None), // its end is out of range
            ("bytes 0-18446744073709551616/*", None),
            ("bytes 5-4/10", None),  // ends before it starts
            ("bytes 0-10/10", None), // ends behind the whole
            ("bytes 0-9/9", None),
            ("bytes */*", None),
            ("bytes 0-9", None),
            ("bytes 0-/10", None),
            ("bytes -5/10", None),
            ("bytes +0-9/10", None),
            ("bytes 0--9/10", None),
            ("bytes=0-9/10", None),
            ("items 0-9/10", None),
            ("0-9/10", None),
            ("bytes 0-9/10/11", None),
            ("bytes 0 - 9/10", None),
            ("", None),
        ];
        for (value, expected) in cases {
            let parsed = parse(value.as_bytes()).map(|range| (range.range, range.total_bytes));
            assert_eq!(&parsed, expected, "{value:?}");
        }
        assert_eq!(parse(b"bytes 0-9/1\xff"), None);
    }
}
