//! A small blocking HTTP/1.1 client: one connection, kept open from request to request.
//!
//! Enough for WHIP, WHEP and Janus. What the answers mean is decided in `signalling.rs`. Bodies are
//! limited, redirections and TLS are left out: servers under test run beside this program.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::net::HttpUrl;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// `Location`, as the server wrote it.
    pub location: Option<String>,
    /// `Retry-After`, as the server wrote it.
    pub retry_after: Option<String>,
    /// Whole body.
    pub body: Vec<u8>,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `POST`, for example.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Type of the body.
    pub content_type: &'a str,
    /// `Authorization: Bearer`.
    pub token: Option<&'a str>,
    /// May be empty.
    pub body: &'a [u8],
}

/// A connection to one server.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    authority: String,
    stream: Option<TcpStream>,
}

impl Connection {
    /// Connects with the first request.
    pub fn new(address: SocketAddr, authority: &str) -> Connection {
        Connection { address, authority: authority.to_owned(), stream: None }
    }

    /// Sends a request and waits for the answer.
    ///
    /// A connection that the server has closed since the last answer is opened again, once.
    ///
    /// # Errors
    /// A text without addresses and numbers, so that sessions that fail alike read alike.
    pub fn request(&mut self, request: &Request<'_>) -> Result<Response, String> {
        let was_open = self.stream.is_some();
        match self.exchange(request) {
            Err(Trouble::Closed) if was_open => self.exchange(request).map_err(Trouble::text),
            other => other.map_err(Trouble::text),
        }
    }

    fn exchange(&mut self, request: &Request<'_>) -> Result<Response, Trouble> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(self.address)?,
        };
        let mut bytes = head(request, &self.authority);
        bytes.extend_from_slice(request.body);
        stream.write_all(&bytes)?;
        let (response, keep) = read(&mut stream)?;
        if keep {
            self.stream = Some(stream);
        }
        Ok(response)
    }
}

enum Trouble {
    /// Closed before a byte of the answer came.
    Closed,
    Other(String),
}

impl Trouble {
    fn text(self) -> String {
        match self {
            Trouble::Closed => "HTTP: closed by the server".to_owned(),
            Trouble::Other(text) => text,
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Trouble::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Trouble::Other(format!("HTTP: no answer within {} s", ANSWER_TIME.as_secs()))
            }
            kind => Trouble::Other(format!("HTTP: {kind}")),
        }
    }
}

fn open(address: SocketAddr) -> Result<TcpStream, Trouble> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIME)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))?;
    Ok(stream)
}

fn head(request: &Request<'_>, authority: &str) -> Vec<u8> {
    let token = request.token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let Request { method, path, content_type, body, .. } = request;
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{token}\r\n",
        body.len()
    )
    .into_bytes()
}

/// The answer, and whether the connection can be used again.
fn read(stream: &mut impl Read) -> Result<(Response, bool), Trouble> {
    let mut bytes = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Response::new(&mut headers);
        match parsed.parse(&bytes) {
            Ok(httparse::Status::Complete(length)) if parsed.code == Some(100) => {
                bytes.drain(..length);
            }
            Ok(httparse::Status::Complete(length)) => {
                let head = Head::of(&parsed);
                bytes.drain(..length);
                return read_body(stream, head, bytes);
            }
            Ok(httparse::Status::Partial) if bytes.len() < BODY_MAX => more(stream, &mut bytes)?,
            _ => return Err(Trouble::Other("HTTP: not an answer".to_owned())),
        }
    }
}

struct Head {
    response: Response,
    length: Option<usize>,
    chunked: bool,
    keep: bool,
}

impl Head {
    fn of(parsed: &httparse::Response<'_, '_>) -> Head {
        let value = |name: &str| {
            let header = parsed.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
            std::str::from_utf8(header.value).ok().map(str::trim)
        };
        let is = |name, wanted: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        let status = parsed.code.unwrap_or(0);
        let bodiless = status == 204 || status == 304;
        Head {
            response: Response {
                status,
                location: value("location").map(str::to_owned),
                retry_after: value("retry-after").map(str::to_owned),
                body: Vec::new(),
            },
            length: if bodiless {
                Some(0)
            } else {
                value("content-length").and_then(|text| text.parse().ok())
            },
            chunked: is("transfer-encoding", "chunked"),
            keep: !is("connection", "close") && parsed.version == Some(1),
        }
    }
}

fn read_body(stream: &mut impl Read, head: Head, mut bytes: Vec<u8>) -> Result<(Response, bool), Trouble> {
    let Head { mut response, length, chunked, keep } = head;
    if chunked {
        response.body = read_chunks(stream, &mut bytes)?;
        return Ok((response, keep && bytes.is_empty()));
    }
    let Some(length) = length else {
        // Up to the end of the connection.
        while bytes.len() < BODY_MAX && more(stream, &mut bytes).is_ok() {}
        response.body = bytes;
        return Ok((response, false));
    };
    fill(stream, &mut bytes, length)?;
    let keep = keep && bytes.len() == length;
    bytes.truncate(length);
    response.body = bytes;
    Ok((response, keep))
}

/// Chunked coding (RFC 9112 section 7.1); trailers are passed over.
fn read_chunks(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Result<Vec<u8>, Trouble> {
    let mut body = Vec::new();
    loop {
        let (begin, size) = loop {
            match httparse::parse_chunk_size(bytes) {
                Ok(httparse::Status::Complete(found)) => break found,
                Ok(httparse::Status::Partial) => more(stream, bytes)?,
                Err(_) => return Err(Trouble::Other("HTTP: broken chunked coding".to_owned())),
            }
        };
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(BODY_MAX + 1);
        if body.len() + size > BODY_MAX {
            return Err(too_long());
        }
        fill(stream, bytes, begin + size + 2)?;
        body.extend_from_slice(&bytes[begin..begin + size]);
        bytes.drain(..begin + size + 2);
        if size == 0 {
            return Ok(body);
        }
    }
}

fn fill(stream: &mut impl Read, bytes: &mut Vec<u8>, length: usize) -> Result<(), Trouble> {
    if length > BODY_MAX + CHUNK_HEAD_MAX {
        return Err(too_long());
    }
    while bytes.len() < length {
        more(stream, bytes)?;
    }
    Ok(())
}

fn too_long() -> Trouble {
    Trouble::Other("HTTP: the answer is too long".to_owned())
}

fn more(stream: &mut impl Read, bytes: &mut Vec<u8>) -> Result<(), Trouble> {
    let mut buffer = [0; 4096];
    match stream.read(&mut buffer) {
        Ok(0) if bytes.is_empty() => Err(Trouble::Closed),
        Ok(0) => Err(Trouble::Other("HTTP: closed amid an answer".to_owned())),
        Ok(length) => {
            bytes.extend_from_slice(&buffer[..length]);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The path of a `Location` seen from the URL that was asked: absolute URLs lose their authority,
/// relative ones are taken from the last slash (RFC 3986 section 5.2, as far as servers use it).
pub fn location_path(asked: &HttpUrl, location: &str) -> String {
    if let Some((_, rest)) = location.split_once("://") {
        return rest.find('/').map_or("/", |slash| &rest[slash..]).to_owned();
    }
    if location.starts_with('/') {
        return location.to_owned();
    }
    let folder =
        asked.path.split('?').next().and_then(|path| path.rsplit_once('/')).map_or("", |(folder, _)| folder);
    format!("{folder}/{location}")
}

const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Longer than Janus holds a request for events (30 s).
const ANSWER_TIME: Duration = Duration::from_secs(35);
const BODY_MAX: usize = 256 * 1024;
const CHUNK_HEAD_MAX: usize = 64;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    /// Gives `bytes` one at a time, the worst a network may do.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let [first, rest @ ..] = self.0 else { return Ok(0) };
            (buffer[0], self.0) = (*first, rest);
            Ok(1)
        }
    }

    fn body_of(text: &str) -> Result<(u16, String, bool), String> {
        let (response, keep) = read(&mut Slow(text.as_bytes())).map_err(Trouble::text)?;
        Ok((response.status, String::from_utf8(response.body).expect("text"), keep))
    }

    #[test]
    fn bodies_end_where_the_head_says() {
        let cases = [
            ("HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nsdp", (201, "sdp", true), "by length"),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
                (200, "x", true),
                "after 100",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
                (200, "abc", true),
                "chunks",
            ),
            ("HTTP/1.1 204 No Content\r\n\r\n", (204, "", true), "no content"),
            (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
                (200, "ok", false),
                "closing",
            ),
            ("HTTP/1.0 200 OK\r\n\r\nup to the end", (200, "up to the end", false), "by the end"),
        ];
        for (text, (status, body, keep), remark) in cases {
            assert_eq!(body_of(text), Ok((status, body.to_owned(), keep)), "{remark}");
        }
    }

    #[test]
    fn broken_and_endless_answers_are_errors() {
        let cases = [
            ("", "closed by the server"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "closed amid"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", "too long"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "broken chunked"),
            ("SIP/2.0 200 OK\r\n\r\n", "not an answer"),
        ];
        for (text, expected) in cases {
            assert!(
                body_of(text).is_err_and(|error| error.contains(expected)),
                "{text:?}: {:?}",
                body_of(text)
            );
        }
    }

    #[test]
    fn locations_become_paths_at_the_same_server() {
        let asked = HttpUrl::from_str("http://h:8080/whep/live/a?token=x").expect("a URL");
        let cases = [
            ("/rtc/session/1", "/rtc/session/1"),
            ("http://other:1/rtc/2", "/rtc/2"),
            ("http://other", "/"),
            ("session/3", "/whep/live/session/3"),
        ];
        for (location, path) in cases {
            assert_eq!(location_path(&asked, location), path, "{location}");
        }
    }
}
