//! A server whose live stream is pulled, scripted: it serves what a test says, when it says so, over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rtmp::flv::{Tag, write_file_header, write_tag};
use serde_json::{Value, json};

use super::server::Server;
use super::{TIMEOUT, eventually, http, lasting_address, listen_at};

/// A listening origin.
pub(crate) struct Origin {
    listener: TcpListener,
}

/// One request that has come, its head read.
pub(crate) struct Asked {
    socket: TcpStream,
    /// Request line and header fields.
    pub(crate) head: Vec<String>,
}

impl Origin {
    /// On a free loopback port.
    pub(crate) fn start() -> Self {
        Self::at(lasting_address())
    }

    /// On an address where another one was.
    pub(crate) fn at(address: SocketAddr) -> Self {
        let listener = listen_at(address);
        listener.set_nonblocking(true).expect("a listener that can be looked at");
        Self { listener }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("an address")
    }

    /// `http` URL of `path`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Waits for the next request.
    pub(crate) fn accept(&self) -> Asked {
        let socket = eventually("the server connects to the origin", || self.accept_now());
        let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a request");
            match line.trim_end() {
                "" => return Asked { socket, head },
                line => head.push(line.to_owned()),
            }
        }
    }

    /// A connection, if there is one.
    pub(crate) fn accept_now(&self) -> Option<TcpStream> {
        let (socket, _) = self.listener.accept().ok()?;
        socket.set_nonblocking(false).expect("a socket that blocks");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        Some(socket)
    }
}

impl Asked {
    /// Value of a header field, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.iter().filter_map(|line| line.split_once(':'));
        fields
            .map(|(key, value)| (key, value.trim()))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|field| field.1)
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("send to the server");
    }

    /// Sends bytes to a server that may have closed the connection already.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Sends the head of an endless answer and the FLV file header.
    pub(crate) fn begin(&mut self) {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Type: video/x-flv\r\nConnection: close\r\n\r\n".to_vec();
        write_file_header(&mut bytes, true, true);
        self.send(&bytes);
    }

    /// Sends tags with `offset_ms` added to their time.
    pub(crate) fn send_tags(&mut self, tags: &[Tag], offset_ms: u32) {
        let mut bytes = Vec::new();
        for tag in tags {
            write_tag(&mut bytes, tag.kind, tag.timestamp.wrapping_add(offset_ms), &tag.body);
        }
        self.send(&bytes);
    }

    /// Waits until the server has closed its side.
    pub(crate) fn wait_closed(mut self) {
        self.socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let closed = std::io::Read::read(&mut self.socket, &mut [0; 16]);
        assert!(matches!(closed, Ok(0)) || closed.as_ref().is_err_and(super::rtmp::is_closed), "{closed:?}");
    }
}

/// POST of JSON to the management API.
pub(crate) fn post(server: &Server, path: &str, body: &str) -> http::Response {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        server.http,
        body.len()
    );
    let mut streaming =
        http::send(server.http, &[head.as_bytes(), body.as_bytes()].concat()).expect("an answer");
    let (status, headers) = (streaming.status, streaming.headers.clone());
    let mut body = Vec::new();
    std::io::Read::read_to_end(&mut streaming, &mut body).expect("a body");
    http::Response { status, headers, body }
}

/// Starts a pull of `url` as `live/NAME` through the API.
pub(crate) fn add_pull(server: &Server, name: &str, url: &str) {
    let body = json!({ "app": "live", "name": name, "url": url }).to_string();
    let answer = post(server, "/api/v1/pulls", &body);
    assert_eq!(answer.status, 201, "{url}: {}", answer.text());
}

/// The pull `live/NAME`, once `check` holds for it.
pub(crate) fn wait_for_pull(
    server: &Server,
    name: &str,
    what: &str,
    mut check: impl FnMut(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    let path = format!("/api/v1/pulls/live/{name}");
    let deadline = std::time::Instant::now() + TIMEOUT;
    while std::time::Instant::now() < deadline {
        last = server.api(&path);
        if check(&last) {
            return last;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the pull is not {what}: {last}");
}

/// Configuration of a server that may pull from this machine, and tries again soon.
pub(crate) const LOCAL: &str =
    "[sources]\nallow_private_addresses = true\nretry_min_ms = 50\nretry_max_ms = 400\n";
