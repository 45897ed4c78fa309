//! The other side: a process of its own that reads everything and compares every byte.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv};
use socket2::{Domain, Socket, Type};
use std::os::fd::AsRawFd;

use crate::machine;
use crate::stream::Stream;

/// How its sockets are set up.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct ReceiverOptions {
    /// Acknowledge each segment at once (TCP_QUICKACK, renewed after each read).
    #[arg(long)]
    pub(crate) quick_ack: bool,
    /// TCP_WINDOW_CLAMP, bytes.
    #[arg(long)]
    pub(crate) window_clamp: Option<i32>,
}

/// Connects, reads until every connection has ended, and prints the number of bytes and of reads.
pub(crate) fn run(
    stream: &Stream,
    address: SocketAddr,
    connections: usize,
    options: ReceiverOptions,
) -> Result<(), String> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|error| error.to_string())?;
    let mut sockets = Vec::with_capacity(connections);
    for index in 0..connections {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)
            .map_err(|error| error.to_string())?;
        if let Some(clamp) = options.window_clamp {
            machine::set_option(&socket, nix::libc::IPPROTO_TCP, nix::libc::TCP_WINDOW_CLAMP, clamp)?;
        }
        socket.connect(&address.into()).map_err(|error| format!("connection {index}: {error}"))?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        let event =
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET, index as u64);
        epoll.add(socket.as_fd(), event).map_err(|error| error.to_string())?;
        sockets.push(socket);
    }
    let mut positions = vec![0u64; connections];
    let mut buffer = vec![0u8; 64 << 10];
    let mut events = vec![EpollEvent::empty(); 512];
    let (mut open, mut reads) = (connections, 0u64);
    while open > 0 {
        let count = match epoll.wait(&mut events, EpollTimeout::NONE) {
            Err(nix::errno::Errno::EINTR) => 0,
            other => other.map_err(|error| error.to_string())?,
        };
        for event in &events[..count] {
            let index = event.data() as usize;
            let ending = event.events().intersects(EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP);
            loop {
                reads += 1;
                let bytes = match recv(sockets[index].as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                    Err(nix::errno::Errno::EAGAIN) => break,
                    other => other.map_err(|error| format!("connection {index}: {error}"))?,
                };
                if bytes == 0 {
                    open -= 1;
                    epoll.delete(&sockets[index]).map_err(|error| error.to_string())?;
                    break;
                }
                let position = positions[index];
                if buffer[..bytes] != *stream.span(position, position + bytes as u64) {
                    return Err(format!("connection {index}: wrong bytes after {position}"));
                }
                positions[index] += bytes as u64;
                // The next arrival makes a new event; only the end might already have been told.
                if bytes < buffer.len() && !ending {
                    break;
                }
            }
            if options.quick_ack {
                let _ = sockets[index].set_tcp_quickack(true);
            }
        }
    }
    writeln!(std::io::stdout(), "{} {reads}", positions.iter().sum::<u64>())
        .map_err(|error| error.to_string())
}
