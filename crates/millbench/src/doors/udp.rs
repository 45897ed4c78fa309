//! Sockets of players by UDP, as `rtc/link.rs` has them: what a server sends in one call arrives in one.

use std::io;
use std::net::SocketAddr;

use group_send::{RecvBatch, socket};
use mio::net::UdpSocket;

use crate::counters::Counters;

/// A socket that takes several datagrams as one from the kernel, with room for what a player begins with.
///
/// # Errors
/// As the system calls report them.
pub fn open(local: SocketAddr) -> io::Result<UdpSocket> {
    let bound = std::net::UdpSocket::bind(local)?;
    bound.set_nonblocking(true)?;
    socket::enable_gro(&bound)?;
    // What is granted is enough for ordinary times; a burst that overflows it shows as loss.
    let _ = socket::size_buffers(&bound, BUFFER_BYTES)?;
    Ok(UdpSocket::from_std(bound))
}

/// Reads until the socket is empty, and gives each datagram to `take`, with its source.
///
/// # Errors
/// Those of `take`, or that the server is not there.
pub fn receive(
    socket: &UdpSocket,
    batch: &mut RecvBatch,
    counters: &mut Counters,
    mut take: impl FnMut(&mut Counters, SocketAddr, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    loop {
        match batch.recv(socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(crate::net::io_reason("receive", &error)),
        }
        counters.reads += 1;
        for datagram in batch.iter() {
            counters.bytes_in += datagram.payload.len() as u64;
            take(counters, datagram.source, datagram.payload)?;
        }
        if !batch.is_full() {
            return Ok(());
        }
    }
}

const BUFFER_BYTES: usize = 512 * 1024;
