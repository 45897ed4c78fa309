//! Packets in: what has arrived, what is missing, and when each is delivered (draft-sharabayko-srt-01
//! sections 4.5, 4.6 and 4.8).
//!
//! ```text
//!            base      contiguous             end
//!              v            v                  v
//!  delivered | P P P P P P | - - P P - P P P | nothing has come
//! ```
//!
//! A packet is delivered at its time, and not before those ahead of it. Where one is missing when the
//! next that is there is due, the missing ones are dropped (too-late drop). Times are judged by the
//! receiver's clock alone, so a sender can neither have packets held without end nor stop a stream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::peer_clock::PeerClock;
use crate::sequence::SequenceNumber;

/// Shortest time between two reports of all that is missing (section 4.8.2).
const NAK_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Buffers kept for packets to come.
const SPARE_MAX: usize = 256;

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It was new.
    New,
    /// It came when it had been delivered or dropped.
    Late,
    /// It has come already.
    Duplicate,
    /// There is no room for it.
    NoRoom,
    /// It is not what its sender has sent: nothing was done about it.
    Forged,
}

/// What decryption says of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opened {
    /// It can be delivered.
    Usable,
    /// It has come, and is of no use: nothing is asked for again.
    Useless,
    /// It is not what its sender has sent.
    Forged,
}

#[derive(Debug)]
struct Slot {
    /// `None`: missing.
    payload: Option<Vec<u8>>,
    /// When it is due; of a missing one, when it was reported last.
    at: Instant,
    /// Missing, and the sender has given it up.
    is_given_up: bool,
}

/// Packets of one direction.
#[derive(Debug)]
pub(crate) struct Receiver {
    base: SequenceNumber,
    slots: VecDeque<Slot>,
    /// How many at the beginning of `slots` are there.
    contiguous: usize,
    /// How many of `slots` are missing.
    missing: usize,
    /// Bytes held.
    bytes: usize,
    clock: PeerClock,
    latency: Duration,
    /// Slots at most.
    window: usize,
    /// Bytes held at most.
    bytes_max: usize,
    spare: Vec<Vec<u8>>,
    next_report: Option<Instant>,
    /// Packets dropped.
    pub(crate) dropped: u64,
}

impl Receiver {
    /// Nothing has come. `clock` is tied to the peer's by the handshake.
    pub(crate) fn new(
        first: SequenceNumber,
        clock: PeerClock,
        latency: Duration,
        window: usize,
        bytes_max: usize,
    ) -> Self {
        Self {
            base: first,
            slots: VecDeque::new(),
            contiguous: 0,
            missing: 0,
            bytes: 0,
            clock,
            latency,
            window,
            bytes_max,
            spare: Vec::new(),
            next_report: None,
            dropped: 0,
        }
    }

    /// A packet has come; `open` decrypts its payload, before anything that the packet says is believed.
    /// Ranges that are found missing by it are added to `losses`.
    pub(crate) fn packet(
        &mut self,
        now: Instant,
        (sequence, timestamp): (SequenceNumber, u32),
        payload: &[u8],
        open: impl FnOnce(&mut Vec<u8>) -> Opened,
        losses: &mut Vec<(SequenceNumber, SequenceNumber)>,
    ) -> Arrival {
        let ahead = sequence.since(self.base);
        let Ok(mut at) = usize::try_from(ahead) else { return Arrival::Late };
        let jumps = at >= self.window && self.missing == self.slots.len();
        if at >= self.window && !jumps || self.bytes + payload.len() > self.bytes_max {
            return Arrival::NoRoom;
        }
        if self.slots.get(at).is_some_and(|slot| slot.payload.is_some()) {
            return Arrival::Duplicate;
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(payload);
        match open(&mut buffer) {
            Opened::Usable => {}
            Opened::Useless => buffer.clear(),
            Opened::Forged => {
                self.spare.push(buffer);
                return Arrival::Forged;
            }
        }
        if jumps {
            // Nothing is held that comes before it: what was left out will not come any more.
            self.slots.clear();
            self.dropped += at as u64;
            (self.base, self.contiguous, self.missing, at) = (sequence, 0, 0, 0);
        }
        let is_newest = at >= self.slots.len();
        let due = self.clock.play_at(now, timestamp, self.latency, is_newest);
        if is_newest {
            let first_missing = self.slots.len();
            self.missing += at - first_missing;
            self.slots.resize_with(at, || Slot { payload: None, at: now, is_given_up: false });
            if first_missing < at {
                let number = |offset: usize| self.base.plus(offset as u32);
                losses.push((number(first_missing), number(at - 1)));
                self.next_report.get_or_insert(now + NAK_INTERVAL_MIN);
            }
            self.slots.push_back(Slot { payload: None, at: due, is_given_up: false });
        } else {
            self.missing -= 1;
        }
        self.bytes += buffer.len();
        let slot = &mut self.slots[at];
        (slot.payload, slot.at, slot.is_given_up) = (Some(buffer), due, false);
        while self.slots.get(self.contiguous).is_some_and(|slot| slot.payload.is_some()) {
            self.contiguous += 1;
        }
        Arrival::New
    }

    /// The sender has given these up.
    pub(crate) fn give_up(&mut self, first: SequenceNumber, last: SequenceNumber) {
        let Ok(to) = usize::try_from(last.since(self.base)) else { return };
        let end = (to + 1).min(self.slots.len());
        // A range that ends before it begins is none.
        let from = (first.since(self.base).max(0) as usize).min(end);
        for slot in self.slots.range_mut(from..end) {
            slot.is_given_up = slot.payload.is_none();
        }
    }

    /// Delivers what is due, in order.
    pub(crate) fn deliver(&mut self, now: Instant, mut to: impl FnMut(&[u8])) {
        while let Some(first) = self.slots.front() {
            if first.payload.is_none() {
                // What comes behind is due, or nothing more will come of it: it is dropped, all at once,
                // since a sender may leave out thousands.
                let next = self.slots.iter().position(|slot| slot.payload.is_some());
                let over = match next.filter(|at| self.slots[*at].at <= now) {
                    Some(next) => next,
                    None => self.slots.iter().take_while(|slot| slot.is_given_up).count(),
                };
                if over == 0 {
                    return;
                }
                self.slots.drain(..over);
                self.base = self.base.plus(over as u32);
                self.missing -= over;
                self.dropped += over as u64;
                while self.slots.get(self.contiguous).is_some_and(|slot| slot.payload.is_some()) {
                    self.contiguous += 1;
                }
                continue;
            }
            if first.at > now {
                return;
            }
            let Some(Slot { payload: Some(payload), .. }) = self.slots.pop_front() else { return };
            self.base = self.base.plus(1);
            self.contiguous -= 1;
            self.bytes -= payload.len();
            if !payload.is_empty() {
                to(&payload);
            }
            if self.spare.len() < SPARE_MAX {
                self.spare.push(payload);
            }
        }
    }

    /// When something is due.
    pub(crate) fn next_delivery(&self) -> Option<Instant> {
        let first = self.slots.front()?;
        if first.payload.is_some() || first.is_given_up {
            return Some(first.at);
        }
        // The packets ahead of the first that is there are missing: as many as were lost in a row.
        self.slots.iter().find(|slot| slot.payload.is_some()).map(|next| next.at)
    }

    /// When what is missing is to be reported again.
    pub(crate) fn next_report(&self) -> Option<Instant> {
        self.next_report.filter(|_| self.missing > 0)
    }

    /// Ranges that are missing and to be reported, if it is time; at most `ranges_max`, the oldest first.
    pub(crate) fn report(
        &mut self,
        now: Instant,
        long_round_trip: Duration,
        ranges_max: usize,
        losses: &mut Vec<(SequenceNumber, SequenceNumber)>,
    ) {
        if self.next_report.is_none_or(|due| due > now) {
            return;
        }
        if self.missing == 0 {
            self.next_report = None;
            return;
        }
        // Oftener than section 4.8.2 has it, half a round trip: a report may be lost, and senders do not
        // send a packet twice within a round trip.
        let interval = (long_round_trip / 3).max(NAK_INTERVAL_MIN);
        self.next_report = Some(now + interval);
        let mut range: Option<(usize, usize)> = None;
        let mut found = 0;
        for (at, slot) in self.slots.iter_mut().enumerate().skip(self.contiguous) {
            // One that was reported a moment ago has its answer on the way.
            let wanted = slot.payload.is_none()
                && !slot.is_given_up
                && now.saturating_duration_since(slot.at) + Duration::from_millis(1) >= NAK_INTERVAL_MIN;
            if wanted {
                slot.at = now;
                found += 1;
                range = Some((range.map_or(at, |(first, _)| first), at));
            } else if let Some((first, last)) = range.take() {
                losses.push((self.base.plus(first as u32), self.base.plus(last as u32)));
                if losses.len() == ranges_max {
                    return;
                }
            }
            if found == self.missing && range.is_none() {
                return;
            }
        }
        if let Some((first, last)) = range {
            losses.push((self.base.plus(first as u32), self.base.plus(last as u32)));
        }
    }

    /// A packet that came at once said what time it is at the sender.
    pub(crate) fn sample_clock(&mut self, now: Instant, timestamp: u32) {
        self.clock.sample(now, timestamp);
    }

    /// The first packet that has not come.
    pub(crate) fn next_missing(&self) -> SequenceNumber {
        self.base.plus(self.contiguous as u32)
    }

    /// Packets for which there is room.
    pub(crate) fn room(&self) -> usize {
        self.window - self.slots.len()
    }

    /// Packets and bytes held.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.slots.len() - self.missing, self.bytes)
    }

    /// Time between the oldest and the newest packet that is held.
    pub(crate) fn held_for(&self) -> Duration {
        let mut there = self.slots.iter().filter(|slot| slot.payload.is_some());
        let first = there.next().map(|slot| slot.at);
        let last = there.next_back().map(|slot| slot.at);
        first.zip(last).map_or(Duration::ZERO, |(first, last)| last.saturating_duration_since(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Duration = Duration::from_millis(100);

    struct World {
        receiver: Receiver,
        start: Instant,
        losses: Vec<(SequenceNumber, SequenceNumber)>,
    }

    fn seq(number: u32) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    impl World {
        /// Packets begin three before the numbers wrap.
        #[expect(clippy::disallowed_methods, reason = "any moment does")]
        fn new() -> Self {
            let start = Instant::now() + Duration::from_secs(10_000);
            let clock = PeerClock::new(start, 0);
            let receiver = Receiver::new(seq(0x7fff_fffd), clock, LATENCY, 100, 10_000);
            Self { receiver, start, losses: Vec::new() }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        /// Packet `count` was sent at ten times that and comes now.
        fn packet(&mut self, now_ms: u64, count: u32) -> Arrival {
            let id = (seq(0x7fff_fffd).plus(count), count * 10_000);
            let now = self.at(now_ms);
            self.receiver.packet(now, id, &[count as u8 + 1], |_| Opened::Usable, &mut self.losses)
        }

        fn delivered(&mut self, now_ms: u64) -> Vec<u8> {
            let (now, mut out) = (self.at(now_ms), Vec::new());
            self.receiver.deliver(now, |payload| out.push(payload[0]));
            out
        }
    }

    #[test]
    fn packets_are_given_out_at_their_times_in_order() {
        let mut world = World::new();
        for (count, now_ms) in [(0, 5), (2, 25), (1, 30), (3, 40), (4, 55), (2, 60)] {
            world.packet(now_ms, count);
        }
        assert_eq!(world.losses, [(seq(0x7fff_fffe), seq(0x7fff_fffe))]);
        assert_eq!(world.receiver.next_missing(), seq(2));
        assert_eq!(world.delivered(99), []);
        assert_eq!(world.receiver.next_delivery(), Some(world.at(100)));
        assert_eq!(world.delivered(120), [1, 2, 3]);
        assert_eq!(world.packet(121, 1), Arrival::Late);
        assert_eq!(world.packet(121, 4), Arrival::Duplicate);
        assert_eq!(world.delivered(1000), [4, 5]);
        assert_eq!(world.receiver.held(), (0, 0));
    }

    #[test]
    fn what_is_missing_when_the_next_is_due_is_given_up() {
        let mut world = World::new();
        for count in [0, 3, 4] {
            world.packet(u64::from(count) * 10, count);
        }
        assert_eq!(world.delivered(125), [1]);
        assert_eq!(world.receiver.next_delivery(), Some(world.at(130)));
        assert_eq!(world.delivered(130), [4]);
        assert_eq!((world.receiver.dropped, world.receiver.next_missing()), (2, seq(2)));
        assert_eq!(world.packet(131, 1), Arrival::Late);
    }

    #[test]
    fn what_the_sender_gave_up_is_not_waited_for() {
        let mut world = World::new();
        world.packet(20, 2);
        world.receiver.give_up(seq(0x7fff_fff0), seq(0x7fff_fffe));
        let now = world.at(60);
        let mut losses = Vec::new();
        world.receiver.report(now, Duration::from_millis(50), 10, &mut losses);
        assert_eq!((losses, world.delivered(60)), (vec![], vec![]));
        assert_eq!((world.receiver.dropped, world.receiver.next_missing()), (2, seq(0)));
        world.receiver.give_up(seq(5), seq(4));
        world.receiver.give_up(seq(1), seq(0x3fff_ffff));
        world.packet(20, 9);
        world.receiver.give_up(seq(5), seq(3));
        assert_eq!(world.delivered(120), [3]);
    }

    #[test]
    fn what_comes_although_it_was_given_up_is_given_out() {
        let mut world = World::new();
        world.packet(30, 3);
        world.receiver.give_up(seq(0x7fff_fffd), seq(0x7fff_ffff));
        world.packet(31, 1);
        assert_eq!(world.delivered(32), []);
        assert_eq!((world.receiver.dropped, world.receiver.next_missing()), (1, seq(0x7fff_ffff)));
        assert_eq!(world.delivered(200), [2, 4]);
        assert_eq!((world.receiver.dropped, world.receiver.next_missing()), (2, seq(1)));
        world.packet(210, 90);
        assert_eq!(world.delivered(1_100), [91]);
        assert_eq!((world.receiver.dropped, world.receiver.room()), (2 + 86, 100));
    }

    #[test]
    fn a_sender_that_jumps_is_followed_once_nothing_is_held() {
        let mut world = World::new();
        world.packet(0, 0);
        world.packet(20, 2);
        assert_eq!(world.packet(9_000, 900), Arrival::NoRoom, "two are held");
        assert_eq!(world.delivered(9_000), [1, 3]);
        assert_eq!(world.packet(9_010, 901), Arrival::New);
        assert_eq!((world.delivered(9_200).len(), world.receiver.dropped), (1, 1 + 898));
        world.packet(9_300, 930);
        assert_eq!(world.packet(9_310, 931), Arrival::New);
    }

    #[test]
    fn what_is_forged_changes_nothing() {
        let mut world = World::new();
        world.packet(0, 0);
        for count in [1, 5, 50, 5_000] {
            let (id, now) = ((seq(0x7fff_fffd).plus(count), 0), world.at(1));
            let arrival = world.receiver.packet(now, id, b"?", |_| Opened::Forged, &mut world.losses);
            // Far ahead while something is held, there is no room.
            assert_eq!(arrival, if count < 100 { Arrival::Forged } else { Arrival::NoRoom });
        }
        assert_eq!((world.receiver.held(), world.receiver.next_missing()), ((1, 1), seq(0x7fff_fffe)));
        assert_eq!(world.delivered(500), [1]);
        let (id, now) = ((seq(0x7fff_fffd).plus(5_000), 0), world.at(501));
        let arrival = world.receiver.packet(now, id, b"?", |_| Opened::Forged, &mut world.losses);
        assert_eq!((arrival, world.receiver.dropped, world.losses.len()), (Arrival::Forged, 0, 0));
        assert_eq!(world.packet(502, 1), Arrival::New);
    }

    #[test]
    fn losses_are_reported_again_until_they_have_come() {
        let mut world = World::new();
        for (count, now_ms) in [(0, 0), (2, 20), (6, 60)] {
            world.packet(now_ms, count);
        }
        let long = Duration::from_millis(60);
        let report = |world: &mut World, now_ms, ranges_max| {
            let (now, mut losses) = (world.at(now_ms), Vec::new());
            world.receiver.report(now, long, ranges_max, &mut losses);
            let back = |number: SequenceNumber| number.since(seq(0x7fff_fffd));
            losses.into_iter().map(|(first, last)| (back(first), back(last))).collect::<Vec<_>>()
        };
        assert_eq!(report(&mut world, 39, 10), []);
        assert_eq!(report(&mut world, 80, 10), [(1, 1), (3, 5)]);
        assert_eq!(world.receiver.next_report(), Some(world.at(100)));
        assert_eq!(report(&mut world, 99, 10), []);
        world.packet(105, 4);
        assert_eq!(report(&mut world, 110, 2), [(1, 1), (3, 3)]);
        for count in [1, 3, 5] {
            world.packet(111, count);
        }
        assert_eq!(world.receiver.next_report(), None);
        assert_eq!(report(&mut world, 500, 10), []);
    }

    #[test]
    fn memory_is_bounded_in_packets_and_bytes() {
        let mut world = World::new();
        assert_eq!(world.packet(0, 0), Arrival::New);
        assert_eq!(world.packet(0, 100), Arrival::NoRoom);
        assert_eq!(world.packet(0, 99), Arrival::New);
        assert_eq!((world.receiver.room(), world.receiver.held()), (0, (2, 2)));
        let id = (seq(0x7fff_fffd), 0);
        let now = world.at(0);
        let arrival = world.receiver.packet(now, id, &[0; 10_000], |_| Opened::Usable, &mut Vec::new());
        assert_eq!(arrival, Arrival::NoRoom);
    }
}
