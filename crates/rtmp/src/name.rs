//! Application and stream names: what is accepted, and where their `?query` is.
//!
//! A stream is `app/name`. Names come from the network and end up in logs, URLs and JSON, later in file
//! paths, so what is odd is refused here, once, and not repaired.

use std::borrow::Cow;

use super::RtmpError;

/// Longest application or stream name, in bytes, without its query.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest query, in bytes. Longer ones are refused: a token is a few hundred bytes.
pub const QUERY_BYTES_MAX: usize = 4096;

/// Splits `name?query` and checks both; the query is empty when there is none.
///
/// A name is 1 to [`NAME_BYTES_MAX`] bytes of UTF-8 without control characters, `?`, `#` or backslash,
/// and its `/`-separated parts are not empty, `.` or `..`.
pub fn split_name(text: &str) -> Result<(&str, &str), RtmpError> {
    let (name, query) = text.split_once('?').unwrap_or((text, ""));
    if is_valid_name(name) && is_valid_query(query) { Ok((name, query)) } else { Err(RtmpError::NameInvalid) }
}

/// Splits and checks the `app` of a `connect` command.
///
/// As [`split_name`], but a slash at either end (`rtmp://host/app/` gives `app/`) and the default instance
/// (`app/_definst_`) of Flash Media Server are taken off first.
pub fn split_app(text: &str) -> Result<(&str, &str), RtmpError> {
    let (app, query) = text.split_once('?').unwrap_or((text, ""));
    let app = app.trim_end_matches('/');
    let app = app.strip_suffix("/_definst_").unwrap_or(app);
    let (app, _) = split_name(app.strip_prefix('/').unwrap_or(app))?;
    if is_valid_query(query) { Ok((app, query)) } else { Err(RtmpError::NameInvalid) }
}

/// Value of `key` in a `key=value&key=value` query, percent-decoded; the first one if repeated.
///
/// `None` when it is not there or does not decode to UTF-8.
pub fn query_value<'a>(query: &'a str, key: &str) -> Option<Cow<'a, str>> {
    let value = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key)?.1;
    percent_decode(value)
}

/// Whether `name` may be an application or stream name; see [`split_name`].
pub fn is_valid_name(name: &str) -> bool {
    // U+FFFD stands for bytes that were not UTF-8 (see `amf0::Value::String`).
    let is_bad = |c: char| c.is_control() || matches!(c, '\u{fffd}' | '?' | '#' | '\\');
    name.len() <= NAME_BYTES_MAX
        && !name.contains(is_bad)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

pub(super) fn is_valid_query(query: &str) -> bool {
    query.len() <= QUERY_BYTES_MAX && !query.contains(|c: char| c.is_control() || c == '\u{fffd}')
}

fn percent_decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = tail.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = tail;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_from_their_query() {
        for (text, expected) in [
            ("clock", Ok(("clock", ""))),
            ("clock?token=a", Ok(("clock", "token=a"))),
            ("clock?a=b?c", Ok(("clock", "a=b?c"))),
            ("camera/1", Ok(("camera/1", ""))),
            ("Übung", Ok(("Übung", ""))),
            ("", Err(RtmpError::NameInvalid)),
            ("?token=a", Err(RtmpError::NameInvalid)),
            ("/clock", Err(RtmpError::NameInvalid)),
            ("clock/", Err(RtmpError::NameInvalid)),
            ("a//b", Err(RtmpError::NameInvalid)),
            ("a/../b", Err(RtmpError::NameInvalid)),
            ("..", Err(RtmpError::NameInvalid)),
            (".", Err(RtmpError::NameInvalid)),
            ("a\\b", Err(RtmpError::NameInvalid)),
            ("a\0b", Err(RtmpError::NameInvalid)),
            ("a\nb", Err(RtmpError::NameInvalid)),
            ("a\u{fffd}", Err(RtmpError::NameInvalid)),
            ("a?b\0", Err(RtmpError::NameInvalid)),
        ] {
            assert_eq!(split_name(text), expected, "{text:?}");
        }
        assert!(split_name(&"x".repeat(NAME_BYTES_MAX)).is_ok());
        assert!(split_name(&"x".repeat(NAME_BYTES_MAX + 1)).is_err());
        assert!(split_name(&format!("x?{}", "y".repeat(QUERY_BYTES_MAX + 1))).is_err());
    }

    #[test]
    fn apps_lose_slashes_and_the_default_instance() {
        for (text, expected) in [
            ("live", Ok(("live", ""))),
            ("live/", Ok(("live", ""))),
            ("/live", Ok(("live", ""))),
            ("live/_definst_", Ok(("live", ""))),
            ("live/_definst_/", Ok(("live", ""))),
            ("a/b?token=c", Ok(("a/b", "token=c"))),
            ("live/?token=c", Ok(("live", "token=c"))),
            ("/", Err(RtmpError::NameInvalid)),
            ("../live", Err(RtmpError::NameInvalid)),
        ] {
            assert_eq!(split_app(text), expected, "{text:?}");
        }
    }

    #[test]
    fn query_values_are_percent_decoded() {
        let query = "a=1&token=x%2By%3D&bad=%zz&cut=%2&latin=%ff&a=2&empty=";
        for (key, expected) in [
            ("a", Some("1")),
            ("token", Some("x+y=")),
            ("bad", None),
            ("cut", None),
            ("latin", None),
            ("empty", Some("")),
            ("b", None),
        ] {
            assert_eq!(query_value(query, key).as_deref(), expected, "{key}");
        }
    }
}
