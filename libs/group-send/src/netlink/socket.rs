//! A descriptor of the route socket, used without ever waiting.
//!
//! The kernel processes a request within `send`, so its answer is ready when that returns: 2 us for
//! a route. Only the kernel sends here: another process would need `CAP_NET_ADMIN` in this network
//! namespace, and could then change the routes themselves, so the sender is not checked.

use super::message::{Message, Messages, NLM_F_DUMP_INTR, NLMSG_DONE};
use super::request::Request;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read};
#[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone", feature = "internals"))]
use {super::message::NLMSG_NOOP, crate::linux::recv::set_option};

/// Room for one datagram of messages. The kernel fits lists to the reader's buffer, up to 32 KiB;
/// single messages are below 4 KiB, except those about an interface with many virtual functions.
const BUFFER_BYTES: usize = 64 << 10;

/// Times that a list is asked for again because it changed while it was read.
const DUMP_ATTEMPTS: usize = 8;

pub(crate) struct NetlinkSocket {
    socket: Socket,
    buffer: Vec<u8>,
    sequence: u32,
}

impl NetlinkSocket {
    /// Opens one in the network namespace of the calling thread. Needs no privilege.
    pub(crate) fn open() -> io::Result<Self> {
        let domain = Domain::from(libc::AF_NETLINK);
        let socket = Socket::new(
            domain,
            Type::RAW.nonblocking().cloexec(),
            Some(Protocol::from(libc::NETLINK_ROUTE)),
        )?;
        Ok(Self { socket, buffer: vec![0; BUFFER_BYTES], sequence: 0 })
    }

    /// Opens one that is notified of changes in these groups (linux/rtnetlink.h: `RTNLGRP_*`).
    #[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone", feature = "internals"))]
    pub(crate) fn subscribed(groups: &[i32]) -> io::Result<Self> {
        use std::os::fd::AsFd;
        let mut socket = Self::open()?;
        // Sending gives the socket its port, and the kernel notifies no socket without one. A no-op
        // has no answer.
        socket.send(Request::default().one(NLMSG_NOOP, &[]))?;
        let join =
            |group| set_option(socket.socket.as_fd(), libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP, group);
        groups.iter().try_for_each(|group| join(*group))?;
        Ok(socket)
    }

    /// Asks about one object and hands the answer to `take`. An error of the kernel is returned as
    /// such.
    pub(crate) fn one<T>(
        &mut self,
        request: &mut Request,
        mut take: impl FnMut(Message<'_>) -> Option<T>,
    ) -> io::Result<T> {
        self.send(request)?;
        loop {
            let length = self.read()?;
            for message in Messages(&self.buffer[..length]).filter(|m| m.sequence == self.sequence) {
                if let Some(errno) = message.error() {
                    return Err(io::Error::from_raw_os_error(errno));
                }
                if let Some(answer) = take(message) {
                    return Ok(answer);
                }
            }
        }
    }

    /// Asks about all objects and hands each to `take`, from the start again if the list changed
    /// meanwhile. `take` gets `None` at every start.
    pub(crate) fn all(
        &mut self,
        request: &mut Request,
        mut take: impl FnMut(Option<Message<'_>>),
    ) -> io::Result<()> {
        for _ in 0..DUMP_ATTEMPTS {
            take(None);
            self.send(request)?;
            if self.read_all(&mut take)? {
                return Ok(());
            }
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "the kernel's list changes faster than it can be read"))
    }

    /// Reads one list, and returns whether it is of one piece.
    fn read_all(&mut self, take: &mut impl FnMut(Option<Message<'_>>)) -> io::Result<bool> {
        let mut whole = true;
        loop {
            let length = self.read()?;
            for message in Messages(&self.buffer[..length]).filter(|m| m.sequence == self.sequence) {
                whole &= message.flags & NLM_F_DUMP_INTR == 0;
                match message.error() {
                    Some(errno) if errno != 0 => return Err(io::Error::from_raw_os_error(errno)),
                    Some(_) => {}
                    None if message.kind == NLMSG_DONE => return Ok(whole),
                    None => take(Some(message)),
                }
            }
        }
    }

    /// The messages of the next datagram, if there is one. `ENOBUFS` says that some were lost.
    #[cfg(any(feature = "af-xdp", feature = "io-uring", feature = "tc-clone", feature = "internals"))]
    pub(crate) fn receive(&mut self) -> io::Result<Option<Messages<'_>>> {
        match self.read() {
            Ok(length) => Ok(Some(Messages(&self.buffer[..length]))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn send(&mut self, request: &mut Request) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(request.finish(self.sequence)).map(drop)
    }

    /// Reads one datagram. One that fills the buffer was cut, which is the same as lost.
    fn read(&mut self) -> io::Result<usize> {
        loop {
            match self.socket.read(&mut self.buffer) {
                Ok(length) if length == self.buffer.len() => {
                    return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
