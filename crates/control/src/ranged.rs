//! Heads of answers with media: status, ranges (RFC 9110 section 14), and fields.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use hls::Range;
use worker_api::Refused;
use worker_api::segments::Ranged;

use crate::error_response;

/// What a request asks for of an object that has so many bytes. A condition holds only for the
/// version that is at hand (RFC 9110 section 13.1.5), and never without a version.
pub(crate) fn asked(headers: &HeaderMap, etag: Option<&str>, of: u64) -> Ranged {
    let field = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let holds = !headers.contains_key(header::IF_RANGE) || etag.is_some() && field(header::IF_RANGE) == etag;
    let range = field(header::RANGE).filter(|_| holds);
    Ranged::of(range.map_or(Range::All, |range| Range::read(range, of)), of)
}

/// An answer of 200, 206 or 416, without its body.
pub(crate) fn head(ranged: Ranged) -> Response {
    let mut response = Response::new(Body::empty());
    match ranged {
        Ranged::Whole => {}
        Ranged::Part { first, last, of } => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            put(&mut response, header::CONTENT_RANGE, &format!("bytes {first}-{last}/{of}"));
        }
        Ranged::Unsatisfiable { of } => {
            response = error_response::refused(Refused::new(416, "there are no such bytes of it"));
            put(&mut response, header::CONTENT_RANGE, &format!("bytes */{of}"));
        }
    }
    response
}

/// Sets a field of an answer.
pub(crate) fn put(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
