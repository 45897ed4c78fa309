//! The bytes of a connection: a TCP socket that can be asked about itself while HTTP and TLS sit on
//! top of it.
//!
//! [`Socket`] is what the layers above read and write; [`Link`] is what stays in hand, to ask the
//! kernel for round-trip time and unread bytes and to know how many bytes the layers above have
//! taken in.

use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::tcp_info;

/// What HTTP runs over: TCP, or TLS over it.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection seen from outside. Holding it keeps the socket open.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    stream: Arc<TcpStream>,
    /// Bytes that HTTP has taken in, TLS left out.
    read_bytes: Arc<AtomicU64>,
    /// Bytes of them that have been handed on, or were not of a body.
    taken_bytes: Arc<AtomicU64>,
    /// Bytes that HTTP has sent, TLS left out.
    written_bytes: Arc<AtomicU64>,
}

impl Link {
    /// The socket for the layers above, and the view of it.
    pub(crate) fn new(stream: TcpStream) -> (Socket, Self) {
        let stream = Arc::new(stream);
        (
            Socket { stream: Arc::clone(&stream) },
            Self {
                stream,
                read_bytes: Arc::default(),
                taken_bytes: Arc::default(),
                written_bytes: Arc::default(),
            },
        )
    }

    /// The layer just below HTTP, counted.
    pub(crate) fn metered(&self, inner: Box<dyn Transport>) -> Metered {
        Metered {
            inner,
            read_bytes: Arc::clone(&self.read_bytes),
            written_bytes: Arc::clone(&self.written_bytes),
        }
    }

    /// A head of about `head_bytes` has arrived, and a body begins. On a connection with one body
    /// at a time, the previous one is complete.
    pub(crate) fn begin_body(&self, read_before: Option<u64>, head_bytes: u64) {
        match read_before {
            Some(read) => self.taken_bytes.store(read + head_bytes, Ordering::Relaxed),
            None => self.took(head_bytes),
        }
    }

    /// No body is in flight: whatever came and was not handed on has been dropped.
    pub(crate) fn settle(&self) {
        self.taken_bytes.store(self.read_bytes(), Ordering::Relaxed);
    }

    /// Bytes of a body have been handed on.
    pub(crate) fn took(&self, bytes: u64) {
        self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that HTTP has taken in since the connection opened.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that HTTP has sent since the connection opened.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that the other side's kernel has acknowledged, where this one says it.
    pub(crate) fn acknowledged_bytes(&self) -> Option<u64> {
        tcp_info::sample(&*self.stream).map(|info| info.acknowledged_bytes).filter(|bytes| *bytes > 0)
    }

    /// Bytes that are here and have not been handed on: in HTTP's buffers (within the size of a
    /// head) and in the kernel's (with TLS, as they came).
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.unread_bytes() + tcp_info::unread_bytes(&*self.stream)
    }

    /// Bytes that HTTP has taken in and that have not been handed on.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.read_bytes().saturating_sub(self.taken_bytes.load(Ordering::Relaxed))
    }

    /// The other end.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// Smoothed round-trip time.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        tcp_info::sample(&*self.stream).map(|info| info.round_trip)
    }
}

/// A shared TCP socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result.map(drop)),
            }
        }
    }
}

/// No vectored writes: they are `writev`, which raises SIGPIPE when the server has closed, and ends a
/// program in C that has not ignored it; `write` is `send` with `MSG_NOSIGNAL`. Requests are small.
impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(context))?;
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}

/// The layer below HTTP, counting what HTTP takes in and sends.
pub(crate) struct Metered {
    inner: Box<dyn Transport>,
    read_bytes: Arc<AtomicU64>,
    written_bytes: Arc<AtomicU64>,
}

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metered").field("read_bytes", &self.read_bytes).finish_non_exhaustive()
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        let read = buffer.filled().len() - before;
        self.read_bytes.fetch_add(read as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.written_bytes.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
