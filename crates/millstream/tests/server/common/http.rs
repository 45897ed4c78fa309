//! A small HTTP/1.1 client that shows exactly what the server sent.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::TIMEOUT;

/// A complete response.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Value of the header `name` (lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }
}

/// A response whose body is still arriving.
pub(crate) struct Streaming {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    body: Body,
}

impl Streaming {
    /// Value of the header `name` (lower case).
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The connection itself, for timeouts and shutdown.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.body.reader.get_ref()
    }
}

impl Read for Streaming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer)
    }
}

/// GET, whole response.
pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Response> {
    request(address, "GET", path, &[])
}

/// Any request without a body, whole response.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<Response> {
    let mut streaming = open(address, method, path, headers)?;
    let mut body = Vec::new();
    if method != "HEAD" {
        streaming.read_to_end(&mut body)?;
    }
    Ok(Response { status: streaming.status, headers: streaming.headers, body })
}

/// Sends a request and reads the response's head.
pub(crate) fn open(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> io::Result<Streaming> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
        head.push_str("Connection: close\r\n");
    }
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    send(address, head.as_bytes())
}

/// Sends `bytes` as they are and reads the response's head.
pub(crate) fn send(address: SocketAddr, bytes: &[u8]) -> io::Result<Streaming> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.write_all(bytes)?;
    read_head(socket)
}

/// Reads a response's head from `socket`.
pub(crate) fn read_head(socket: TcpStream) -> io::Result<Streaming> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| io::Error::other(format!("not a status line: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let find = |name: &str| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let framing = if find("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
        Framing::Chunked { left: 0, first: true }
    } else if let Some(length) = find("content-length") {
        Framing::Length(length.parse().map_err(io::Error::other)?)
    } else {
        Framing::UntilClose
    };
    Ok(Streaming { status, headers, body: Body { reader, framing } })
}

struct Body {
    reader: BufReader<TcpStream>,
    framing: Framing,
}

enum Framing {
    UntilClose,
    Length(u64),
    Chunked { left: u64, first: bool },
    Ended,
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.framing {
            Framing::Ended => Ok(0),
            Framing::UntilClose => self.reader.read(buffer),
            Framing::Length(left) => {
                let got = self.reader.by_ref().take(*left).read(buffer)?;
                *left -= got as u64;
                Ok(got)
            }
            Framing::Chunked { left, first } => {
                if *left == 0 {
                    let mut line = String::new();
                    if !*first {
                        self.reader.read_line(&mut line)?;
                        line.clear();
                    }
                    *first = false;
                    if self.reader.read_line(&mut line)? == 0 {
                        return Err(io::Error::new(
                            io::ErrorKind::UnexpectedEof,
                            "the last chunk is missing",
                        ));
                    }
                    *left = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
                    if *left == 0 {
                        self.framing = Framing::Ended;
                        return Ok(0);
                    }
                }
                let got = self.reader.by_ref().take(*left).read(buffer)?;
                *left -= got as u64;
                Ok(got)
            }
        }
    }
}
