//! What a response to a request for ranges is worth: a pure function from its head to what is done
//! with it.
//!
//! A server may ignore ranges (200), give fewer bytes than asked (any 206), several ranges in one
//! (RFC 9110, 15.3.7.2), or refuse (416 and others). All of that is fine as long as it says so
//! truthfully; what contradicts the request, the answers before, or itself, is an error and never
//! bytes.

use std::ops::Range;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};

use super::content_range::{self, ContentRange};
use super::{date, multipart, validator};
use crate::error::{Permanent, SourceError};
use crate::ranges::ByteRange;
use crate::source::Pinned;

/// Bytes between two ranges that a server may well join (RFC 9110, 15.3.7.2: gaps smaller than a
/// part's head).
const JOINED_GAP_BYTES_MAX: u64 = 256;

/// What was asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// In ascending order; `None`: for the whole file, without a `Range` field.
    pub(crate) ranges: Option<&'a [ByteRange]>,
    /// What is known of the file.
    pub(crate) pinned: Option<&'a Pinned>,
    /// There was an `If-Range`.
    pub(crate) has_condition: bool,
}

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Read it.
    Read(Reading),
    /// The server cannot do several ranges: ask for the first one alone.
    AskFirst,
    /// The server cannot do this range, though it should: ask for the whole file.
    AskWhole,
    /// It is no use.
    Fail(SourceError),
}

/// A response that is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) pinned: Pinned,
    pub(crate) is_whole_file: bool,
    /// Whether it supports several ranges in one request.
    pub(crate) takes_several_ranges: Option<bool>,
    pub(crate) layout: Layout,
}

/// What the body is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// This range. `end: None`: as long as it is.
    One(ByteRange),
    /// Parts separated by this boundary.
    Several(Vec<u8>),
}

/// Judges the head of a response.
pub(crate) fn judge(asked: Asked<'_>, status: u16, headers: &HeaderMap) -> Verdict {
    let several = asked.ranges.is_some_and(|ranges| ranges.len() > 1);
    let result = match status {
        200 | 206 if is_encoded(headers) => lying("it is compressed, which was not asked for"),
        // Some servers say 200 and send a part all the same.
        200 if !claims_part(asked, headers) => whole(asked, headers, several),
        200 | 206 => partial(asked, headers),
        416 => return unsatisfiable(asked, headers, several),
        400 | 413 | 414 | 431 | 501 if several => return Verdict::AskFirst,
        100..=199 | 204 | 205 | 304 => lying("a status that does not belong to the request"),
        407 => {
            Err(SourceError::Permanent(Permanent::Setup("the proxy asks for credentials (407)".to_owned())))
        }
        408 | 425 | 429 | 500 | 502..=504 | 520..=599 => Err(SourceError::Transient {
            reason: format!("the server answers {status}"),
            retry_after: retry_after(headers),
        }),
        _ => Err(SourceError::Permanent(Permanent::Status(status))),
    };
    result.map_or_else(Verdict::Fail, Verdict::Read)
}

/// 200: the whole file, whatever was asked.
fn whole(asked: Asked<'_>, headers: &HeaderMap, several: bool) -> Result<Reading, SourceError> {
    let total_bytes = content_length(headers)?;
    let new = Pinned { total_bytes, validator: validator::of(headers) };
    let pinned = agreed(asked, &new)?;
    // To a condition that holds, the response would have been 206, or 200 from a server that
    // ignores `Range`; that one says the same of the file as before. One that says nothing cannot
    // be reported from a file that has changed.
    let says_version = new.validator.etag.is_some() || new.validator.last_modified.is_some();
    if asked.has_condition && !says_version {
        return Err(SourceError::Changed);
    }
    let layout = Layout::One(ByteRange { start: 0, end: pinned.total_bytes });
    Ok(Reading { pinned, is_whole_file: true, takes_several_ranges: several.then_some(false), layout })
}

/// 206: one range, or several.
fn partial(asked: Asked<'_>, headers: &HeaderMap) -> Result<Reading, SourceError> {
    let Some(ranges) = asked.ranges else { return lying("206, though no range was asked for") };
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes()).unwrap_or_default();
    let new = Pinned { total_bytes: None, validator: validator::of(headers) };
    let boundary = multipart::boundary(content_type);
    let Some(value) = single(headers, &header::CONTENT_RANGE)? else {
        let Some(boundary) = boundary else { return lying("206 without a range") };
        let pinned = agreed(asked, &new)?;
        let takes_several_ranges = (ranges.len() > 1).then_some(true);
        let layout = Layout::Several(boundary);
        return Ok(Reading { pinned, is_whole_file: false, takes_several_ranges, layout });
    };
    if boundary.is_some() {
        return lying("it is one range and several at once");
    }
    let Some(ContentRange { range: Some(range), total_bytes }) = content_range::parse(value) else {
        return lying("its Content-Range cannot be read");
    };
    let pinned = agreed(asked, &Pinned { total_bytes, ..new })?;
    if content_length(headers)?.is_some_and(|length| length != range.end - range.start) {
        return lying("its length and its range disagree");
    }
    check_range(ranges, &range, pinned.total_bytes)?;
    let is_whole_file = ranges.len() > 1 && range.start == 0 && pinned.total_bytes == Some(range.end);
    let takes_several_ranges = one_for_several(ranges, &range, pinned.total_bytes);
    let layout = Layout::One(range.into());
    Ok(Reading { pinned, is_whole_file, takes_several_ranges, layout })
}

/// Whether a range may be in a response to a request for `ranges`, alone or as a part.
///
/// To one range, the response starts where it was asked to and may end earlier. To several, it has
/// something of them and may join what lies near; it does not reach out of what was asked, except
/// for the whole file.
pub(crate) fn check_range(
    ranges: &[ByteRange],
    range: &Range<u64>,
    total_bytes: Option<u64>,
) -> Result<(), SourceError> {
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return lying("a range, though none was asked for");
    };
    let is_within = range.start >= first.start && last.end.is_none_or(|end| range.end <= end);
    let is_whole = range.start == 0 && total_bytes == Some(range.end);
    let is_welcome = if ranges.len() == 1 {
        is_within && range.start == first.start
    } else {
        let meets =
            |asked: &ByteRange| range.start < asked.end.unwrap_or(u64::MAX) && asked.start < range.end;
        is_whole || (is_within && ranges.iter().any(meets))
    };
    if is_welcome { Ok(()) } else { lying("it has other bytes than those asked for") }
}

/// What a single range in response to several says: a server that joins what lies near may still do
/// several.
fn one_for_several(ranges: &[ByteRange], range: &Range<u64>, total_bytes: Option<u64>) -> Option<bool> {
    let total = total_bytes.unwrap_or(u64::MAX);
    let mut expected: Option<Range<u64>> = None;
    for asked in ranges.iter().filter(|asked| asked.start < total) {
        let end = asked.end.unwrap_or(u64::MAX).min(total);
        match &mut expected {
            None => expected = Some(asked.start..end),
            Some(joined) if asked.start - joined.end <= JOINED_GAP_BYTES_MAX => joined.end = end,
            Some(_) => return Some(false),
        }
    }
    if ranges.len() == 1 || expected.as_ref() == Some(range) { None } else { Some(false) }
}

/// 416.
fn unsatisfiable(asked: Asked<'_>, headers: &HeaderMap, several: bool) -> Verdict {
    let total_bytes = match single(headers, &header::CONTENT_RANGE) {
        Ok(value) => value.and_then(content_range::parse).filter(|range| range.range.is_none()),
        Err(error) => return Verdict::Fail(error),
    }
    .and_then(|range| range.total_bytes);
    let known = asked.pinned.and_then(|pinned| pinned.total_bytes);
    if let (Some(known), Some(total)) = (known, total_bytes)
        && known != total
    {
        return Verdict::Fail(SourceError::Changed);
    }
    let Some(first) = asked.ranges.and_then(<[ByteRange]>::first) else {
        return Verdict::Fail(SourceError::Permanent(Permanent::Status(416)));
    };
    match total_bytes.or(known) {
        Some(total) if first.start >= total => {
            Verdict::Fail(SourceError::Unsatisfiable { total_bytes: Some(total) })
        }
        _ if several => Verdict::AskFirst,
        _ => Verdict::AskWhole,
    }
}

/// What is known with this response, if it is of the same file.
fn agreed(asked: Asked<'_>, new: &Pinned) -> Result<Pinned, SourceError> {
    match asked.pinned {
        None => Ok(new.clone()),
        Some(known) => validator::merge(known, new, asked.has_condition).ok_or(SourceError::Changed),
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which is compared with the response's own,
/// so that no clock of this side takes part.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.as_bytes();
    if let Some(seconds) = std::str::from_utf8(value).ok().and_then(|text| content_range::number(text.trim()))
    {
        return Some(Duration::from_secs(seconds));
    }
    let (then, now) = (date::seconds(value)?, date::seconds(headers.get(header::DATE)?.as_bytes())?);
    Some(Duration::from_secs(u64::try_from(then - now).unwrap_or(0)))
}

/// Whether the server has answered with a range, or says that it takes them (RFC 9110, 14.3).
pub(crate) fn takes_ranges(status: u16, headers: &HeaderMap) -> bool {
    let mut units = headers
        .get_all(header::ACCEPT_RANGES)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    status == 206 || units.any(|unit| unit.trim_ascii().eq_ignore_ascii_case(b"bytes"))
}

/// Whether a response of 200 says that it is a part.
fn claims_part(asked: Asked<'_>, headers: &HeaderMap) -> bool {
    let is_multipart = headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| multipart::boundary(value.as_bytes()).is_some());
    asked.ranges.is_some() && (is_multipart || headers.contains_key(header::CONTENT_RANGE))
}

/// Whether the bytes are other than those of the file: by `Content-Encoding`, or by a transfer
/// coding (`Transfer-Encoding`) other than `chunked`, which HTTP removes.
fn is_encoded(headers: &HeaderMap) -> bool {
    let other_than = |name, plain: &'static [u8]| {
        let values =
            headers.get_all(name).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        values.map(<[u8]>::trim_ascii).any(move |coding| !coding.eq_ignore_ascii_case(plain))
    };
    other_than(header::CONTENT_ENCODING, b"identity") || other_than(header::TRANSFER_ENCODING, b"chunked")
}

/// `Content-Length`, if there is one that a number can be made of.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, SourceError> {
    let Some(value) = single(headers, &header::CONTENT_LENGTH)? else { return Ok(None) };
    match std::str::from_utf8(value).ok().and_then(content_range::number) {
        Some(length) => Ok(Some(length)),
        None => lying("its length cannot be read"),
    }
}

/// The value of a field that may stand once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, SourceError> {
    let mut values = headers.get_all(name).iter().map(|value| value.as_bytes());
    let first = values.next();
    if values.any(|value| Some(value) != first) {
        return lying("it says its length or range twice");
    }
    Ok(first)
}

pub(crate) fn lying<T>(how: &'static str) -> Result<T, SourceError> {
    Err(SourceError::Permanent(Permanent::Lying(how)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const ETAG: &str = "\"a\"";

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn ranges(ranges: &[Range<u64>]) -> Vec<ByteRange> {
        ranges.iter().cloned().map(ByteRange::from).collect()
    }

    /// What a verdict is, in a word.
    fn word(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Read(Reading {
                layout: Layout::One(range),
                takes_several_ranges,
                is_whole_file,
                ..
            }) => {
                let end = range.end.map_or(String::new(), |end| end.to_string());
                let several = match takes_several_ranges {
                    Some(true) => " several",
                    Some(false) => " not several",
                    None => "",
                };
                format!("{}..{end}{several}{}", range.start, if *is_whole_file { " whole" } else { "" })
            }
            Verdict::Read(Reading { layout: Layout::Several(boundary), .. }) => {
                format!("parts by {}", String::from_utf8_lossy(boundary))
            }
            Verdict::AskFirst => "ask first".to_owned(),
            Verdict::AskWhole => "ask whole".to_owned(),
            Verdict::Fail(SourceError::Permanent(Permanent::Lying(_))) => "lying".to_owned(),
            Verdict::Fail(SourceError::Permanent(Permanent::Status(status))) => format!("status {status}"),
            Verdict::Fail(SourceError::Permanent(_)) => "permanent".to_owned(),
            Verdict::Fail(SourceError::Transient { retry_after, .. }) => match retry_after {
                Some(after) => format!("again in {} s", after.as_secs()),
                None => "again".to_owned(),
            },
            Verdict::Fail(SourceError::Changed) => "changed".to_owned(),
            Verdict::Fail(SourceError::Unsatisfiable { total_bytes }) => format!("behind {total_bytes:?}"),
        }
    }

    type Row<'a> = (u16, &'a [(&'static str, &'a str)], &'a str);

    fn check(asked: Asked<'_>, rows: &[Row<'_>]) {
        for (status, head, expected) in rows {
            let verdict = judge(asked, *status, &fields(head));
            assert_eq!(word(&verdict), *expected, "{asked:?} {status} {head:?} {verdict:?}");
        }
    }

    #[test]
    fn the_first_answer_to_one_range_tells_the_file() {
        let open = [ByteRange { start: 0, end: None }];
        let asked = Asked { ranges: Some(&open), pinned: None, has_condition: false };
        check(
            asked,
            &[
                (206, &[("content-range", "bytes 0-9/10"), ("content-length", "10")], "0..10"),
                (206, &[("content-range", "bytes 0-4/10")], "0..5"), // fewer than asked may come
                (206, &[("content-range", "bytes 0-4/*")], "0..5"),
                (206, &[("content-range", "bytes 1-4/10")], "lying"),
                (206, &[("content-range", "bytes 0-4/10"), ("content-length", "4")], "lying"),
                (206, &[("content-range", "bytes 0-4/10"), ("content-range", "bytes 0-5/10")], "lying"),
                (206, &[("content-range", "bytes 0-4/10"), ("content-range", "bytes 0-4/10")], "0..5"),
                (
                    206,
                    &[
                        ("content-range", "bytes 0-4/10"),
                        ("content-type", "multipart/byteranges; boundary=b"),
                    ],
                    "lying",
                ),
                (206, &[("content-type", "multipart/byteranges; boundary=b")], "parts by b"),
                (206, &[("content-type", "multipart/byteranges")], "lying"),
                (206, &[], "lying"),
                (206, &[("content-range", "bytes */10")], "lying"),
                (200, &[("content-length", "10")], "0..10 whole"),
                (200, &[], "0.. whole"),
                (200, &[("content-length", "ten")], "lying"),
                (200, &[("content-length", "5"), ("content-range", "bytes 0-4/10")], "0..5"), // a part in disguise
                (200, &[("content-length", "10"), ("content-range", "bytes 0-4/10")], "lying"),
                (200, &[("content-encoding", "gzip")], "lying"),
                (200, &[("content-encoding", "identity, br")], "lying"),
                (200, &[("content-encoding", "Identity")], "0.. whole"),
                (200, &[("transfer-encoding", "gzip, chunked")], "lying"),
                (200, &[("transfer-encoding", "Chunked")], "0.. whole"),
                (416, &[("content-range", "bytes */0")], "behind Some(0)"),
                (416, &[("content-range", "bytes */10")], "ask whole"),
                (416, &[], "ask whole"),
                (404, &[], "status 404"),
                (302, &[], "status 302"),
                (304, &[], "lying"),
                (204, &[], "lying"),
                (407, &[], "permanent"),
                (503, &[], "again"),
                (503, &[("retry-after", "7")], "again in 7 s"),
                (503, &[("retry-after", "-7")], "again"),
                (
                    429,
                    &[
                        ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
                        ("date", "Sun, 06 Nov 1994 08:49:07 GMT"),
                    ],
                    "again in 30 s",
                ),
                (501, &[], "status 501"),
            ],
        );
    }

    #[test]
    fn later_answers_must_agree() {
        let asked_for = [ByteRange::from(5..8)];
        let known = Pinned {
            total_bytes: Some(10),
            validator: crate::source::Validator { etag: Some(ETAG.to_owned()), last_modified: None },
        };
        let asked = Asked { ranges: Some(&asked_for), pinned: Some(&known), has_condition: true };
        let part = ("content-range", "bytes 5-7/10");
        check(
            asked,
            &[
                (206, &[part, ("etag", ETAG)], "5..8"),
                (206, &[part], "changed"), // no version, although it was known
                (206, &[part, ("etag", "\"b\"")], "changed"),
                (206, &[("content-range", "bytes 5-7/11"), ("etag", ETAG)], "changed"),
                (206, &[("content-range", "bytes 5-8/10"), ("etag", ETAG)], "lying"),
                (206, &[("content-range", "bytes 4-7/10"), ("etag", ETAG)], "lying"),
                (200, &[("content-length", "10"), ("etag", ETAG)], "0..10 whole"),
                (200, &[("etag", ETAG)], "0..10 whole"),
                (200, &[("content-length", "10"), ("etag", "\"b\"")], "changed"),
                (200, &[("content-length", "10")], "changed"), // the condition has failed, as far as can be reported
                (416, &[("content-range", "bytes */4")], "changed"),
                (416, &[("content-range", "bytes */10")], "ask whole"),
                (416, &[], "ask whole"),
            ],
        );
        check(Asked { has_condition: false, ..asked }, &[(200, &[("content-length", "10")], "changed")]);
        let behind = [ByteRange::from(10..11)];
        let asked = Asked { ranges: Some(&behind), ..asked };
        check(
            asked,
            &[(416, &[], "behind Some(10)"), (416, &[("content-range", "bytes */10")], "behind Some(10)")],
        );
        let whole = Asked { ranges: None, pinned: None, has_condition: false };
        check(whole, &[(200, &[], "0.. whole"), (206, &[part], "lying"), (416, &[], "status 416")]);
    }

    #[test]
    fn answers_to_several_ranges_tell_whether_they_can_be_asked_for() {
        let far = ranges(&[5..8, 2_000..2_100, 5_000..6_000]);
        let asked = Asked { ranges: Some(&far), pinned: None, has_condition: false };
        check(
            asked,
            &[
                (206, &[("content-type", "multipart/byteranges; boundary=\"b c\"")], "parts by b c"),
                (206, &[("content-range", "bytes 5-7/9000")], "5..8 not several"),
                (206, &[("content-range", "bytes 5000-5999/9000")], "5000..6000 not several"),
                (206, &[("content-range", "bytes 5-5999/9000")], "5..6000 not several"),
                (206, &[("content-range", "bytes 0-8999/9000")], "0..9000 not several whole"),
                (206, &[("content-range", "bytes 4-5999/9000")], "lying"),
                (206, &[("content-range", "bytes 100-199/9000")], "lying"),
                (206, &[("content-range", "bytes 5-7/8")], "5..8"), // beyond the end of the file
                (200, &[("content-length", "9000")], "0..9000 not several whole"),
                (416, &[], "ask first"),
                (416, &[("content-range", "bytes */5")], "behind Some(5)"),
                (400, &[], "ask first"),
                (501, &[], "ask first"),
            ],
        );
        let near = ranges(&[5..8, 100..200]);
        let asked = Asked { ranges: Some(&near), ..asked };
        check(asked, &[(206, &[("content-range", "bytes 5-199/9000")], "5..200")]);
    }
}
