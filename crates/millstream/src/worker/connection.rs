//! A TCP connection with or without TLS, as one non-blocking byte stream.
//!
//! `rustls` is driven here without any I/O of its own: ciphertext goes through the same socket calls as
//! plaintext. A write is accepted only while no older ciphertext waits, so that the queue of a slow TLS peer stays
//! in its delivery log, where it is shared and bounded, and not in the TLS session.

use std::io::{self, IoSlice, Read, Write};

use mio::net::TcpStream;
use rustls::ServerConnection;

/// Plaintext one write may hand to TLS, bytes; it is kept encrypted until the socket has taken it.
const TLS_WRITE_BYTES: usize = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) tls: Option<Box<ServerConnection>>,
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
    /// Reads once into `plain`; `cipher` is scratch space for TLS.
    pub(crate) fn read(&mut self, plain: &mut [u8], cipher: &mut [u8]) -> io::Result<ReadOutcome> {
        let Some(tls) = &mut self.tls else {
            return Ok(match read_some(&mut self.socket, plain)? {
                None => ReadOutcome::WouldBlock,
                Some(0) => ReadOutcome::Closed,
                Some(bytes) => ReadOutcome::Data { bytes, more: bytes == plain.len() },
            });
        };
        let mut filled = read_plain(tls, plain)?;
        while filled == 0 {
            let bytes = match read_some(&mut self.socket, cipher)? {
                None => return Ok(ReadOutcome::WouldBlock),
                Some(0) => return Ok(ReadOutcome::Closed),
                Some(bytes) => bytes,
            };
            let mut rest = &cipher[..bytes];
            let mut closed = false;
            while !rest.is_empty() && !closed {
                // After the peer's close_notify nothing is read any more, whatever it sends.
                closed = tls.read_tls(&mut rest)? == 0;
                closed |= tls.process_new_packets().map_err(io::Error::other)?.peer_has_closed();
                filled += read_plain(tls, &mut plain[filled..])?;
            }
            while tls.wants_write() && write_tls(tls, &mut self.socket)? {}
            if closed && filled == 0 {
                return Ok(ReadOutcome::Closed);
            }
        }
        Ok(ReadOutcome::Data { bytes: filled, more: true })
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
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
    }
}

fn read_plain(tls: &mut ServerConnection, plain: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < plain.len() {
        match tls.reader().read(&mut plain[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn read_some(socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.read(buffer) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn write_some(socket: &mut TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
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
fn write_tls(tls: &mut ServerConnection, socket: &mut TcpStream) -> io::Result<bool> {
    loop {
        match tls.write_tls(socket) {
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
