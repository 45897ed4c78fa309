//! Packets that were sent on one transport and may still be reported.
//!
//! A ring by transport-wide number, 8 bytes a packet. It grows, up to a limit, while packets leave
//! it that nobody has spoken of and that are young; so an ordinary viewer has the smallest one, and
//! a fast or far one what it needs.

use rtp::sequence::SequenceUnwrapper;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No packet was sent under this number.
    Unused,
    UnderWay,
    /// Reported as missing; it may still be reported as received.
    Missing,
    Received,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// Microseconds; wraps after 71 minutes, and no packet is looked at after so long.
    at: u32,
    pub(crate) bytes: u16,
    /// Of which probe it is a part; 0 of none, [`AGAIN`] if it was sent again.
    pub(crate) cluster: u8,
    pub(crate) fate: Fate,
}

/// A packet that a report is about, with its time in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) sent_us: u64,
    pub(crate) packet: Sent,
}

#[derive(Debug)]
pub(crate) struct History {
    ring: Vec<Sent>,
    numbers: SequenceUnwrapper,
    /// Bytes of packets whose fate is `UnderWay`.
    pub(crate) bytes_under_way: u64,
    /// Packets below this one are known, or were given up.
    settled: u64,
}

impl History {
    /// The smallest, with room for packets or without.
    pub(crate) fn new(has_room: bool) -> Self {
        Self {
            ring: vec![UNUSED; if has_room { PACKETS_MIN } else { 1 }],
            numbers: SequenceUnwrapper::new(),
            bytes_under_way: 0,
            settled: 0,
        }
    }

    /// Remembers a packet. One whose number is not above all before is not remembered: the caller's
    /// numbers rise.
    pub(crate) fn sent(&mut self, number: u16, bytes: usize, at_us: u64, cluster: u8) {
        let highest = self.numbers.highest();
        let full = self.numbers.unwrap(number);
        match highest {
            Some(highest) if full <= highest => return,
            // Numbers that were left out are nobody's.
            Some(highest) => {
                for skipped in (highest + 1..full).take(self.ring.len()) {
                    self.put(skipped, UNUSED, at_us);
                }
            }
            None => self.settled = full,
        }
        let bytes = bytes.min(usize::from(u16::MAX)) as u16;
        self.put(full, Sent { at: at_us as u32, bytes, cluster, fate: Fate::UnderWay }, at_us);
        self.bytes_under_way += u64::from(bytes);
    }

    /// A packet was asked for and is sent again under the number that it had: it was lost. Whether it was
    /// not known to be missing before.
    pub(crate) fn sent_again(&mut self, number: u16, now_us: u64) -> bool {
        let Some(found) = self.find(number, now_us) else { return false };
        let is_news = found.packet.fate == Fate::UnderWay;
        if is_news {
            self.settle(&found, Fate::Missing);
        }
        let at = self.index(found.number);
        self.ring[at].cluster = AGAIN;
        is_news
    }

    fn put(&mut self, number: u64, packet: Sent, at_us: u64) {
        let mut at = self.index(number);
        let old = self.ring[at];
        if old.fate == Fate::UnderWay {
            let young = (at_us as u32).wrapping_sub(old.at) < YOUNG_US;
            if young && self.ring.len() < PACKETS_MAX {
                self.grow(number);
                at = self.index(number);
            } else {
                self.bytes_under_way -= u64::from(old.bytes);
            }
        }
        self.ring[at] = packet;
    }

    /// Doubles the ring; `next` is the number that comes next.
    fn grow(&mut self, next: u64) {
        let (len, mut ring) = (self.ring.len() as u64, vec![UNUSED; 2 * self.ring.len()]);
        for number in next.saturating_sub(len)..next {
            ring[number as usize & (2 * self.ring.len() - 1)] = self.ring[self.index(number)];
        }
        self.ring = ring;
    }

    /// The packet of a number on the wire, if it was sent and is remembered.
    #[inline]
    pub(crate) fn find(&self, number: u16, now_us: u64) -> Option<Found> {
        let highest = self.numbers.highest()?;
        let number = self.numbers.peek(number);
        if number > highest || highest - number >= self.ring.len() as u64 {
            return None;
        }
        let packet = self.ring[self.index(number)];
        if packet.fate == Fate::Unused {
            return None;
        }
        let age = (now_us as u32).wrapping_sub(packet.at);
        Some(Found { number, sent_us: now_us.wrapping_sub(u64::from(age)), packet })
    }

    /// Notes the fate of a packet that was found.
    #[inline]
    pub(crate) fn settle(&mut self, found: &Found, fate: Fate) {
        let at = self.index(found.number);
        if found.packet.fate == Fate::UnderWay {
            self.bytes_under_way -= u64::from(found.packet.bytes);
        }
        self.ring[at].fate = fate;
    }

    /// Gives up packets so far below `number` that no report will speak of them: reports get lost
    /// too.
    pub(crate) fn give_up_below(&mut self, number: u64) {
        let highest = self.numbers.highest().map_or(0, |highest| highest + 1);
        let end = number.min(highest);
        self.settled = self.settled.max(highest.saturating_sub(self.ring.len() as u64));
        while self.settled < end {
            let at = self.index(self.settled);
            if self.ring[at].fate == Fate::UnderWay {
                self.bytes_under_way -= u64::from(self.ring[at].bytes);
                self.ring[at].fate = Fate::Missing;
                self.ring[at].bytes = 0;
            }
            self.settled += 1;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ring.capacity() * size_of::<Sent>()
    }

    fn index(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }
}

/// In place of a probe: which of the times that it was sent a report is about cannot be known.
pub(crate) const AGAIN: u8 = u8::MAX;

const UNUSED: Sent = Sent { at: 0, bytes: 0, cluster: 0, fate: Fate::Unused };

/// 4 KiB: two seconds of 2.5 Mbit/s.
const PACKETS_MIN: usize = 512;
/// A second of 40 Mbit/s.
pub(crate) const PACKETS_MAX: usize = 4096;
const YOUNG_US: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn fate(history: &History, number: u16, now_us: u64) -> Option<Fate> {
        history.find(number, now_us).map(|found| found.packet.fate)
    }

    #[test]
    fn packets_are_found_by_wrapping_numbers_until_the_ring_has_gone_round() {
        let mut history = History::new(true);
        for number in 0..2000u64 {
            history.sent((65_000 + number) as u16, 100, number * 10_000, 0);
        }
        let now = 20_000_000;
        assert_eq!(fate(&history, 65_000, now), None, "overwritten");
        let newest = (65_000 + 1999u64) as u16;
        let found = history.find(newest, now).unwrap();
        assert_eq!((found.sent_us, found.packet.bytes), (19_990_000, 100));
        assert_eq!(fate(&history, newest.wrapping_add(1), now), None, "never sent");
        assert_eq!(history.bytes_under_way, 512 * 100);
        assert_eq!(history.heap_bytes(), 4096);
    }

    #[test]
    fn the_ring_grows_while_young_packets_would_leave_it() {
        let mut history = History::new(true);
        for number in 0..3000u64 {
            history.sent(number as u16, 100, number * 100, 0);
        }
        assert_eq!(history.heap_bytes(), 4096 * 8);
        assert!((0..3000).all(|number| fate(&history, number, 300_000) == Some(Fate::UnderWay)));
        assert_eq!(history.bytes_under_way, 300_000);
        for number in 3000..60_000u64 {
            history.sent(number as u16, 100, number * 100, 0);
        }
        assert_eq!(history.heap_bytes(), 4096 * 8, "and no further");
    }

    #[test]
    fn numbers_that_were_left_out_are_nobodys() {
        let mut history = History::new(true);
        history.sent(10, 100, 1, 0);
        history.sent(14, 100, 2, 0);
        history.sent(12, 100, 3, 0);
        assert_eq!(
            [10, 11, 12, 13, 14].map(|number| fate(&history, number, 4).is_some()),
            [true, false, false, false, true]
        );
    }

    #[test]
    fn what_nobody_speaks_of_is_given_up() {
        let mut history = History::new(true);
        for number in 0..300u64 {
            history.sent(number as u16, 100, number, 0);
        }
        history.give_up_below(0x1_0000 + 250);
        assert_eq!(history.bytes_under_way, 50 * 100);
        let late = history.find(3, 300).unwrap();
        assert_eq!(late.packet.fate, Fate::Missing);
        history.settle(&late, Fate::Received);
        assert_eq!(history.bytes_under_way, 50 * 100);
    }
}
