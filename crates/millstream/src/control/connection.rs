//! A connection taken over from a worker, as an async byte stream.
//!
//! The worker has read the request head, and with TLS the handshake and some records: those bytes are given out
//! first. `tokio-rustls` cannot continue a session somebody else began, so the TLS side drives
//! `rustls::ServerConnection` itself: `read_tls` and `process_new_packets` on the way in, `write_tls` on the way out.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::worker::link::Handoff;

/// Plain or TLS, with what was read before the hand-over.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    buffered: Vec<u8>,
    /// Bytes of `buffered` given out; `0 <= taken <= buffered.len()`.
    taken: usize,
    close_sent: bool,
}

impl Connection {
    /// Takes a connection over. Must be called on the runtime that will serve it.
    pub fn new(handoff: Handoff) -> io::Result<Self> {
        handoff.stream.set_nonblocking(true)?;
        Ok(Self {
            socket: TcpStream::from_std(handoff.stream)?,
            tls: handoff.tls,
            buffered: handoff.buffered,
            taken: 0,
            close_sent: false,
        })
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let rest = &this.buffered[this.taken..];
        if !rest.is_empty() {
            let count = rest.len().min(out.remaining());
            out.put_slice(&rest[..count]);
            this.taken += count;
            return Poll::Ready(Ok(()));
        }
        match &mut this.tls {
            None => Pin::new(&mut this.socket).poll_read(cx, out),
            Some(tls) => poll_read_tls(tls, &mut this.socket, cx, out),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(tls) = &mut this.tls else { return Pin::new(&mut this.socket).poll_write(cx, bytes) };
        // Records wait in `tls` only while the socket is full; taking more then would grow without bound.
        std::task::ready!(poll_send_records(tls, &mut this.socket, cx))?;
        let count = tls.writer().write(bytes)?;
        // What does not fit now is sent by the next write, flush or shutdown.
        match poll_send_records(tls, &mut this.socket, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(tls) = &mut this.tls {
            std::task::ready!(poll_send_records(tls, &mut this.socket, cx))?;
        }
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(tls) = &mut this.tls {
            if !this.close_sent {
                tls.send_close_notify();
                this.close_sent = true;
            }
            std::task::ready!(poll_send_records(tls, &mut this.socket, cx))?;
        }
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

/// Gives out plaintext, reading records as long as there is none.
fn poll_read_tls(
    tls: &mut ServerConnection,
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    out: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    loop {
        match tls.reader().read(out.initialize_unfilled()) {
            Ok(count) => {
                out.advance(count);
                return Poll::Ready(Ok(()));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The peer went away without saying goodbye: for one request and answer that is an end like any other.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
            Err(error) => return Poll::Ready(Err(error)),
        }
        match tls.read_tls(&mut Blocking { socket, cx }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
            Ok(_) => {}
        }
        let processed = tls.process_new_packets();
        // Answers to the handshake and alerts; if the socket is full they go out with the next write.
        if let Poll::Ready(Err(error)) = poll_send_records(tls, socket, cx) {
            return Poll::Ready(Err(error));
        }
        if let Err(error) = processed {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
    }
}

/// Sends the records that wait; pending while the socket is full.
fn poll_send_records(
    tls: &mut ServerConnection,
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while tls.wants_write() {
        match tls.write_tls(&mut Blocking { socket, cx }) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Shows rustls the async socket as one that says `WouldBlock`; the task is woken when it no longer would.
struct Blocking<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

impl Read for Blocking<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut out = ReadBuf::new(bytes);
        match Pin::new(&mut *self.socket).poll_read(self.cx, &mut out) {
            Poll::Ready(result) => result.map(|()| out.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.socket).poll_write(self.cx, bytes) {
            Poll::Ready(result) => result,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
