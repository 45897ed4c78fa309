//! `whip://`, `whips://`, `whep://` and `wheps://`: the URL of a WHIP or WHEP endpoint, in whose
//! place of `http` or `https` stands what is spoken there, and the token it wants.

use std::fmt;

use url::Url;

/// Longest token.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What is wanted of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Publishing (WHIP, RFC 9725).
    Publish,
    /// Playing (WHEP, draft-ietf-wish-whep).
    Play,
}

/// Where a session begins.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`.
    url: Url,
    token: Option<String>,
    shown: String,
}

impl Endpoint {
    /// Reads the URL of an endpoint. The error is a sentence without what may be secret.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str, wanted: Use) -> Result<Self, String> {
        let invalid = || "cannot use its URL: it is not a valid one".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
        let scheme = scheme.to_ascii_lowercase();
        let plain = match wanted {
            Use::Publish => "whip",
            Use::Play => "whep",
        };
        let http = if scheme == plain { "http" } else { "https" };
        // `http:///a` has the host `a` for the parser, as browsers have it.
        let rest = Some(rest).filter(|rest| !rest.starts_with(['/', '\\'])).ok_or_else(invalid)?;
        let mut url = Url::parse(&format!("{http}://{rest}")).map_err(|_| invalid())?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "cannot use its URL: `{plain}://` has no user name and password; `token` is the bearer token"
            ));
        }
        url.set_fragment(None);
        let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let hidden = if url.query().is_some() { "?..." } else { "" };
        let shown = format!("{scheme}://{host}{}{hidden}", url.path());
        Ok(Self { url, token: None, shown })
    }

    /// The same, with the token that it wants. The error is a sentence without the token.
    ///
    /// # Errors
    /// What cannot be sent in a field of HTTP.
    pub fn with_token(self, token: Option<&str>) -> Result<Self, String> {
        let is_sendable = |token: &str| {
            !token.is_empty()
                && token.len() <= TOKEN_BYTES_MAX
                && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        match token {
            Some(token) if !is_sendable(token) => {
                Err("cannot use its `token`: it takes visible characters of ASCII".to_owned())
            }
            token => Ok(Self { token: token.map(str::to_owned), ..self }),
        }
    }

    /// Its host, for rules about addresses.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// `app/name` of a stream, where the path is that of a Millstream's endpoints.
    pub fn stream(&self) -> Option<String> {
        let path = self.url.path().strip_prefix("/whip/")?;
        rtmp::name::query_value(&format!("v={}", path.replace('+', "%2B")), "v")
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }
}

/// For people: without query and token.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_http_and_hide_what_lets_in() {
        // (URL, asked for, shown)
        for (text, asked, shown) in [
            ("whip://h/whip/live/cam", "http://h/whip/live/cam", "whip://h/whip/live/cam"),
            ("whips://h:8443/x?token=secret#f", "https://h:8443/x?token=secret", "whips://h:8443/x?..."),
            ("WHIPS://[::1]", "https://[::1]/", "whips://[::1]/"),
        ] {
            let endpoint = Endpoint::parse(text, Use::Publish).expect(text);
            let endpoint = endpoint.with_token(Some("hidden")).expect("a token");
            assert_eq!((endpoint.url().as_str(), endpoint.to_string().as_str()), (asked, shown));
            assert!(!format!("{endpoint:?}").contains("hidden"));
        }
        for text in ["whip://", "whip:///a", "whip://u:secret@h/a", "whip://secret@h/a", "whip"] {
            let error = Endpoint::parse(text, Use::Publish).expect_err(text);
            assert!(!error.contains("secret"), "{error}");
        }
        let endpoint = || Endpoint::parse("whep://h/a", Use::Play).expect("an endpoint");
        for token in ["", "a b", "a\r\nX: y", "\u{e9}"] {
            endpoint().with_token(Some(token)).expect_err("it cannot be sent");
        }
        let stream = |text: &str| Endpoint::parse(text, Use::Publish).expect(text).stream();
        assert_eq!(stream("whip://h/whip/a/b%20c?x=1").as_deref(), Some("a/b c"));
        assert_eq!(stream("whip://h/other/a"), None);
    }
}
