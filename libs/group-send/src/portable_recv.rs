//! One datagram at a time, by what every system has: the receiving side where there is no
//! `recvmmsg(2)`.
//!
//! The same functions as in `linux.rs`, for bytes and sources only and without `unsafe`. Compiled
//! into the tests on Linux as well.

use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Room for one message.
pub(crate) struct Inbox {
    slab: Vec<u8>,
    head: Head,
}

/// A received message beside its payload.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    /// None if nothing was received yet.
    pub(crate) source: Option<SocketAddr>,
    /// Its length; more than it was given room for if it was cut off.
    pub(crate) bytes: usize,
}

impl Inbox {
    /// For one message of up to `payload_max` bytes, however many are requested.
    pub(crate) fn new(_messages: usize, payload_max: usize, _stride: usize) -> Self {
        // One byte more shows that a datagram was longer.
        Self { slab: vec![0; payload_max + 1], head: Head { source: None, bytes: 0 } }
    }

    /// Receives one message. Whether it waits for one is the socket's matter.
    pub(crate) fn receive(
        &mut self,
        socket: &SockRef<'_>,
        _wait: bool,
        _messages: usize,
    ) -> io::Result<usize> {
        // `std` receives into initialised memory, but only from a socket it owns: hence the
        // duplicate.
        let socket = UdpSocket::from(socket.try_clone()?);
        self.head = match socket.recv_from(&mut self.slab) {
            Ok((bytes, source)) => Head { source: Some(source), bytes },
            // This is how Windows reports a truncated datagram; it does not say whose.
            Err(error) if cfg!(windows) && error.raw_os_error() == Some(WSAEMSGSIZE) => {
                Head { source: Some((Ipv4Addr::UNSPECIFIED, 0).into()), bytes: self.slab.len() }
            }
            Err(error) => return Err(error),
        };
        Ok(1)
    }

    pub(crate) fn messages_max(&self) -> usize {
        1
    }

    pub(crate) fn head(&self, _index: usize) -> Head {
        self.head
    }

    pub(crate) fn slab(&self) -> &[u8] {
        &self.slab
    }

    pub(crate) fn slab_mut(&mut self) -> &mut [u8] {
        &mut self.slab
    }
}

/// "Message too long" of Windows Sockets.
const WSAEMSGSIZE: i32 = 10040;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_datagram_at_a_time_with_its_source_and_whether_it_was_longer() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut inbox = Inbox::new(32, 4, 64);
        assert_eq!((inbox.messages_max(), inbox.head(0).source), (1, None));
        for (sent, bytes) in [(&b"four"[..], 4), (b"", 0), (b"five5", 5), (b"more than five", 5), (b"one", 3)]
        {
            sender.send_to(sent, receiver.local_addr().unwrap()).unwrap();
            assert_eq!(inbox.receive(&SockRef::from(&receiver), false, 32).unwrap(), 1);
            assert_eq!(inbox.head(0).source, Some(sender.local_addr().unwrap()));
            assert_eq!(inbox.head(0).bytes, bytes);
            let there = bytes.min(4);
            assert_eq!(inbox.slab()[..there], sent[..there]);
            inbox.slab_mut()[..there].fill(b'x');
            assert_eq!(inbox.slab()[..there], b"xxxx"[..there]);
        }
        let error = inbox.receive(&SockRef::from(&receiver), true, 32).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
