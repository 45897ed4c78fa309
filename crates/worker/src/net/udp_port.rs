//! One UDP socket of a worker with what belongs to it: who is at which address, when it is read, and what
//! waits to be sent.
//!
//! Peers are found by address per socket, because one translated address may stand for different peers at
//! different sockets. Sending is `group_send`'s: everything of a turn is written into one slab and handed
//! over in one flush. Packets of viewers in counter mode get their tags there, many at a time and before the
//! flush.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use group_send::peer_table::{PeerKey, PeerTable};
use group_send::steering::Steering;
use group_send::{AfXdpConfig, BackendKind, BatchLimits, DatagramId, Ecn, Envelope, ReserveError, SendBatch};
use rtp::payload::MediaKind;
use srtp::{TagPlaces, TagQueue};

use crate::ids::{PeerId, PortId, Table, WorkerIndex};
use crate::net::{
    EventQueue, Interest, ReceivedBatch, Token, UdpSender, UdpSocket, has_more, local_addresses, steer,
    udp_backend,
};
use worker_api::settings::{RtcSettings, UdpBackend};

/// Datagrams of one flush at most.
const BATCH_DATAGRAMS: usize = 4096;
/// Bytes of one flush at most.
const BATCH_BYTES: usize = 4 << 20;
/// Packets whose tags are computed together at most: enough to find sixteen of one length among those of a
/// frame, few enough to be in the second-level cache still. See docs/decisions/0031-tags-of-counter-mode.md.
const TAGS_TOGETHER: usize = 64;
/// What waits longer than this for room in the kernel is dropped, milliseconds: a player conceals or asks
/// again.
const WAIT_MS_MAX: u64 = 100;
/// Time between two rounds. The event queue waits for whole milliseconds, from the end of a turn on: what
/// such a port brings waits that long and for the turn under way, and times of arrival in feedback to
/// publishers are as late.
const ROUND: Duration = Duration::from_millis(1);
/// Datagrams between two reviews (100 ms) from which on rounds pay, and below which they do not.
const BUSY: usize = 200;
const QUIET: usize = 100;

/// Addresses one session may be at: those that were checked, and the one in use before a restart.
pub(crate) const PEERS_PER_SESSION: usize = rtc::VALID_PATHS_MAX + 1;

/// Counters of a port, or of all ports of a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SendCounters {
    /// Datagrams made.
    pub(crate) packets: u64,
    /// RTP packets among them.
    pub(crate) rtp_packets: u64,
    /// Bytes of RTP and RTCP.
    pub(crate) bytes: u64,
    /// Datagrams the kernel took.
    pub(crate) sent: u64,
    /// Datagrams it refused.
    pub(crate) failed: u64,
    /// Datagrams dropped because it had no room for too long.
    pub(crate) dropped: u64,
    /// Those of them that were never made.
    pub(crate) unmade: u64,
    /// Packets not made since their session has no path.
    pub(crate) paused: u64,
    /// Packets that could not be encrypted.
    pub(crate) unprotected: u64,
    /// Flushes that found no room.
    pub(crate) blocked: u64,
    /// `dropped` by [`MediaKind`]; STUN, DTLS and RTCP are data.
    pub(crate) no_room: [u64; 3],
    /// `failed` in the same way.
    pub(crate) refused: [u64; 3],
}

/// A UDP socket, the sessions by address, and the datagrams that wait for the next flush.
pub(crate) struct UdpPort {
    socket: UdpSocket,
    pub(crate) local: SocketAddr,
    /// Session of each address that may send media or DTLS here.
    pub(crate) peers: PeerTable<PeerId>,
    /// More may wait in the kernel than was read. A flag and no queue of ports: a worker has a few, and each
    /// turn asks all of them whether a round is due.
    pub(crate) readable: bool,
    pub(crate) reading: Reading,
    sender: UdpSender,
    batch: SendBatch,
    /// Datagrams of `batch` without their tags.
    tags: TagQueue<DatagramId>,
    /// When the kernel had no room, if it had none the last time, milliseconds.
    blocked_at_ms: Option<u64>,
    /// The last flush has sent something.
    took_some: bool,
    /// Where flushes go instead of the network.
    #[cfg(test)]
    recorded: Option<Vec<(SocketAddr, Vec<u8>)>>,
    /// Whether there is no room then.
    #[cfg(test)]
    pub(crate) is_full: bool,
}

/// A datagram that is being written, and where it waits for its tag if that is computed later.
pub(crate) struct TagSlot<'a> {
    pub(crate) queue: &'a mut TagQueue<DatagramId>,
    pub(crate) datagram: DatagramId,
}

/// Addresses that the sessions of a worker may have.
pub(crate) fn peers_max(settings: &RtcSettings) -> usize {
    settings.sessions_max.saturating_mul(PEERS_PER_SESSION)
}

impl UdpPort {
    /// Sessions from now on have these limits.
    pub(crate) fn apply_settings(&mut self, settings: &RtcSettings) {
        self.peers.set_limit(peers_max(settings));
    }

    /// Takes a bound socket. The reasons why better ways to send were not taken are in the log.
    ///
    /// `frames` is the interface and queue by which it may send past the kernel's UDP stack.
    fn new(socket: UdpSocket, settings: &RtcSettings, frames: Option<AfXdpConfig>) -> io::Result<Self> {
        let local = socket.local_addr()?;
        socket.enlarge()?;
        let config = udp_backend::config(settings.udp_backend, frames, None);
        let sender = socket.sender(&group_send::Config { steered: settings.single_port, ..config })?;
        for reason in sender.not_chosen() {
            tracing::warn!(%local, "datagrams are sent by {}, not by {reason}", sender.backend());
        }
        if let Some(reason) = sender.twin_refused() {
            tracing::debug!(%local, reason, "a port sends by the socket that it receives by");
        }
        let batch = SendBatch::new(BatchLimits { bytes: BATCH_BYTES, datagrams: BATCH_DATAGRAMS });
        let peers = PeerTable::new(peers_max(settings));
        let (reading, tags) = (Reading::default(), TagQueue::new(TAGS_TOGETHER));
        Ok(Self {
            socket,
            local,
            peers,
            readable: false,
            reading,
            sender,
            batch,
            tags,
            blocked_at_ms: None,
            took_some: false,
            #[cfg(test)]
            recorded: None,
            #[cfg(test)]
            is_full: false,
        })
    }

    /// Puts it into the event queue.
    pub(crate) fn register(&self, id: PortId, events: &EventQueue) -> io::Result<()> {
        events.add(&self.socket, Token::Port(id), Interest::Read)
    }

    /// Carries out a change of `reading`.
    pub(crate) fn change_reading(&mut self, id: PortId, events: &EventQueue, change: Change, now: Instant) {
        match change {
            Change::Rounds => events.remove(&self.socket),
            // Reports at once what has arrived meanwhile.
            Change::AtOnce => {
                if let Err(error) = self.register(id, events) {
                    tracing::error!(local = %self.local, %error, "event queue refused a port");
                    self.reading.refused(now);
                }
            }
        }
    }

    /// Has the kernel give datagrams to workers by this table from now on, or without one.
    pub(crate) fn steer(&self, steering: Option<&Steering>, workers: usize) {
        let by_hash = || self.socket.steer(&steer::program(workers, false));
        let by_table = |steering| self.socket.steer_by_table(steering).or_else(|_| by_hash());
        if let Err(error) = steering.map_or_else(by_hash, by_table) {
            tracing::error!(local = %self.local, %error, "the table of another process stays, which is out of date");
        }
    }

    /// Receives once. It stays `readable` while more may wait.
    pub(crate) fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<usize> {
        let received = self.socket.receive(batch);
        self.readable = has_more(&received, batch);
        received
    }

    /// How datagrams leave.
    pub(crate) fn backend(&self) -> BackendKind {
        self.sender.backend()
    }

    /// Session at `source`, if it has proved to be there.
    pub(crate) fn session_at(&self, source: SocketAddr) -> Option<PeerId> {
        self.peers.get(PeerKey::from(source)).copied()
    }

    /// `peer` is no longer at this address. Whether it was.
    pub(crate) fn unbind(&mut self, remote: SocketAddr, peer: PeerId) -> bool {
        // Somebody else may be there by now.
        let is_there = self.session_at(remote) == Some(peer);
        if is_there {
            self.peers.remove(PeerKey::from(remote));
        }
        is_there
    }

    /// Lets `write` make a datagram of up to `len_max` bytes in the place that it is sent from. Its length;
    /// `None` when `write` made none, or there is no room even after everything was sent that waits.
    pub(crate) fn datagram(
        &mut self,
        heading: Heading,
        len_max: usize,
        now_ms: u64,
        counters: &mut SendCounters,
        write: impl FnOnce(&mut [u8], TagSlot<'_>) -> Option<usize>,
    ) -> Option<usize> {
        if self.tags.is_full() {
            self.finish_tags();
        }
        let Heading { destination, kind, ecn } = heading;
        let stamp = now_ms << KIND_BITS | kind as u64;
        let envelope = Envelope { stamp, ecn, ..destination.into() };
        let mut reserved = self.batch.reserve(envelope, len_max);
        // Where the kernel had no room this turn, asking it for each datagram would cost more than sending.
        if matches!(reserved, Err(ReserveError::Full)) && self.blocked_at_ms != Some(now_ms) {
            self.flush(now_ms, counters);
            reserved = self.batch.reserve(envelope, len_max);
        }
        let id = match reserved {
            Ok(id) => id,
            Err(reason) => {
                counters.dropped += 1;
                counters.unmade += 1;
                counters.no_room[kind as usize] += 1;
                tracing::trace!(%destination, len_max, ?reason, "datagram dropped");
                return None;
            }
        };
        let len = write(self.batch.buffer(id), TagSlot { queue: &mut self.tags, datagram: id });
        match len {
            Some(len) => {
                counters.packets += 1;
                self.batch.set_len(id, len);
            }
            None => self.batch.discard(id),
        }
        len
    }

    /// Datagrams that wait to be sent.
    #[cfg(feature = "simulated")]
    pub(crate) fn waiting(&self) -> usize {
        self.batch.len()
    }

    /// Datagrams that the kernel has taken.
    #[cfg(feature = "simulated")]
    pub(crate) fn taken(&self) -> u64 {
        self.socket.taken()
    }

    /// Whether the kernel had no room the last time.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_at_ms.is_some()
    }

    /// When to ask the kernel again, if it had no room: it does not say when a UDP socket has. While it takes
    /// some it may take more.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let rest = if self.took_some { Duration::ZERO } else { Duration::from_millis(1) };
        self.is_blocked().then_some(rest)
    }

    /// Whether there is room for so many more datagrams of video. Some is left to what does not wait: audio
    /// to everybody.
    pub(crate) fn has_room(&mut self, datagrams: usize, now_ms: u64, counters: &mut SendCounters) -> bool {
        let reserve = self.peers.len().clamp(BATCH_DATAGRAMS / 8, BATCH_DATAGRAMS / 2);
        let is_low =
            self.batch.datagrams_free() < datagrams + reserve || self.batch.bytes_free() < BATCH_BYTES / 4;
        if is_low && !self.is_blocked() {
            self.flush(now_ms, counters);
        }
        !self.is_blocked()
    }

    /// Computes the tags that are missing.
    fn finish_tags(&mut self) {
        struct Datagrams<'a>(&'a mut SendBatch);
        impl TagPlaces<DatagramId> for Datagrams<'_> {
            fn packet(&self, place: DatagramId) -> &[u8] {
                self.0.bytes(place)
            }
            fn packet_mut(&mut self, place: DatagramId) -> &mut [u8] {
                self.0.buffer(place)
            }
        }
        self.tags.finish(&mut Datagrams(&mut self.batch));
    }

    /// Sends what waits. What finds no room is tried again with the next flush and dropped when it is too
    /// old.
    pub(crate) fn flush(&mut self, now_ms: u64, counters: &mut SendCounters) {
        // A flush ends what ids stand for.
        self.finish_tags();
        if self.batch.is_empty() {
            // Discarded datagrams have taken room.
            self.batch.clear();
            self.blocked_at_ms = None;
            return;
        }
        #[cfg(not(test))]
        let progress = self.sender.flush(&mut self.batch, usize::MAX);
        #[cfg(test)]
        let progress = match self.recorded {
            Some(_) => self.record(),
            None => self.sender.flush(&mut self.batch, usize::MAX),
        };
        counters.sent += progress.sent as u64;
        counters.failed += progress.failed as u64;
        if progress.failed > 0 {
            tracing::trace!(local = %self.local, failed = progress.failed, "datagrams refused");
            for failure in self.batch.failures() {
                counters.refused[kind_of(&failure.envelope)] += 1;
            }
        }
        self.blocked_at_ms = progress.blocked.then_some(now_ms);
        self.took_some = progress.sent > 0;
        if progress.blocked {
            counters.blocked += 1;
            let before = self.batch.len();
            self.batch.retain(|envelope, _| {
                let waits = (envelope.stamp >> KIND_BITS) + WAIT_MS_MAX >= now_ms;
                counters.no_room[kind_of(envelope)] += u64::from(!waits);
                waits
            });
            let dropped = before - self.batch.len();
            counters.dropped += dropped as u64;
            if dropped > 0 {
                tracing::trace!(local = %self.local, dropped, "datagrams dropped: no room for too long");
            }
        }
    }
}

/// Where a datagram goes and what it carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heading {
    destination: SocketAddr,
    kind: MediaKind,
    ecn: Ecn,
}

impl Heading {
    /// Without a mark.
    pub(crate) fn new(destination: SocketAddr, kind: MediaKind) -> Self {
        Self { destination, kind, ecn: Ecn::NotEct }
    }

    /// It leaves as ECT(1), for queues that mark early (RFC 9331), or without a mark.
    pub(crate) fn with_ect(self, is_ect: bool) -> Self {
        Self { ecn: if is_ect { Ecn::Ect1 } else { Ecn::NotEct }, ..self }
    }
}

/// A datagram that waits is stamped with the time it was made and, in so many low bits, what it carries.
const KIND_BITS: u32 = 2;

/// The number of its [`MediaKind`].
fn kind_of(envelope: &Envelope) -> usize {
    (envelope.stamp & ((1 << KIND_BITS) - 1)) as usize
}

/// When a port is read: as soon as something arrives, or in rounds.
///
/// Of streams nobody plays, packets are only put away, so nobody waits for them. With many such
/// publishers nearly every datagram would wake the worker, which costs more than to take it in. A port
/// that brings nothing else is therefore taken out of the event queue and read a millisecond after
/// the turn that read it. The first datagram somebody waits for puts it back: one of a
/// stream that is played, or of a session that plays. If the queue has no room for it, the rounds go on.
/// Measured in docs/decisions/0029-memory-of-publishers.md.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The next round, if it is read in rounds.
    next: Option<Instant>,
    /// Since the last review.
    datagrams: usize,
    /// Somebody waited for one of them.
    is_urgent: bool,
    /// The event queue did not take it back.
    is_refused: bool,
}

/// A change of how a port is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The event queue says when.
    AtOnce,
    /// The clock does.
    Rounds,
}

impl Reading {
    /// Whether a round is due; the next one is set then.
    pub(crate) fn begin_round(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.next = Some(now + ROUND);
        }
        is_due
    }

    /// When the next round is due, if there are rounds.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// A batch was taken in; `is_urgent` if somebody waited for any of it.
    pub(crate) fn note_batch(&mut self, datagrams: usize, is_urgent: bool) -> Option<Change> {
        self.datagrams += datagrams;
        self.is_urgent |= is_urgent;
        (is_urgent && !self.is_refused && self.next.take().is_some()).then_some(Change::AtOnce)
    }

    /// The event queue did not take the port back: the rounds go on, until the next review tries it again.
    pub(crate) fn refused(&mut self, now: Instant) {
        (self.next, self.is_refused) = (Some(now + ROUND), true);
    }

    /// Decides how to go on. To be called every 100 ms.
    pub(crate) fn review(&mut self, now: Instant) -> Option<Change> {
        let (datagrams, is_urgent) =
            (std::mem::take(&mut self.datagrams), std::mem::take(&mut self.is_urgent));
        let was_refused = std::mem::take(&mut self.is_refused);
        match self.next {
            None if datagrams >= BUSY && !is_urgent => {
                self.next = Some(now + ROUND);
                Some(Change::Rounds)
            }
            Some(_) if datagrams < QUIET || was_refused => {
                self.next = None;
                Some(Change::AtOnce)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
impl UdpPort {
    /// From now on nothing leaves: [`UdpPort::take_recorded`] returns it.
    pub(crate) fn record_only(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// Flushes, and takes everything that was flushed since the last time, in the order in which it would
    /// have left.
    pub(crate) fn take_recorded(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        self.flush(0, &mut SendCounters::default());
        self.recorded.replace(Vec::new()).unwrap_or_default()
    }

    /// Recipient by recipient, as [`group_send`] sends them.
    fn record(&mut self) -> group_send::Progress {
        let count = self.batch.len();
        if self.is_full {
            return group_send::Progress { sent: 0, failed: 0, blocked: true };
        }
        let mut flushed = Vec::new();
        self.batch.retain(|envelope, datagram| {
            flushed.push((envelope.destination, datagram.to_vec()));
            false
        });
        let mut order = std::collections::HashMap::new();
        for (at, (destination, _)) in flushed.iter().enumerate() {
            order.entry(*destination).or_insert(at);
        }
        flushed.sort_by_key(|(destination, _)| order[destination]);
        self.recorded.get_or_insert_default().append(&mut flushed);
        group_send::Progress { sent: count, failed: 0, blocked: false }
    }
}

impl std::fmt::Debug for UdpPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpPort")
            .field("local", &self.local)
            .field("backend", &self.backend())
            .field("peers", &self.peers.len())
            .field("waiting", &self.batch.len())
            .finish()
    }
}

/// The ports of a worker.
pub(crate) fn open(
    sockets: Vec<UdpSocket>,
    worker: WorkerIndex,
    settings: &RtcSettings,
) -> io::Result<Table<PortId, UdpPort>> {
    let mut frames = af_xdp(worker, settings);
    let port = |socket: UdpSocket| {
        let local = socket.local_addr()?.ip();
        // A queue is one port's: the first at that interface.
        let own = frames.take_if(|(_, addresses)| addresses.contains(&local));
        UdpPort::new(socket, settings, own.map(|(config, _)| config))
    };
    sockets.into_iter().map(port).collect()
}

/// The interface and queue of a worker for sending past the kernel's UDP stack, and the interface's
/// addresses.
fn af_xdp(worker: WorkerIndex, settings: &RtcSettings) -> Option<(AfXdpConfig, Vec<IpAddr>)> {
    let interface =
        settings.af_xdp_interface.as_ref().filter(|_| settings.udp_backend == UdpBackend::AfXdp)?;
    let mut config = AfXdpConfig::new(interface);
    config.queue = worker.0;
    Some((config, local_addresses(Some(interface))))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Peer;

    use srtp::{InboundContext, MasterKey, OutboundContext, Plaintext, Profile};

    use super::*;
    use crate::net::Clock;

    #[test]
    fn a_busy_port_nobody_waits_for_is_read_in_rounds_until_it_is_quiet() {
        let (mut reading, now) = (Reading::default(), Clock::now());
        assert_eq!((reading.note_batch(BUSY - 1, false), reading.review(now)), (None, None));
        assert_eq!((reading.note_batch(BUSY, false), reading.review(now)), (None, Some(Change::Rounds)));
        assert!(!reading.begin_round(now), "it has just been read");
        assert_eq!(reading.next(), Some(now + ROUND));
        assert!(reading.begin_round(now + ROUND));
        assert_eq!(reading.next(), Some(now + 2 * ROUND));
        assert_eq!((reading.note_batch(QUIET, false), reading.review(now)), (None, None));
        assert_eq!((reading.note_batch(QUIET - 1, false), reading.review(now)), (None, Some(Change::AtOnce)));
        assert_eq!((reading.next(), reading.begin_round(now + 3 * ROUND)), (None, false));
    }

    #[test]
    fn the_first_datagram_somebody_waits_for_ends_the_rounds() {
        let (mut reading, now) = (Reading::default(), Clock::now());
        reading.note_batch(BUSY, false);
        assert_eq!(reading.review(now), Some(Change::Rounds));
        assert_eq!(reading.note_batch(1, true), Some(Change::AtOnce));
        assert_eq!(reading.note_batch(BUSY, false), None);
        assert_eq!(reading.review(now), None, "not in the same 100 ms");
        reading.note_batch(BUSY, false);
        assert_eq!(reading.review(now), Some(Change::Rounds));
    }

    #[test]
    fn a_port_that_the_event_queue_refuses_is_read_in_rounds_until_it_takes_it() {
        let socket = UdpSocket::bind("127.0.0.1:0".parse().expect("an address")).expect("a socket");
        let mut port = UdpPort::new(socket, &RtcSettings::default(), None).expect("a port");
        let (id, events, now) = (PortId(0), EventQueue::new().expect("an event queue"), Clock::now());
        // It is there already, which the queue refuses like everything else that it has no room for.
        port.register(id, &events).expect("room");
        port.reading.note_batch(1_000, false);
        assert_eq!(port.reading.review(now), Some(Change::Rounds));
        let change = port.reading.note_batch(1, true).expect("somebody waits");
        port.change_reading(id, &events, change, now);
        let next = port.reading.next().expect("it is still read");
        assert!(port.reading.begin_round(next));
        assert_eq!(port.reading.note_batch(1, true), None, "it is not tried with each datagram");
        assert_eq!(port.reading.review(now), Some(Change::AtOnce), "but again later");
        events.remove(&port.socket);
        port.change_reading(id, &events, Change::AtOnce, now);
        assert_eq!(port.reading.next(), None);
    }

    #[test]
    fn what_does_not_leave_is_counted_by_kind() {
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let socket = UdpSocket::bind(loopback).expect("a socket");
        let mut port = UdpPort::new(socket, &RtcSettings::default(), None).expect("a port");
        let (mut sent, remote) = (SendCounters::default(), "127.0.0.1:9".parse().expect("an address"));
        port.record_only();
        port.is_full = true;
        for (at_ms, kind) in [(50, MediaKind::Data), (51, MediaKind::Audio), (52, MediaKind::Video)] {
            port.datagram(Heading::new(remote, kind), 1, at_ms, &mut sent, |_, _| Some(1))
                .expect("it is made");
        }
        port.flush(51 + WAIT_MS_MAX, &mut sent);
        assert_eq!(sent.no_room[MediaKind::Data as usize], 1);
        assert_eq!(sent.dropped, 1, "the others may wait");
        port.flush(53 + WAIT_MS_MAX, &mut sent);
        assert_eq!((sent.no_room, sent.dropped), ([1; 3], 3));
    }

    const PEERS: usize = 64;
    /// More in all than one flush takes.
    const PACKETS: usize = BATCH_DATAGRAMS / PEERS + 16;

    #[test]
    fn what_leaves_for_want_of_room_has_its_tags_and_a_refused_packet_is_refused_alone() {
        let loopback = "127.0.0.1:0".parse().expect("an address");
        let socket = UdpSocket::bind(loopback).expect("a socket");
        let mut port = UdpPort::new(socket, &RtcSettings::default(), None).expect("a port");
        let (mut sent, config) = (SendCounters::default(), srtp::Config::default());
        let keys = |peer: usize| {
            // Of two profiles in turns: datagrams with their tags are between those without.
            let (profile, salt) = match peer.is_multiple_of(2) {
                true => (Profile::AesCm128HmacSha1_80, &[7; 14][..]),
                false => (Profile::AeadAes128Gcm, &[7; 12][..]),
            };
            [MasterKey::new(profile, &[peer as u8; 16], salt).expect("lengths")]
        };
        let peers: Vec<Peer> = (0..PEERS).map(|_| Peer::bind(loopback).expect("a socket")).collect();
        let mut senders: Vec<OutboundContext> =
            (0..PEERS).map(|peer| OutboundContext::new(&config, &keys(peer)).expect("keys")).collect();
        for number in 0..PACKETS {
            for (sender, peer) in senders.iter_mut().zip(&peers) {
                let header = [0x80, 96, 0, number as u8, 0, 0, 0, 0, 0, 0, 0, 42];
                let payload = &[number as u8; 100][..20 + number];
                let mut send = || {
                    let to = peer.local_addr().expect("its address");
                    port.datagram(Heading::new(to, MediaKind::Video), 160, 0, &mut sent, |out, tag| {
                        let plaintext = Plaintext::From { header: &header, payload };
                        sender.protect_rtp_later(plaintext, out, tag.queue, tag.datagram).ok()
                    })
                };
                assert!(send().is_some());
                assert_eq!(send(), None, "a number is used once");
            }
        }
        while !port.batch.is_empty() {
            port.flush(0, &mut sent);
        }
        assert!(port.tags.is_empty());
        assert_eq!((sent.sent, sent.failed, sent.dropped), ((PEERS * PACKETS) as u64, 0, 0));
        for (at, peer) in peers.iter().enumerate() {
            let mut receiver = InboundContext::new(&config, &keys(at)).expect("keys");
            peer.set_nonblocking(true).expect("a socket option");
            for number in 0..PACKETS {
                let mut datagram = [0; 200];
                let len = peer.recv(&mut datagram).expect("the next packet");
                let len = receiver.unprotect_rtp(&mut datagram[..len]).expect("an authentic packet");
                assert_eq!(datagram[12..len], [number as u8; 100][..20 + number], "peer {at}");
            }
        }
    }
}
