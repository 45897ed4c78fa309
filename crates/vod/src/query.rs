//! The query of a request: where to begin, and what is kept for what a playlist lists.

use hls::{BadRequest, Query};

/// What a client asks for besides an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VodQuery {
    /// `start`, in milliseconds: from the begin, or, if it is negative, from the end.
    pub start_ms: Option<i64>,
    /// The query for what is listed: all but directives of live playlists, `start` included.
    pub kept: String,
}

impl VodQuery {
    /// Reads what is behind the question mark.
    ///
    /// # Errors
    /// It is malformed or too long, or `start` is no time; in words for the client.
    pub fn parse(query: &str) -> Result<Self, &'static str> {
        let kept = Query::parse(query).map_err(BadRequest::reason)?.others;
        let mut start_ms = None;
        for value in kept.split('&').filter_map(|parameter| parameter.strip_prefix("start=")) {
            if start_ms.replace(milliseconds(value).ok_or(BAD_START)?).is_some() {
                return Err(BAD_START);
            }
        }
        Ok(Self { start_ms, kept })
    }
}

/// Seconds, of which three decimals count.
fn milliseconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.len() > SECONDS_DIGITS_MAX || part.len() > 9 {
        return None;
    }
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    Some(sign * (whole.parse::<i64>().ok()? * 1000 + part.parse::<i64>().ok()?))
}

const BAD_START: &str =
    "`start` is given once, in seconds: `start=90` from the begin, `start=-60` from the end";
/// Three years.
const SECONDS_DIGITS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_time_and_everything_else_is_kept() {
        for (query, start_ms, kept) in [
            ("", None, ""),
            ("start=-60", Some(-60_000), "start=-60"),
            ("token=a%20b&start=12.5", Some(12_500), "token=a%20b&start=12.5"),
            ("start=0.0019&_HLS_msn=3", Some(1), "start=0.0019"),
            ("start=-0", Some(0), "start=-0"),
            ("restart=x", None, "restart=x"),
        ] {
            let expected = VodQuery { start_ms, kept: kept.to_owned() };
            assert_eq!(VodQuery::parse(query), Ok(expected), "{query}");
        }
        for query in [
            "start=",
            "start=-",
            "start=1e9",
            "start=--1",
            "start=+1",
            "start=1.",
            "start=.5",
            "start=NaN",
            "start=123456789",
            "start=1&start=2",
            "start=%31",
            "a=\"",
        ] {
            assert!(VodQuery::parse(query).is_err(), "{query}");
        }
    }
}
