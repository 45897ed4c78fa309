//! Messages and sockets from one process to another, over a socket that both have.
//!
//! A message is its length and its number of sockets, four bytes each, the sockets, then MessagePack.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message. A publisher by RTMP has at most two frames of the longest that are configured half
/// received, and players what they have yet to take of one.
pub(super) const BYTES_MAX: usize = 64 << 20;
/// Most sockets of a message.
const SOCKETS_MAX: usize = 1 << 16;
/// Sockets that go in one call; the system takes 253.
const SOCKETS_AT_ONCE: usize = 128;

/// One end.
#[derive(Debug)]
pub(super) struct Channel(UnixStream);

impl Channel {
    /// Both ends: ours, and the one for the other process.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self(ours), theirs.into()))
    }

    /// The other end, in the other process.
    pub(super) fn of(socket: OwnedFd) -> Self {
        Self(socket.into())
    }

    /// Sends a message, within `timeout` for each part of it.
    pub(super) fn send(
        &mut self,
        message: &impl Serialize,
        sockets: &[BorrowedFd<'_>],
        timeout: Duration,
    ) -> io::Result<()> {
        self.0.set_write_timeout(Some(timeout))?;
        let body = rmp_serde::to_vec_named(message).map_err(io::Error::other)?;
        let lengths = [body.len(), sockets.len()].map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        self.0.write_all(lengths.map(u32::to_le_bytes).as_flattened())?;
        for some in sockets.chunks(SOCKETS_AT_ONCE) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(some));
            // Sockets need a byte to go with.
            let byte = [IoSlice::new(&[0])];
            retry_on_intr(|| sendmsg(&self.0, &byte, &mut ancillary, SendFlags::NOSIGNAL))?;
        }
        self.0.write_all(&body)
    }

    /// The next message, within `timeout` for each part of it.
    pub(super) fn receive<T: DeserializeOwned>(
        &mut self,
        timeout: Duration,
    ) -> io::Result<(T, Vec<OwnedFd>)> {
        self.0.set_read_timeout(Some(timeout))?;
        let mut lengths = [[0; 4]; 2];
        self.0.read_exact(lengths.as_flattened_mut())?;
        let [bytes, sockets_count] = lengths.map(|length| u32::from_le_bytes(length) as usize);
        if bytes > BYTES_MAX || sockets_count > SOCKETS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message that is too long"));
        }
        let mut sockets = Vec::with_capacity(sockets_count);
        while sockets.len() < sockets_count {
            let before = sockets.len();
            self.receive_sockets(&mut sockets)?;
            if sockets.len() == before {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "sockets are missing"));
            }
        }
        let mut body = vec![0; bytes];
        self.0.read_exact(&mut body)?;
        let message = rmp_serde::from_slice(&body);
        Ok((message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?, sockets))
    }

    fn receive_sockets(&mut self, out: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_AT_ONCE))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut into = [IoSliceMut::new(&mut byte)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        retry_on_intr(|| recvmsg(self.0.as_fd(), &mut into, &mut ancillary, flags))?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(sockets) = message {
                out.extend(sockets);
            }
        }
        Ok(())
    }
}

/// Whether the other end is closed, as it is when its process ends.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn ends() -> (Channel, Channel) {
        let (ours, theirs) = Channel::pair().expect("a pair");
        (ours, Channel::of(theirs))
    }

    #[test]
    fn messages_arrive_with_their_sockets_in_order() {
        let (mut old, mut new) = ends();
        let sockets: Vec<_> = (0..300).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
        let sent: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        let sender = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                old.send(&"first", &sent, TIMEOUT)?;
                old.send(&"second", &[], TIMEOUT)
            });
            let (text, received): (String, _) = new.receive(TIMEOUT).expect("a message");
            assert_eq!((text.as_str(), received.len()), ("first", 300));
            for (sent, received) in sockets.iter().zip(received) {
                let received = UdpSocket::from(received);
                assert_eq!(sent.local_addr().expect("bound"), received.local_addr().expect("bound"));
            }
            let (text, received): (String, _) = new.receive(TIMEOUT).expect("a message");
            assert_eq!((text.as_str(), received.len()), ("second", 0));
            sender.join().expect("no panic")
        });
        sender.expect("sent");
    }

    #[test]
    fn who_ends_in_the_middle_is_noticed() {
        for part in 0..30 {
            let (mut old, mut new) = ends();
            let mut whole = Vec::new();
            whole.extend(22_u32.to_le_bytes());
            whole.extend(0_u32.to_le_bytes());
            whole.extend(rmp_serde::to_vec_named("twenty-one characters").expect("written"));
            assert_eq!(whole.len(), 30);
            old.0.write_all(&whole[..part]).expect("written");
            drop(old);
            let error = new.receive::<String>(TIMEOUT).expect_err("cut off");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{part} bytes");
        }
    }

    #[test]
    fn lengths_that_lie_are_refused_before_memory_is_taken() {
        for lengths in [[u32::MAX, 0], [0, u32::MAX], [2, 1]] {
            let (mut old, mut new) = ends();
            old.0.write_all(lengths.map(u32::to_le_bytes).as_flattened()).expect("written");
            old.0.write_all(&[0, 0, 0]).expect("written");
            let error = new.receive::<String>(TIMEOUT).expect_err("refused");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{lengths:?}");
        }
    }
}
