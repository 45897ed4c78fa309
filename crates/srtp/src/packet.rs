//! What SRTP must know of a packet: whose it is and where its payload begins, which index it has, and
//! whether that has been seen.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |V=2|P|X|  CC   |M|     PT      |       sequence number         |   RFC 3550 section 5.1
//! |                           timestamp                           |
//! |                             SSRC                              |
//! |                    CSRC x CC, then if X:                      |
//! |      defined by profile       |     length (32-bit words)     |   RFC 3550 section 5.3.1
//! |                       header extension                        |
//! ```
//! Padding lies inside the encrypted part and is of no interest here.
//!
//! Only the low 16 bits of an index travel in the packet; both sides count the rounds (RFC 3711
//! section 3.3.1, appendix A), and remember which of the newest indices they have seen (section
//! 3.3.2): a receiver drops what it has accepted before, a sender refuses to protect an index twice.
//! Looking and marking are two functions: a packet is authenticated between.

/// Bytes of the fixed RTP header.
pub(crate) const RTP_FIXED: usize = 12;
/// Bytes of an RTCP packet that stay in the clear: the first header and the sender's SSRC (RFC 3711
/// section 3.4).
pub(crate) const RTCP_CLEAR: usize = 8;
/// Longest packet taken, in bytes: a UDP datagram cannot be longer.
pub(crate) const PACKET_MAX: usize = 65_535;

/// Why bytes are not an RTP or RTCP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    TooShort,
    TooLong,
    BadVersion,
    BadHeader,
}

/// The fields of an RTP header that SRTP works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpHeader {
    pub(crate) ssrc: u32,
    pub(crate) sequence: u16,
    /// Bytes up to the payload; at most the packet's length.
    pub(crate) len: usize,
}

impl RtpHeader {
    /// Reads the header of `packet`, whose header must lie inside it.
    #[inline]
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, HeaderError> {
        let fixed: &[u8; RTP_FIXED] = packet.first_chunk().ok_or(HeaderError::TooShort)?;
        if packet.len() > PACKET_MAX {
            return Err(HeaderError::TooLong);
        }
        if fixed[0] >> 6 != 2 {
            return Err(HeaderError::BadVersion);
        }
        let mut len = RTP_FIXED + 4 * usize::from(fixed[0] & 0x0f);
        if fixed[0] & 0x10 != 0 {
            let extension: &[u8; 4] =
                packet.get(len..).and_then(|rest| rest.first_chunk()).ok_or(HeaderError::BadHeader)?;
            len += 4 + 4 * usize::from(u16::from_be_bytes([extension[2], extension[3]]));
        }
        if len > packet.len() {
            return Err(HeaderError::BadHeader);
        }
        let sequence = u16::from_be_bytes([fixed[2], fixed[3]]);
        let ssrc = u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        Ok(Self { ssrc, sequence, len })
    }
}

/// SSRC of the sender of an RTCP packet, the first of a compound packet.
pub(crate) fn rtcp_sender(packet: &[u8]) -> Result<u32, HeaderError> {
    let clear: &[u8; RTCP_CLEAR] = packet.first_chunk().ok_or(HeaderError::TooShort)?;
    if packet.len() > PACKET_MAX {
        return Err(HeaderError::TooLong);
    }
    if clear[0] >> 6 != 2 {
        return Err(HeaderError::BadVersion);
    }
    Ok(u32::from_be_bytes([clear[4], clear[5], clear[6], clear[7]]))
}

macro_rules! from_header_error {
    ($($error:ty),*) => {$(
        impl From<HeaderError> for $error {
            fn from(error: HeaderError) -> Self {
                match error {
                    HeaderError::TooShort => Self::TooShort,
                    HeaderError::TooLong => Self::TooLong,
                    HeaderError::BadVersion => Self::BadVersion,
                    HeaderError::BadHeader => Self::BadHeader,
                }
            }
        }
    )*};
}
from_header_error!(crate::ProtectError, crate::UnprotectError);

/// SRTP packet index `2^16 * ROC + SEQ`, 48 significant bits (RFC 3711 section 3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketIndex(pub(crate) u64);

impl PacketIndex {
    /// The index of a sequence number in a known round.
    pub(crate) const fn new(roc: u32, sequence: u16) -> Self {
        Self((roc as u64) << 16 | sequence as u64)
    }

    /// Rollover counter: how often the sequence number has wrapped.
    pub(crate) const fn roc(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// The index of the next packet of a stream: in the round that was set from outside, else nearest to
    /// the highest one so far, else in the first round. `None` past the last round, 2^48.
    #[inline]
    pub(crate) fn next(roc: Option<u32>, highest: Option<u64>, sequence: u16) -> Option<Self> {
        match (roc, highest) {
            (None, Some(highest)) => Self(highest).estimate(sequence),
            (roc, _) => Some(Self::new(roc.unwrap_or(0), sequence)),
        }
    }

    /// The index with this sequence number that is nearest to `self`, the highest one so far.
    #[inline]
    fn estimate(self, sequence: u16) -> Option<Self> {
        // Half of the range lies ahead; the middle, 2^15, counts as behind only in the upper half of a round
        // (the comparisons of RFC 3711 appendix A are strict on both sides).
        let behind_max = if (self.0 as u16) < 0x8000 { 0x7fff } else { 0x8000 };
        let from_behind_max = sequence.wrapping_sub(self.0 as u16).wrapping_add(behind_max);
        let nearest = self.0 as i64 + i64::from(from_behind_max) - i64::from(behind_max);
        // There is no round before the first: a sequence number that looks late then is a jump ahead.
        let index = if nearest < 0 { u64::from(sequence) } else { nearest as u64 };
        (index <= LAST).then_some(Self(index))
    }
}

const LAST: u64 = (1 << 48) - 1;

/// The newest indices and whether each was seen: one bit an index in a ring of 64-bit words.
///
/// The word of the highest index is kept outside of the ring, so that a packet in order, as all are
/// but a few, costs no second cache miss: with thousands of contexts none of this is in a near cache.
///
/// `0 <= highest - index < size` for every index the window knows; older ones are too old, newer
/// ones are new.
#[derive(Clone, Debug)]
pub(crate) struct ReplayWindow {
    /// Highest index marked; meaningless before the first.
    highest: u64,
    /// Indices in the window, `64 <= size <= 64 * words.len()`.
    size: u64,
    /// The word that `highest` is in: its bits above that are clear.
    newest: u64,
    /// A power of two of words, so that a place in the ring is a mask away. The place of `newest` has
    /// the word from a whole ring before, of which some indices may still be in the window.
    words: Box<[u64]>,
    begun: bool,
}

/// What a window says of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not seen before.
    New,
    /// Seen before.
    Seen,
    /// Before the window.
    TooOld,
}

impl ReplayWindow {
    /// A window of `size` indices, a multiple of 64.
    pub(crate) fn new(size: usize) -> Self {
        let words = (size / 64).next_power_of_two();
        let words = vec![0; words].into_boxed_slice();
        Self { highest: 0, size: size as u64, newest: 0, words, begun: false }
    }

    /// Whether `size` may be asked for.
    pub(crate) fn is_valid_size(size: usize) -> bool {
        (64..=32_768).contains(&size) && size.is_multiple_of(64)
    }

    /// A window in which every index up to `highest` is marked.
    pub(crate) fn all_marked(size: usize, highest: u64) -> Self {
        let mut window = Self { highest, begun: true, ..Self::new(size) };
        window.words.fill(u64::MAX);
        window.newest = u64::MAX >> (63 - highest % 64);
        window
    }

    /// Whether `index` is in the window, and marked.
    pub(crate) fn is_marked(&self, index: u64) -> bool {
        self.look(index) == Verdict::Seen
    }

    /// Makes an index below the highest, and in the window, one that was not seen.
    pub(crate) fn unmark(&mut self, index: u64) {
        if index / 64 == self.highest / 64 {
            self.newest &= !bit(index);
        } else {
            let word = self.word(index);
            self.words[word] &= !bit(index);
        }
    }

    /// The highest index marked.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u64> {
        self.begun.then_some(self.highest)
    }

    /// What is known of `index`. Changes nothing.
    #[inline]
    pub(crate) fn look(&self, index: u64) -> Verdict {
        match self.highest().and_then(|highest| highest.checked_sub(index)) {
            None => Verdict::New,
            Some(back) if back >= self.size => Verdict::TooOld,
            Some(_) => {
                let word =
                    if index / 64 == self.highest / 64 { self.newest } else { self.words[self.word(index)] };
                if word & bit(index) != 0 { Verdict::Seen } else { Verdict::New }
            }
        }
    }

    /// Marks `index`, which [`look`](Self::look) has found to be new.
    #[inline]
    pub(crate) fn mark(&mut self, index: u64) {
        debug_assert_eq!(self.look(index), Verdict::New);
        if !self.begun {
            self.begun = true;
            self.highest = index;
        } else if index > self.highest {
            if index / 64 != self.highest / 64 {
                self.move_up(index / 64);
            }
            self.highest = index;
        } else if index / 64 != self.highest / 64 {
            let word = self.word(index);
            self.words[word] |= bit(index);
            return;
        }
        self.newest |= bit(index);
    }

    /// The highest index will be in another word, the `to`th: `newest` goes to its place, and words that
    /// are skipped are empty.
    #[cold]
    fn move_up(&mut self, to: u64) {
        let from = self.highest / 64;
        let place = self.word(self.highest);
        self.words[place] = std::mem::take(&mut self.newest);
        for word in (from + 1..to).take(self.words.len()) {
            let place = self.word(word * 64);
            self.words[place] = 0;
        }
    }

    #[inline]
    fn word(&self, index: u64) -> usize {
        (index / 64) as usize & (self.words.len() - 1)
    }
}

const fn bit(index: u64) -> u64 {
    1 << (index % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::UsedIndices;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_window_that_is_taken_up_knows_what_the_one_before_knew(
            steps in proptest::collection::vec(0_u64..200, 1..100),
            first in 0_u64..1 << 40,
        ) {
            let mut window = ReplayWindow::new(128);
            let mut index = first;
            for step in steps {
                if window.look(index) == Verdict::New {
                    window.mark(index);
                }
                index = (index + step).saturating_sub(70);
            }
            let used = UsedIndices::of(&window).expect("one was marked");
            let mut taken = used.window(128);
            prop_assert_eq!(UsedIndices::of(&taken), Some(used));
            let highest = used.highest;
            for back in 0..64.min(highest + 1) {
                prop_assert_eq!(taken.look(highest - back), window.look(highest - back), "{} back", back);
            }
            for back in 64..200.min(highest + 1) {
                prop_assert_ne!(taken.look(highest - back), Verdict::New, "{} back", back);
            }
            taken.mark(highest + 100);
            prop_assert_eq!(taken.look(highest + 99), Verdict::New);
        }
    }

    #[test]
    fn the_payload_begins_behind_csrcs_and_extension() {
        let mut packet = [0u8; 64];
        packet[2..4].copy_from_slice(&[0x12, 0x34]);
        packet[8..12].copy_from_slice(&[1, 2, 3, 4]);
        for (first, words, expected) in [
            (0x80, 0, Ok(12)),                       // fixed header only
            (0xa3, 0, Ok(24)),                       // padding bit, three CSRCs
            (0x90, 0, Ok(16)),                       // empty extension
            (0x92, 9, Ok(60)),                       // two CSRCs, nine words
            (0x92, 10, Ok(64)),                      // reaches the end exactly
            (0x92, 11, Err(HeaderError::BadHeader)), // one word too many
            (0x40, 0, Err(HeaderError::BadVersion)), // version 1
        ] {
            packet[0] = first;
            let extension = 12 + 4 * usize::from(first & 0x0f);
            packet[extension + 2..extension + 4].copy_from_slice(&u16::to_be_bytes(words));
            let parsed = RtpHeader::parse(&packet);
            assert_eq!(parsed.map(|header| header.len), expected, "first byte {first:#x}, {words} words");
            if let Ok(header) = parsed {
                assert_eq!((header.ssrc, header.sequence), (0x0102_0304, 0x1234));
            }
        }
        assert_eq!(RtpHeader::parse(&[0x80; 11]), Err(HeaderError::TooShort));
        assert_eq!(RtpHeader::parse(&[0x8f; 71]), Err(HeaderError::BadHeader), "fifteen CSRCs need 72 bytes");
        assert_eq!(RtpHeader::parse(&[0x90; 15]), Err(HeaderError::BadHeader), "half an extension header");
    }

    #[test]
    fn estimate_follows_the_nearest_rollover() {
        for (highest, sequence, expected) in [
            (0x0000, 1, Some(0x0_0001)),                        // next packet
            (0xffff, 0, Some(0x1_0000)),                        // next packet rolls over
            (0xfffe, 5, Some(0x1_0005)),                        // the last packet of a round was lost
            (0x1_0002, 0xfffe, Some(0x0_fffe)),                 // late packet of the round before
            (0x0002, 0xfffe, Some(0x0_fffe)),                   // there is no round before the first
            (0x7fff, 0xffff, Some(0x0_ffff)),                   // the middle from the lower half: same round
            (0x1_7fff, 0xffff, Some(0x1_ffff)),                 // and in a later round
            (0x1_8000, 0x0000, Some(0x1_0000)),                 // the middle from the upper half: same round
            (0x1_8001, 0x0000, Some(0x2_0000)),                 // one past the middle: next round
            (0x1_7fff, 0x0000, Some(0x1_0000)),                 // behind in the same round
            (0x1_0000, 0x8001, Some(0x0_8001)),                 // more than half ahead is behind
            (0xffff_ffff_ffff, 0xffff, Some(0xffff_ffff_ffff)), // the very last index
            (0xffff_ffff_ffff, 0x0000, None),                   // the key must be changed now
        ] {
            let estimated = PacketIndex(highest).estimate(sequence).map(|index| index.0);
            assert_eq!(estimated, expected, "highest {highest:#x}, sequence {sequence:#x}");
        }
    }

    /// The pseudocode of RFC 3711 appendix A, where a round before the first is possible.
    fn appendix_a(highest: u64, sequence: u16) -> i64 {
        let (roc, last) = ((highest >> 16) as i64, i64::from(highest as u16));
        let sequence = i64::from(sequence);
        let round = if last < 32_768 {
            if sequence - last > 32_768 { roc - 1 } else { roc }
        } else if last - 32_768 > sequence {
            roc + 1
        } else {
            roc
        };
        round * 65_536 + sequence
    }

    #[test]
    fn estimate_is_that_of_appendix_a() {
        for highest in (0x1_0000u64..0x2_0000).step_by(97).chain([0x1_7fff, 0x1_8000, 0x1_8001, 0x1_ffff]) {
            for sequence in (0..=0xffffu16).step_by(31).chain([0x7fff, 0x8000, 0x8001, 0xffff]) {
                let estimated = PacketIndex(highest).estimate(sequence).map(|index| index.0 as i64);
                assert_eq!(estimated, Some(appendix_a(highest, sequence)), "{highest:#x} {sequence:#x}");
            }
        }
    }

    /// The same by a set of all indices ever marked.
    #[derive(Default)]
    struct Naive(BTreeSet<u64>);

    impl Naive {
        fn look(&self, index: u64, size: u64) -> Verdict {
            match self.0.last() {
                Some(&highest) if highest >= index && highest - index >= size => Verdict::TooOld,
                _ if self.0.contains(&index) => Verdict::Seen,
                _ => Verdict::New,
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(
            size in prop::sample::select(vec![64usize, 128, 192, 1024]),
            start in 0u64..5000,
            steps in prop::collection::vec((-1500i64..1500, 0u8..4), 1..400),
        ) {
            let (mut window, mut naive) = (ReplayWindow::new(size), Naive::default());
            let mut position = start as i64;
            for (step, kind) in steps {
                // Most steps are small, as in a real stream; some jump by more than the window.
                let step = match kind { 0 => step, 1 => step / 10, _ => step / 400 };
                let index = (position + step).max(0) as u64;
                prop_assert_eq!(window.look(index), naive.look(index, size as u64), "index {}", index);
                if window.look(index) == Verdict::New {
                    window.mark(index);
                    naive.0.insert(index);
                    position = position.max(index as i64);
                }
            }
        }
    }
}
