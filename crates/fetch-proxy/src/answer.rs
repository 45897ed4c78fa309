//! Requests of players and their answers (RFC 9110).
//!
//! `/https://host/path` is a file, `/stats` what has been counted, `/` says how to use it. Validators
//! of a file are not passed on: a reader refuses to mix two versions of a file, so none is needed.

use std::io::{self, SeekFrom};
use std::net::Ipv6Addr;
use std::sync::Arc;

use hls::Range;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use range_reader::ReadError;
use range_reader::error::{Permanent, SourceError};
use tokio::io::AsyncSeekExt;
use url::Url;

use crate::body::{AnswerBody, Wanted, is_final};
use crate::films::{Films, OpenError};

/// An answer that is no file: a status and why.
type Refusal = (StatusCode, String);

pub(crate) async fn answer(
    films: &Arc<Films>,
    is_local: bool,
    request: &Request<Incoming>,
) -> Response<AnswerBody> {
    match respond(films, is_local, request).await {
        Ok(response) => response,
        Err((status, why)) => {
            let mut response = text(status, "text/plain; charset=utf-8", format!("{why}\n"));
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            response
        }
    }
}

async fn respond(
    films: &Arc<Films>,
    is_local: bool,
    request: &Request<Incoming>,
) -> Result<Response<AnswerBody>, Refusal> {
    if is_local {
        refuse_strange_pages(request.headers())?;
    }
    let is_head = request.method() == Method::HEAD;
    if !is_head && request.method() != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD".to_owned()));
    }
    match request.uri().path() {
        "/" => return Ok(text(StatusCode::OK, "text/plain; charset=utf-8", USAGE.to_owned())),
        "/stats" => return Ok(text(StatusCode::OK, "application/json", films.report().to_json())),
        _ => {}
    }
    let url = target(request.uri().path_and_query().map_or("/", |target| target.as_str()))?;
    send_file(films, &url, is_head, range_field(request.headers())).await
}

const USAGE: &str = "Put a URL behind the slash: /https://example.org/film.mp4\nWhat it has cost: /stats\n";

async fn send_file(
    films: &Arc<Films>,
    url: &Url,
    is_head: bool,
    range: Option<&str>,
) -> Result<Response<AnswerBody>, Refusal> {
    let film = films.open(url).map_err(|error| match error {
        OpenError::TooMany(max) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{max} files are being read, which is the limit"))
        }
        OpenError::Refused(error) => refusal(&error),
    })?;
    let number = film.note_request();
    let mut reader = film.reader.lock().await;
    let failed = |error: io::Error| {
        if is_final(&error) {
            films.forget(&film);
        }
        refusal(&error)
    };
    if !is_head {
        // The first request to the server is for the length and, with it, for what is wanted; a suffix
        // is known only after that. A player is taken at its word: left to itself, the reader asks for
        // more and more, as for bytes that may not be wanted, and makes more requests than the player.
        let (first, end) = range.map_or((0, u64::MAX), named_ends);
        film.hint(number, &mut reader, first..end);
        reader.seek(SeekFrom::Start(first)).await.map_err(failed)?;
    }
    let total = reader.len().await;
    film.note_read(&reader, 0);
    let total = total.map_err(failed)?;

    let builder = Response::builder();
    let Some(total) = total else {
        // Without a length no range can be described: all there is (RFC 9110, 14.2).
        let mut wanted = Wanted { number, position: 0, end: None };
        let body = if is_head {
            AnswerBody::empty()
        } else {
            let first = wanted.read(&film, &mut reader).await.map_err(failed)?;
            drop(reader);
            wanted.into_body(first, Arc::clone(films), Arc::clone(&film))
        };
        return Ok(builder.header(header::ACCEPT_RANGES, "none").body(body).expect("valid fields"));
    };
    let builder = builder.header(header::ACCEPT_RANGES, "bytes");
    if is_head {
        let builder = builder.header(header::CONTENT_LENGTH, total);
        return Ok(builder.body(AnswerBody::empty()).expect("valid fields"));
    }
    let (builder, position, end) = match range.map_or(Range::All, |range| Range::read(range, total)) {
        Range::All => (builder, 0, total),
        Range::Part { first, last } => {
            let part = format!("bytes {first}-{last}/{total}");
            let builder = builder.status(StatusCode::PARTIAL_CONTENT).header(header::CONTENT_RANGE, part);
            (builder, first, last + 1)
        }
        Range::Unsatisfiable => {
            let why = format!("the file has {total} bytes\n");
            let mut response = text(StatusCode::RANGE_NOT_SATISFIABLE, "text/plain; charset=utf-8", why);
            let field = HeaderValue::try_from(format!("bytes */{total}")).expect("digits");
            response.headers_mut().insert(header::CONTENT_RANGE, field);
            return Ok(response);
        }
    };
    // The first piece before the head: an error is still a status.
    let mut wanted = Wanted { number, position, end: Some(end) };
    let first = wanted.read(&film, &mut reader).await.map_err(failed)?;
    drop(reader);
    let builder = builder.header(header::CONTENT_LENGTH, end - position);
    Ok(builder.body(wanted.into_body(first, Arc::clone(films), Arc::clone(&film))).expect("valid fields"))
}

/// Where a range begins and ends, before the length is known; the whole file if it does not say.
fn named_ends(range: &str) -> (u64, u64) {
    // Of a file of all lengths there are, what is left to the end has no known beginning.
    match Range::read(range, u64::MAX) {
        Range::Part { first, last } if !range.trim().starts_with("bytes=-") => (first, last + 1),
        _ => (0, u64::MAX),
    }
}

/// The value of `Range`; none with `If-Range`, whose validator cannot be one of ours (RFC 9110, 13.1.5).
fn range_field(headers: &HeaderMap) -> Option<&str> {
    if headers.contains_key(header::IF_RANGE) {
        return None;
    }
    headers.get(header::RANGE)?.to_str().ok()
}

/// The URL behind the slash. Some clients join the two slashes of it.
fn target(path_and_query: &str) -> Result<Url, Refusal> {
    let given = path_and_query.trim_start_matches('/');
    let url = ["https", "http"].into_iter().find_map(|scheme| {
        let rest = given.strip_prefix(scheme)?.strip_prefix(":/")?;
        Some(format!("{scheme}://{}", rest.trim_start_matches('/')))
    });
    let url = url.ok_or_else(|| {
        (StatusCode::NOT_FOUND, "no URL here: expected /http://... or /https://...".to_owned())
    })?;
    Url::parse(&url).map_err(|error| (StatusCode::BAD_REQUEST, format!("the URL behind the slash: {error}")))
}

/// A page on the Internet must not read this machine's neighbours through a browser that runs here:
/// neither by requests from its scripts, nor by a name of its own that leads to loopback (DNS
/// rebinding). Players send neither.
fn refuse_strange_pages(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return Err((StatusCode::FORBIDDEN, "not for pages of other sites".to_owned()));
    }
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let name = host.to_str().ok().and_then(|host| Url::parse(&format!("http://{host}/")).ok());
    let is_ours = match name.as_ref().and_then(Url::host) {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address == Ipv6Addr::LOCALHOST,
        None => false,
    };
    if is_ours {
        return Ok(());
    }
    Err((StatusCode::FORBIDDEN, "reached by a name that is not this machine's: use 127.0.0.1".to_owned()))
}

/// The status for an error of a reader, and its words, which name no path and no query.
fn refusal(error: &io::Error) -> Refusal {
    let read = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
    let status = match read {
        Some(ReadError::Source(SourceError::Permanent(permanent))) => match permanent {
            Permanent::Status(status @ (404 | 410 | 451)) => {
                StatusCode::from_u16(*status).unwrap_or(StatusCode::NOT_FOUND)
            }
            // 401 would ask the player for credentials, which it cannot give here.
            Permanent::Status(401 | 403) | Permanent::Forbidden(_) | Permanent::NotPublic(_) => {
                StatusCode::FORBIDDEN
            }
            _ => StatusCode::BAD_GATEWAY,
        },
        Some(ReadError::Source(SourceError::Transient { .. })) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    (status, error.to_string())
}

fn text(status: StatusCode, kind: &'static str, text: String) -> Response<AnswerBody> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .body(AnswerBody::Text(Some(text.into())))
        .expect("valid fields")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_stands_behind_the_slash() {
        let cases = [
            ("/https://a.test/b?c=d%20e", Some("https://a.test/b?c=d%20e")),
            ("/http://a.test:81/b/http://c", Some("http://a.test:81/b/http://c")),
            ("/https:/a.test/b", Some("https://a.test/b")), // joined slashes
            ("//http://a.test", Some("http://a.test/")),
            ("/http://[::1]/b", Some("http://[::1]/b")),
            ("/ftp://a.test/", None),
            ("/file:///etc/passwd", None),
            ("/httpx://a.test/", None),
            ("/http:a.test", None),
            ("/http://", None),
            ("/segment.ts", None), // an absolute path in a playlist
        ];
        for (path, expected) in cases {
            assert_eq!(target(path).ok().as_ref().map(Url::as_str), expected, "{path}");
        }
    }

    #[test]
    fn ends_of_a_range_are_known_before_the_length() {
        let cases = [
            ("bytes=7-", (7, u64::MAX)),
            ("bytes=7-9", (7, 10)),
            ("bytes=7-99999999999999999999", (7, u64::MAX)),
            ("bytes=-7", (0, u64::MAX)),
            ("bytes=9-7", (0, u64::MAX)),
            ("bytes=1-2,4-5", (0, u64::MAX)),
            ("x=7-", (0, u64::MAX)),
        ];
        for (range, expected) in cases {
            assert_eq!(named_ends(range), expected, "{range}");
        }
    }

    #[test]
    fn only_players_of_this_machine_get_through() {
        let allowed = |fields: &[(&'static str, &str)]| {
            let fields = fields.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_str(value).expect("valid"))
            });
            refuse_strange_pages(&fields.collect()).is_ok()
        };
        for host in ["127.0.0.1:8090", "localhost:8090", "[::1]:8090", "127.0.0.2", "LOCALHOST"] {
            assert!(allowed(&[("host", host)]), "{host}");
        }
        for host in ["evil.test:8090", "127.0.0.1.evil.test", "10.0.0.1", "[::2]:8090", "a b", ""] {
            assert!(!allowed(&[("host", host)]), "{host}");
        }
        assert!(allowed(&[]), "HTTP/1.0");
        assert!(!allowed(&[("host", "127.0.0.1"), ("sec-fetch-site", "cross-site")]));
        assert!(allowed(&[("host", "127.0.0.1"), ("sec-fetch-site", "none")]));
    }
}
