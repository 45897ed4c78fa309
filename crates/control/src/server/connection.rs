//! A connection taken over from a worker, as an async byte stream.
//!
//! The worker has read the request head, and with TLS the handshake and some records: those bytes are given
//! out first. `tokio-rustls` cannot continue a session somebody else began, so the TLS side drives
//! `rustls::ServerConnection` itself: `read_tls` and `process_new_packets` on the way in, `write_tls` on the
//! way out.

use std::io::{self, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Plain or TLS, with what was read before the hand-over.
#[derive(Debug)]
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<Box<ServerConnection>>,
    buffered: Vec<u8>,
    /// Bytes of `buffered` given out; `0 <= taken <= buffered.len()`.
    taken: usize,
    close_sent: bool,
    unsent: Arc<AtomicBool>,
}

impl Connection {
    /// Takes a connection over, of which `buffered` has been read. Must be called on the runtime that will
    /// serve it.
    pub(super) fn new(
        stream: std::net::TcpStream,
        tls: Option<Box<ServerConnection>>,
        buffered: Vec<u8>,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let socket = TcpStream::from_std(stream)?;
        Ok(Self { socket, tls, buffered, taken: 0, close_sent: false, unsent: Arc::default() })
    }

    /// Whether something was written and not flushed since, for who cannot reach the connection itself.
    pub(super) fn unsent(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.unsent)
    }

    /// The same connection, which gives `bytes` out first.
    pub(super) fn behind(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.buffered.splice(..self.taken, bytes.as_ref().iter().copied());
        self.taken = 0;
        self
    }

    /// Gives the connection away: the socket, the TLS state, and all plaintext that was not given out.
    pub(super) fn into_parts(
        mut self,
    ) -> io::Result<(std::net::TcpStream, Option<Box<ServerConnection>>, Vec<u8>)> {
        let mut buffered = self.buffered.split_off(self.taken);
        if let Some(tls) = &mut self.tls {
            match tls.reader().read_to_end(&mut buffered) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok((self.socket.into_std()?, self.tls, buffered))
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
        this.unsent.store(true, Ordering::Relaxed);
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
        std::task::ready!(Pin::new(&mut this.socket).poll_flush(cx))?;
        this.unsent.store(false, Ordering::Relaxed);
        Poll::Ready(Ok(()))
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
            // The peer went away without saying goodbye: for one request and answer that is an end like any
            // other.
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
        let sent = poll_send_records(tls, socket, cx);
        if let Err(error) = processed {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        if let Poll::Ready(Err(error)) = sent {
            return Poll::Ready(Err(error));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream as StdStream};

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Larger than what TLS and both sockets hold, so that every write has to wait at some time.
    const MUCH: usize = 16 << 20;

    fn configs() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
        let (certificate, key) = self_signed::certificate(["localhost".to_owned()]).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(certificate[0].clone()).expect("a root");
        let server = ServerConfig::builder().with_no_client_auth();
        let server = server.with_single_cert(certificate, key).expect("a key that fits");
        let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        (Arc::new(server), Arc::new(client))
    }

    /// What a worker does before it hands over: the handshake, and the first `count` plaintext bytes.
    fn begin(
        mut stream: StdStream,
        config: Arc<ServerConfig>,
        count: usize,
    ) -> (StdStream, Option<Box<ServerConnection>>, Vec<u8>) {
        let mut tls = Box::new(ServerConnection::new(config).expect("a session"));
        let mut buffered = Vec::new();
        while buffered.len() < count {
            tls.complete_io(&mut stream).expect("progress");
            let mut bytes = [0; 7];
            match tls.reader().read(&mut bytes) {
                Ok(read) => buffered.extend_from_slice(&bytes[..read]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        (stream, Some(tls), buffered)
    }

    fn client(
        address: std::net::SocketAddr,
        config: Arc<ClientConfig>,
    ) -> StreamOwned<ClientConnection, StdStream> {
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(config, name).expect("a session");
        StreamOwned::new(connection, StdStream::connect(address).expect("a connection"))
    }

    #[tokio::test]
    async fn a_session_begun_elsewhere_goes_on_in_both_directions() {
        let (server, client_config) = configs();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let peer = std::thread::spawn(move || {
            let mut stream = client(address, client_config);
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
            stream.write_all(&vec![7; MUCH]).expect("sent");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("an answer and a proper end");
            answer
        });
        let (stream, _) = listener.accept().expect("a connection");
        let (stream, tls, buffered) =
            tokio::task::spawn_blocking(move || begin(stream, server, 10)).await.expect("handed over");
        let mut connection = Connection::new(stream, tls, buffered).expect("taken over");
        let mut head = vec![0; 18];
        connection.read_exact(&mut head).await.expect("the head");
        assert_eq!(head, b"GET / HTTP/1.1\r\n\r\n", "what was read before comes first and once");
        let mut body = vec![0; MUCH];
        connection.read_exact(&mut body).await.expect("the body");
        assert!(body.iter().all(|byte| *byte == 7));
        let answer: Vec<u8> = (0..MUCH).map(|index| (index % 251) as u8).collect();
        connection.write_all(&answer).await.expect("written");
        connection.shutdown().await.expect("closed");
        let received =
            tokio::task::spawn_blocking(|| peer.join().expect("the peer ends")).await.expect("joined");
        assert!(received == answer, "{} bytes of {MUCH} arrived", received.len());
    }

    #[tokio::test]
    async fn bytes_that_are_no_tls_end_the_connection() {
        let (server, client_config) = configs();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (go_on, taken_over) = std::sync::mpsc::channel();
        let peer = std::thread::spawn(move || {
            let mut stream = client(address, client_config);
            stream.write_all(b"hello").expect("sent");
            taken_over.recv().expect("the other side goes on");
            stream.sock.write_all(&[0xff; 100]).expect("sent");
            // Stays until the other side has closed, so that nothing is reset.
            let _ = stream.sock.read_to_end(&mut Vec::new());
        });
        let (stream, _) = listener.accept().expect("a connection");
        let (stream, tls, buffered) =
            tokio::task::spawn_blocking(move || begin(stream, server, 5)).await.expect("handed over");
        let mut connection = Connection::new(stream, tls, buffered).expect("taken over");
        go_on.send(()).expect("the peer waits");
        let mut all = Vec::new();
        let error = connection.read_to_end(&mut all).await.expect_err("not TLS");
        assert_eq!((error.kind(), all.as_slice()), (io::ErrorKind::InvalidData, b"hello".as_slice()));
        drop(connection);
        tokio::task::spawn_blocking(|| peer.join().expect("the peer ends")).await.expect("joined");
    }
}
