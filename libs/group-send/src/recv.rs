//! Batches of received datagrams: one system call, many datagrams, nothing copied or allocated.
//!
//! On Linux a call is one `recvmmsg(2)`, and each message may hold several datagrams of one sender
//! that the kernel coalesced (GRO, `UDP_GRO` in `udp(7)`); elsewhere it is one datagram. Ancillary
//! data arrives if it was enabled on the socket: see `socket.rs`. Waiting until a socket is
//! readable is left to the caller.
//!
//! Where system calls are cheap it is GRO that pays: rows of 2, 4 and 8 datagrams came 1.5, 2.4 and
//! 3.7 times as fast as by a loop of `recv_from`, single ones 0.9 to 1.2 times, because `recvmmsg`
//! does for each what it saves in calls (bench/src/bin/receive.rs; Linux 6.18 in a virtual machine,
//! 2026-11).

mod ecn;
mod message;

pub use ecn::Ecn;

#[cfg(target_os = "linux")]
use crate::linux::recv::{Head, Inbox};
#[cfg(not(target_os = "linux"))]
use crate::portable_recv::{Head, Inbox};
use message::Message;
use socket2::SockRef;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

/// Sizes of a [`RecvBatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvConfig {
    /// Messages received in one call, 1 to 1024. Default 32. A call after a quiet time takes fewer.
    ///
    /// A message is a datagram, or with GRO up to 64 of them. More save calls, delay the first
    /// datagram, and at 256 cost a fifth more for each than at 32, because payloads leave the cache
    /// before they are looked at. Where there is no `recvmmsg(2)` it is always 1.
    pub messages: u16,
    /// Bytes for each message, 1 to 65,535. Default 65,535, which is enough for any, also with GRO.
    ///
    /// The address space is `messages` times this (2 MiB by default). Memory is used as datagrams
    /// come: a page when the first byte falls into it, the first messages and their beginnings
    /// first, and kept from then on. Without GRO 2048 are enough on Ethernet. What is longer than
    /// this is dropped and counted: see [`RecvBatch::truncated`].
    pub message_bytes: u32,
}

impl Default for RecvConfig {
    fn default() -> Self {
        Self { messages: 32, message_bytes: Self::MESSAGE_BYTES_MAX }
    }
}

impl RecvConfig {
    /// `UIO_MAXIOV` of the kernel.
    const MESSAGES_MAX: u16 = 1024;
    /// UDP's length has 16 bits (RFC 768), and GRO stays within them.
    const MESSAGE_BYTES_MAX: u32 = 65_535;
}

/// A received datagram: `P` is `&[u8]` or `&mut [u8]`.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<P> {
    /// The bytes; there are datagrams with none.
    pub payload: P,
    /// The sender. An IPv4 sender is an IPv4 address on a dual-stack socket as well.
    pub source: SocketAddr,
    /// The mark of congestion, if the socket was asked for it:
    /// [`enable_ecn`](crate::socket::enable_ecn). Datagrams with different marks are never put
    /// together by the kernel.
    pub ecn: Option<Ecn>,
    /// When the kernel got it, by the clock of the day, if the socket was asked for it:
    /// [`enable_timestamps`](crate::socket::enable_timestamps). The first one's time for those that
    /// came together.
    pub received_at: Option<SystemTime>,
    /// The address it was sent to, if the socket was asked for it:
    /// [`enable_destination`](crate::socket::enable_destination).
    pub destination: Option<IpAddr>,
}

/// Reusable receive buffers, and the datagrams of the last call.
///
/// ```
/// use group_send::{RecvBatch, RecvConfig};
///
/// let receiver = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let sender = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// sender.send_to(b"tick", receiver.local_addr()?)?;
///
/// let mut batch = RecvBatch::new(RecvConfig::default());
/// batch.recv_wait(&receiver)?;
/// for datagram in batch.iter() {
///     assert_eq!((datagram.payload, datagram.source), (&b"tick"[..], sender.local_addr()?));
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct RecvBatch {
    inbox: Inbox,
    stride: usize,
    payload_max: usize,
    messages: Vec<Message>,
    datagrams: usize,
    offered: usize,
    is_full: bool,
    truncated: u64,
}

impl RecvBatch {
    /// Buffers of these sizes; what is out of range becomes the nearest that is in it.
    pub fn new(config: RecvConfig) -> Self {
        let messages_max = usize::from(config.messages.clamp(1, RecvConfig::MESSAGES_MAX));
        let payload_max = config.message_bytes.clamp(1, RecvConfig::MESSAGE_BYTES_MAX) as usize;
        let stride = stride(payload_max);
        Self {
            inbox: Inbox::new(messages_max, payload_max, stride),
            stride,
            payload_max,
            messages: Vec::with_capacity(messages_max),
            datagrams: 0,
            offered: 0,
            is_full: false,
            truncated: 0,
        }
    }

    /// Receives what has arrived and never waits; on other systems than Linux only if the socket is
    /// non-blocking. Returns the number of datagrams, which replace those of the call before. It
    /// may be 0, when all that came was too long. Reports that earlier datagrams were refused
    /// ([`report_refusals`](crate::socket::report_refusals)) are not errors of receiving and are
    /// passed over.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is nothing, and what else `recvmmsg(2)` names. The
    /// batch is empty then.
    pub fn recv<'s>(&mut self, socket: impl Into<SockRef<'s>>) -> io::Result<usize> {
        self.receive(&socket.into(), false)
    }

    /// Like [`RecvBatch::recv`], but on a blocking socket waits until there is a datagram, and no
    /// longer than that.
    ///
    /// # Errors
    /// The same; [`io::ErrorKind::WouldBlock`] if the socket is non-blocking or its read timeout
    /// has passed, and [`io::ErrorKind::Interrupted`] by a signal.
    pub fn recv_wait<'s>(&mut self, socket: impl Into<SockRef<'s>>) -> io::Result<usize> {
        self.receive(&socket.into(), true)
    }

    /// The datagrams, in the order of their arrival.
    pub fn iter(&self) -> impl Iterator<Item = Received<&[u8]>> {
        let payloads = self.inbox.slab().chunks(self.stride);
        self.messages.iter().zip(payloads).flat_map(|(message, payload)| {
            let mut rest = &payload[..message.bytes];
            (0..message.datagrams).filter_map(move |_| {
                let payload = rest.split_off(..message.segment_bytes.min(rest.len()))?;
                Some(message.received(payload))
            })
        })
    }

    /// The datagrams with payloads that can be changed, so as to decrypt them in place.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Received<&mut [u8]>> {
        let payloads = self.inbox.slab_mut().chunks_mut(self.stride);
        self.messages.iter().zip(payloads).flat_map(|(message, payload)| {
            let mut rest = &mut payload[..message.bytes];
            (0..message.datagrams).filter_map(move |_| {
                let payload = rest.split_off_mut(..message.segment_bytes.min(rest.len()))?;
                Some(message.received(payload))
            })
        })
    }

    /// How many datagrams the last call received.
    pub fn len(&self) -> usize {
        self.datagrams
    }

    /// Whether the last call received none.
    pub fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// Whether the last call received as many messages as it could, so that more may be waiting. If
    /// not, the socket was empty.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Datagrams dropped since the batch was made because they did not fit into a message.
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Receives what `call` returns in place of the kernel: of so many messages at most, none of
    /// them with other ancillary data. For simulations.
    ///
    /// # Errors
    /// What `call` returns. The batch is empty then.
    ///
    /// # Panics
    /// If it returns more messages, or longer ones than 65,535 bytes.
    #[cfg(all(target_os = "linux", feature = "internals"))]
    pub fn receive_from(
        &mut self,
        call: impl FnOnce(usize) -> io::Result<Vec<crate::internals::IncomingMessage>>,
    ) -> io::Result<usize> {
        self.begin();
        let messages = call(self.offered)?;
        assert!(messages.len() <= self.offered, "more messages than were asked for");
        messages.iter().enumerate().for_each(|(index, message)| self.inbox.put(index, message));
        self.finish(messages.len())
    }

    fn receive(&mut self, socket: &SockRef<'_>, wait: bool) -> io::Result<usize> {
        self.begin();
        let received = self.receive_past_reports(socket, wait)?;
        self.finish(received)
    }

    /// Forgets the last call, and decides how many messages the next one is for.
    fn begin(&mut self) {
        let received_before = self.messages.len();
        self.messages.clear();
        self.datagrams = 0;
        self.is_full = false;
        self.offered = offer(self.offered, received_before, self.inbox.messages_max());
    }

    /// Takes the messages of a call.
    fn finish(&mut self, received: usize) -> io::Result<usize> {
        self.is_full = received == self.offered;
        for index in 0..received {
            let head = self.inbox.head(index);
            let Some(source) = head.source else {
                self.messages.clear();
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither IPv4 nor IPv6"));
            };
            self.messages.push(Message::read(source, &head, self.payload_max));
        }
        self.datagrams = self.messages.iter().map(|message| message.datagrams).sum();
        self.truncated += self.messages.iter().map(|message| message.lost as u64).sum::<u64>();
        Ok(self.datagrams)
    }

    /// Receives; a pending report of a refusal, which every call on the socket may get instead of
    /// its own result, is cleared by being returned once.
    fn receive_past_reports(&mut self, socket: &SockRef<'_>, wait: bool) -> io::Result<usize> {
        let mut result = self.inbox.receive(socket, wait, self.offered);
        for _ in 0..REPORTS_MAX {
            match &result {
                Err(error) if is_report(error) => result = self.inbox.receive(socket, wait, self.offered),
                _ => break,
            }
        }
        result
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch")
            .field("datagrams", &self.datagrams)
            .field("messages_max", &self.inbox.messages_max())
            .field("message_bytes", &self.payload_max)
            .field("truncated", &self.truncated)
            .finish()
    }
}

/// How many messages to offer the kernel, by what the call before offered and received: twice as
/// many as came, so that a burst is taken in a few calls, and a call for a single datagram does not
/// prepare for 32.
///
/// Preparing a message takes about 2.5 ns, a call about 100.
fn offer(offered: usize, received: usize, messages_max: usize) -> usize {
    let needed = if received < offered { 2 * received } else { 2 * offered };
    needed.max(OFFERED_MIN).min(messages_max)
}

const OFFERED_MIN: usize = 8;

/// Reports passed over in one call. More come only while others arrive during the call; then it is
/// the caller's turn.
const REPORTS_MAX: usize = 64;

/// Whether this is an error of the network about an earlier datagram, caused by an ICMP message
/// (`icmp(7)`, RFC 1122 section 4.1.3.3), or on Windows "connection reset".
fn is_report(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, HostUnreachable, NetworkUnreachable};
    #[cfg(target_os = "linux")]
    if let Some(errno) = error.raw_os_error() {
        use libc::{EACCES, EHOSTDOWN, EMSGSIZE, ENONET, ENOPROTOOPT, EOPNOTSUPP, EPROTO};
        if [EACCES, EHOSTDOWN, EMSGSIZE, ENONET, ENOPROTOOPT, EOPNOTSUPP, EPROTO].contains(&errno) {
            return true;
        }
    }
    matches!(error.kind(), ConnectionRefused | ConnectionReset | HostUnreachable | NetworkUnreachable)
}

/// From the beginning of a payload to that of the next: whole cache lines.
fn stride(payload_max: usize) -> usize {
    payload_max.next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", feature = "internals"))]
    #[test]
    fn what_takes_the_kernels_place_is_read_as_the_kernel_is() {
        use crate::internals::IncomingMessage;
        let sources: [SocketAddr; 2] =
            ["10.0.0.1:7".parse().expect("IPv4"), "[fe80::1%3]:8".parse().expect("IPv6")];
        let message =
            |source, len, segment_bytes| IncomingMessage { source, bytes: (0..len).collect(), segment_bytes };
        let mut batch = RecvBatch::new(RecvConfig { messages: 9, message_bytes: 10 });
        let messages = vec![
            message(sources[0], 7, Some(3)),
            message(sources[1], 2, None),
            message(sources[0], 0, None),
            message(sources[1], 12, Some(4)),
            message(sources[0], 11, None),
        ];
        let received = batch.receive_from(|most| {
            assert_eq!(most, 8);
            Ok(messages)
        });
        assert_eq!(received.ok(), Some(7));
        assert_eq!((batch.len(), batch.is_full(), batch.truncated()), (7, false, 2));
        let datagrams: Vec<_> =
            batch.iter().map(|received| (received.source, received.payload.to_vec())).collect();
        let expected: [(usize, &[u8]); 7] = [
            (0, &[0, 1, 2]),
            (0, &[3, 4, 5]),
            (0, &[6]),
            (1, &[0, 1]),
            (0, &[]),
            (1, &[0, 1, 2, 3]),
            (1, &[4, 5, 6, 7]),
        ];
        assert_eq!(datagrams, expected.map(|(source, payload)| (sources[source], payload.to_vec())));
        let received = batch.receive_from(|most| Ok(vec![message(sources[0], 1, None); most]));
        assert_eq!((received.ok(), batch.is_full()), (Some(9), true));
        let nothing = batch.receive_from(|_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(nothing.map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
        assert!(batch.is_empty() && !batch.is_full());
    }

    #[test]
    fn offers_follow_what_comes_within_bounds() {
        #[rustfmt::skip]
        let cases = [
            (0, 0, 32, 8, "the first call"),
            (8, 8, 32, 16, "all were used: twice as many"),
            (16, 16, 32, 32, "again"),
            (32, 32, 32, 32, "no more than there are"),
            (32, 10, 32, 20, "room for twice what came"),
            (20, 1, 32, 8, "a quiet time"),
            (8, 0, 32, 8, "nothing came"),
            (0, 0, 3, 3, "fewer than the least"),
        ];
        for (offered, received, messages_max, expected, remark) in cases {
            assert_eq!(offer(offered, received, messages_max), expected, "{remark}");
        }
    }
}
