//! Redirects (RFC 9110, 15.4), and what of a request may follow them.
//!
//! Which address a redirect leads to is judged where it is connected to; here it is schemes and
//! credentials.

use base64::Engine;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Permanent, SourceError};

/// Longest URL that a redirect may lead to, in bytes.
const URL_BYTES_MAX: usize = 8 << 10;

/// Where a response sends us; `None` if it is no redirect.
pub(crate) fn target(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    allow_downgrade: bool,
) -> Result<Option<Url>, SourceError> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = headers
        .get(header::LOCATION)
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .filter(|location| location.len() <= URL_BYTES_MAX)
        .ok_or(SourceError::Permanent(Permanent::Lying("a redirect without a place to go to")))?;
    let to = from
        .join(location)
        .map_err(|_| SourceError::Permanent(Permanent::Lying("a redirect to what is no URL")))?;
    if from.scheme() == "https" && to.scheme() == "http" && !allow_downgrade {
        return Err(forbidden("a redirect from https to http"));
    }
    checked(&to).map(Some)
}

/// `url`, if its scheme may be asked.
pub(crate) fn checked(url: &Url) -> Result<Url, SourceError> {
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url.clone()),
        "http" | "https" => Err(SourceError::Permanent(Permanent::Setup("the URL has no host".to_owned()))),
        scheme => Err(forbidden(&format!("the scheme {scheme}"))),
    }
}

/// What may be sent to an origin other than the one that was asked first.
pub(crate) fn harmless(fields: &HeaderMap) -> HeaderMap {
    let mut left = HeaderMap::new();
    for name in [header::USER_AGENT, header::ACCEPT, header::ACCEPT_LANGUAGE] {
        if let Some(value) = fields.get(&name) {
            left.insert(name, value.clone());
        }
    }
    left
}

/// `url` without credentials and fragment, and `fields` with those credentials as `authorization`.
pub(crate) fn split_credentials(url: &Url, fields: &HeaderMap) -> (Url, HeaderMap) {
    let (mut bare, mut fields) = (url.clone(), fields.clone());
    if let Some(credentials) = basic(url) {
        fields.insert(header::AUTHORIZATION, credentials);
    }
    // These succeed: the URL has a host.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    bare.set_fragment(None);
    (bare, fields)
}

/// `authorization` from the credentials in a URL (RFC 7617).
pub(crate) fn basic(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut credentials: Vec<u8> = percent_decode_str(url.username()).collect();
    credentials.push(b':');
    credentials.extend(percent_decode_str(url.password().unwrap_or_default()));
    let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
    let mut value = HeaderValue::from_str(&format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// `host` or `host:port`, as a `host` field has it.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn forbidden(what: &str) -> SourceError {
    SourceError::Permanent(Permanent::Forbidden(what.to_owned()))
}
