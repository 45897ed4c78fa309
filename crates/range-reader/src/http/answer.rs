//! What an answer to a request for ranges is worth: a pure function from its head to what is done with it.
//!
//! A server may ignore ranges (200), give fewer bytes than asked (any 206), several ranges in one (RFC 9110, 15.3.7.2), or
//! refuse (416 and others). All of that is fine as long as it says so truthfully; what contradicts the request, the
//! answers before, or itself, is an error and never bytes.

use std::ops::Range;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderName};

use super::content_range::{self, ContentRange};
use super::{date, multipart, validator};
use crate::error::{Permanent, SourceError};
use crate::ranges::ByteRange;
use crate::source::Pinned;

/// Bytes between two ranges that a server may well join (RFC 9110, 15.3.7.2: gaps smaller than a part's head).
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

/// What to do with an answer.
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

/// An answer that is read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) pinned: Pinned,
    pub(crate) is_whole_file: bool,
    /// What it tells about several ranges in one request.
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

/// Judges the head of an answer.
pub(crate) fn judge(asked: Asked<'_>, status: u16, headers: &HeaderMap) -> Verdict {
    let several = asked.ranges.is_some_and(|ranges| ranges.len() > 1);
    let result = match status {
        200 | 206 if is_encoded(headers) => lying("it is compressed, which was not asked for"),
        200 => whole(asked, headers, several),
        206 => partial(asked, headers),
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
    // To a condition that holds, the answer would have been 206, or 200 from a server that ignores `Range`; that one
    // says the same of the file as before. One that says nothing cannot be told from a file that has changed.
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
    let Some(value) = single(headers, &header::CONTENT_RANGE)? else {
        let Some(boundary) = multipart::boundary(content_type) else {
            return lying("206 without a range");
        };
        let pinned = agreed(asked, &new)?;
        let takes_several_ranges = (ranges.len() > 1).then_some(true);
        let layout = Layout::Several(boundary);
        return Ok(Reading { pinned, is_whole_file: false, takes_several_ranges, layout });
    };
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

/// Whether a range may be in an answer to a request for `ranges`, alone or as a part.
///
/// To one range, the answer starts where it was asked to and may end earlier. To several, it has something of them and
/// may join what lies near; it does not reach out of what was asked, except for the whole file.
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

/// What one range in answer to several tells: a server that joins what lies near may still do several.
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

/// What is known with this answer, if it is of the same file.
fn agreed(asked: Asked<'_>, new: &Pinned) -> Result<Pinned, SourceError> {
    match asked.pinned {
        None => Ok(new.clone()),
        Some(known) => validator::merge(known, new).ok_or(SourceError::Changed),
    }
}

/// `Retry-After` (RFC 9110, 10.2.3): seconds, or a date, which is compared with the answer's own, so that no clock of
/// this side takes part.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.as_bytes();
    if let Some(seconds) = std::str::from_utf8(value).ok().and_then(|text| content_range::number(text.trim()))
    {
        return Some(Duration::from_secs(seconds));
    }
    let (then, now) = (date::seconds(value)?, date::seconds(headers.get(header::DATE)?.as_bytes())?);
    Some(Duration::from_secs(u64::try_from(then - now).unwrap_or(0)))
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_ENCODING);
    values.iter().any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
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
