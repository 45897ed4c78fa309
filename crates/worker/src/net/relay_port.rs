//! The UDP socket for packets between nodes: which link is at which address, and what is sent to all of them
//! at once.
//!
//! Media leaves as groups: the same payload for many, with private bytes of each. What there is no room for
//! waits here, in order, for a tenth of a second at most; then it is lost, and repaired like all that is.
//! Control datagrams are few, and leave at the end of a turn.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use group_send::peer_table::{PeerKey, PeerTable};
use group_send::{
    AfXdpConfig, BackendKind, BatchLimits, Envelope, Recipient, SendBatch, Slot, TcCloneConfig,
};
use relay::{Limits, OutLinkId, Outgoing, Repair};

use crate::net::{
    EventQueue, Interest, ReceivedBatch, Token, UdpSender, UdpSocket, has_more, interface_of, udp_backend,
};
use worker_api::settings::{RelaySettings, RtcSettings, UdpBackend};

/// Groups that wait for room at most; further ones are dropped.
const WAITING_MAX: usize = 256;
/// What waits longer than this for room in the kernel is dropped, milliseconds.
const WAIT_MS_MAX: u64 = 100;
/// Control datagrams of one turn, and their bytes.
const CONTROL_LIMITS: BatchLimits = BatchLimits { bytes: 1 << 20, datagrams: 1024 };

/// Counts of the socket.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RelayCounts {
    /// Datagrams made.
    pub(crate) datagrams: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Datagrams the system refused.
    pub(crate) failed: u64,
    /// Datagrams dropped because it had no room for too long, or until their link had gone.
    pub(crate) dropped: u64,
}

/// The socket, and what waits to be sent by it. `L` is what the caller has for a link.
pub(crate) struct RelayPort<L> {
    socket: UdpSocket,
    pub(crate) local: SocketAddr,
    /// Links by address.
    links: PeerTable<L>,
    /// Address of each link that is sent to, by its index; with the link, because another one may have the
    /// index by now.
    addresses: Vec<Option<(OutLinkId, SocketAddr)>>,
    /// More may wait in the kernel than was read.
    pub(crate) readable: bool,
    sender: UdpSender,
    control: SendBatch,
    waiting: VecDeque<Waiting>,
    /// Kept for their memory.
    spares: Vec<Waiting>,
    /// There was no room the last time.
    blocked: bool,
    pub(crate) counts: RelayCounts,
}

/// A group, and how far each of its recipients has got it.
#[derive(Default)]
struct Waiting {
    group: Outgoing,
    slots: Vec<Slot>,
    since_ms: u64,
}

impl<L: Copy> RelayPort<L> {
    /// Binds the socket. Why better ways to send were not taken is in the log.
    ///
    /// # Errors
    /// Those of the socket, with its address.
    pub(crate) fn open(settings: &RelaySettings, rtc: &RtcSettings, workers: usize) -> io::Result<Self> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", settings.listen));
        let socket = UdpSocket::bind(settings.listen).map_err(named)?;
        let local = socket.local_addr().map_err(named)?;
        socket.enlarge()?;
        let interface = settings.interface.clone().or_else(|| interface_of(local.ip()));
        let of_kind = |kind| interface.clone().filter(|_| settings.udp_backend == kind);
        let af_xdp = of_kind(UdpBackend::AfXdp).map(|interface| {
            // A queue is one socket's: the first ones are those of the workers' ports.
            let is_shared =
                rtc.udp_backend == UdpBackend::AfXdp && rtc.af_xdp_interface.as_ref() == Some(&interface);
            let mut config = AfXdpConfig::new(interface);
            config.queue = if is_shared { workers as u32 } else { 0 };
            config
        });
        let tc_clone = of_kind(UdpBackend::TcClone).map(TcCloneConfig::new);
        if interface.is_none() && matches!(settings.udp_backend, UdpBackend::AfXdp | UdpBackend::TcClone) {
            tracing::warn!(%local, "no interface has this address: packets leave by the socket");
        }
        let sender = socket.sender(&udp_backend::config(settings.udp_backend, af_xdp, tc_clone))?;
        for reason in sender.not_chosen() {
            tracing::warn!(%local, "packets between nodes are sent by {}, not by {reason}", sender.backend());
        }
        Ok(Self {
            socket,
            local,
            links: PeerTable::new(Limits::default().links_max),
            addresses: Vec::new(),
            readable: false,
            sender,
            control: SendBatch::new(CONTROL_LIMITS),
            waiting: VecDeque::new(),
            spares: Vec::new(),
            blocked: false,
            counts: RelayCounts::default(),
        })
    }

    /// Puts it into the event queue.
    pub(crate) fn register(&self, events: &EventQueue) -> io::Result<()> {
        events.add(&self.socket, Token::Relay, Interest::Read)
    }

    /// Receives once. It stays `readable` while more may wait.
    pub(crate) fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        let received = self.socket.receive(batch);
        self.readable = has_more(&received, batch);
        received
    }

    /// The link at an address.
    #[inline]
    pub(crate) fn link_at(&self, source: SocketAddr) -> Option<L> {
        self.links.get(PeerKey::from(source)).copied()
    }

    /// A link is at this address from now on. False if there are too many.
    pub(crate) fn bind(&mut self, address: SocketAddr, link: L, out: OutLinkId) -> bool {
        if self.links.insert(PeerKey::from(address), link).is_err() {
            return false;
        }
        let len = self.addresses.len().max(out.index() + 1);
        self.addresses.resize(len, None);
        self.addresses[out.index()] = Some((out, address));
        true
    }

    /// A link is gone; `is_it` says whether what is at its address is still that.
    pub(crate) fn unbind(&mut self, address: SocketAddr, out: OutLinkId, is_it: impl FnOnce(L) -> bool) {
        if self.link_at(address).is_some_and(is_it) {
            self.links.remove(PeerKey::from(address));
        }
        if self.address(out).is_some() {
            self.addresses[out.index()] = None;
        }
    }

    fn address(&self, link: OutLinkId) -> Option<SocketAddr> {
        let (of, address) = self.addresses.get(link.index()).copied().flatten()?;
        (of == link).then_some(address)
    }

    /// How datagrams leave.
    pub(crate) fn backend(&self) -> BackendKind {
        self.sender.backend()
    }

    /// Sends a group, and takes it if there is no room for all of it; `group` may then be filled again.
    pub(crate) fn send_group(&mut self, group: &mut Outgoing, now_ms: u64) {
        if group.is_empty() {
            return;
        }
        let links = group.links().count();
        let bytes: usize = group.shared().map(|packet| relay::PRIVATE_BYTES + packet.len()).sum();
        self.counts.datagrams += (links * group.shared().len()) as u64;
        self.counts.bytes += (links * bytes) as u64;
        let mut next = self.spares.pop().unwrap_or_default();
        std::mem::swap(&mut next.group, group);
        next.since_ms = now_ms;
        next.slots.clear();
        next.slots.resize(links, Slot::default());
        if self.waiting.len() >= WAITING_MAX {
            return self.drop_waiting(next);
        }
        self.waiting.push_back(next);
        // Where there was no room a moment ago, asking for each group would cost more than sending.
        if !self.blocked {
            self.send_waiting(now_ms);
        }
    }

    /// Sends datagrams again, those of a link together.
    pub(crate) fn send_repairs(&mut self, repairs: &mut Vec<Repair>) {
        for of_link in repairs.chunk_by(|one, other| one.link() == other.link()) {
            let Some(destination) = of_link.first().and_then(|repair| self.address(repair.link())) else {
                continue;
            };
            let shared: Vec<&[u8]> = of_link.iter().map(Repair::shared).collect();
            let private: Vec<&[u8]> = of_link.iter().map(Repair::private).collect();
            let recipient = Recipient { destination, prepend: &private, append: &[] };
            let mut slots = [Slot::default()];
            let progress = self.sender.send_group(&shared, &[recipient], &mut slots);
            self.counts.datagrams += of_link.len() as u64;
            self.counts.bytes += shared.iter().chain(&private).map(|part| part.len() as u64).sum::<u64>();
            self.counts.failed += progress.failed as u64;
            // What has no room is asked for again.
            self.counts.dropped += (of_link.len() - slots[0].done()) as u64;
        }
        repairs.clear();
    }

    /// Queues a control datagram to an address, for the next flush. What has no room there is lost, and said
    /// again.
    pub(crate) fn control(&mut self, destination: SocketAddr, datagram: &[u8], now_ms: u64) {
        let envelope = Envelope { stamp: now_ms, ..destination.into() };
        self.counts.datagrams += 1;
        self.counts.bytes += datagram.len() as u64;
        self.counts.dropped += u64::from(self.control.push(envelope, datagram).is_err());
    }

    /// The same to a link that is sent to.
    pub(crate) fn control_to(&mut self, link: OutLinkId, datagram: &[u8], now_ms: u64) {
        if let Some(destination) = self.address(link) {
            self.control(destination, datagram, now_ms);
        }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self, now_ms: u64) {
        self.send_waiting(now_ms);
        if self.control.is_empty() {
            return;
        }
        let progress = self.sender.flush(&mut self.control, usize::MAX);
        self.counts.failed += progress.failed as u64;
        if progress.blocked {
            self.blocked = true;
            let before = self.control.len();
            self.control.retain(|envelope, _| envelope.stamp + WAIT_MS_MAX >= now_ms);
            self.counts.dropped += (before - self.control.len()) as u64;
        }
    }

    /// Datagrams that wait to be sent.
    #[cfg(feature = "simulated")]
    pub(crate) fn left(&self) -> u64 {
        let groups = self.waiting.iter().map(|waiting| {
            let packets = waiting.group.shared().len();
            waiting.slots.iter().map(|slot| (packets - slot.done()) as u64).sum::<u64>()
        });
        groups.sum::<u64>() + self.control.len() as u64
    }

    /// Datagrams that the kernel has taken.
    #[cfg(feature = "simulated")]
    pub(crate) fn taken(&self) -> u64 {
        self.socket.taken()
    }

    /// When to ask the kernel again, if it had no room: it does not say when a UDP socket has.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.blocked.then_some(Duration::from_millis(1))
    }

    fn send_waiting(&mut self, now_ms: u64) {
        self.blocked = false;
        while let Some(mut next) = self.waiting.pop_front() {
            if next.since_ms + WAIT_MS_MAX < now_ms {
                self.drop_waiting(next);
                continue;
            }
            let progress = self.offer(&mut next);
            self.counts.failed += progress.failed as u64;
            if progress.failed > 0 {
                tracing::trace!(failed = progress.failed, "datagrams to nodes refused");
            }
            if progress.blocked {
                self.waiting.push_front(next);
                self.blocked = true;
                return;
            }
            self.keep_spare(next);
        }
    }

    /// Hands a group to the network, from where it was left.
    fn offer(&mut self, next: &mut Waiting) -> group_send::Progress {
        let Waiting { group, slots, .. } = next;
        let mut dropped = 0;
        let shared: Vec<&[u8]> = group.shared().collect();
        let private: Vec<&[u8]> =
            group.links().flat_map(|(_, private)| private).map(|private| &private[..]).collect();
        let private = private.chunks(shared.len().max(1));
        let recipients: Vec<Recipient<'_>> = group
            .links()
            .zip(private)
            .zip(slots.iter_mut())
            .map(|(((link, _), prepend), slot)| {
                let address = self.address(link);
                if address.is_none() {
                    // It has gone, and nothing is due for it.
                    dropped += (shared.len() - slot.done()) as u64;
                    *slot = Slot { sent: shared.len() as u32, ..Slot::default() };
                }
                Recipient { destination: address.unwrap_or(self.local), prepend, append: &[] }
            })
            .collect();
        self.counts.dropped += dropped;
        self.sender.send_group(&shared, &recipients, slots)
    }

    fn drop_waiting(&mut self, group: Waiting) {
        let packets = group.group.shared().len();
        let left: usize = group.slots.iter().map(|slot| packets - slot.done()).sum();
        self.counts.dropped += left as u64;
        tracing::trace!(dropped = left, "datagrams to nodes dropped: no room for too long");
        self.keep_spare(group);
    }

    fn keep_spare(&mut self, mut sent: Waiting) {
        sent.group.clear();
        self.spares.push(sent);
    }
}

impl<L> std::fmt::Debug for RelayPort<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayPort")
            .field("local", &self.local)
            .field("backend", &self.sender.backend())
            .field("waiting", &self.waiting.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, channel};

    use group_send::internals::{OutgoingMessage, OutgoingMessages, sender_over};
    use relay::{LinkSecret, OutStreamId, Role, SealKey};

    use super::*;
    use crate::net::Clock;

    /// A kernel that has room for so many datagrams, and passes those on.
    struct Room(Arc<AtomicUsize>, std::sync::mpsc::Sender<(SocketAddr, usize)>);

    impl OutgoingMessages for Room {
        fn send(&mut self, messages: Vec<OutgoingMessage>) -> Result<usize, i32> {
            let mut taken = 0;
            for message in &messages {
                let (room, needed) = (self.0.load(Ordering::Relaxed), message.segments.len());
                if room < needed {
                    break;
                }
                self.0.store(room - needed, Ordering::Relaxed);
                for segment in &message.segments {
                    self.1.send((message.destination, segment.len())).expect("it is taken");
                }
                taken += 1;
            }
            const EAGAIN: i32 = 11;
            if taken == 0 { Err(EAGAIN) } else { Ok(taken) }
        }
    }

    /// A port to two links over such a kernel, and what makes groups for it.
    struct World {
        port: RelayPort<OutLinkId>,
        sender: relay::Sender,
        stream: OutStreamId,
        links: [OutLinkId; 2],
        group: Outgoing,
        room: Arc<AtomicUsize>,
        passed: Receiver<(SocketAddr, usize)>,
    }

    const ADDRESSES: [&str; 2] = ["127.0.0.1:7001", "127.0.0.1:7002"];

    fn address(at: usize) -> SocketAddr {
        ADDRESSES[at].parse().expect("an address")
    }

    impl World {
        fn new() -> Self {
            let listen = "127.0.0.1:0".parse().expect("an address");
            let settings = RelaySettings { listen, udp_backend: UdpBackend::Auto, interface: None };
            let mut port = RelayPort::open(&settings, &RtcSettings::default(), 1).expect("a port");
            let ((passes, passed), room) = (channel(), Arc::new(AtomicUsize::new(0)));
            port.sender = sender_over(BackendKind::Gso, Room(Arc::clone(&room), passes));
            let mut sender = relay::Sender::new(Limits::default());
            let stream = sender.add_stream(SealKey::random(0)).expect("room");
            let links = [0, 1].map(|at| {
                let (keys, _) = LinkSecret::new([at as u8; 32]).split(Role::Listener);
                let link = sender.add_link(Clock::now(), keys).expect("room");
                sender.subscribe(stream, link, 0).expect("it is free");
                assert!(port.bind(address(at), link, link));
                link
            });
            Self { port, sender, stream, links, group: Outgoing::new(), room, passed }
        }

        /// Sends a packet of this length to both.
        fn send(&mut self, len: usize, now_ms: u64) {
            let packet = vec![0x80; len];
            self.sender.send(Clock::now(), self.stream, &[&packet], &mut self.group).expect("it is sealed");
            self.port.send_group(&mut self.group, now_ms);
        }

        /// What left since the last time: to which of the two, and how long the packet was.
        fn passed(&self) -> Vec<(usize, usize)> {
            let added = relay::PRIVATE_BYTES + relay::SHARED_BYTES_ADDED;
            let which = |to| (0..2).find(|at| address(*at) == to).expect("one of the two");
            self.passed.try_iter().map(|(to, len)| (which(to), len - added)).collect()
        }
    }

    #[test]
    fn what_has_no_room_waits_in_order_and_is_lost_when_it_is_too_old() {
        let mut world = World::new();
        world.room.store(1, Ordering::Relaxed);
        world.send(100, 0);
        world.send(200, 1);
        assert_eq!(world.passed(), [(0, 100)]);
        assert!(world.port.retry_after().is_some());
        world.port.control_to(world.links[1], &[7; 90], 2);
        world.port.flush(2);
        assert_eq!(world.passed(), []);
        world.room.store(100, Ordering::Relaxed);
        world.port.flush(3);
        let control = (1, 90 - relay::PRIVATE_BYTES - relay::SHARED_BYTES_ADDED);
        assert_eq!(world.passed(), [(1, 100), (0, 200), (1, 200), control], "and none twice");
        assert!(world.port.retry_after().is_none());

        world.room.store(0, Ordering::Relaxed);
        world.send(300, 10);
        world.send(400, 80);
        world.room.store(100, Ordering::Relaxed);
        world.port.flush(10 + WAIT_MS_MAX + 1);
        assert_eq!(world.passed(), [(0, 400), (1, 400)]);
        let RelayCounts { datagrams, dropped, failed, .. } = world.port.counts;
        assert_eq!((datagrams, dropped, failed), (9, 2, 0));
    }

    #[test]
    fn nothing_waits_for_a_link_that_is_gone() {
        let mut world = World::new();
        world.send(100, 0);
        let (gone, at) = (world.links[0], address(0));
        world.port.unbind(at, gone, |known| known == gone);
        assert_eq!(world.port.link_at(at), None);
        world.room.store(100, Ordering::Relaxed);
        world.port.flush(1);
        assert_eq!(world.passed(), [(1, 100)]);
        assert_eq!((world.port.counts.datagrams, world.port.counts.dropped), (2, 1));
        // Another one has the address by now: the one that is gone does not take it along.
        assert!(world.port.bind(at, world.links[1], world.links[1]));
        world.port.unbind(at, gone, |known| known == gone);
        assert_eq!(world.port.link_at(at), Some(world.links[1]));
    }

    #[test]
    fn more_than_may_wait_is_dropped() {
        let mut world = World::new();
        for at in 0..WAITING_MAX + 3 {
            world.send(100 + at, 0);
        }
        assert_eq!(world.port.counts.dropped, 2 * 3);
        world.room.store(usize::MAX, Ordering::Relaxed);
        world.port.flush(1);
        let passed = world.passed();
        assert_eq!((passed.len(), passed.last()), (2 * WAITING_MAX, Some(&(1, 99 + WAITING_MAX))));
    }
}
