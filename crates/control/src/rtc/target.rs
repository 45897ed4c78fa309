//! Which stream a URL names.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::http::Uri;
use percent_encoding::percent_decode_str;
use rtmp::name::{NameError, NameRules, has_query_key, query_value};

use super::refusal::Refusal;

/// A stream, and the token in the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Application; may hold `/`.
    pub(super) app: String,
    /// Name within it.
    pub(super) stream: String,
    /// Value of `?token=`.
    pub(super) token: Option<String>,
    /// Value of `?eip=`: the only address that the answer is to name. A word of other servers, too.
    pub(super) address: Option<IpAddr>,
    /// Value of `?max_bitrate=`, bits per second: a player never gets more.
    pub(super) bits_per_second_max: Option<u64>,
    /// Value of `?max_height=`, pixels: a player gets no layer with higher pictures, if there is another.
    pub(super) height_max: Option<u16>,
}

impl Target {
    /// Reads `/whip/{app}/{stream}`. As with FLV, the last `/` that is not encoded divides; then
    /// both are decoded.
    pub(super) fn read(uri: &Uri, names: &NameRules) -> Result<Self, Refusal> {
        let path = uri.path().trim_start_matches('/').split_once('/').map_or("", |(_, path)| path);
        let (app, stream) = path.rsplit_once('/').ok_or(Refusal::Path)?;
        let decode = |text| percent_decode_str(text).decode_utf8().ok().map(Cow::into_owned);
        let (app, stream) = decode(app).zip(decode(stream)).ok_or(Refusal::Path)?;
        names.check(&app, &stream).map_err(|error| match error {
            NameError::Empty => Refusal::Path,
            error => Refusal::Name(error),
        })?;
        let value = |name| uri.query().and_then(|query| query_value(query, name));
        let is_named = uri.query().is_some_and(|query| has_query_key(query, "eip"));
        let named = || value("eip").and_then(|text| text.parse().ok()).ok_or(Refusal::Address);
        let address = is_named.then(named).transpose()?;
        let has = |name| uri.query().is_some_and(|query| has_query_key(query, name));
        let height = || value("max_height").and_then(|text| text.parse().ok()).filter(|height| *height > 0);
        let height = || height().ok_or(Refusal::Parameter(HEIGHT));
        let height_max = has("max_height").then(height).transpose()?;
        let bits = || value("max_bitrate").and_then(|text| bits_per_second(&text));
        let bits = || bits().filter(|bits| *bits >= BITS_PER_SECOND_MIN).ok_or(Refusal::Parameter(BITRATE));
        let bits_per_second_max = has("max_bitrate").then(bits).transpose()?;
        Ok(Self { app, stream, token: value("token"), address, bits_per_second_max, height_max })
    }

    /// The name by which workers know the stream.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }
}

/// The least that can be asked for: congestion control goes no lower.
const BITS_PER_SECOND_MIN: u64 = 50_000;
const BITRATE: &str = "max_bitrate takes bits per second, at least 50k: a whole number, \
    or a number with k or M (1000, 1000000)";
const HEIGHT: &str = "max_height takes a number of pixels, 1 to 65535";

/// `800000`, `800k` or `1.5M` as bits per second.
fn bits_per_second(text: &str) -> Option<u64> {
    let (number, unit) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1_000.0),
        (at, 'M' | 'm') => (&text[..at], 1_000_000.0),
        _ => return text.parse().ok(),
    };
    // What `f64` reads besides: signs, exponents, names of what is no number.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let bits = number.parse::<f64>().ok().filter(|_| is_plain)? * unit;
    (bits <= 1e12).then_some(bits as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slash_divides_as_in_flv_addresses() {
        let cases = [
            ("/whip/live/a", Some(("live", "a", None))),
            ("/whep/live/sub/a%2B%C3%BC?x=1&token=s%26t", Some(("live/sub", "a+ü", Some("s&t")))),
            ("/whip/a%2Fb/c", Some(("a/b", "c", None))),
            ("/whip/a/b%2Fc", None), // only applications have slashes
            ("/whip/a", None),
            ("/whip/a/", None),
            ("/whip//a", None),
            ("/whip/live/..", None),
            ("/whip/live/%2e%2e", None),
            ("/whip/live/%ff", None),
            ("/whip/live/a%00", None),
            ("/whip/live/a%3fb", None), // names have no question mark
        ];
        for (uri, expected) in cases {
            let read = Target::read(&uri.parse().expect("a URI"), &NameRules::default());
            let read =
                read.as_ref().map(|it| (it.app.as_str(), it.stream.as_str(), it.token.as_deref())).ok();
            assert_eq!(read, expected, "{uri}");
        }
    }

    #[test]
    fn an_outside_address_has_no_port() {
        let cases = [
            ("", Ok(None)),
            ("?eip=192.0.2.7", Ok(Some("192.0.2.7"))),
            ("?token=t&eip=2001:db8::7", Ok(Some("2001:db8::7"))),
            ("?eip=2001%3Adb8%3A%3A7", Ok(Some("2001:db8::7"))),
            ("?eip=", Err(Refusal::Address)),
            ("?eip", Err(Refusal::Address)),
            ("?token=t&eip&x=y", Err(Refusal::Address)),
            ("?eip=%zz", Err(Refusal::Address)),
            ("?eip=%ff", Err(Refusal::Address)),
            ("?eips=%zz", Ok(None)),
            ("?eip=192.0.2.7:8189", Err(Refusal::Address)),
            ("?eip=example.net", Err(Refusal::Address)),
        ];
        for (query, expected) in cases {
            let uri = format!("/whep/live/a{query}").parse().expect("a URI");
            let read = Target::read(&uri, &NameRules::default()).map(|target| target.address);
            let expected = expected.map(|text| text.map(|text| text.parse().expect("an address")));
            assert_eq!(read, expected, "{query}");
        }
    }

    #[test]
    fn a_bitrate_is_a_number_with_or_without_a_unit() {
        let cases = [
            ("", Ok(None)),
            ("?max_bitrate=800000", Ok(Some(800_000))),
            ("?max_bitrate=800k", Ok(Some(800_000))),
            ("?max_bitrate=1.5M&token=t", Ok(Some(1_500_000))),
            ("?max_bitrate=50k", Ok(Some(50_000))),
            ("?max_bitrate=49k", Err(Refusal::Parameter(BITRATE))), // congestion control goes no lower
            ("?max_bitrate=", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=k", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=-1M", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=1e9k", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=infM", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=1.5", Err(Refusal::Parameter(BITRATE))),
            ("?max_bitrate=99999999999999999999M", Err(Refusal::Parameter(BITRATE))),
        ];
        for (query, expected) in cases {
            let uri = format!("/whep/live/a{query}").parse().expect("a URI");
            let read = Target::read(&uri, &NameRules::default()).map(|target| target.bits_per_second_max);
            assert_eq!(read, expected, "{query}");
        }
    }

    #[test]
    fn a_height_is_a_number_of_pixels() {
        let cases = [
            ("", Ok(None)),
            ("?max_height=720", Ok(Some(720))),
            ("?max_height=1&max_bitrate=1M", Ok(Some(1))),
            ("?max_height=0", Err(Refusal::Parameter(HEIGHT))),
            ("?max_height=", Err(Refusal::Parameter(HEIGHT))),
            ("?max_height=720p", Err(Refusal::Parameter(HEIGHT))),
            ("?max_height=-1", Err(Refusal::Parameter(HEIGHT))),
            ("?max_height=65536", Err(Refusal::Parameter(HEIGHT))),
        ];
        for (query, expected) in cases {
            let uri = format!("/whep/live/a{query}").parse().expect("a URI");
            let read = Target::read(&uri, &NameRules::default()).map(|target| target.height_max);
            assert_eq!(read, expected, "{query}");
        }
    }
}
