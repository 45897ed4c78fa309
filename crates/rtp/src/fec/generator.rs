//! Parity of packets as they are sent.
//!
//! Packets of a group go to its rows in turns: with two rows, the first has the packets 0, 2, 4
//! ..., the second 1, 3, 5 ... So any one lost packet of a row comes back, and any burst of no more
//! packets than there are rows. Rows of neighbours would cost the same and bring back no burst at
//! all.

use std::error::Error;
use std::fmt;

use super::{LAST_MASK_BIT, MASK_AT, RECOVERY_LEN, volatile_ranges};
use crate::FIXED_HEADER_LEN;

/// Sequence numbers a group can reach over: two masks, the third would be eight bytes more for
/// groups that take longer to fill than a retransmission takes.
pub const GROUP_NUMBERS_MAX: u16 = 46;
/// Longest packet that is protected, in bytes. Its repair packet is 24 bytes longer, SRTP adds 16,
/// and UDP over IPv6 48 more: 1 488 of the 1 500 bytes of an Ethernet.
pub const PROTECTED_LEN_MAX: usize = 1_400;
/// Most repair packets of a group. Each takes [`PROTECTED_LEN_MAX`] bytes of memory.
pub const ROWS_MAX: usize = 4;

/// Why a packet is not in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectError {
    /// No RTP header.
    TooShort,
    /// Longer than [`PROTECTED_LEN_MAX`].
    TooLong,
    /// Of another SSRC than the group's first.
    OtherStream,
    /// Its number is not above those of the group: a repair packet may not cover a number twice.
    NotNewer,
    /// The group would reach over more than [`GROUP_NUMBERS_MAX`] numbers: it has to be finished
    /// first.
    TooFar,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooShort => "shorter than an RTP header",
            Self::TooLong => "too long to be protected",
            Self::OtherStream => "of another stream than the group",
            Self::NotNewer => "not behind the packets of the group",
            Self::TooFar => "too far behind the first packet of the group",
        })
    }
}

impl Error for ProtectError {}

/// Makes repair packets of the packets of one stream.
///
/// **To be driven like this:** [`Generator::begin`] a group, [`Generator::add`] its packets in the
/// order of their numbers, [`Generator::write`] each of its rows. Nothing is allocated but in
/// [`Generator::new`].
#[derive(Debug)]
pub struct Generator {
    volatile_ids: [u8; 2],
    rows: Box<[Row]>,
    /// Rows of this group.
    in_use: usize,
    packets: usize,
    ssrc: u32,
    base: u16,
    /// `0 <= reach < GROUP_NUMBERS_MAX`: how far the newest number is from `base`.
    reach: u16,
}

/// The parity of some packets of a group.
#[derive(Debug, Clone)]
struct Row {
    recovery: [u8; RECOVERY_LEN],
    /// Bit `i`, the lowest being 0, is for the number `base + i`.
    mask: u64,
    /// Bytes behind the fixed header of the longest.
    len: usize,
    /// Up to `len`.
    parity: [u8; PARITY_LEN_MAX],
}

impl Row {
    const EMPTY: Self = Self { recovery: [0; RECOVERY_LEN], mask: 0, len: 0, parity: [0; PARITY_LEN_MAX] };

    fn has_second_mask(&self) -> bool {
        self.mask >= 1 << FIRST_MASK_BITS
    }

    fn header_len(&self) -> usize {
        MASK_AT + if self.has_second_mask() { 6 } else { 2 }
    }
}

impl Generator {
    /// A generator of groups with up to `rows` rows, at most [`ROWS_MAX`], of packets in which
    /// these header extensions are taken as zeros ([`volatile_ids`](super::volatile_ids)).
    pub fn new(rows: usize, volatile_ids: [u8; 2]) -> Self {
        let rows = vec![Row::EMPTY; rows.clamp(1, ROWS_MAX)].into();
        Self { volatile_ids, rows, in_use: 1, packets: 0, ssrc: 0, base: 0, reach: 0 }
    }

    /// Begins a group with this number of rows, or as many as there are.
    pub fn begin(&mut self, rows: usize) {
        self.in_use = rows.clamp(1, self.rows.len());
        self.packets = 0;
        for row in &mut self.rows[..self.in_use] {
            (row.recovery, row.mask, row.len) = ([0; RECOVERY_LEN], 0, 0);
        }
    }

    /// Adds a packet as it is sent, before it is encrypted. `payload` is what follows the header,
    /// padding included.
    ///
    /// # Errors
    ///
    /// See [`ProtectError`]; the group stays as it was.
    pub fn add(&mut self, header: &[u8], payload: &[u8]) -> Result<(), ProtectError> {
        let (fixed, behind) = header.split_first_chunk::<FIXED_HEADER_LEN>().ok_or(ProtectError::TooShort)?;
        let len = behind.len() + payload.len();
        if len > PARITY_LEN_MAX {
            return Err(ProtectError::TooLong);
        }
        let sequence_number = u16::from_be_bytes([fixed[2], fixed[3]]);
        let ssrc = u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        if self.packets == 0 {
            (self.ssrc, self.base, self.reach) = (ssrc, sequence_number, 0);
        } else {
            let reach = sequence_number.wrapping_sub(self.base);
            if ssrc != self.ssrc {
                return Err(ProtectError::OtherStream);
            }
            // What is before the base seems far ahead of it.
            if reach <= self.reach || reach > u16::MAX / 2 {
                return Err(ProtectError::NotNewer);
            }
            if reach >= GROUP_NUMBERS_MAX {
                return Err(ProtectError::TooFar);
            }
            self.reach = reach;
        }
        let row = &mut self.rows[self.packets % self.in_use];
        self.packets += 1;
        row.mask |= 1 << self.reach;
        let length = (len as u16).to_be_bytes();
        let recovery =
            [fixed[0] & 0x3f, fixed[1], length[0], length[1], fixed[4], fixed[5], fixed[6], fixed[7]];
        xor(&mut row.recovery, &recovery);
        if len > row.len {
            // What is there is of an earlier group.
            row.parity[row.len..len].fill(0);
            row.len = len;
        }
        xor(&mut row.parity, behind);
        xor(&mut row.parity[behind.len()..], payload);
        // Twice is not at all.
        for range in volatile_ranges(header, self.volatile_ids) {
            xor(&mut row.parity[range.start - FIXED_HEADER_LEN..], &header[range]);
        }
        Ok(())
    }

    /// Packets of the group.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Repair packets of the group: its rows that have packets.
    pub fn rows(&self) -> usize {
        self.in_use.min(self.packets)
    }

    /// Bytes that [`Generator::write`] writes of row `row`; 0 if there is no such row.
    pub fn payload_len(&self, row: usize) -> usize {
        self.rows[..self.rows()].get(row).map_or(0, |row| row.header_len() + row.len)
    }

    /// Writes the payload of the repair packet of row `row` to the start of `out`, and returns its
    /// length. `None` if there is no such row or it does not fit:
    /// [`REPAIR_PAYLOAD_LEN_MAX`](super::REPAIR_PAYLOAD_LEN_MAX) bytes are always enough.
    pub fn write(&self, row: usize, out: &mut [u8]) -> Option<usize> {
        let row = self.rows[..self.rows()].get(row)?;
        let header_len = row.header_len();
        let (header, parity) = out.get_mut(..header_len + row.len)?.split_at_mut(header_len);
        header[..RECOVERY_LEN].copy_from_slice(&row.recovery);
        // SSRC count, and what is reserved.
        header[8..12].copy_from_slice(&[1, 0, 0, 0]);
        header[12..16].copy_from_slice(&self.ssrc.to_be_bytes());
        header[16..MASK_AT].copy_from_slice(&self.base.to_be_bytes());
        // Of a word, the lowest bit is where `k` is, and reversed the highest.
        let first = (row.mask << 1) as u16;
        let second = (row.mask >> FIRST_MASK_BITS << 1) as u32;
        header[MASK_AT..MASK_AT + 2].copy_from_slice(&first.reverse_bits().to_be_bytes());
        let last_mask_at = if row.has_second_mask() { MASK_AT + 2 } else { MASK_AT };
        if row.has_second_mask() {
            header[last_mask_at..].copy_from_slice(&second.reverse_bits().to_be_bytes());
        }
        header[last_mask_at] |= LAST_MASK_BIT;
        parity.copy_from_slice(&row.parity[..row.len]);
        Some(header_len + row.len)
    }
}

/// `to ^= from`, as far as `from` goes.
#[inline]
fn xor(to: &mut [u8], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

/// Bytes of parity behind the fixed header.
const PARITY_LEN_MAX: usize = PROTECTED_LEN_MAX - FIXED_HEADER_LEN;
/// Packets that the first mask is for.
const FIRST_MASK_BITS: u32 = 15;
