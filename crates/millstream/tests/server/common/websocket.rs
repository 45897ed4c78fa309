//! A player of WebSocket-FLV.

use std::io::{self, Read};
use std::net::TcpStream;

use tungstenite::{Message, WebSocket};

use super::TIMEOUT;
use super::server::Server;

/// Plays `stream` (`app/name`) as WebSocket-FLV.
pub(crate) fn connect(server: &Server, stream: &str) -> WebSocket<TcpStream> {
    let socket = TcpStream::connect(server.http).expect("connect");
    socket.set_read_timeout(Some(TIMEOUT)).expect("set a timeout");
    let url = format!("ws://{}/{stream}.flv", server.http);
    let (socket, response) = tungstenite::client(url, socket).expect("the server upgrades the connection");
    assert_eq!(response.status(), 101);
    socket
}

/// Payloads of binary messages as one byte stream.
pub(crate) struct Messages {
    socket: WebSocket<TcpStream>,
    rest: Vec<u8>,
}

impl Messages {
    /// What comes on this connection.
    pub(crate) fn new(socket: WebSocket<TcpStream>) -> Self {
        Self { socket, rest: Vec::new() }
    }
}

impl Read for Messages {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.socket.read().map_err(io::Error::other)? {
                Message::Binary(payload) => self.rest = payload.into(),
                Message::Close(_) => return Ok(0),
                Message::Text(text) => panic!("a text message: {text}"),
                _ => {}
            }
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }
}
