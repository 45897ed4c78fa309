//! An established connection: packets in, packets out, and the timers of both (draft-sharabayko-srt-01
//! sections 4.1 and 4.8 to 4.10).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::cipher::CipherMode;
use crate::keys::Keys;
use crate::pacer::Pacer;
use crate::peer_clock::PeerClock;
use crate::receiver::{Arrival, Opened, Receiver};
use crate::round_trip::RoundTrip;
use crate::sender::Sender;
use crate::sequence::SequenceNumber;
use crate::wire::{
    Ack, AckDetails, Body, Control, DATAGRAM_BYTES_MAX, Data, HEADER_BYTES, KeyFlag, Outgoing, Packet,
    RANGES_MAX, SocketId,
};

/// Time between two full acknowledgements (section 4.8.1).
const ACK_INTERVAL: Duration = Duration::from_millis(10);
/// Packets after which a light acknowledgement is sent (section 4.8.1).
const LIGHT_ACK_PACKETS: u32 = 64;
/// Full acknowledgements whose answers are waited for.
const ACKS_MAX: usize = 64;
/// Silence after which this end says that it is there (section 3.2.3).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest from one call to the next of whoever drives a connection in time: a keep-alive is due by then.
const RUN_INTERVAL_MAX: Duration = Duration::from_millis(1500);
/// Bytes of control packets that wait to be sent; more are dropped, and said again when they are due.
const CONTROL_BYTES_MAX: usize = 64 << 10;
/// Ranges that one NAK can have us answer with a drop request.
const DROP_REQUESTS_MAX: usize = 16;
/// What a sender keeps packets for besides the latency: the last that is sent again needs time to arrive.
const SEND_DROP_EXTRA: Duration = Duration::from_millis(200);
/// Shortest time that a sender keeps packets for.
const SEND_DROP_MIN: Duration = Duration::from_secs(1);
/// Time between two requests to take a new key that are not answered.
const KEY_REQUEST_INTERVAL: Duration = Duration::from_millis(250);

/// What both ends may use, and when keys change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Packets that may be on their way or held, in each direction.
    pub window_packets: usize,
    /// Bytes of received packets that may be held.
    pub receive_bytes_max: usize,
    /// Bytes of sent packets that are kept, to be sent again.
    pub send_bytes_max: usize,
    /// Most that is sent, bits per second; 0 for no limit.
    pub send_bits_per_second_max: u64,
    /// A peer that sends nothing for this long is gone.
    pub silence_max: Duration,
    /// Packets after which this end sends with a new key.
    pub key_refresh_packets: u64,
    /// Packets before that by which the new key is announced.
    pub key_announce_packets: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            window_packets: 8192,
            receive_bytes_max: 12 << 20,
            send_bytes_max: 12 << 20,
            send_bits_per_second_max: 0,
            silence_max: Duration::from_secs(5),
            key_refresh_packets: 1 << 24,
            key_announce_packets: 1 << 12,
        }
    }
}

/// Why a connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The peer has ended it.
    Shutdown,
    /// The peer sent nothing for too long.
    Silent,
    /// This end has ended it.
    Closed,
}

/// Why a packet was dropped. Each is counted; none ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It is no packet, or none of an established connection.
    Invalid,
    /// It is for another socket.
    Misaddressed,
    /// It came after it had been delivered or dropped.
    Late,
    /// It has come already.
    Duplicate,
    /// There is no room for it.
    NoRoom,
    /// It is not what the peer has sent, as AES-GCM shows, or there is no key for it.
    Forged,
}

/// What happened on a connection, since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Data packets that came and were new.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets found missing when later ones came.
    pub lost_in: u64,
    /// Packets that came when they were sent again.
    pub retransmitted_in: u64,
    /// Packets dropped, because the next was due.
    pub dropped_in: u64,
    /// Packets that came too late, or twice.
    pub late_in: u64,
    /// Packets for which there was no room.
    pub no_room_in: u64,
    /// Packets for which there was no key, and those that AES-GCM shows to be forged.
    pub undecrypted_in: u64,
    /// What came and was no packet of this connection.
    pub invalid_in: u64,
    /// Data packets sent for the first time.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets that the peer reported missing.
    pub lost_out: u64,
    /// Packets sent again.
    pub retransmitted_out: u64,
    /// Packets dropped, because they were too old.
    pub dropped_out: u64,
    /// Times that this end's key has changed.
    pub keys_changed: u64,
}

impl Counters {
    /// Adds what another connection has counted.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.lost_in += other.lost_in;
        self.retransmitted_in += other.retransmitted_in;
        self.dropped_in += other.dropped_in;
        self.late_in += other.late_in;
        self.no_room_in += other.no_room_in;
        self.undecrypted_in += other.undecrypted_in;
        self.invalid_in += other.invalid_in;
        self.packets_out += other.packets_out;
        self.bytes_out += other.bytes_out;
        self.lost_out += other.lost_out;
        self.retransmitted_out += other.retransmitted_out;
        self.dropped_out += other.dropped_out;
        self.keys_changed += other.keys_changed;
    }
}

/// How a connection is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Round trip, once it was measured.
    pub round_trip: Option<Duration>,
    /// Delay of what is received.
    pub receive_latency: Duration,
    /// Delay of what is sent, at the peer.
    pub send_latency: Duration,
    /// Packets, bytes and time that wait to be delivered.
    pub receive_buffer: (usize, usize, Duration),
    /// Packets, bytes and time that wait to be acknowledged.
    pub send_buffer: (usize, usize, Duration),
    /// Payloads are encrypted.
    pub is_encrypted: bool,
}

/// What a handshake has agreed on.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) local: SocketId,
    pub(crate) peer: SocketId,
    pub(crate) send_first: SequenceNumber,
    pub(crate) receive_first: SequenceNumber,
    pub(crate) peer_clock: PeerClock,
    pub(crate) receive_latency: Duration,
    pub(crate) send_latency: Duration,
    pub(crate) peer_window: usize,
    pub(crate) payload_max: usize,
    pub(crate) keys: Option<Keys>,
    /// When this end's timestamps were 0.
    pub(crate) epoch: Instant,
    pub(crate) limits: Limits,
    /// What the handshake took, where that is known.
    pub(crate) round_trip: Option<Duration>,
}

/// Keys of both directions.
#[derive(Debug)]
struct Encryption {
    receiving: Keys,
    sending: Keys,
    current: KeyFlag,
    /// Packets sent with the current key.
    packets: u64,
    refresh: Refresh,
    /// The peer has sent by AES-GCM. Both ends begin with one key and number packets alike: what was sent
    /// here as well would have nonces that are used.
    has_opened: bool,
}

/// Where this end is in changing its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refresh {
    /// Not yet.
    None,
    /// Announced; said again at this time unless it was answered.
    Announced(Instant),
    /// The peer has the next key.
    Answered,
}

/// An established connection.
///
/// **Give it every datagram that is for its socket by [`handle_packet`](Self::handle_packet); then, and
/// at [`next_timeout`](Self::next_timeout), call [`handle_timeout`](Self::handle_timeout), take what is
/// received by [`deliver`](Self::deliver), and send what
/// [`poll_transmit`](Self::poll_transmit) writes until it writes nothing.**
#[derive(Debug)]
pub struct Connection {
    local: SocketId,
    peer: SocketId,
    epoch: Instant,
    limits: Limits,
    receive_latency: Duration,
    send_latency: Duration,
    payload_max: usize,
    round_trip: RoundTrip,
    receiver: Receiver,
    sender: Sender,
    encryption: Option<Box<Encryption>>,
    controls: Controls,
    pacer: Pacer,
    acks: Acks,
    rate: Rate,
    received_at: Instant,
    /// When this end ran last, whatever for.
    ran_at: Instant,
    sent_at: Instant,
    end: Option<End>,
    counters: Counters,
    losses: Vec<(SequenceNumber, SequenceNumber)>,
}

/// Acknowledgements of what was received.
#[derive(Debug)]
struct Acks {
    next_at: Option<Instant>,
    number: u32,
    /// Number and time of those that were sent, the oldest first.
    sent: VecDeque<(u32, Instant, SequenceNumber)>,
    /// What the peer is known to know.
    confirmed: SequenceNumber,
    /// What was acknowledged last, and when.
    last: (SequenceNumber, Instant),
    /// Packets for which there was room then.
    room: usize,
    /// Packets since the last acknowledgement.
    packets: u32,
}

/// What arrives, per second.
#[derive(Debug)]
struct Rate {
    since: Instant,
    packets: u64,
    bytes: u64,
    per_second: (u32, u32),
}

impl Rate {
    fn count(&mut self, now: Instant, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
        let elapsed = now.saturating_duration_since(self.since).as_millis() as u64;
        if elapsed >= 1000 {
            self.per_second = ((self.packets * 1000 / elapsed) as u32, (self.bytes * 1000 / elapsed) as u32);
            (self.since, self.packets, self.bytes) = (now, 0, 0);
        }
    }
}

/// Control packets that wait to be sent, one behind the other.
#[derive(Debug, Default)]
struct Controls {
    bytes: Vec<u8>,
    lengths: VecDeque<u16>,
    taken: usize,
}

impl Controls {
    fn push(&mut self, packet: Outgoing<'_>, timestamp: u32, destination: SocketId) {
        if self.bytes.len() > CONTROL_BYTES_MAX {
            return;
        }
        let before = self.bytes.len();
        packet.write(timestamp, destination, &mut self.bytes);
        self.lengths.push_back((self.bytes.len() - before) as u16);
    }

    fn pop(&mut self, out: &mut [u8]) -> Option<usize> {
        let len = usize::from(self.lengths.pop_front()?);
        out[..len].copy_from_slice(&self.bytes[self.taken..self.taken + len]);
        self.taken += len;
        if self.lengths.is_empty() {
            self.bytes.clear();
            self.taken = 0;
        }
        Some(len)
    }
}

impl Connection {
    pub(crate) fn new(now: Instant, agreed: Agreed) -> Self {
        let Agreed { local, peer, limits, receive_latency, send_latency, payload_max, epoch, .. } = agreed;
        let window = limits.window_packets;
        let overhead = agreed.keys.as_ref().map_or(0, |keys| keys.mode().overhead_bytes());
        let payload_max = payload_max - overhead;
        let receiver = Receiver::new(
            agreed.receive_first,
            agreed.peer_clock,
            receive_latency,
            window,
            limits.receive_bytes_max,
        );
        let mut round_trip = RoundTrip::default();
        if let Some(of_handshake) = agreed.round_trip {
            round_trip.sample(of_handshake);
        }
        let encryption = agreed.keys.map(|receiving| {
            let sending = receiving.for_sending();
            let current = sending.first();
            let (refresh, packets, has_opened) = (Refresh::None, 0, false);
            Box::new(Encryption { receiving, sending, current, packets, refresh, has_opened })
        });
        Self {
            local,
            peer,
            epoch,
            limits,
            receive_latency,
            send_latency,
            payload_max,
            round_trip,
            receiver,
            sender: Sender::new(now, agreed.send_first, (window, limits.send_bytes_max), agreed.peer_window),
            encryption,
            controls: Controls::default(),
            pacer: Pacer::new(now, limits.send_bits_per_second_max),
            acks: Acks {
                next_at: None,
                number: 0,
                sent: VecDeque::new(),
                confirmed: agreed.receive_first,
                last: (agreed.receive_first, now),
                room: window,
                packets: 0,
            },
            rate: Rate { since: now, packets: 0, bytes: 0, per_second: (0, 0) },
            received_at: now,
            ran_at: now,
            sent_at: now,
            end: None,
            counters: Counters::default(),
            losses: Vec::new(),
        }
    }

    /// Takes a datagram of the peer, which its address has shown it to be.
    pub fn handle_packet(&mut self, now: Instant, datagram: &[u8]) -> Result<(), DropReason> {
        self.note_run(now);
        let handled = match Packet::read(datagram) {
            _ if self.end.is_some() => return Ok(()),
            Ok(Packet::Data(data)) if data.destination == self.local => self.data(now, &data, datagram),
            Ok(Packet::Control(control)) if control.destination == self.local => self.control(now, &control),
            Ok(_) => Err(DropReason::Misaddressed),
            Err(_) => Err(DropReason::Invalid),
        };
        match handled {
            Ok(()) => {}
            Err(DropReason::Late | DropReason::Duplicate) => self.counters.late_in += 1,
            Err(DropReason::NoRoom) => self.counters.no_room_in += 1,
            Err(DropReason::Invalid | DropReason::Misaddressed) => self.counters.invalid_in += 1,
            Err(DropReason::Forged) => self.counters.undecrypted_in += 1,
        }
        // What makes no sense is no sign of life.
        if !matches!(handled, Err(DropReason::Invalid | DropReason::Misaddressed | DropReason::Forged)) {
            self.received_at = now;
        }
        handled
    }

    fn data(&mut self, now: Instant, data: &Data<'_>, datagram: &[u8]) -> Result<(), DropReason> {
        self.losses.clear();
        let (key, header) = (data.key, datagram.first_chunk().ok_or(DropReason::Invalid)?);
        let mut is_useless = false;
        let open = |payload: &mut Vec<u8>| match &mut self.encryption {
            None if key == KeyFlag::Clear => Opened::Usable,
            Some(encryption) if encryption.receiving.open(key, header, payload) => {
                encryption.has_opened = encryption.receiving.mode() == CipherMode::Gcm;
                Opened::Usable
            }
            Some(encryption) if encryption.receiving.mode() == CipherMode::Gcm => Opened::Forged,
            // Nothing comes in clear where a passphrase is agreed on, nor encrypted without one.
            _ => {
                is_useless = true;
                Opened::Useless
            }
        };
        let id = (data.sequence, data.timestamp);
        match self.receiver.packet(now, id, data.payload, open, &mut self.losses) {
            Arrival::New => {}
            Arrival::Late => return Err(DropReason::Late),
            Arrival::Duplicate => return Err(DropReason::Duplicate),
            Arrival::NoRoom => return Err(DropReason::NoRoom),
            Arrival::Forged => return Err(DropReason::Forged),
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += data.payload.len() as u64;
        self.counters.retransmitted_in += u64::from(data.retransmitted);
        self.counters.undecrypted_in += u64::from(is_useless);
        self.rate.count(now, data.payload.len());
        if let Some(&(first, last)) = self.losses.first() {
            self.counters.lost_in += last.since(first) as u64 + 1;
            self.controls.push(Outgoing::Nak(&self.losses), self.timestamp(now), self.peer);
        }
        self.acks.packets += 1;
        if self.acks.packets.is_multiple_of(LIGHT_ACK_PACKETS) {
            let ack = Ack { next: self.receiver.next_missing(), full: None };
            self.controls.push(Outgoing::Ack { number: 0, ack }, self.timestamp(now), self.peer);
        }
        self.acks.next_at.get_or_insert(now + ACK_INTERVAL);
        Ok(())
    }

    fn control(&mut self, now: Instant, control: &Control<'_>) -> Result<(), DropReason> {
        match control.body {
            Body::KeepAlive | Body::CongestionWarning | Body::PeerError => {}
            // The answer to it was lost, or is late: whoever has the handshake sends it again.
            Body::Handshake(_) => {}
            Body::Ack { number, ack: Ack { next, full } } => {
                let room = full.map(|full| full.room_packets);
                if !self.sender.acknowledged(now, next, room) {
                    return Err(DropReason::Invalid);
                }
                if let Some(full) = full {
                    self.controls.push(Outgoing::AckAck { number }, self.timestamp(now), self.peer);
                    // What the peer measures is the round trip of this direction (section 4.10). Where this
                    // end receives as well, it measures itself.
                    if full.rtt_us > 0 && self.counters.packets_in == 0 {
                        self.round_trip.sample(Duration::from_micros(u64::from(full.rtt_us)));
                    }
                }
            }
            Body::AckAck { number } => {
                let Some(at) = self.acks.sent.iter().position(|(known, ..)| *known == number) else {
                    return Ok(());
                };
                let (_, sent_at, next) = self.acks.sent[at];
                self.acks.sent.drain(..=at);
                self.round_trip.sample(now.saturating_duration_since(sent_at));
                if next.since(self.acks.confirmed) > 0 {
                    self.acks.confirmed = next;
                }
                self.receiver.sample_clock(now, control.timestamp);
            }
            Body::Nak(list) => {
                // A report that left before what is sent again arrived says nothing new.
                let round_trip = self.round_trip.mean();
                let (next, mut gone) = (self.sender.next(), std::mem::take(&mut self.losses));
                gone.clear();
                let mut named = 0;
                for (first, last) in list.ranges().take(RANGES_MAX) {
                    // More than may be on their way is not missing, however often it is said.
                    named += last.since(first) as usize + 1;
                    // No peer misses what has not been sent.
                    if next.since(last) <= 0 || named > self.limits.window_packets {
                        self.losses = gone;
                        return Err(DropReason::Invalid);
                    }
                    self.counters.lost_out += last.since(first) as u64 + 1;
                    self.sender.missing(now, (first, last), round_trip, &mut gone);
                }
                for &(first, last) in gone.iter().take(DROP_REQUESTS_MAX) {
                    let request = Outgoing::DropRequest { message: 0, first, last };
                    self.controls.push(request, self.timestamp(now), self.peer);
                }
                self.losses = gone;
            }
            Body::DropRequest { first, last } => self.receiver.give_up(first, last),
            Body::Shutdown => self.end = Some(End::Shutdown),
            Body::Key { is_response: false, content } => {
                let Some(encryption) = &mut self.encryption else { return Err(DropReason::Invalid) };
                encryption.receiving.update(content).map_err(|_| DropReason::Invalid)?;
                self.controls.push(Outgoing::KeyResponse(content), self.timestamp(now), self.peer);
            }
            Body::Key { is_response: true, content } => {
                let encryption = self.encryption.as_mut();
                let Some(encryption) = encryption.filter(|one| matches!(one.refresh, Refresh::Announced(_)))
                else {
                    return Ok(());
                };
                // It repeats what it took; a state in a word says that it did not.
                if content.get(..32) == encryption.sending.write().get(..32) {
                    encryption.refresh = Refresh::Answered;
                }
            }
        }
        Ok(())
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.end.is_some() {
            return;
        }
        self.note_run(now);
        if now.saturating_duration_since(self.received_at) >= self.limits.silence_max {
            self.end = Some(End::Silent);
            // It may hear what it cannot answer: a listener that knows gives the stream's name free at once.
            self.controls.push(Outgoing::Shutdown, self.timestamp(now), self.peer);
            return;
        }
        if self.acks.next_at.is_some_and(|due| due <= now) {
            self.acknowledge(now);
        }
        self.losses.clear();
        let long = self.round_trip.long();
        self.receiver.report(now, long, RANGES_MAX, &mut self.losses);
        if !self.losses.is_empty() {
            self.controls.push(Outgoing::Nak(&self.losses), self.timestamp(now), self.peer);
        }
        self.sender.drop_late(now, self.send_drop_age());
        self.sender.time_out(now, long);
        if let Some(encryption) = &mut self.encryption
            && let Refresh::Announced(due) = encryption.refresh
            && due <= now
        {
            encryption.refresh = Refresh::Announced(now + KEY_REQUEST_INTERVAL);
            let message = encryption.sending.write();
            self.controls.push(Outgoing::KeyRequest(&message), self.timestamp(now), self.peer);
        }
        if now.saturating_duration_since(self.sent_at) >= KEEP_ALIVE_INTERVAL {
            self.controls.push(Outgoing::KeepAlive, self.timestamp(now), self.peer);
            self.sent_at = now;
        }
    }

    /// Leaves out of the peer's silence the time in which this end did not run: a host that was paused, a
    /// process without CPU. What the peer sent meanwhile may be lost, and it may have been paused as well.
    fn note_run(&mut self, now: Instant) {
        let unheard = now.saturating_duration_since(self.ran_at).saturating_sub(RUN_INTERVAL_MAX);
        self.received_at += unheard;
        self.ran_at = self.ran_at.max(now);
    }

    /// Sends a full acknowledgement, if the peer does not know all it would say.
    fn acknowledge(&mut self, now: Instant) {
        let next = self.receiver.next_missing();
        let (last, last_at) = self.acks.last;
        let is_news = next.since(last) > 0;
        let is_unanswered = last.since(self.acks.confirmed) > 0
            && now.saturating_duration_since(last_at) >= self.round_trip.long();
        if is_news || is_unanswered || self.has_opened() {
            self.acks.room = self.receiver.room();
            // 0 is a light one's.
            self.acks.number = self.acks.number.wrapping_add(1).max(1);
            let (packets_per_second, bytes_per_second) = self.rate.per_second;
            let full = AckDetails {
                rtt_us: self.round_trip.mean().as_micros() as u32,
                rtt_variance_us: self.round_trip.variance().as_micros() as u32,
                // 2 at least: a sender that may send nothing would not notice when it may again.
                room_packets: self.acks.room.max(2) as u32,
                packets_per_second,
                // Not measured: live senders do not use it.
                capacity_packets_per_second: packets_per_second.max(1000),
                bytes_per_second,
            };
            let ack = Outgoing::Ack { number: self.acks.number, ack: Ack { next, full: Some(full) } };
            self.controls.push(ack, self.timestamp(now), self.peer);
            self.acks.last = (next, now);
            if self.acks.sent.len() == ACKS_MAX {
                self.acks.sent.pop_front();
            }
            self.acks.sent.push_back((self.acks.number, now, next));
        }
        self.acks.packets = 0;
        let is_known = self.acks.last.0.since(self.acks.confirmed) <= 0;
        self.acks.next_at = (!is_known).then_some(now + ACK_INTERVAL);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_transmit`](Self::poll_transmit) next.
    pub fn next_timeout(&mut self, now: Instant) -> Option<Instant> {
        if self.end.is_some() {
            return None;
        }
        let encryption = self.encryption.as_ref();
        let announced = encryption.and_then(|encryption| match encryption.refresh {
            Refresh::Announced(due) => Some(due),
            _ => None,
        });
        let leaving = self.sender.next_len().map(|_| self.pacer.next_at(now));
        let long = self.round_trip.long();
        let each = [
            Some(self.received_at + self.limits.silence_max),
            Some(self.sent_at + KEEP_ALIVE_INTERVAL),
            self.acks.next_at,
            self.receiver.next_delivery(),
            self.receiver.next_report(),
            self.sender.next_timeout(long),
            self.sender.next_drop(self.send_drop_age()),
            announced,
            leaving,
        ];
        each.into_iter().flatten().min()
    }

    /// Delivers the payloads that are due, in order; after the peer has ended it, all that have come.
    pub fn deliver(&mut self, now: Instant, to: impl FnMut(&[u8])) {
        // Nothing follows, so there is nothing to be late for.
        let until = match self.end {
            Some(End::Shutdown) => now + self.receive_latency * 2,
            _ => now,
        };
        self.receiver.deliver(until, to);
        if self.has_opened() {
            self.acks.next_at.get_or_insert(now + ACK_INTERVAL);
        }
    }

    /// Whether the sender knows of little room and there is much more now.
    fn has_opened(&self) -> bool {
        let window = self.limits.window_packets;
        self.acks.room < window / 2 && self.receiver.room() >= self.acks.room + window / 8
    }

    /// Longest payload of a packet.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_max
    }

    /// Packets that may be given to it.
    pub fn room(&self) -> usize {
        if self.end.is_some() { 0 } else { self.sender.room() }
    }

    /// Packets that were given to it and not yet sent.
    pub fn waiting(&self) -> usize {
        self.sender.waiting()
    }

    /// Sends a payload, which is as long as [`payload_bytes_max`](Self::payload_bytes_max) at most. False
    /// when there is no [`room`](Self::room) for it, or the peer itself sends by AES-GCM: media goes in one
    /// direction.
    pub fn send(&mut self, now: Instant, payload: &[u8]) -> bool {
        if self.room() == 0 || payload.len() > self.payload_max || payload.is_empty() {
            return false;
        }
        let has_opened = self.encryption.as_ref().is_some_and(|encryption| encryption.has_opened);
        if has_opened {
            return false;
        }
        let (timestamp, destination) = (self.timestamp(now), self.peer);
        let Self { sender, encryption, .. } = self;
        sender.give(now, timestamp, payload, |sequence, message, payload| {
            let Some(encryption) = encryption else { return KeyFlag::Clear };
            encryption.packets += 1;
            let key = encryption.current;
            let data =
                Data { sequence, message, key, retransmitted: false, timestamp, destination, payload: &[] };
            encryption.sending.seal(key, &data.header(), payload);
            key
        });
        self.refresh_key(now);
        true
    }

    /// Announces the next key in time, and changes to it once the peer has it.
    fn refresh_key(&mut self, now: Instant) {
        let Limits { key_refresh_packets: refresh, key_announce_packets: announce, .. } = self.limits;
        let Some(encryption) = &mut self.encryption else { return };
        match encryption.refresh {
            Refresh::None if encryption.packets + announce >= refresh => {
                encryption.sending.renew_other(encryption.current);
                encryption.refresh = Refresh::Announced(now);
            }
            Refresh::Answered if encryption.packets >= refresh => {
                encryption.current = match encryption.current {
                    KeyFlag::Even => KeyFlag::Odd,
                    KeyFlag::Odd | KeyFlag::Clear => KeyFlag::Even,
                };
                (encryption.refresh, encryption.packets) = (Refresh::None, 0);
                self.counters.keys_changed += 1;
            }
            _ => {}
        }
    }

    /// Writes the datagram that leaves next to `out`, which has [`DATAGRAM_BYTES_MAX`] bytes, and says how
    /// long it is; `None` if none leaves now.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        debug_assert!(out.len() >= DATAGRAM_BYTES_MAX);
        self.note_run(now);
        if let Some(len) = self.controls.pop(out) {
            self.sent_at = now;
            return Some(len);
        }
        if self.end.is_some() {
            return None;
        }
        let len = self.sender.next_len()?;
        if !self.pacer.take(now, HEADER_BYTES + len) {
            return None;
        }
        let leaving = self.sender.take(now)?;
        if leaving.retransmitted {
            self.counters.retransmitted_out += 1;
        } else {
            self.counters.packets_out += 1;
            self.counters.bytes_out += len as u64;
        }
        self.sent_at = now;
        let data = Data {
            sequence: leaving.sequence,
            message: leaving.message,
            key: leaving.key,
            retransmitted: leaving.retransmitted,
            timestamp: leaving.timestamp,
            destination: self.peer,
            payload: leaving.payload,
        };
        Some(data.write(out))
    }

    /// Ends it: what [`poll_transmit`](Self::poll_transmit) writes from now on says so.
    pub fn close(&mut self, now: Instant) {
        if self.end.is_none() {
            self.end = Some(End::Closed);
            self.controls.push(Outgoing::Shutdown, self.timestamp(now), self.peer);
        }
    }

    /// Why it is over, if it is.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        Counters { dropped_in: self.receiver.dropped, dropped_out: self.sender.dropped, ..self.counters }
    }

    /// How it is now.
    pub fn status(&self, now: Instant) -> Status {
        let (received, sent) = (self.receiver.held(), self.sender.held());
        Status {
            round_trip: self.round_trip(),
            receive_latency: self.receive_latency,
            send_latency: self.send_latency,
            receive_buffer: (received.0, received.1, self.receiver.held_for()),
            send_buffer: (sent.0, sent.1, self.sender.held_for(now)),
            is_encrypted: self.encryption.is_some(),
        }
    }

    /// The round trip, once it was measured.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.is_measured().then(|| self.round_trip.mean())
    }

    /// The number of its socket here.
    pub fn local(&self) -> SocketId {
        self.local
    }

    /// The number of the peer's.
    pub fn peer(&self) -> SocketId {
        self.peer
    }

    fn send_drop_age(&self) -> Duration {
        (self.send_latency + SEND_DROP_EXTRA).max(SEND_DROP_MIN)
    }

    /// Microseconds of this end's clock, which wrap.
    fn timestamp(&self, now: Instant) -> u32 {
        now.saturating_duration_since(self.epoch).as_micros() as u32
    }
}
