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
        self.put(bytes);
        if self.pending() > ANSWERS_MAX {
            return Err(Failure::new("the server reads nothing of what it asks for"));
        }
        Ok(())
    }

    /// The same of a frame, of which there is one at a time as long as there [is room](Self::has_room).
    pub(crate) fn put(&mut self, bytes: &mut Vec<u8>) {
        // A server that is a little too slow never has all of it: what is written goes now and then.
        if self.written == self.out.len() || self.written >= PENDING_MAX {
            self.out.drain(..self.written);
            self.written = 0;
        }
        self.out.append(bytes);
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

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn a_server_that_is_always_a_little_behind_costs_no_memory() {
        let (here, mut there) = duplex(32 << 10);
        let (input, output) = tokio::io::split(Box::new(here) as Box<dyn Stream>);
        let buffer = vec![0; READ_BYTES].into_boxed_slice();
        let mut wire =
            Wire { input, output, buffer, out: Vec::new(), written: 0, wants_flush: false, peer: None };
        let mut seen = vec![0; 32 << 10];
        let (mut sent, mut read) = (0_u32, 0_u32);
        for _ in 0..2_000 {
            while wire.has_room() {
                let mut frame = Vec::new();
                frame.extend((0..4_096_u32).flat_map(|at| (sent + at).to_be_bytes()));
                sent += 4_096;
                wire.put(&mut frame);
            }
            assert!(wire.pending() > 0);
            wire.drive().await.expect("it writes");
            let mut bytes = there.read(&mut seen).await.expect("something");
            bytes += there.read_exact(&mut seen[bytes..bytes.next_multiple_of(4)]).await.expect("the rest");
            for word in seen[..bytes].chunks_exact(4) {
                assert_eq!(word, read.to_be_bytes());
                read += 1;
            }
            assert!(wire.out.capacity() < 2 << 20, "{} bytes", wire.out.capacity());
        }
        assert!(read > 8 << 20, "{read}");
    }
}
