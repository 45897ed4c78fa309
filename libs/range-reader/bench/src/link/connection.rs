//! One connection through the link: two sockets, and the bytes between them with the time they are
//! due.
//!
//! ```text
//! down:  | arrived, not written yet | on the link | waiting at the sender |   (one queue, front to back)
//! ```
//! What waits at the sender is read ahead from the server in large pieces, so that the link is
//! never idle for limits of bytes that the server has; it counts only when it is sent.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::path::Window;

/// Bytes read ahead from the server: more than any window.
const READ_AHEAD: usize = 4 << 20;

/// Both ends of a connection, seen from the link between them.
#[derive(Debug)]
pub(crate) struct Connection {
    /// None: it has closed, or has been reported that the server has.
    pub(crate) client: Option<TcpStream>,
    /// `None`: it has closed, or has learned that the client has left.
    pub(crate) server: Option<TcpStream>,
    /// When the handshake, which the kernel has made at once, would be complete.
    pub(crate) open_at: u64,
    pub(crate) window: Window,
    down: VecDeque<u8>,
    arrived: usize,
    on_link: usize,
    up: VecDeque<u8>,
    /// The server's end has reached the client.
    finished: bool,
    blank_line: BlankLine,
}

impl Connection {
    pub(crate) fn new(
        client: TcpStream,
        server: TcpStream,
        open_at: u64,
        window: Window,
    ) -> io::Result<Self> {
        for socket in [&client, &server] {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
        }
        Ok(Self {
            client: Some(client),
            server: Some(server),
            open_at,
            window,
            down: VecDeque::new(),
            arrived: 0,
            on_link: 0,
            up: VecDeque::new(),
            finished: false,
            blank_line: BlankLine(0),
        })
    }

    /// Whatever of the response the server has, up to the limit. False: the server has closed.
    pub(crate) fn read_server(&mut self, scratch: &mut [u8]) -> bool {
        while self.wants_server() {
            let Some(server) = &mut self.server else { return true };
            match server.read(scratch) {
                Ok(0) => return false,
                Ok(bytes) => self.down.extend(&scratch[..bytes]),
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// What the client sends, and the requests that end in it. None: it has closed.
    pub(crate) fn read_client(&mut self, scratch: &mut [u8]) -> Option<(usize, u64)> {
        let client = self.client.as_mut()?;
        match client.read(scratch) {
            Ok(0) => None,
            Ok(bytes) => Some((bytes, self.blank_line.count(&scratch[..bytes]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some((0, 0)),
            Err(_) => None,
        }
    }

    /// Bytes of a request have reached the server.
    pub(crate) fn request_arrives(&mut self, bytes: &[u8]) {
        self.up.extend(bytes);
        self.write_server();
    }

    pub(crate) fn write_server(&mut self) {
        let Some(server) = &mut self.server else { return };
        while !self.up.is_empty() {
            match server.write(self.up.as_slices().0) {
                Ok(bytes) => drop(self.up.drain(..bytes)),
                // An error shows when the response is read.
                Err(_) => return,
            }
        }
    }

    /// Moves `bytes` from the sender to the link.
    pub(crate) fn send(&mut self, now: u64, bytes: u64) {
        self.window.sent(now, bytes);
        self.on_link += usize::try_from(bytes).unwrap_or(usize::MAX);
    }

    /// `bytes` reach the client. If it has left, they are wasted.
    pub(crate) fn arrive(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.on_link -= bytes;
        if self.client.is_some() {
            self.arrived += bytes;
        } else {
            self.down.drain(..bytes);
        }
    }

    /// Writes what has arrived; how much the client has taken. None: it has closed.
    pub(crate) fn write_client(&mut self) -> Option<u64> {
        let client = self.client.as_mut()?;
        let mut written = 0;
        while self.arrived > 0 {
            let (front, back) = self.down.as_slices();
            let front = &front[..front.len().min(self.arrived)];
            let back = &back[..self.arrived - front.len()];
            match client.write_vectored(&[IoSlice::new(front), IoSlice::new(back)]) {
                Ok(bytes) => {
                    self.down.drain(..bytes);
                    self.arrived -= bytes;
                    written += bytes as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
        }
        if self.finished && self.down.is_empty() {
            let _ = client.shutdown(Shutdown::Write);
        }
        Some(written)
    }

    /// The client has closed: what has arrived is lost.
    pub(crate) fn client_left(&mut self) {
        self.client = None;
        self.down.drain(..self.arrived);
        self.arrived = 0;
    }

    /// The server has learned of it and stops sending.
    pub(crate) fn server_knows(&mut self) {
        self.server = None;
        self.down.truncate(self.arrived + self.on_link);
    }

    /// The server's end of the connection has reached the client.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
    }

    /// Bytes that wait at the sender.
    pub(crate) fn waiting(&self) -> u64 {
        (self.down.len() - self.arrived - self.on_link) as u64
    }

    /// Bytes are to be read from the server.
    pub(crate) fn wants_server(&self) -> bool {
        self.server.is_some() && self.down.len() < READ_AHEAD + self.arrived
    }

    /// Bytes could not be written yet to the client, or to the server.
    pub(crate) fn blocked(&self) -> (bool, bool) {
        (self.arrived > 0, !self.up.is_empty())
    }

    /// Nothing more will happen.
    pub(crate) fn is_over(&self) -> bool {
        self.client.is_none() && self.server.is_none() && self.on_link == 0
    }
}

/// Counts the ends of heads, which come in any pieces. Requests here have no bodies.
#[derive(Debug)]
struct BlankLine(usize);

impl BlankLine {
    const END: &[u8] = b"\r\n\r\n";

    fn count(&mut self, bytes: &[u8]) -> u64 {
        let mut found = 0;
        for byte in bytes {
            self.0 = match (*byte == Self::END[self.0], byte) {
                (true, _) => self.0 + 1,
                (false, b'\r') => 1,
                (false, _) => 0,
            };
            if self.0 == Self::END.len() {
                (self.0, found) = (0, found + 1);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_however_they_are_cut() {
        let text = b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET /b HTTP/1.1\r\n\r\r\n\r\nGET";
        for cut in 0..text.len() {
            let mut counter = BlankLine(0);
            assert_eq!(counter.count(&text[..cut]) + counter.count(&text[cut..]), 2, "cut at {cut}");
        }
    }
}
