//! The connection of a push by TCP or TLS: bytes that wait to be written, and what is read
//! meanwhile.

use std::net::SocketAddr;

use sources::peer::{Connected, Stream, connect_to};
use sources::settings::SourceSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use crate::failure::{Failure, LOOP};
use crate::spec::is_this_server;

/// Bytes read at a time.
const READ_BYTES: usize = 16 << 10;
/// Bytes that wait to be written before no more frames are taken.
const PENDING_MAX: usize = 256 << 10;
/// Bytes of answers to what the server asks, of one that does not read them.
const ANSWERS_MAX: usize = 16 << 20;

/// An open connection.
pub(crate) struct Wire {
    input: ReadHalf<Box<dyn Stream>>,
    output: WriteHalf<Box<dyn Stream>>,
    buffer: Box<[u8]>,
    /// Bytes on their way, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    /// Written bytes may wait in TLS.
    wants_flush: bool,
    peer: Option<SocketAddr>,
}

/// What [`Wire::drive`] has done.
pub(crate) enum Moved {
    /// So many bytes have come.
    Read(usize),
    /// So many have gone.
    Wrote(u64),
}

impl Wire {
    /// Connects to a server which is not this one, as far as `own_ports` tell.
    pub(crate) async fn open(
        host: &str,
        port: u16,
        is_tls: bool,
        settings: &SourceSettings,
        own_ports: &[u16],
    ) -> Result<Self, Failure> {
        let connected = connect_to(host, port, is_tls, settings).await.map_err(Failure::new)?;
        let Connected { stream, peer, local } = connected;
        if let Some((local, peer)) = local.zip(peer)
            && is_this_server(local.ip(), peer, own_ports)
        {
            return Err(Failure::lasting(LOOP));
        }
        let (input, output) = tokio::io::split(stream);
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        Ok(Self { input, output, buffer, out: Vec::new(), written: 0, wants_flush: false, peer })
    }

    /// Puts bytes behind what is on its way.
    pub(crate) fn send(&mut self, bytes: &mut Vec<u8>) -> Result<(), Failure> {
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
        self.out.append(bytes);
        if self.pending() > ANSWERS_MAX {
            return Err(Failure::new("the server reads nothing of what it asks for"));
        }
        Ok(())
    }

    /// Whether it takes another frame at present.
    pub(crate) fn has_room(&self) -> bool {
        self.pending() < PENDING_MAX
    }

    /// Bytes that are not written yet, of those that were handed over to be.
    pub(crate) fn pending(&self) -> usize {
        self.out.len() - self.written
    }

    /// Reads or writes, whichever goes first. Nothing is lost when it is dropped while it waits.
    pub(crate) async fn drive(&mut self) -> Result<Moved, Failure> {
        let is_written = self.written == self.out.len();
        let Self { input, output, buffer, out, written, wants_flush, .. } = self;
        tokio::select! {
            read = input.read(buffer) => match read? {
                0 => Err(Failure::new("the server closed the connection")),
                read => Ok(Moved::Read(read)),
            },
            moved = write_or_flush(output, &out[*written..], *wants_flush) => match moved? {
                0 if !is_written => Err(Failure::new("the server takes no more")),
                bytes => {
                    *written += bytes;
                    // What was flushed had been written all.
                    *wants_flush = bytes > 0;
                    Ok(Moved::Wrote(bytes as u64))
                }
            },
        }
    }

    /// What was read last.
    pub(crate) fn read(&self, bytes: usize) -> &[u8] {
        &self.buffer[..bytes]
    }

    /// Writes what waits, and closes.
    pub(crate) async fn finish(mut self) {
        let rest = self.out.split_off(self.written);
        if self.output.write_all(&rest).await.is_ok() {
            let _ = self.output.shutdown().await;
        }
    }

    /// Its other end.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

/// Writes some of `rest`, or, when there is none, what waits in TLS: 0 bytes.
async fn write_or_flush(
    output: &mut WriteHalf<Box<dyn Stream>>,
    rest: &[u8],
    wants_flush: bool,
) -> std::io::Result<usize> {
    if !rest.is_empty() {
        return output.write(rest).await;
    }
    if !wants_flush {
        // Until there is a frame.
        return std::future::pending().await;
    }
    output.flush().await.map(|()| 0)
}
