//! What a response says of the version of a file, and what is done with it (RFC 9110, 8.8 and
//! 13.1.5).
//!
//! A strong validator goes into `If-Range`, and the server itself responses with the whole file
//! when it has changed. A weak one must not (13.1.5), so whatever both responses say is compared as
//! well: entity tag, date, length. Servers that say nothing at all are held to the length.

use http::header::{self, HeaderMap, HeaderName};

use super::date;
use crate::source::{Pinned, Validator};

/// The validator of a response. Values that are no text, or absurdly long, count as absent.
pub(crate) fn of(headers: &HeaderMap) -> Validator {
    Validator { etag: text(headers, &header::ETAG), last_modified: text(headers, &header::LAST_MODIFIED) }
}

/// Whether the date in a response is a strong validator: the response was made at least a minute
/// after it, so that a second change within the same second is out of the question (RFC 9110,
/// 8.8.2.2, asks for one second and the same clock; a minute allows for clocks that differ).
pub(crate) fn date_is_strong(headers: &HeaderMap) -> bool {
    let seconds = |name| headers.get(name).and_then(|value| date::seconds(value.as_bytes()));
    match (seconds(header::LAST_MODIFIED), seconds(header::DATE)) {
        (Some(modified), Some(now)) => now >= modified.saturating_add(60),
        _ => false,
    }
}

/// The value for `If-Range`: a strong entity tag, else a strong date when there is no entity tag at
/// all (RFC 9110, 13.1.5), else nothing.
pub(crate) fn if_range(validator: &Validator, date_is_strong: bool) -> Option<&str> {
    match &validator.etag {
        Some(etag) => is_strong(etag).then_some(etag),
        None => validator.last_modified.as_deref().filter(|_| date_is_strong),
    }
}

/// What is known of the file after another response; `None` if it is another file, or may be one.
///
/// A version that is known has to be confirmed, by the entity tag or by the date: a response with
/// part of the file carries the entity tag that one with all of it would (RFC 9110, 15.3.7). Only a
/// date may be left out, and only where a condition was asked (`has_condition`), as it has been
/// compared by the server then.
pub(crate) fn merge(known: &Pinned, new: &Pinned, has_condition: bool) -> Option<Pinned> {
    let same_etag = both(&known.validator.etag, &new.validator.etag, |a, b| a == b);
    let same_date = both(&known.validator.last_modified, &new.validator.last_modified, |a, b| a == b);
    let same_length = both(&known.total_bytes, &new.total_bytes, |a, b| a == b);
    // With the same strong entity tag, a date that differs is that of another server of the same
    // farm.
    let strong = same_etag == Some(true) && known.validator.etag.as_deref().is_some_and(is_strong);
    let has_version = known.validator.etag.is_some() || known.validator.last_modified.is_some();
    let is_spared = has_condition && known.validator.etag.is_none();
    let is_confirmed = same_etag == Some(true) || same_date == Some(true) || is_spared;
    let differs = same_etag == Some(false)
        || same_length == Some(false)
        || (same_date == Some(false) && !strong)
        || (has_version && !is_confirmed);
    (!differs).then(|| Pinned {
        total_bytes: known.total_bytes.or(new.total_bytes),
        validator: Validator {
            etag: known.validator.etag.clone().or_else(|| new.validator.etag.clone()),
            last_modified: known
                .validator
                .last_modified
                .clone()
                .or_else(|| new.validator.last_modified.clone()),
        },
    })
}

/// A strong entity tag is a quoted string without `W/` (RFC 9110, 8.8.3).
fn is_strong(etag: &str) -> bool {
    etag.len() >= 2 && etag.starts_with('"') && etag.ends_with('"')
}

fn both<T>(a: &Option<T>, b: &Option<T>, same: impl Fn(&T, &T) -> bool) -> Option<bool> {
    Some(same(a.as_ref()?, b.as_ref()?))
}

/// Longest validator that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 10;

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (1..=TEXT_BYTES_MAX).contains(&value.len()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn validator(etag: Option<&str>, last_modified: Option<&str>) -> Validator {
        Validator { etag: etag.map(str::to_owned), last_modified: last_modified.map(str::to_owned) }
    }

    #[test]
    fn only_strong_validators_go_into_if_range() {
        let date = Some("Sat, 29 Oct 1994 19:43:31 GMT");
        let cases = [
            (validator(Some("\"a\""), None), true, Some("\"a\"")),
            (validator(Some("\"a\""), date), false, Some("\"a\"")),
            (validator(Some("W/\"a\""), None), true, None),
            (validator(Some("W/\"a\""), date), true, None), // a date must not replace an entity tag
            (validator(Some("a"), None), true, None),       // no entity tag by the grammar
            (validator(Some("\""), None), true, None),
            (validator(None, date), true, date),
            (validator(None, date), false, None),
            (validator(None, None), true, None),
        ];
        for (validator, date_is_strong, expected) in cases {
            assert_eq!(if_range(&validator, date_is_strong), expected, "{validator:?}");
        }
    }

    #[test]
    fn a_date_is_strong_a_minute_later() {
        let cases = [
            ("Sat, 29 Oct 1994 19:43:31 GMT", "Sat, 29 Oct 1994 19:44:31 GMT", true),
            ("Sat, 29 Oct 1994 19:43:31 GMT", "Sat, 29 Oct 1994 19:44:30 GMT", false),
            ("Sat, 29 Oct 1994 19:43:31 GMT", "yesterday", false),
            ("never", "Sat, 29 Oct 1994 19:44:30 GMT", false),
        ];
        for (modified, now, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::LAST_MODIFIED, HeaderValue::from_static(modified));
            headers.insert(header::DATE, HeaderValue::from_static(now));
            assert_eq!(date_is_strong(&headers), expected, "{modified} {now}");
        }
    }

    #[test]
    fn answers_agree_in_what_both_say() {
        let pinned = |total_bytes, etag, date| Pinned { total_bytes, validator: validator(etag, date) };
        let known = pinned(Some(10), Some("\"a\""), Some("monday"));
        let weak = pinned(Some(10), Some("W/\"a\""), Some("monday"));
        let (none, dated) = (pinned(Some(10), None, None), pinned(Some(10), None, Some("monday")));
        let cases = [
            (&known, known.clone(), true),
            (&known, pinned(Some(10), None, None), false), // nothing contradicts, and nothing confirms
            (&known, pinned(None, Some("\"a\""), None), true),
            (&known, pinned(None, None, Some("monday")), true),
            (&none, pinned(None, None, None), true),
            (&none, pinned(Some(11), None, None), false),
            (&dated, pinned(Some(10), None, None), false),
            (&dated, pinned(Some(10), None, Some("monday")), true),
            (&known, pinned(Some(11), Some("\"a\""), None), false),
            (&known, pinned(Some(10), Some("\"b\""), Some("monday")), false),
            (&known, pinned(Some(10), Some("W/\"a\""), Some("monday")), false), // strong has become weak
            (&known, pinned(Some(10), Some("\"a\""), Some("tuesday")), true),
            (&known, pinned(Some(10), None, Some("tuesday")), false),
            (&weak, weak.clone(), true),
            (&weak, pinned(Some(10), Some("W/\"a\""), Some("tuesday")), false),
        ];
        for (known, new, agrees) in cases {
            assert_eq!(merge(known, &new, false).is_some(), agrees, "{known:?} {new:?}");
        }
        // To a condition that holds, a response need not say the date again (RFC 9110, 15.3.7).
        assert_eq!(merge(&dated, &pinned(Some(10), None, None), true), Some(dated.clone()));
        assert_eq!(merge(&known, &pinned(Some(10), None, None), true), None);
        let merged = merge(&pinned(None, None, Some("monday")), &known, false).unwrap();
        assert_eq!(merged, known);
    }
}
