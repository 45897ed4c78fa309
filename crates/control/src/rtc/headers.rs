//! Header fields of WHIP and WHEP: CORS, links to ICE servers, entity tags, media types.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

use worker_api::settings::IceServer;

/// Media type of offers and answers.
pub(super) const SDP: &str = "application/sdp";
/// Media type of what changes a session.
pub(super) const FRAGMENT: &str = "application/trickle-ice-sdpfrag";
/// Media type of requests for a layer and for events.
pub(super) const JSON: &str = "application/json";
/// Media types a POST takes (Linked Data Platform section 7.1).
pub(super) const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");
/// Media types a PATCH takes (RFC 5789 section 3.1).
pub(super) const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// Methods of a stream's URL.
pub(super) const ENDPOINT_METHODS: &str = "POST, GET, HEAD, OPTIONS";
/// Methods of a session's URL.
pub(super) const SESSION_METHODS: &str = "PATCH, DELETE, GET, HEAD, OPTIONS";

/// Methods of the URL of a session's layers.
pub(super) const LAYER_METHODS: &str = "POST, DELETE, OPTIONS";
/// Methods of the URL of a session's events.
pub(super) const EVENTS_METHODS: &str = "GET, POST, OPTIONS";

/// What a page may send besides the fields every page may: `*` would leave `Authorization` out
/// (Fetch section 3.3).
const REQUEST_FIELDS: &str = "Authorization, Content-Type, If-Match";
/// What a page may read of the answers.
const RESPONSE_FIELDS: &str =
    "Location, Link, ETag, Retry-After, Allow, Accept-Post, Accept-Patch, WWW-Authenticate";

/// Lets pages of `origin` read the answer (Fetch section 3.3). Without an origin they may not.
pub(super) fn allow_origin(headers: &mut HeaderMap, origin: Option<&str>) {
    let Some(origin) = origin.and_then(|origin| HeaderValue::from_str(origin).ok()) else { return };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_FIELDS));
}

/// Answers a preflight, as far as `allow_origin` has let the page in.
pub(super) fn allow_methods(headers: &mut HeaderMap, methods: &'static str) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_FIELDS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
}

/// One `Link` for each server (RFC 9725 section 4.6).
pub(super) fn link_ice_servers(headers: &mut HeaderMap, servers: &[IceServer]) {
    for server in servers {
        // The configuration has been checked: the URI holds no `>`, the rest is printable ASCII.
        if let Ok(value) = HeaderValue::from_str(&link(server)) {
            headers.append(header::LINK, value);
        }
    }
}

/// One `Link` for each extension of WHEP, of the session at `path` (draft-ietf-wish-whep, "Protocol
/// extensions").
pub(super) fn link_extensions(headers: &mut HeaderMap, path: &str) {
    let extensions = [
        format!("<{path}/layer>; rel=\"urn:ietf:params:whep:ext:core:layer\""),
        format!(
            "<{path}/sse>; rel=\"urn:ietf:params:whep:ext:core:server-sent-events\"; events=\"{}\"",
            super::listeners::NAMES.join(",")
        ),
    ];
    for link in extensions {
        // A path of ours is printable ASCII.
        headers.extend(HeaderValue::from_str(&link).ok().map(|link| (header::LINK, link)));
    }
}

fn link(server: &IceServer) -> String {
    let mut text = format!("<{}>; rel=\"ice-server\"", server.uri);
    if let Some((username, credential)) = &server.credential {
        for (name, value) in [("username", username), ("credential", credential)] {
            text.push_str(&format!("; {name}={}", quoted(value)));
        }
        text.push_str("; credential-type=\"password\"");
    }
    text
}

/// A quoted string (RFC 9110 section 5.6.4).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Whether the body is of `wanted`; parameters are of no account.
pub(super) fn is_of_type(headers: &HeaderMap, wanted: &str) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

/// Whether `Accept` (RFC 9110 section 12.5.1), if there is one, takes `sent`. A range with `q=0` excludes it.
pub(super) fn accepts(headers: &HeaderMap, sent: &str) -> bool {
    let mut ranges =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let group = sent.split('/').next().unwrap_or_default();
    // The most specific range decides.
    let mut best: Option<(u8, bool)> = None;
    for range in ranges.flat_map(|value| value.split(',')) {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let specific = match name.as_str() {
            name if name == sent => 3,
            name if name.strip_suffix("/*") == Some(group) => 2,
            "*/*" | "*" => 1,
            _ => continue,
        };
        let zero = |part: &str| {
            part.strip_prefix("q=").is_some_and(|q| q.parse::<f32>().is_ok_and(|weight| weight <= 0.0))
        };
        let allowed = !parts.any(zero);
        if best.is_none_or(|(other, _)| specific > other) {
            best = Some((specific, allowed));
        }
    }
    best.is_some_and(|(_, allowed)| allowed)
}

/// `If-Match` of a request (RFC 9110 section 13.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IfMatch {
    /// There is none.
    Absent,
    /// `*`: whatever is there.
    Any,
    /// Strong tags, without their quotes.
    Tags(Vec<String>),
    /// Not a list of tags.
    Malformed,
}

/// Most tags that are looked at.
const TAGS_MAX: usize = 16;

impl IfMatch {
    /// Reads the field. Some clients leave the quotes away; such a tag is taken as it is.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let values: Vec<_> = headers.get_all(header::IF_MATCH).iter().collect();
        if values.is_empty() {
            return Self::Absent;
        }
        let mut tags = Vec::new();
        for value in values {
            let Ok(text) = value.to_str() else { return Self::Malformed };
            for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
                match tag.trim_matches('"') {
                    "*" => return Self::Any,
                    // A weak tag never matches here (strong comparison).
                    _ if tag.starts_with("W/") => {}
                    inner if inner.is_empty() || inner.contains('"') || tags.len() >= TAGS_MAX => {
                        return Self::Malformed;
                    }
                    inner => tags.push(inner.to_owned()),
                }
            }
        }
        Self::Tags(tags)
    }

    /// Whether it holds for `tag`.
    pub(super) fn holds_for(&self, tag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Tags(tags) => tags.iter().any(|known| known == tag),
            Self::Absent | Self::Malformed => false,
        }
    }
}

/// An entity tag as a field value.
pub(super) fn etag(tag: &str) -> Option<(HeaderName, HeaderValue)> {
    HeaderValue::from_str(&format!("\"{tag}\"")).ok().map(|value| (header::ETAG, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name.clone(), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn links_are_those_of_the_rfc() {
        let plain = IceServer { uri: "stun:stun.example.net".into(), credential: None };
        let relay = IceServer {
            uri: "turn:turn.example.net?transport=udp".into(),
            credential: Some(("us\"er".into(), "pass\\word".into())),
        };
        let mut headers = HeaderMap::new();
        link_ice_servers(&mut headers, &[plain, relay]);
        let links: Vec<_> =
            headers.get_all(header::LINK).iter().map(|value| value.to_str().expect("text")).collect();
        assert_eq!(
            links,
            [
                "<stun:stun.example.net>; rel=\"ice-server\"",
                "<turn:turn.example.net?transport=udp>; rel=\"ice-server\"; username=\"us\\\"er\"; credential=\"pass\\\\word\"; credential-type=\"password\"",
            ]
        );
    }

    #[test]
    fn media_types_are_compared_without_case_and_parameters() {
        let cases: [(&[&'static str], bool); 8] = [
            (&["application/sdp"], true),
            (&["Application/SDP; charset=utf-8"], true),
            (&["application/sdp "], true),
            (&["application/sdpx"], false),
            (&["text/plain"], false),
            (&[""], false),
            (&[], false),
            (&["application/sdp", "application/sdp"], false), // which one is meant?
        ];
        for (values, expected) in cases {
            assert_eq!(
                is_of_type(&with(header::CONTENT_TYPE, values), "application/sdp"),
                expected,
                "{values:?}"
            );
        }
    }

    #[test]
    fn accept_excludes_only_what_it_does_not_name() {
        let cases: [(&[&'static str], bool); 9] = [
            (&[], true),
            (&["*/*"], true),
            (&["text/html, application/sdp;q=0.5"], true),
            (&["application/*"], true),
            (&["text/html", "application/sdp"], true),
            (&["text/html"], false),
            (&["application/sdp;q=0, */*"], false), // the more specific range decides
            (&["*/*;q=0, application/sdp"], true),
            (&["application/json"], false),
        ];
        for (values, expected) in cases {
            assert_eq!(accepts(&with(header::ACCEPT, values), "application/sdp"), expected, "{values:?}");
        }
    }

    #[test]
    fn if_match_is_compared_strongly() {
        let cases: [(&[&'static str], IfMatch, bool); 9] = [
            (&[], IfMatch::Absent, false),
            (&["*"], IfMatch::Any, true),
            (&["\"*\""], IfMatch::Any, true), // as the figures of the RFC have it
            (&["\"abc\""], IfMatch::Tags(vec!["abc".into()]), true),
            (&["abc"], IfMatch::Tags(vec!["abc".into()]), true),
            (&["\"x\", \"abc\""], IfMatch::Tags(vec!["x".into(), "abc".into()]), true),
            (&["\"x\""], IfMatch::Tags(vec!["x".into()]), false),
            (&["W/\"abc\""], IfMatch::Tags(vec![]), false),
            (&["\"a\"b\""], IfMatch::Malformed, false),
        ];
        for (values, expected, holds) in cases {
            let read = IfMatch::read(&with(header::IF_MATCH, values));
            assert_eq!((read.holds_for("abc"), &read), (holds, &expected), "{values:?}");
        }
    }
}
