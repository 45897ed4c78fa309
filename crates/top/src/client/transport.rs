//! TCP, or TLS on it, with a deadline for the next message.
//!
//! A timeout for each read would not do: a server that sends a byte now and then, or meaningless
//! frames, never exceeds it. The caller decides what must arrive and what its absence means.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

/// A TCP connection that is used until a deadline.
pub(super) struct TimedSocket {
    socket: TcpStream,
    deadline: Instant,
}

/// TCP, or TLS on it.
pub(super) enum Transport {
    Plain(TimedSocket),
    Tls(Box<StreamOwned<ClientConnection, TimedSocket>>),
}

impl TimedSocket {
    /// Everything read and written must be done `timeout` from now.
    pub(super) fn new(socket: TcpStream, timeout: Duration) -> Self {
        Self { socket, deadline: now() + timeout }
    }

    /// Time left. `TimedOut` when there is none.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Transport {
    /// Sets the next deadline `timeout` from now.
    pub(super) fn allow(&mut self, timeout: Duration) {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.sock,
        };
        socket.deadline = now() + timeout;
    }
}

impl Read for TimedSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buffer)
    }
}

impl Write for TimedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "reads and writes of a blocking socket take real time")]
    Instant::now()
}
