//! Delivery directives in the query of a playlist (RFC 8216bis section 6.2.5), and what else is in it.

use std::fmt;

/// What a client asks of a playlist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// `_HLS_msn`: not before this segment is in it.
    pub msn: Option<u64>,
    /// `_HLS_part`: or this part of it.
    pub part: Option<u32>,
    /// `_HLS_skip`: without what an earlier one had.
    pub skip: bool,
    /// All other parameters, as they came, without the question mark: a token of the client.
    pub others: String,
}

/// Why a request is answered 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRequest {
    /// A directive is no number, not a value that it may have, or given twice.
    Directive,
    /// `_HLS_part` without `_HLS_msn`.
    PartWithoutMsn,
    /// More than [`QUERY_BYTES_MAX`] bytes, or characters that no URI has.
    Malformed,
    /// A segment or part further ahead than the next ones.
    TooFarAhead,
}

impl BadRequest {
    /// For the client.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Directive => "a delivery directive has no such value",
            Self::PartWithoutMsn => "_HLS_part needs _HLS_msn",
            Self::Malformed => "the query is too long, or malformed",
            Self::TooFarAhead => "the segment or part asked for is too far ahead",
        }
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for BadRequest {}

impl Query {
    /// Reads the query of a request: what is behind the question mark.
    pub fn parse(query: &str) -> Result<Self, BadRequest> {
        if query.len() > QUERY_BYTES_MAX || !query.bytes().all(is_query_byte) {
            return Err(BadRequest::Malformed);
        }
        let mut read = Self::default();
        let mut has_skip = false;
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "_HLS_msn" if read.msn.is_none() => read.msn = Some(number(value)?),
                "_HLS_part" if read.part.is_none() => {
                    read.part = Some(number(value)?.try_into().map_err(|_| BadRequest::TooFarAhead)?);
                }
                "_HLS_skip" if !has_skip => {
                    // An unknown value may come to mean something: the full playlist serves all.
                    (has_skip, read.skip) = (true, matches!(value, "YES" | "v2"));
                }
                "_HLS_msn" | "_HLS_part" | "_HLS_skip" => return Err(BadRequest::Directive),
                _ => {
                    if !read.others.is_empty() {
                        read.others.push('&');
                    }
                    read.others.push_str(parameter);
                }
            }
        }
        if read.part.is_some() && read.msn.is_none() {
            return Err(BadRequest::PartWithoutMsn);
        }
        Ok(read)
    }

    /// Whether the answer is to wait for something.
    pub fn blocks(&self) -> bool {
        self.msn.is_some()
    }
}

fn number(value: &str) -> Result<u64, BadRequest> {
    let is_decimal = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
    if !is_decimal {
        return Err(BadRequest::Directive);
    }
    value.parse().map_err(|_| BadRequest::TooFarAhead)
}

/// RFC 3986 section 3.4: what a query may contain, and so what may be between the quotes of a playlist.
fn is_query_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9')
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
        || matches!(byte, b'+' | b',' | b';' | b'=' | b':' | b'@' | b'/' | b'?')
}

/// Bytes of a query. Tokens have a few hundred.
pub const QUERY_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn directives_are_read_and_the_rest_is_kept() {
        let read = Query::parse("token=a%20b&_HLS_msn=17&x&_HLS_part=3&_HLS_skip=v2").unwrap();
        assert_eq!((read.msn, read.part, read.skip), (Some(17), Some(3), true));
        assert_eq!(read.others, "token=a%20b&x");
        assert_eq!(Query::parse("").unwrap(), Query::default());
        assert!(!Query::parse("_HLS_skip=NO").unwrap().skip);
    }

    #[test]
    fn absurd_values_are_refused() {
        for (query, expected) in [
            ("_HLS_msn=", BadRequest::Directive),
            ("_HLS_msn=-1", BadRequest::Directive),
            ("_HLS_msn=1.5", BadRequest::Directive),
            ("_HLS_msn=+1", BadRequest::Directive),
            ("_HLS_msn=1&_HLS_msn=1", BadRequest::Directive),
            ("_HLS_skip=YES&_HLS_skip=YES", BadRequest::Directive),
            ("_HLS_msn=99999999999999999999999", BadRequest::TooFarAhead),
            ("_HLS_msn=1&_HLS_part=4294967296", BadRequest::TooFarAhead),
            ("_HLS_part=1", BadRequest::PartWithoutMsn),
            ("a=\"", BadRequest::Malformed),
            ("a=\n", BadRequest::Malformed),
            ("a=\u{e4}", BadRequest::Malformed),
        ] {
            assert_eq!(Query::parse(query), Err(expected), "{query}");
        }
        assert_eq!(Query::parse(&"a".repeat(QUERY_BYTES_MAX + 1)), Err(BadRequest::Malformed));
    }

    proptest! {
        #[test]
        fn what_is_kept_has_no_directive_and_reads_the_same(
            query in "([_a-zHLSmsnpartkiYE0-9=&%]{0,40}&?){0,3}",
        ) {
            if let Ok(read) = Query::parse(&query) {
                let again = Query::parse(&read.others).unwrap();
                prop_assert_eq!(&again.others, &read.others);
                prop_assert!(!again.blocks() && !again.skip);
            }
        }
    }
}
