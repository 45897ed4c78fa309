//! UDP: datagrams that are lost, late, doubled, changed, or find no room.
//!
//! A send takes messages, each of one datagram or a run of equal ones that the kernel cuts (GSO): a
//! message is taken or refused as a whole, and on its way each of its datagrams is on its own. A socket
//! that asked for it gets datagrams of one sender that arrive one after the other joined in messages
//! (GRO), and what finds no room in its queue is lost by the message.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::{Event, Faults, Kernel, Socket, SocketId, with, with_any};

/// Most by which a datagram that is overtaken comes later.
const REORDER_MAX: Duration = Duration::from_millis(50);
/// Most by which the second of a doubled one comes later.
const DUPLICATE_MAX: Duration = Duration::from_millis(10);
/// One of so many first bytes of a datagram is changed.
const CORRUPT_SPAN: usize = 64;
/// Datagrams a socket keeps, unless the faults say otherwise.
const QUEUE_MAX: usize = 4096;

/// Datagrams of a message that is sent or received, at most (`UDP_MAX_SEGMENTS`, `UDP_GRO_CNT_MAX`).
const SEGMENTS_MAX: usize = 64;
/// Bytes of a message that is sent or received, at most: an IPv4 packet's without its headers.
const MESSAGE_BYTES_MAX: usize = 65_535 - 20 - 8;
/// Most by which a datagram waits for others that it may be joined with.
const JOIN_MAX: Duration = Duration::from_micros(50);

/// A message that is received: datagrams of one sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The sender.
    pub source: SocketAddr,
    /// Its datagrams, one behind the other.
    pub bytes: Vec<u8>,
    /// Bytes of each datagram; the last may be shorter.
    pub segment_bytes: usize,
}

impl Received {
    /// How many datagrams it is.
    pub fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_bytes.max(1)).max(1)
    }

    fn is_closed(&self) -> bool {
        let is_even = self.segment_bytes > 0 && self.bytes.len().is_multiple_of(self.segment_bytes);
        !is_even
            || self.datagrams() == SEGMENTS_MAX
            || self.bytes.len() + self.segment_bytes > MESSAGE_BYTES_MAX
    }

    fn takes(&self, from: SocketAddr, bytes: &[u8]) -> bool {
        !self.is_closed() && self.source == from && (1..=self.segment_bytes).contains(&bytes.len())
    }
}

/// A message to send: a datagram, or a run of equal ones, the last of which may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The recipient.
    pub destination: SocketAddr,
    /// The datagrams.
    pub segments: Vec<Vec<u8>>,
}

/// Why a message was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendFault {
    /// The send buffer is full (`EAGAIN`), for every message until the time goes on.
    NoRoom,
    /// There is no memory for this one (`ENOBUFS`).
    NoBuffers,
    /// A firewall forbids it (`EPERM`), and all to this recipient until the time goes on.
    NotPermitted,
    /// The device does not cut runs (`EIO`), or the path does not carry segments of this length
    /// (`EINVAL`), until the time goes on. Its datagrams are taken one by one.
    Run {
        /// It is the device.
        by_device: bool,
    },
}

impl SendFault {
    /// Linux's number.
    pub fn errno(self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::Run { by_device: true } => 5,
            Self::NoRoom => 11,
            Self::Run { by_device: false } => 22,
            Self::NoBuffers => 105,
        }
    }
}

#[derive(Debug)]
pub(crate) struct UdpState {
    address: SocketAddr,
    pub(super) received: VecDeque<Received>,
    /// Datagrams are joined.
    joins: bool,
    /// What has arrived, and takes others in until its event.
    joining: Option<Received>,
    /// Counts them, so that an event is of one.
    joined: u64,
    /// Datagrams that were sent from it.
    taken: u64,
    /// When it had no room.
    full_at: Option<Instant>,
    /// What is refused at a time, and how many times more.
    refused_at: Option<Instant>,
    refused: Vec<(SocketAddr, SendFault, u64)>,
}

impl Kernel {
    /// Sends one datagram.
    fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, mut bytes: Vec<u8>) {
        self.totals.datagrams += 1;
        if [from, to].iter().any(|end| self.cut_off.contains(&end.ip())) {
            self.totals.datagrams_lost += 1;
            return;
        }
        let path = self.path(from.ip(), to.ip()).clone();
        if self.random.chance(path.loss) {
            self.totals.datagrams_lost += 1;
            return;
        }
        if path.corrupt > 0.0 && self.random.chance(path.corrupt) && !bytes.is_empty() {
            // Where, whatever its length: that of a handshake's datagram is random.
            let span = bytes.len().min(CORRUPT_SPAN);
            let (at, bit) = (self.random.next_u64() as usize % span, self.random.below(8));
            bytes[at] ^= 1 << bit;
        }
        let mut at = self.clock.now() + path.delay + self.random.up_to(path.jitter);
        if path.reorder > 0.0 && self.random.chance(path.reorder) {
            at += self.random.up_to(REORDER_MAX);
        }
        if !path.clump.is_zero() {
            let since = self.clock.elapsed() + (at - self.clock.now());
            let early = since.as_nanos() % path.clump.as_nanos();
            at += Duration::from_nanos((path.clump.as_nanos() - early) as u64);
        }
        if path.duplicate > 0.0 && self.random.chance(path.duplicate) {
            let again = at + self.random.up_to(DUPLICATE_MAX);
            self.at(again, Event::Datagram { to, from, bytes: bytes.clone() });
        }
        self.at(at, Event::Datagram { to, from, bytes });
    }

    pub(super) fn datagram(&mut self, to: SocketAddr, from: SocketAddr, bytes: Vec<u8>) {
        self.note(u64::from(to.port()) << 16 | u64::from(from.port()));
        let Some(&socket) = self.udp_at.get(&to) else {
            self.totals.datagrams_lost += 1;
            return;
        };
        let Some(state) = self.udp.get_mut(&socket) else { return };
        let coalesce = self.faults.coalesce;
        let is_held = state.joins && coalesce > 0.0 && self.random.chance(coalesce);
        match &mut state.joining {
            Some(joining) if is_held && joining.takes(from, &bytes) => {
                joining.bytes.extend_from_slice(&bytes);
                if joining.is_closed() {
                    self.end_joining(socket);
                }
                return;
            }
            Some(_) => self.end_joining(socket),
            None => {}
        }
        let message = Received { source: from, segment_bytes: bytes.len(), bytes };
        if !is_held || message.is_closed() {
            return self.queue_message(socket, message);
        }
        let until = self.clock.now() + self.random.up_to(JOIN_MAX);
        let Some(state) = self.udp.get_mut(&socket) else { return };
        state.joining = Some(message);
        state.joined += 1;
        let joined = state.joined;
        self.at(until, Event::Joined(socket, joined));
    }

    /// Nothing is joined any more with the so-many-th of this socket.
    pub(super) fn joined(&mut self, socket: SocketId, joined: u64) {
        if self.udp.get(&socket).is_some_and(|state| state.joined == joined) {
            self.end_joining(socket);
        }
    }

    fn end_joining(&mut self, socket: SocketId) {
        if let Some(message) = self.udp.get_mut(&socket).and_then(|state| state.joining.take()) {
            self.queue_message(socket, message);
        }
    }

    /// A message comes into the socket's queue, or is lost as a whole.
    fn queue_message(&mut self, socket: SocketId, message: Received) {
        let Some(state) = self.udp.get_mut(&socket) else { return };
        if state.received.len() >= self.faults.receive_queue.unwrap_or(QUEUE_MAX) {
            self.totals.datagrams_lost += message.datagrams() as u64;
            return;
        }
        self.totals.joined += message.datagrams() as u64 - 1;
        let was_empty = state.received.is_empty();
        state.received.push_back(message);
        if was_empty || self.random.chance(0.5) {
            self.report(socket, true, false, false);
        }
    }

    /// Why this message is refused now, if it is.
    fn refusal(&mut self, socket: SocketId, message: &Outgoing) -> Option<SendFault> {
        let (now, is_run) = (self.clock.now(), message.segments.len() > 1);
        let state = self.udp.get_mut(&socket)?;
        if state.refused_at != Some(now) {
            state.refused.clear();
        }
        let known = state.refused.iter_mut().find(|(to, fault, left)| {
            *to == message.destination && *left > 0 && (is_run || !matches!(fault, SendFault::Run { .. }))
        });
        if let Some((_, fault, left)) = known {
            *left -= 1;
            return Some(*fault);
        }
        let Faults { refuse_send, no_memory, refuse_run, .. } = self.faults;
        let mut chance = |probability: f64| probability > 0.0 && self.random.chance(probability);
        let (fault, more) = if chance(refuse_send) {
            (SendFault::NotPermitted, u64::MAX)
        } else if chance(no_memory) {
            // The sender asks up to twice again before it gives a datagram up.
            (SendFault::NoBuffers, self.random.below(4))
        } else if is_run && chance(refuse_run) {
            (SendFault::Run { by_device: chance(0.5) }, u64::MAX)
        } else {
            return None;
        };
        state.refused_at = Some(now);
        state.refused.push((message.destination, fault, more));
        Some(fault)
    }
}

/// A UDP socket. Never blocks.
#[derive(Debug)]
pub struct UdpSocket(SocketId);

impl UdpSocket {
    /// Binds `address`; port 0 is a free one.
    pub fn bind(mut address: SocketAddr) -> io::Result<Self> {
        with(|kernel| {
            if address.port() == 0 {
                address.set_port(kernel.free_port());
            }
            if kernel.udp_at.contains_key(&address) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let socket = kernel.new_socket(Socket::Udp);
            let state = UdpState {
                address,
                received: VecDeque::new(),
                joins: false,
                joining: None,
                joined: 0,
                taken: 0,
                full_at: None,
                refused_at: None,
                refused: Vec::new(),
            };
            kernel.udp.insert(socket, state);
            kernel.udp_at.insert(address, socket);
            *kernel.descriptors.entry(address.ip()).or_default() += 1;
            Ok(Self(socket))
        })
    }

    /// The socket's number, for an event queue.
    pub fn id(&self) -> SocketId {
        self.0
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        with(|kernel| kernel.udp.get(&self.0).map(|state| state.address))
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Sends a datagram; the network may do anything with it.
    pub fn send_to(&self, bytes: Vec<u8>, to: SocketAddr) {
        with(|kernel| {
            let Some(from) = kernel.udp.get(&self.0).map(|state| state.address) else { return };
            kernel.send_datagram(from, to, bytes);
        });
    }

    /// Sends messages in order, and says how many were taken: at least one, or why the first was not. Why
    /// a later one was not is not said, as by `sendmmsg(2)`.
    ///
    /// # Panics
    /// If a message is not a datagram, and no run that a kernel would take either.
    pub fn send_messages(&self, messages: Vec<Outgoing>) -> Result<usize, SendFault> {
        with(|kernel| {
            let (now, count) = (kernel.clock.now(), messages.len());
            let no_buffers = kernel.faults.no_buffers;
            let is_full = no_buffers > 0.0 && kernel.random.chance(no_buffers);
            let room = if is_full { kernel.random.below(count as u64) as usize } else { count };
            for (index, message) in messages.into_iter().enumerate() {
                check_run(&message.segments);
                let Some(state) = kernel.udp.get_mut(&self.0) else { return Ok(count) };
                if index == room {
                    state.full_at = Some(now);
                }
                let (from, is_full) = (state.address, state.full_at == Some(now));
                let fault = if is_full { Some(SendFault::NoRoom) } else { kernel.refusal(self.0, &message) };
                match fault {
                    Some(fault) if index == 0 => return Err(fault),
                    Some(_) => return Ok(index),
                    None => {}
                }
                if let Some(state) = kernel.udp.get_mut(&self.0) {
                    state.taken += message.segments.len() as u64;
                }
                kernel.totals.runs += u64::from(message.segments.len() > 1);
                for segment in message.segments {
                    kernel.send_datagram(from, message.destination, segment);
                }
            }
            Ok(count)
        })
    }

    /// Datagrams that were sent from it by [`send_messages`](Self::send_messages).
    pub fn taken(&self) -> u64 {
        with(|kernel| kernel.udp.get(&self.0).map_or(0, |state| state.taken))
    }

    /// From now on datagrams may come joined (`UDP_GRO`).
    pub fn join_received(&self) {
        with(|kernel| {
            if let Some(state) = kernel.udp.get_mut(&self.0) {
                state.joins = true;
            }
        });
    }

    /// Takes up to `most` messages.
    pub fn receive_messages(&self, most: usize) -> io::Result<Vec<Received>> {
        with(|kernel| {
            kernel.disturb(self.0)?;
            let state = kernel.udp.get_mut(&self.0).ok_or(io::ErrorKind::InvalidInput)?;
            if state.received.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = state.received.len().min(most);
            Ok(state.received.drain(..count).collect())
        })
    }

    /// Takes up to `most` datagrams of a socket that gets them one by one; says whether there are more.
    pub fn receive(&self, most: usize, out: &mut Vec<(SocketAddr, Vec<u8>)>) -> io::Result<bool> {
        let messages = self.receive_messages(most)?;
        out.extend(messages.into_iter().map(|message| (message.source, message.bytes)));
        Ok(with(|kernel| kernel.udp.get(&self.0).is_some_and(|state| !state.received.is_empty())))
    }
}

/// Whether a kernel would take these as one message.
fn check_run(segments: &[Vec<u8>]) {
    let bytes: usize = segments.iter().map(Vec::len).sum();
    let [first, rest @ ..] = segments else { panic!("a message without a datagram") };
    assert!(segments.len() <= SEGMENTS_MAX && bytes <= MESSAGE_BYTES_MAX, "{bytes} bytes of a run");
    if let [middle @ .., last] = rest {
        let is_even = middle.iter().all(|segment| segment.len() == first.len());
        assert!(is_even && (1..=first.len()).contains(&last.len()), "a run of datagrams that differ");
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        with_any(|kernel| {
            kernel.forget_socket(self.0);
            let Some(state) = kernel.udp.remove(&self.0) else { return };
            kernel.udp_at.remove(&state.address);
            if let Some(count) = kernel.descriptors.get_mut(&state.address.ip()) {
                *count -= 1;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{self, Path, now};

    /// A sender, and a receiver that joins.
    fn pair(path: Path, faults: Faults) -> (UdpSocket, UdpSocket, SocketAddr) {
        kernel::begin(3, path, faults);
        let any = "10.0.0.1:0".parse().expect("an address");
        let [sender, receiver] = [(); 2].map(|()| UdpSocket::bind(any).expect("a port"));
        receiver.join_received();
        let to = receiver.local_addr().expect("its address");
        (sender, receiver, to)
    }

    fn run(to: SocketAddr, lens: &[usize]) -> Outgoing {
        let segments = lens.iter().enumerate().map(|(at, len)| vec![at as u8; *len]).collect();
        Outgoing { destination: to, segments }
    }

    fn pass(time: Duration) {
        kernel::advance_to(now() + time);
    }

    fn shapes(receiver: &UdpSocket) -> Vec<(usize, usize)> {
        pass(Duration::from_secs(1));
        let messages = receiver.receive_messages(1_000).unwrap_or_default();
        messages.iter().map(|message| (message.datagrams(), message.bytes.len())).collect()
    }

    #[test]
    fn neighbours_of_one_length_come_joined_within_the_limits_of_the_kernel() {
        type Case = (&'static [usize], &'static [(usize, usize)], &'static str);
        let cases: [Case; 7] = [
            (&[100; 5], &[(5, 500)], "equal ones"),
            (&[100, 100, 40], &[(3, 240)], "the last is shorter"),
            (&[100, 40, 100], &[(2, 140), (1, 100)], "a shorter one ends it"),
            (&[40, 100, 100], &[(1, 40), (2, 200)], "a longer one begins another"),
            (&[0, 100, 100], &[(1, 0), (2, 200)], "without bytes"),
            (&[10; 70], &[(64, 640), (6, 60)], "64 at most"),
            (&[1_200; 60], &[(54, 64_800), (6, 7_200)], "64 KiB at most"),
        ];
        for (lens, expected, remark) in cases {
            let (sender, receiver, to) = pair(Path::default(), Faults { coalesce: 1.0, ..Faults::default() });
            lens.iter().for_each(|&len| sender.send_to(vec![7; len], to));
            assert_eq!(shapes(&receiver), expected, "{remark}");
        }
    }

    #[test]
    fn nothing_is_joined_with_another_sender_or_much_later_or_unless_asked_for() {
        let faults = Faults { coalesce: 1.0, ..Faults::default() };
        let (sender, receiver, to) = pair(Path::default(), faults.clone());
        let other = UdpSocket::bind("10.0.0.2:0".parse().expect("an address")).expect("a port");
        for sender in [&sender, &other, &sender] {
            sender.send_to(vec![0; 10], to);
        }
        pass(Duration::from_millis(1));
        sender.send_to(vec![0; 10], to);
        assert_eq!(shapes(&receiver), [(1, 10); 4]);
        let back = sender.local_addr().expect("its address");
        (0..3).for_each(|_| receiver.send_to(vec![0; 10], back));
        assert_eq!(shapes(&sender), [(1, 10); 3]);
        kernel::set_faults(Faults::default());
        (0..3).for_each(|_| sender.send_to(vec![0; 10], to));
        assert_eq!(shapes(&receiver), [(1, 10); 3]);
    }

    #[test]
    fn a_full_queue_loses_whole_messages() {
        let faults = Faults { coalesce: 1.0, receive_queue: Some(2), ..Faults::default() };
        let (sender, receiver, to) = pair(Path::default(), faults);
        for len in [30, 20, 10] {
            (0..4).for_each(|_| sender.send_to(vec![0; len], to));
            pass(Duration::from_millis(10));
        }
        assert_eq!(shapes(&receiver), [(4, 120), (4, 80)]);
        assert_eq!(kernel::totals().datagrams_lost, 4);
    }

    #[test]
    fn datagrams_of_a_clump_arrive_together_and_in_order() {
        let clump = Duration::from_millis(40);
        let faults = Faults { coalesce: 1.0, ..Faults::default() };
        let (sender, receiver, to) = pair(Path { clump, ..Path::default() }, faults);
        for number in 0..4 {
            sender.send_to(vec![number; 3], to);
            pass(Duration::from_millis(7));
        }
        pass(Duration::from_millis(13));
        let messages = receiver.receive_messages(8).expect("a message");
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0].bytes, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn a_run_is_taken_or_refused_as_a_whole_and_its_datagrams_alone_if_runs_are_refused() {
        let (sender, receiver, to) = pair(Path::default(), Faults { refuse_run: 1.0, ..Faults::default() });
        let messages = vec![run(to, &[5]), run(to, &[9; 3])];
        assert_eq!(sender.send_messages(messages), Ok(1), "the reason for the second is lost");
        let again = sender.send_messages(vec![run(to, &[9; 3])]);
        assert!(matches!(again, Err(SendFault::Run { .. })), "{again:?}");
        assert_eq!(sender.send_messages(vec![run(to, &[9])]), Ok(1));
        assert_eq!(shapes(&receiver), [(1, 5), (1, 9)]);
    }

    #[test]
    fn without_room_nothing_is_taken_until_the_time_goes_on() {
        let (sender, receiver, to) = pair(Path::default(), Faults { no_buffers: 1.0, ..Faults::default() });
        let messages = || (1..=8).map(|len| run(to, &[len; 2])).collect::<Vec<_>>();
        let taken = sender.send_messages(messages()).unwrap_or(0);
        assert!(taken < 8);
        kernel::set_faults(Faults::default());
        assert_eq!(sender.send_messages(messages()), Err(SendFault::NoRoom));
        pass(Duration::from_nanos(1));
        assert_eq!(sender.send_messages(messages()), Ok(8));
        assert_eq!(shapes(&receiver).len(), 2 * (taken + 8));
    }

    #[test]
    fn want_of_memory_is_of_one_recipient_and_passes_and_a_firewall_stays() {
        let (sender, _receiver, to) = pair(Path::default(), Faults { no_memory: 1.0, ..Faults::default() });
        assert_eq!(sender.send_messages(vec![run(to, &[9; 3])]), Err(SendFault::NoBuffers));
        kernel::set_faults(Faults::default());
        let tries = (0..10).position(|_| sender.send_messages(vec![run(to, &[9])]).is_ok());
        assert!(tries.is_some_and(|tries| tries < 4), "{tries:?}");
        kernel::set_faults(Faults { refuse_send: 1.0, ..Faults::default() });
        assert_eq!(sender.send_messages(vec![run(to, &[9; 3])]), Err(SendFault::NotPermitted));
        kernel::set_faults(Faults::default());
        assert_eq!(sender.send_messages(vec![run(to, &[9])]), Err(SendFault::NotPermitted));
        let other = "10.0.0.9:5".parse().expect("an address");
        assert_eq!(sender.send_messages(vec![run(other, &[9])]), Ok(1));
        pass(Duration::from_nanos(1));
        assert_eq!(sender.send_messages(vec![run(to, &[9])]), Ok(1));
    }

    #[test]
    #[should_panic(expected = "that differ")]
    fn a_run_with_a_longer_datagram_at_its_end_is_none() {
        let (sender, _receiver, to) = pair(Path::default(), Faults::default());
        let _ = sender.send_messages(vec![run(to, &[5, 5, 6])]);
    }
}
