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
        Ok(Self { app, stream, token: value("token"), address })
    }

    /// The name by which workers know the stream.
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.app, self.stream)
    }
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
}
