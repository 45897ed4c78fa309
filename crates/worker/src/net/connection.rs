//! A TCP connection with or without TLS, as one non-blocking byte stream.
//!
//! `rustls` is driven here without any I/O of its own: ciphertext goes through the same socket
//! calls as plaintext. A write is accepted only while no older ciphertext waits, so that the queue
//! of a slow TLS peer stays in its delivery log, where it is shared and bounded, and not in the TLS
//! session.

use std::io::{self, IoSlice, Read, Write};

use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};

use crate::net::TcpSocket;
use worker_api::AddressSlot;

/// Plaintext one write may hand to TLS, bytes; it is kept encrypted until the socket has taken it.
const TLS_WRITE_BYTES: usize = 64 << 10;

/// A TCP connection, in clear text or TLS.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpSocket,
    tls: Option<Box<ServerConnection>>,
    /// Its place among those of its address.
    place: Option<AddressSlot>,
}

/// Outcome of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadOutcome {
    /// This many plaintext bytes; `more` when the socket may hold further ones.
    Data { bytes: usize, more: bool },
    /// Nothing now.
    WouldBlock,
    /// The peer has closed its side.
    Closed,
}

impl Connection {
    /// One that was accepted, with TLS if there is a configuration of it.
    pub(crate) fn accept(
        socket: TcpSocket,
        tls: Option<&Arc<ServerConfig>>,
        place: AddressSlot,
    ) -> Result<Self, rustls::Error> {
        let tls = tls.map(|config| ServerConnection::new(Arc::clone(config))).transpose()?;
        Ok(Self { socket, tls: tls.map(Box::new), place: Some(place) })
    }

    /// Goes on as TLS. Nothing has been read yet.
    pub(crate) fn begin_tls(&mut self, config: &Arc<ServerConfig>) -> Result<(), rustls::Error> {
        self.tls = Some(Box::new(ServerConnection::new(Arc::clone(config))?));
        Ok(())
    }

    /// One of another process, in clear text.
    pub(crate) fn resume(socket: TcpSocket, place: AddressSlot) -> Self {
        Self { socket, tls: None, place: Some(place) }
    }

    /// One that control gives back.
    pub(crate) fn from_parts(
        stream: TcpStream,
        tls: Option<Box<ServerConnection>>,
        place: Option<AddressSlot>,
    ) -> Self {
        Self { socket: stream.into(), tls, place }
    }

    /// What control needs of it.
    pub(crate) fn into_parts(self) -> (TcpStream, Option<Box<ServerConnection>>, Option<AddressSlot>) {
        (self.socket.into(), self.tls, self.place)
    }

    /// The socket, for its options and for the event queue.
    pub(crate) fn socket(&self) -> &TcpSocket {
        &self.socket
    }

    /// Whether its bytes go through TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Reads once into `plain`; `cipher` is scratch space for TLS.
    pub(crate) fn read(&mut self, plain: &mut [u8], cipher: &mut [u8]) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else {
            return Ok(match read_some(&mut self.socket, plain)? {
                None => ReadOutcome::WouldBlock,
                Some(0) => ReadOutcome::Closed,
                Some(bytes) => ReadOutcome::Data { bytes, more: bytes == plain.len() },
            });
        };
        let (mut filled, mut closed) = read_plain(tls, plain)?;
        while filled == 0 && !closed {
            let bytes = match read_some(&mut self.socket, cipher)? {
                None => return Ok(ReadOutcome::WouldBlock),
                Some(0) => return Ok(ReadOutcome::Closed),
                Some(bytes) => bytes,
            };
            let mut rest = &cipher[..bytes];
            while !rest.is_empty() && !closed {
                // After the peer's close_notify nothing is read any more, whatever it sends.
                closed = tls.read_tls(&mut rest)? == 0;
                tls.process_new_packets().map_err(io::Error::other)?;
                let (bytes, ended) = read_plain(tls, &mut plain[filled..])?;
                filled += bytes;
                closed |= ended;
            }
            while tls.wants_write() && write_tls(tls, &mut self.socket)? {}
        }
        Ok(if filled > 0 { ReadOutcome::Data { bytes: filled, more: true } } else { ReadOutcome::Closed })
    }

    /// Writes as much as is taken now; `WouldBlock` when nothing is.
    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return write_some(&mut self.socket, slices) };
        while tls.wants_write() {
            if !write_tls(tls, &mut self.socket)? {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let mut taken = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(TLS_WRITE_BYTES - taken)];
            taken += tls.writer().write(part)?;
            if taken == TLS_WRITE_BYTES {
                break;
            }
        }
        while tls.wants_write() && write_tls(tls, &mut self.socket)? {}
        Ok(taken)
    }

    /// Moves waiting ciphertext to the socket; `false` when some is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else { return Ok(true) };
        while tls.wants_write() {
            if !write_tls(tls, &mut self.socket)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether bytes accepted by [`write`](Self::write) still wait for the socket.
    pub(crate) fn holds_ciphertext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Tells the peer that nothing follows. Errors do not matter: the connection is given up anyway.
    pub(crate) fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = write_tls(tls, &mut self.socket);
        }
        let _ = self.socket.shutdown_write();
    }
}

/// Takes what has been decrypted: how many bytes, and whether the peer has said that no more will come.
fn read_plain(tls: &mut ServerConnection, plain: &mut [u8]) -> io::Result<(usize, bool)> {
    let mut filled = 0;
    while filled < plain.len() {
        match tls.reader().read(&mut plain[filled..]) {
            Ok(0) => return Ok((filled, true)),
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok((filled, false))
}

fn read_some(socket: &mut TcpSocket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.read(buffer) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn write_some(socket: &mut TcpSocket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        // `send` is cheaper than `writev` for the usual single slice.
        let result = if let [slice] = slices { socket.write(slice) } else { socket.write_vectored(slices) };
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Moves ciphertext to the socket; `false` when it would block.
fn write_tls(tls: &mut ServerConnection, socket: &mut TcpSocket) -> io::Result<bool> {
    loop {
        match tls.write_tls(socket) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// A handshaken TLS connection over loopback: the server's side, and the client's with its socket.
    fn tls_pair() -> (Connection, ClientConnection, TcpStream) {
        let (certificate, key) = self_signed::certificate(["localhost".to_owned()]).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate[0].clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificate, key)
            .unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.set_nonblocking(true).unwrap();
        let tls = Some(Box::new(ServerConnection::new(Arc::new(server)).unwrap()));
        let mut server = Connection::from_parts(accepted, tls, None);
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        while client.is_handshaking() {
            while client.wants_write() {
                client.write_tls(&mut socket).unwrap();
            }
            read_until(&mut server, |outcome| outcome == ReadOutcome::WouldBlock);
            if client.wants_read() && client.is_handshaking() {
                client.read_tls(&mut socket).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        while client.wants_write() {
            client.write_tls(&mut socket).unwrap();
        }
        read_until(&mut server, |outcome| outcome == ReadOutcome::WouldBlock);
        (server, client, socket)
    }

    fn read_until(server: &mut Connection, done: impl Fn(ReadOutcome) -> bool) -> Vec<u8> {
        let (mut plain, mut cipher, mut all) = (vec![0; 256 << 10], vec![0; 64 << 10], Vec::new());
        loop {
            let outcome = server.read(&mut plain, &mut cipher).unwrap();
            if let ReadOutcome::Data { bytes, .. } = outcome {
                all.extend_from_slice(&plain[..bytes]);
            }
            if done(outcome) {
                return all;
            }
        }
    }

    #[test]
    fn tls_input_ends_at_close_notify_whatever_follows() {
        for first in [&b""[..], b"GET /"] {
            let (mut server, mut client, mut socket) = tls_pair();
            client.writer().write_all(first).unwrap();
            client.send_close_notify();
            while client.wants_write() {
                client.write_tls(&mut socket).unwrap();
            }
            socket.write_all(&[0x17; 20_000]).unwrap();
            assert_eq!(read_until(&mut server, |outcome| outcome == ReadOutcome::Closed), first);
        }
    }

    #[test]
    fn tls_takes_a_bounded_piece_at_a_time_and_loses_nothing() {
        let (mut server, mut client, mut socket) = tls_pair();
        let sent: Vec<u8> = (0..1_000_000u32).map(|index| index as u8).collect();
        let (mut position, mut received) = (0, Vec::new());
        socket.set_nonblocking(true).unwrap();
        while received.len() < sent.len() {
            match server.write(&[IoSlice::new(&sent[position..])]) {
                Ok(taken) => {
                    assert!(taken <= TLS_WRITE_BYTES);
                    position += taken;
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            server.flush().unwrap();
            if client.read_tls(&mut socket).is_ok() {
                client.process_new_packets().unwrap();
                let mut piece = [0; 64 << 10];
                let bytes = client.reader().read(&mut piece).unwrap_or(0);
                received.extend_from_slice(&piece[..bytes]);
            }
        }
        assert!(received == sent, "the same bytes in the same order");
        assert!(!server.holds_ciphertext());
    }
}
