//! Request heads on the HTTP port: which are media, and how their answers begin.
//!
//! A worker reads the head of each request on an idle connection. `GET /{app}/{stream}.flv` (also
//! HEAD, OPTIONS and WebSocket upgrades of it), the same with `.ts`, and the playlists and segments
//! of a stream stay here; every other connection, and all of HTTP/2, goes to the control side with
//! all bytes read.

use std::io::Write as _;
use std::mem::MaybeUninit;

use rtmp::name::{NameRules, query_value};

use crate::proto::websocket;
use worker_api::Refused;
use worker_api::segments::{ObjectRequest, Ranged, Target, accepts_gzip, is_on_demand};
use worker_api::snapshot::kept_user_agent;

/// Largest request head, bytes; a longer one is answered 431.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 10;
/// Most header fields of a request.
const HEADERS_MAX: usize = 100;

/// Content type of FLV.
pub(crate) const CONTENT_FLV: &str = "video/x-flv";
/// Content type of a transport stream.
pub(crate) const CONTENT_TS: &str = "video/mp2t";

/// What an HTTP/2 connection begins with (RFC 9113 section 3.4).
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What a request head asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// The head has not arrived completely.
    Incomplete,
    /// Not HTTP/1, or a head too long.
    Bad(Refused),
    /// Not media: for the control side.
    Control,
    /// A stream.
    Media(Box<MediaRequest>),
}

/// A request for a stream.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct MediaRequest {
    pub(crate) app: String,
    pub(crate) stream: String,
    pub(crate) form: Form,
    pub(crate) token: Option<String>,
    /// Path and query, as they came.
    pub(crate) target: String,
    pub(crate) method: Method,
    pub(crate) user_agent: Option<Box<str>>,
    /// The client understands chunked bodies (HTTP/1.1).
    pub(crate) chunked: bool,
    /// Another request may follow on the connection (RFC 9112 section 9.3): the client does not close it, and
    /// this one has no body, which nobody would read.
    pub(crate) may_stay: bool,
    /// Request head, bytes.
    pub(crate) head_bytes: usize,
}

/// In which form a stream is asked for.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// As FLV: `/{app}/{stream}.flv`.
    #[default]
    Flv,
    /// As a transport stream: `/{app}/{stream}.ts`.
    Ts,
    /// A playlist, a segment or a part: `/{app}/{stream}.m3u8`, `/{app}/{stream}.hls/{tag}/{object}`.
    Segments(ObjectRequest),
}

/// How a stream is asked for.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) enum Method {
    /// The stream as response body.
    #[default]
    Get,
    /// Only whether it is there.
    Head,
    /// CORS preflight.
    Options,
    /// The stream in WebSocket frames; the value answers the handshake.
    WebSocket { accept: String },
    /// A WebSocket handshake of another version (RFC 6455 section 4.4).
    WebSocketVersion,
    /// A WebSocket handshake without a key (RFC 6455 section 4.2.1).
    WebSocketKey,
    /// Something that makes no sense for a stream.
    Other,
}

/// Parses the bytes read so far.
pub(crate) fn parse(bytes: &[u8], names: &NameRules) -> Request {
    if bytes.starts_with(HTTP2_PREFACE) {
        return Request::Control;
    }
    if HTTP2_PREFACE.starts_with(bytes) {
        return Request::Incomplete;
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let head_bytes = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Request::Incomplete,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Request::Bad(Refused::new(431, "request head too large"));
        }
        Err(_) => return Request::Bad(Refused::new(400, "not an HTTP/1 request")),
    };
    let target = origin_form(request.path.unwrap_or(""));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // Recordings in the API may end in `.flv` as well.
    let whole = Some(path).filter(|path| !path.starts_with("/api/") && !is_on_demand(path));
    let whole = whole.and_then(|path| path.strip_prefix('/'));
    let whole = whole.and_then(|path| {
        let flv = path.strip_suffix(".flv").map(|path| (path, Form::Flv));
        flv.or_else(|| path.strip_suffix(".ts").map(|path| (path, Form::Ts)))
    });
    let segments = Target::read(path).filter(|_| whole.is_none());
    let stream = whole.as_ref().map(|(path, _)| *path);
    let Some(path) = stream.or(segments.map(|target| target.stream)) else { return Request::Control };
    let Some((app, stream)) =
        path.rsplit_once('/').and_then(|(app, stream)| Some((decode(app)?, decode(stream)?)))
    else {
        return Request::Bad(Refused::new(404, "a stream is /{app}/{stream}.flv, .ts, .m3u8 or .mpd"));
    };
    if let Err(error) = names.check(&app, &stream) {
        return Request::Bad(Refused::new(400, error.reason()));
    }
    let names_host = request.headers.iter().any(|header| header.name.eq_ignore_ascii_case("host"));
    if request.version == Some(1) && !names_host {
        return Request::Bad(Refused::new(400, "HTTP/1.1 needs a Host field"));
    }
    let field = |name: &str| {
        let header = request.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()
    };
    let closes = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("connection")
            && header
                .value
                .split(|byte| *byte == b',')
                .any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    });
    // Whatever they say: what cannot be read is no reason to take a body for the next request.
    let body_fields = ["content-length", "transfer-encoding"];
    let has_body = request
        .headers
        .iter()
        .any(|header| body_fields.iter().any(|field| header.name.eq_ignore_ascii_case(field)));
    let accepts_gzip = field("accept-encoding").is_some_and(accepts_gzip);
    let form = match segments.map(|target| ObjectRequest::read(target, query, accepts_gzip)) {
        None => whole.map_or(Form::Flv, |(_, form)| form),
        Some(Ok(request)) => Form::Segments(request.with_range(field("range"), field("if-range").is_some())),
        Some(Err(refused)) => return Request::Bad(refused),
    };
    Request::Media(Box::new(MediaRequest {
        app,
        stream,
        form,
        may_stay: request.version == Some(1) && !closes && !has_body,
        token: query_value(query, "token"),
        target: target.to_owned(),
        method: method_of(request.method.unwrap_or(""), field),
        user_agent: field("user-agent").map(kept_user_agent),
        chunked: request.version == Some(1),
        head_bytes,
    }))
}

/// The path and query of a request target in origin form or absolute form (RFC 9112 sections 3.2.1 and
/// 3.2.2).
fn origin_form(target: &str) -> &str {
    let authority = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    authority.map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]))
}

fn method_of<'a>(method: &str, field: impl Fn(&str) -> Option<&'a str>) -> Method {
    let upgrade = field("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"));
    match method {
        "GET" if upgrade => match (field("sec-websocket-version"), field("sec-websocket-key")) {
            (Some("13"), Some(key)) => Method::WebSocket { accept: websocket::accept_key(key.trim()) },
            (Some("13"), None) => Method::WebSocketKey,
            _ => Method::WebSocketVersion,
        },
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        _ => Method::Other,
    }
}

fn decode(text: &str) -> Option<String> {
    percent_encoding::percent_decode_str(text).decode_utf8().ok().map(String::from)
}

/// A refusal, which `fields` say more about. Its body is that of the API's errors.
pub(crate) fn write_refusal(out: &mut Vec<u8>, refused: &Refused, fields: &str, with_body: bool) {
    let (status, body) = (refused.status, refused.body());
    // Writing into a vector does not fail.
    let _ = write!(
        out,
        "HTTP/1.1 {status} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        phrase(status),
        body.len(),
    );
    for (name, value) in refused.fields() {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    let _ = write!(out, "{fields}\r\n");
    if with_body {
        out.extend_from_slice(body.as_bytes());
    }
}

/// Answer to a CORS preflight.
pub(crate) fn write_preflight(out: &mut Vec<u8>, fields: &str) {
    let head = format!(
        "HTTP/1.1 204 No Content\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
         Access-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 86400\r\n{fields}\r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

/// Head of a stream's response, of a content type and in chunks or not. Without chunks the body
/// ends with the connection (RFC 9112 section 6.3), and the client cannot tell an end from a break.
pub(crate) fn write_stream_head(out: &mut Vec<u8>, (content_type, chunked): (&str, bool), fields: &str) {
    let coding = if chunked { "Transfer-Encoding: chunked\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nCache-Control: no-store\r\n{coding}{fields}\r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

/// Head of an answer with part of a stream. Objects that never change can be asked for by ranges.
pub(crate) fn write_object_head(out: &mut Vec<u8>, body: &hls::Body, ranged: Ranged, fields: &str) {
    // A player asks for several objects a second: nothing is allocated on the way. Writing into a vector does
    // not fail.
    out.extend_from_slice(match ranged {
        Ranged::Part { .. } => b"HTTP/1.1 206 Partial Content\r\n",
        _ => b"HTTP/1.1 200 OK\r\n",
    });
    let _ = match body.grows_from {
        Some(_) => write!(out, "Transfer-Encoding: chunked\r\n"),
        None => write!(out, "Content-Length: {}\r\n", body.len()),
    };
    let _ = write!(out, "Content-Type: {}\r\nCache-Control: {}\r\n", body.content_type, body.cache);
    let _ = match ranged {
        Ranged::Part { first, last, of } => write!(out, "Content-Range: bytes {first}-{last}/{of}\r\n"),
        _ if body.cache == hls::Cache::Immutable => write!(out, "Accept-Ranges: bytes\r\n"),
        _ => Ok(()),
    };
    if body.is_gzip {
        out.extend_from_slice(b"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n");
    }
    out.extend_from_slice(fields.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Answer to a WebSocket handshake.
pub(crate) fn write_upgrade(out: &mut Vec<u8>, accept: &str) {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    out.extend_from_slice(head.as_bytes());
}

/// Fields of all answers: who may read them (CORS), and whether the connection `stays` open.
pub(crate) fn common_fields(origin: Option<&str>, stays: bool) -> String {
    let cors = origin.map(|origin| format!("Access-Control-Allow-Origin: {origin}\r\n"));
    cors.unwrap_or_default() + if stays { "" } else { "Connection: close\r\n" }
}

fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        416 => "Range Not Satisfiable",
        426 => "Upgrade Required",
        431 => "Request Header Fields Too Large",
        307 => "Temporary Redirect",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtmp::name::NameError;
    use worker_api::auth::Denied;

    fn media(head: &str) -> MediaRequest {
        match parse(head.as_bytes(), &NameRules::default()) {
            Request::Media(request) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stream_is_app_and_name() {
        let request = media(
            "GET /live/sub/a%2B%C3%BC.flv?x=1&token=s%26t HTTP/1.1\r\nHost: h\r\nUser-Agent: vlc\r\n\r\n",
        );
        assert_eq!((request.app.as_str(), request.stream.as_str()), ("live/sub", "a+ü"));
        assert_eq!((request.token.as_deref(), request.user_agent.as_deref()), (Some("s&t"), Some("vlc")));
        assert_eq!(request.method, Method::Get);
    }

    #[test]
    fn a_connection_stays_unless_it_is_closed_or_a_body_follows() {
        for (field, stays) in [
            ("", true),
            ("Content-Type: text/plain\r\n", true),
            ("Connection: Close\r\n", false),
            ("Connection: keep-alive, close\r\n", false),
            ("Connection: keep-alive\r\nConnection: close\r\n", false),
            ("content-length: 2\r\n", false),
            ("Transfer-Encoding: chunked\r\n", false),
        ] {
            let head = format!("HEAD /live/a.flv HTTP/1.1\r\nHost: h\r\n{field}\r\n");
            assert_eq!(media(&head).may_stay, stays, "{field}");
        }
        let head = b"POST /live/a.flv HTTP/1.1\r\nHost: h\r\nContent-Length: 2\xff\r\n\r\nhi";
        let Request::Media(request) = parse(head, &NameRules::default()) else { panic!("no stream") };
        assert!(!request.may_stay, "a length that is no text");
        assert!(!media("HEAD /live/a.flv HTTP/1.0\r\n\r\n").may_stay);
    }

    #[test]
    fn a_refusal_has_the_body_of_the_apis_errors_and_says_whether_a_token_would_help() {
        let answer = |refused: Refused, with_body| {
            let mut out = Vec::new();
            write_refusal(&mut out, &refused, "Connection: close\r\n", with_body);
            String::from_utf8(out).expect("text")
        };
        let text = answer(Refused::new(404, "no \"a\" here"), true);
        let body = "{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"a\\\" here\"}}\n";
        let length = body.len();
        let head = "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n";
        assert_eq!(text, format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"));
        let text = answer(Denied::TokenMissing.into(), false);
        assert!(text.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{text}");
        assert!(text.contains("\r\nWWW-Authenticate: Bearer\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        let text = answer(Denied::Closed.into(), false);
        assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n") && !text.contains("WWW-"), "{text}");
    }

    #[test]
    fn absolute_form_names_the_same_stream() {
        let request = media("GET http://host:8080/live/a.flv?token=t HTTP/1.0\r\n\r\n");
        assert_eq!((request.app.as_str(), request.stream.as_str()), ("live", "a"));
        assert_eq!((request.token.as_deref(), request.chunked), (Some("t"), false));
    }

    #[test]
    fn requests_are_sorted_by_what_they_need() {
        let rows: [(&str, Request); 15] = [
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0", Request::Control),
            ("PRI * HTTP/2.0\r\n\r\n", Request::Incomplete),
            ("P", Request::Incomplete),
            ("PRI * HTTP/2.0\r\n\r\nsm\r\n\r\n", Request::Bad(Refused::new(400, "not an HTTP/1 request"))),
            (
                "GET /live/a.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(400, "HTTP/1.1 needs a Host field")),
            ),
            ("GET /live/a.flv HTTP/1.1\r\nHost", Request::Incomplete),
            ("GET /api/v1/recordings/live/a/20261127T190500.123Z.flv HTTP/1.1\r\n\r\n", Request::Control),
            ("GET / HTTP/1.1\r\n\r\n", Request::Control),
            ("POST /api/v1/streams HTTP/1.1\r\n\r\n", Request::Control),
            (
                "GET /a.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(404, "a stream is /{app}/{stream}.flv, .ts, .m3u8 or .mpd")),
            ),
            (
                "GET /live/..%2fa.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(400, NameError::Slash.reason())),
            ),
            (
                "GET /live/%2e%2e/a.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(400, NameError::Dot.reason())),
            ),
            (
                "GET /live/a%20b.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(400, NameError::Character.reason())),
            ),
            (
                "GET /live/%ff.flv HTTP/1.1\r\n\r\n",
                Request::Bad(Refused::new(404, "a stream is /{app}/{stream}.flv, .ts, .m3u8 or .mpd")),
            ),
            ("\x16\x03\x01", Request::Bad(Refused::new(400, "not an HTTP/1 request"))),
        ];
        for (head, expected) in rows {
            assert_eq!(parse(head.as_bytes(), &NameRules::default()), expected, "{head:?}");
        }
    }

    #[test]
    fn a_head_that_never_ends_is_refused() {
        let head = format!("GET /live/a.flv HTTP/1.1\r\nX: {}", "a".repeat(HEAD_BYTES_MAX));
        assert_eq!(
            parse(head.as_bytes(), &NameRules::default()),
            Request::Bad(Refused::new(431, "request head too large"))
        );
    }

    #[test]
    fn websocket_needs_version_13_and_a_key() {
        let head = |fields: &str| {
            format!("GET /live/a.flv HTTP/1.1\r\nHost: h\r\nUpgrade: WebSocket\r\n{fields}\r\n")
        };
        let good = head("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned();
        assert_eq!(media(&good).method, Method::WebSocket { accept });
        assert_eq!(media(&head("Sec-WebSocket-Version: 8\r\n")).method, Method::WebSocketVersion);
        assert_eq!(media(&head("Sec-WebSocket-Version: 13\r\n")).method, Method::WebSocketKey);
    }
}
