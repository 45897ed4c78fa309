//! TCP, or TLS on it, with a time by which whatever is waited for must be there.
//!
//! A time limit for each read would not do: who sends a byte now and then, or frames that mean
//! nothing, never exceeds it. What is waited for, and what it means that it did not come, is the
//! caller's business.

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
    /// What is read and written must be done `timeout` from now.
    pub(super) fn new(socket: TcpStream, timeout: Duration) -> Self {
        Self { socket, deadline: now() + timeout }
    }

    /// Time that is left. Errors with `TimedOut` when there is none.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Transport {
    /// Gives what is waited for next `timeout` from now on.
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
