//! Packets out: what has been sent and not been acknowledged, what is to be sent again, and what is
//! dropped (draft-sharabayko-srt-01 sections 4.6 and 4.8).
//!
//! A packet is encrypted when it is given to the sender and kept so: sending it again costs a copy. One
//! that was asked for again is not sent twice within a round trip, so that repeated reports, which
//! guard against lost ones, cost nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::sequence::SequenceNumber;
use crate::wire::KeyFlag;

/// Buffers kept for packets to come.
const SPARE_MAX: usize = 256;
/// Requests to send again that wait, at most: more are asked for again.
const REPEATS_MAX: usize = 8192;
/// What is waited for besides a long round trip before packets are sent again unasked: acknowledgements
/// come every 10 ms, and whoever sends them may be busy.
const TIMEOUT_EXTRA: Duration = Duration::from_millis(50);
/// Packets of the beginning that are sent again when nothing is acknowledged any more.
const REPEATED_AT_ONCE: usize = 16;
/// Packets that are sent before the peer has acknowledged any: that it has asked says little.
const UNPROVEN_WINDOW: usize = 128;
/// Shortest time between two repetitions of a packet, however short the peer says that the round trip is.
const REPEAT_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Repetitions that a peer may ask for at the beginning, and that it may save up.
const REPEATS_AT_FIRST: u32 = 512;
const REPEATS_SAVED_MAX: u32 = 4096;
/// Packets of the window that one report of what is missing has us look at.
const LOOKED_AT_MAX: usize = 1024;

#[derive(Debug)]
struct Slot {
    payload: Vec<u8>,
    message: u32,
    key: KeyFlag,
    timestamp: u32,
    given_at: Instant,
    /// When it was sent last; `None` while it waits.
    sent_at: Option<Instant>,
    is_to_be_repeated: bool,
}

/// A packet that is to leave now.
#[derive(Debug)]
pub(crate) struct Leaving<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) message: u32,
    pub(crate) key: KeyFlag,
    pub(crate) timestamp: u32,
    pub(crate) retransmitted: bool,
    pub(crate) payload: &'a [u8],
}

/// Packets of one direction.
#[derive(Debug)]
pub(crate) struct Sender {
    base: SequenceNumber,
    slots: VecDeque<Slot>,
    /// How many of `slots` have been sent.
    sent: usize,
    repeats: VecDeque<SequenceNumber>,
    message: u32,
    /// Packets that the peer has room for behind `base`.
    peer_window: usize,
    window: usize,
    /// Bytes that are kept, and how many may be.
    bytes: usize,
    bytes_max: usize,
    /// Repetitions that the peer may ask for: one for each packet that is sent. Who asks for more has no path
    /// for the stream, or wants to have us flood somebody.
    repeats_left: u32,
    spare: Vec<Vec<u8>>,
    /// When something was acknowledged last, or the first of `slots` was sent.
    progress_at: Instant,
    /// How often all was sent again since.
    timeouts: u32,
    /// Packets dropped.
    pub(crate) dropped: u64,
}

impl Sender {
    /// Nothing has been sent; `window` packets fit and `bytes_max` bytes, and the peer takes `peer_window`
    /// packets.
    pub(crate) fn new(
        now: Instant,
        first: SequenceNumber,
        (window, bytes_max): (usize, usize),
        peer_window: usize,
    ) -> Self {
        Self {
            base: first,
            slots: VecDeque::new(),
            sent: 0,
            repeats: VecDeque::new(),
            message: 0,
            peer_window: peer_window.min(window).min(UNPROVEN_WINDOW),
            window,
            bytes: 0,
            bytes_max,
            repeats_left: REPEATS_AT_FIRST,
            spare: Vec::new(),
            progress_at: now,
            timeouts: 0,
            dropped: 0,
        }
    }

    /// Packets that may be given.
    pub(crate) fn room(&self) -> usize {
        self.window - self.slots.len()
    }

    /// Packets that wait to be sent for the first time.
    pub(crate) fn waiting(&self) -> usize {
        self.slots.len() - self.sent
    }

    /// The number of the next packet that is given.
    pub(crate) fn next(&self) -> SequenceNumber {
        self.base.plus(self.slots.len() as u32)
    }

    /// Takes a payload; there is room for it. `prepare` encrypts it as the packet and message of these
    /// numbers, and names the key.
    pub(crate) fn give(
        &mut self,
        now: Instant,
        timestamp: u32,
        payload: &[u8],
        prepare: impl FnOnce(SequenceNumber, u32, &mut Vec<u8>) -> KeyFlag,
    ) {
        // 26 bits, and 0 is none.
        self.message = if self.message >= 0x03ff_ffff { 1 } else { self.message + 1 };
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(payload);
        let key = prepare(self.next(), self.message, &mut buffer);
        // The oldest are dropped for the newest: a live stream does not wait.
        while self.bytes + buffer.len() > self.bytes_max && !self.slots.is_empty() {
            self.remove(1);
            self.dropped += 1;
        }
        self.bytes += buffer.len();
        self.slots.push_back(Slot {
            payload: buffer,
            message: self.message,
            key,
            timestamp,
            given_at: now,
            sent_at: None,
            is_to_be_repeated: false,
        });
    }

    /// The peer has all before `next`, and room for so many more. False if that cannot be.
    pub(crate) fn acknowledged(&mut self, now: Instant, next: SequenceNumber, room: Option<u32>) -> bool {
        let count = next.since(self.base);
        if count > self.sent as i32 {
            return false;
        }
        if count > 0 {
            self.remove(count as usize);
            (self.progress_at, self.timeouts) = (now, 0);
        }
        if let Some(room) = room {
            // Counted from what it acknowledges; an older one than the newest says less.
            let behind = count.min(0).unsigned_abs() as usize;
            self.peer_window = (room as usize).min(self.window).saturating_sub(behind);
        }
        true
    }

    fn remove(&mut self, count: usize) {
        for Slot { payload, .. } in self.slots.drain(..count) {
            self.bytes -= payload.len();
            if self.spare.len() < SPARE_MAX {
                self.spare.push(payload);
            }
        }
        self.base = self.base.plus(count as u32);
        self.sent = self.sent.saturating_sub(count);
    }

    /// The peer misses these. What is no longer there is added to `gone`.
    pub(crate) fn missing(
        &mut self,
        now: Instant,
        (first, last): (SequenceNumber, SequenceNumber),
        round_trip: Duration,
        gone: &mut Vec<(SequenceNumber, SequenceNumber)>,
    ) {
        // The peer knows what it misses, and asks until it has it: there is nothing to guess.
        self.progress_at = now;
        let (from, to) = (first.since(self.base), last.since(self.base));
        if from < 0 && from >= -(self.window as i32) {
            gone.push((first, self.base.plus(to.min(-1) as u32)));
        }
        let range = from.max(0) as usize..(to + 1).clamp(0, self.sent as i32) as usize;
        for at in range.take(LOOKED_AT_MAX) {
            if self.repeats_left == 0 {
                break;
            }
            self.repeats_left -= u32::from(self.repeat(at, now, round_trip.max(REPEAT_INTERVAL_MIN)));
        }
    }

    /// Says whether the packet will be sent again for it.
    fn repeat(&mut self, at: usize, now: Instant, unless_within: Duration) -> bool {
        let sequence = self.base.plus(at as u32);
        let slot = &mut self.slots[at];
        let is_on_its_way =
            slot.sent_at.is_some_and(|sent_at| now.saturating_duration_since(sent_at) < unless_within);
        let repeats = !slot.is_to_be_repeated && !is_on_its_way && self.repeats.len() < REPEATS_MAX;
        if repeats {
            slot.is_to_be_repeated = true;
            self.repeats.push_back(sequence);
        }
        repeats
    }

    /// Drops packets that are older than `age`.
    pub(crate) fn drop_late(&mut self, now: Instant, age: Duration) {
        let is_late = |slot: &&Slot| now.saturating_duration_since(slot.given_at) > age;
        let late = self.slots.iter().take_while(is_late).count();
        if late > 0 {
            self.remove(late);
            self.dropped += late as u64;
            self.progress_at = now;
        }
    }

    /// When to send again without being asked: the last packets may be lost, of which the peer does not
    /// know.
    pub(crate) fn next_timeout(&self, long_round_trip: Duration) -> Option<Instant> {
        let wait = (long_round_trip + TIMEOUT_EXTRA) * (1 << self.timeouts.min(4));
        (self.sent > 0).then(|| self.progress_at + wait)
    }

    /// Sends again what waits for its acknowledgement for too long: the newest, which shows the peer what
    /// it misses, and some of the oldest.
    pub(crate) fn time_out(&mut self, now: Instant, long_round_trip: Duration) {
        if self.next_timeout(long_round_trip).is_none_or(|due| due > now) {
            return;
        }
        for at in (0..self.sent.min(REPEATED_AT_ONCE)).chain([self.sent - 1]) {
            self.repeat(at, now, Duration::ZERO);
        }
        self.timeouts += 1;
        self.progress_at = now;
    }

    /// Bytes of the payload that leaves next, if one may leave.
    pub(crate) fn next_len(&mut self) -> Option<usize> {
        while let Some(&sequence) = self.repeats.front() {
            let at = usize::try_from(sequence.since(self.base)).ok();
            match at.and_then(|at| self.slots.get(at)) {
                Some(slot) => return Some(slot.payload.len()),
                // Acknowledged or dropped since.
                None => self.repeats.pop_front(),
            };
        }
        let is_open = self.sent < self.peer_window;
        self.slots.get(self.sent).filter(|_| is_open).map(|slot| slot.payload.len())
    }

    /// Takes the packet that leaves next: what was asked for first.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Leaving<'_>> {
        self.next_len()?;
        let (at, retransmitted) = match self.repeats.pop_front() {
            Some(sequence) => (sequence.since(self.base) as usize, true),
            None => {
                if self.sent == 0 {
                    self.progress_at = now;
                }
                self.sent += 1;
                self.repeats_left = (self.repeats_left + 1).min(REPEATS_SAVED_MAX);
                (self.sent - 1, false)
            }
        };
        let sequence = self.base.plus(at as u32);
        let slot = &mut self.slots[at];
        (slot.sent_at, slot.is_to_be_repeated) = (Some(now), false);
        Some(Leaving {
            sequence,
            message: slot.message,
            key: slot.key,
            timestamp: slot.timestamp,
            retransmitted,
            payload: &slot.payload,
        })
    }

    /// Packets and bytes that are kept.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }

    /// Age of the oldest packet that is kept.
    pub(crate) fn held_for(&self, now: Instant) -> Duration {
        self.slots.front().map_or(Duration::ZERO, |slot| now.saturating_duration_since(slot.given_at))
    }

    /// When the oldest packet becomes older than `age`.
    pub(crate) fn next_drop(&self, age: Duration) -> Option<Instant> {
        self.slots.front().map(|slot| slot.given_at + age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[expect(clippy::disallowed_methods, reason = "any moment does")]
    fn world() -> (Sender, Instant) {
        let now = Instant::now();
        (Sender::new(now, SequenceNumber::new(0x7fff_fffe), (10, 1_000), 10), now)
    }

    fn give(sender: &mut Sender, now: Instant, count: usize) {
        for _ in 0..count {
            sender.give(now, 0, b"x", |_, _, _| KeyFlag::Clear);
        }
    }

    fn taken(sender: &mut Sender, now: Instant) -> Vec<(u32, bool)> {
        let mut out = Vec::new();
        while let Some(leaving) = sender.take(now) {
            out.push((leaving.sequence.number(), leaving.retransmitted));
        }
        out
    }

    fn seq(number: u32) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn packets_stay_until_they_are_acknowledged() {
        let (mut sender, now) = world();
        give(&mut sender, now, 4);
        assert!(!sender.acknowledged(now, seq(0), None), "nothing was sent");
        assert_eq!(taken(&mut sender, now), [0x7fff_fffe, 0x7fff_ffff, 0, 1].map(|number| (number, false)));
        assert!(sender.acknowledged(now, seq(0), None));
        assert_eq!((sender.held(), sender.room()), ((2, 2), 8));
        assert!(sender.acknowledged(now, seq(0x7fff_ffff), None), "an old one says nothing");
        assert!(!sender.acknowledged(now, seq(3), None));
        assert!(sender.acknowledged(now, seq(2), None));
        assert_eq!(sender.held(), (0, 0));
    }

    #[test]
    fn what_is_missing_is_sent_again_once_in_a_round_trip() {
        let (mut sender, start) = world();
        give(&mut sender, start, 5);
        taken(&mut sender, start);
        let mut gone = Vec::new();
        let now = start + ROUND_TRIP;
        for range in [(seq(0x7fff_ffff), seq(0)), (seq(0), seq(0)), (seq(2), seq(100))] {
            sender.missing(now, range, ROUND_TRIP, &mut gone);
        }
        assert_eq!(taken(&mut sender, now), [(0x7fff_ffff, true), (0, true), (2, true)]);
        sender.missing(now + ROUND_TRIP / 2, (seq(0), seq(0)), ROUND_TRIP, &mut gone);
        assert_eq!((taken(&mut sender, now), gone.len()), (vec![], 0));
        sender.acknowledged(now, seq(1), None);
        sender.missing(now, (seq(0), seq(1)), Duration::ZERO, &mut gone);
        assert_eq!((taken(&mut sender, now), gone), (vec![(1, true)], vec![(seq(0), seq(0))]));
    }

    #[test]
    fn the_oldest_make_room_for_the_newest_bytes() {
        let (_, now) = world();
        let mut sender = Sender::new(now, seq(1), (10, 3), 10);
        give(&mut sender, now, 2);
        taken(&mut sender, now);
        give(&mut sender, now, 2);
        assert_eq!((sender.held(), sender.dropped, sender.waiting()), ((3, 3), 1, 2));
        assert_eq!(taken(&mut sender, now), [(3, false), (4, false)]);
    }

    #[test]
    fn who_never_acknowledges_gets_a_few_packets() {
        let (_, now) = world();
        let mut sender = Sender::new(now, seq(1), (8_192, 1 << 20), 8_192);
        give(&mut sender, now, 1_000);
        assert_eq!(taken(&mut sender, now).len(), UNPROVEN_WINDOW);
        sender.acknowledged(now, seq(1), Some(8_192));
        assert_eq!(taken(&mut sender, now).len(), 1_000 - UNPROVEN_WINDOW);
    }

    #[test]
    fn no_more_is_sent_again_than_was_sent() {
        let (_, start) = world();
        let mut sender = Sender::new(start, seq(1), (8_192, 1 << 20), 8_192);
        sender.acknowledged(start, seq(1), Some(8_192));
        give(&mut sender, start, 1_000);
        taken(&mut sender, start);
        let mut again = 0;
        for ms in 1..=10_000 {
            let now = start + Duration::from_millis(ms);
            sender.missing(now, (seq(1), seq(1_000)), Duration::from_micros(1), &mut Vec::new());
            again += taken(&mut sender, now).len();
        }
        assert_eq!(again, 1_000 + REPEATS_AT_FIRST as usize);
    }

    #[test]
    fn the_peers_window_holds_packets_back() {
        let (mut sender, now) = world();
        give(&mut sender, now, 10);
        assert_eq!(sender.room(), 0);
        taken(&mut sender, now);
        sender.acknowledged(now, seq(0), Some(3));
        give(&mut sender, now, 2);
        assert_eq!((taken(&mut sender, now), sender.waiting()), (vec![], 2));
        sender.acknowledged(now, seq(7), Some(3));
        assert_eq!(taken(&mut sender, now).len(), 2);
    }

    #[test]
    fn without_acknowledgements_the_newest_and_the_oldest_go_again() {
        let (mut sender, start) = world();
        give(&mut sender, start, 3);
        taken(&mut sender, start);
        let due = sender.next_timeout(ROUND_TRIP).expect("something is on its way");
        sender.time_out(due, ROUND_TRIP);
        assert_eq!(taken(&mut sender, due), [(0x7fff_fffe, true), (0x7fff_ffff, true), (0, true)]);
        let next = sender.next_timeout(ROUND_TRIP).expect("it still is");
        assert_eq!(next - due, (due - start) * 2);
        sender.acknowledged(due, seq(1), None);
        assert_eq!(sender.next_timeout(ROUND_TRIP), None);
    }

    #[test]
    fn what_is_too_old_is_given_up_sent_or_not() {
        let (mut sender, start) = world();
        give(&mut sender, start, 2);
        sender.take(start).expect("one leaves");
        give(&mut sender, start + ROUND_TRIP, 1);
        assert_eq!(sender.next_drop(ROUND_TRIP), Some(start + ROUND_TRIP));
        sender.drop_late(start + ROUND_TRIP * 3 / 2, ROUND_TRIP);
        assert_eq!((sender.dropped, sender.waiting()), (2, 1));
        assert_eq!(taken(&mut sender, start), [(0, false)]);
        let mut gone = Vec::new();
        sender.missing(start, (seq(0x7fff_fffe), seq(0)), Duration::ZERO, &mut gone);
        assert_eq!(gone, [(seq(0x7fff_fffe), seq(0x7fff_ffff))]);
    }
}
