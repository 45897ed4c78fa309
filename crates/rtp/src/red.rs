//! Redundant audio, RED (RFC 2198): earlier payloads repeated ahead of a packet's own.
//!
//! ```text
//! |1| payload type (7) | timestamp offset (14) | length (10) |, one per earlier payload   RFC 2198 section 3
//! |0| payload type (7) | the earlier payloads, the oldest first | the payload of this packet
//! ```
//! Receivers that negotiated RED get such packets as they are. For others [`Unwrapper`] takes out
//! the packet's own payload and, where packets were lost, the earlier ones that stand for them.
//! Left out: writing redundancy of our own, and payload types that differ among the blocks of a
//! packet, which are handed on for the caller to judge.

use crate::sequence::is_newer_timestamp;

/// Most earlier payloads of a packet. Browsers send one or two; more than this is malformed.
pub const REDUNDANT_BLOCKS_MAX: usize = 32;

/// The payload of a RED packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Red<'a> {
    /// Payload type of the packet's own payload, `0..=127`.
    pub payload_type: u8,
    /// The packet's own payload, which is not empty.
    pub primary: &'a [u8],
    redundant: Redundant<'a>,
}

/// An earlier payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Payload type, `0..=127`.
    pub payload_type: u8,
    /// How much earlier than the packet's its timestamp is, `0..=16383`.
    pub timestamp_offset: u16,
    /// The payload, at most 1023 bytes; may be empty.
    pub payload: &'a [u8],
}

impl<'a> Red<'a> {
    /// Reads the payload (without padding) of a packet; `None` if it is malformed or has no payload
    /// of its own.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let mut rest = payload;
        let mut redundant_len = 0;
        for blocks in 0..=REDUNDANT_BLOCKS_MAX {
            let (first, behind) = rest.split_first()?;
            if first & FOLLOWS == 0 {
                let (data, primary) = behind.split_at_checked(redundant_len)?;
                let redundant = Redundant { heads: &payload[..blocks * HEAD_LEN], data };
                return (!primary.is_empty()).then_some(Self { payload_type: *first, primary, redundant });
            }
            let (head, behind) = rest.split_first_chunk()?;
            redundant_len += Head::read(*head).len;
            rest = behind;
        }
        None
    }

    /// The earlier payloads, the oldest first.
    pub fn redundant(&self) -> Redundant<'a> {
        self.redundant
    }
}

/// Iterator over the earlier payloads of a packet, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redundant<'a> {
    /// Whole heads, and the payloads whose lengths they have.
    heads: &'a [u8],
    data: &'a [u8],
}

impl Redundant<'_> {
    const NONE: Self = Self { heads: &[], data: &[] };

    /// The last `count` of them, all if there are fewer.
    fn newest(mut self, count: usize) -> Self {
        while self.len() > count {
            self.next();
        }
        self
    }
}

impl<'a> Iterator for Redundant<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let (head, heads) = self.heads.split_first_chunk()?;
        let head = Head::read(*head);
        let (payload, data) = self.data.split_at_checked(head.len)?;
        *self = Self { heads, data };
        Some(Block { payload_type: head.payload_type, timestamp_offset: head.timestamp_offset, payload })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let blocks = self.heads.len() / HEAD_LEN;
        (blocks, Some(blocks))
    }
}

impl ExactSizeIterator for Redundant<'_> {}

/// Replaces the payload type `from` by `to` in each block of a RED packet's payload, for a receiver
/// that negotiated other numbers; nothing is changed in a malformed one.
pub fn replace_payload_type(payload: &mut [u8], from: u8, to: u8) {
    let Some(blocks) = Red::parse(payload).map(|red| red.redundant.len()) else { return };
    for head in payload.iter_mut().step_by(HEAD_LEN).take(blocks + 1) {
        if *head & !FOLLOWS == from {
            *head = *head & FOLLOWS | to & !FOLLOWS;
        }
    }
}

/// Unwraps the RED packets of one track.
///
/// **[`unwrap`](Self::unwrap) each packet as it arrives**, and forward [`Unwrapped::recovered`]
/// ahead of [`Unwrapped::primary`]. A packet that was recovered may still arrive: it has the same
/// sequence number, and the caller drops it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwrapper {
    /// Sequence number and timestamp of the newest packet.
    newest: Option<(u16, u32)>,
}

/// What a RED packet holds for a receiver that does not know RED.
#[derive(Clone, Copy, Debug)]
pub struct Unwrapped<'a> {
    /// The packet's own payload; sequence number and timestamp are the packet's.
    pub primary: &'a [u8],
    /// Payload type of `primary`.
    pub payload_type: u8,
    /// Packets ahead of it that were lost, the oldest first.
    pub recovered: Recovered<'a>,
}

/// A packet that was lost, out of the redundancy of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredPacket<'a> {
    /// Its sequence number.
    pub sequence_number: u16,
    /// Its timestamp.
    pub timestamp: u32,
    /// Payload type of the payload.
    pub payload_type: u8,
    /// Its payload, which is not empty.
    pub payload: &'a [u8],
}

impl Unwrapper {
    /// Nothing has arrived yet.
    pub const fn new() -> Self {
        Self { newest: None }
    }

    /// Takes a packet apart; `None` if its payload is malformed.
    ///
    /// Lost are the sequence numbers between the newest packet so far and this one. Senders repeat
    /// the payloads of the packets just ahead, so the last block is taken to be the packet ahead of
    /// this one, the block before it the one ahead of that. Blocks that are not newer than the
    /// newest packet, or that are empty, stand for no lost packet.
    pub fn unwrap<'a>(
        &mut self,
        sequence_number: u16,
        timestamp: u32,
        payload: &'a [u8],
    ) -> Option<Unwrapped<'a>> {
        let red = Red::parse(payload)?;
        let mut recovered =
            Recovered { blocks: Redundant::NONE, sequence_number, timestamp, newest_timestamp: 0 };
        let ahead = self.newest.map_or(1, |(newest, _)| sequence_number.wrapping_sub(newest).cast_signed());
        // Ahead of a late one, and of the first of all, nothing is known to be lost.
        if ahead > 0
            && let Some((_, newest_timestamp)) = self.newest.replace((sequence_number, timestamp))
        {
            recovered.blocks = red.redundant.newest(usize::from(ahead as u16 - 1));
            recovered.sequence_number = sequence_number.wrapping_sub(recovered.blocks.len() as u16);
            recovered.newest_timestamp = newest_timestamp;
        }
        Some(Unwrapped { primary: red.primary, payload_type: red.payload_type, recovered })
    }
}

/// Iterator over the packets that were lost ahead of a RED packet and are in it, the oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Recovered<'a> {
    blocks: Redundant<'a>,
    /// Of the next block.
    sequence_number: u16,
    /// Of the RED packet.
    timestamp: u32,
    /// Of the newest packet ahead of the lost ones.
    newest_timestamp: u32,
}

impl<'a> Iterator for Recovered<'a> {
    type Item = RecoveredPacket<'a>;

    fn next(&mut self) -> Option<RecoveredPacket<'a>> {
        loop {
            let block = self.blocks.next()?;
            let sequence_number = self.sequence_number;
            self.sequence_number = sequence_number.wrapping_add(1);
            let timestamp = self.timestamp.wrapping_sub(block.timestamp_offset.into());
            let is_between =
                block.timestamp_offset > 0 && is_newer_timestamp(timestamp, self.newest_timestamp);
            if is_between && !block.payload.is_empty() {
                let Block { payload_type, payload, .. } = block;
                return Some(RecoveredPacket { sequence_number, timestamp, payload_type, payload });
            }
        }
    }
}

/// Head of an earlier payload.
struct Head {
    payload_type: u8,
    timestamp_offset: u16,
    len: usize,
}

impl Head {
    fn read(bytes: [u8; HEAD_LEN]) -> Self {
        let [first, a, b, c] = bytes;
        Self {
            payload_type: first & !FOLLOWS,
            timestamp_offset: u16::from(a) << 6 | u16::from(b) >> 2,
            len: usize::from(b & 3) << 8 | usize::from(c),
        }
    }
}

/// Another head follows (F).
const FOLLOWS: u8 = 0x80;
const HEAD_LEN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload of blocks: offset and payload of each earlier one, then the packet's own.
    fn red(blocks: &[(u16, &[u8])], primary: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for (offset, payload) in blocks {
            let head = 111u32 << 24 | u32::from(*offset) << 10 | payload.len() as u32;
            out.extend((head | 0x8000_0000).to_be_bytes());
        }
        out.push(111);
        out.extend(blocks.iter().flat_map(|(_, payload)| *payload));
        out.extend(primary);
        out
    }

    /// RFC 2198 section 4 has a packet of two blocks: 24 bytes of LPC (7) that are 20 ms old at 8
    /// kHz, behind them DVI4 (5). Here with three and two bytes.
    #[test]
    fn a_packet_has_the_blocks_that_its_heads_announce() {
        let payload = [0x80 | 7, 160 >> 6, (160 & 0x3f) << 2, 3, 5, 1, 2, 3, 8, 9];
        let packet = Red::parse(&payload).unwrap();
        assert_eq!((packet.payload_type, packet.primary), (5, &[8, 9][..]));
        let block = Block { payload_type: 7, timestamp_offset: 160, payload: &[1, 2, 3] };
        assert_eq!(packet.redundant().collect::<Vec<_>>(), [block]);
        for len in 0..9 {
            assert_eq!(Red::parse(&payload[..len]), None, "{len} bytes");
        }
        let longest = red(&[(16_383, &[7; 1023]), (0, &[])], &[1]);
        let lens: Vec<_> =
            Red::parse(&longest).unwrap().redundant().map(|block| block.payload.len()).collect();
        assert_eq!(lens, [1023, 0]);
        assert_eq!(Red::parse(&[111, 1]).unwrap().redundant().len(), 0, "no redundancy");
        assert!(Red::parse(&red(&[(960, &[][..]); 32], &[1])).is_some(), "32 blocks");
        assert_eq!(Red::parse(&red(&[(960, &[][..]); 33], &[1])), None, "33 blocks");
    }

    #[test]
    fn payload_types_are_replaced_in_the_heads_alone() {
        let mut payload = red(&[(960, &[111, 0xef]), (480, &[111])], &[111]);
        payload[4] = 0x80 | 13;
        let mut expected = payload.clone();
        (expected[0], expected[8]) = (0x80 | 96, 96);
        replace_payload_type(&mut payload, 111, 96);
        assert_eq!(payload, expected);
        let mut cut = payload[..9].to_vec();
        replace_payload_type(&mut cut, 96, 111);
        assert_eq!(cut, payload[..9], "malformed");
    }

    /// Sequence number, timestamp and payload of what is recovered.
    fn recovered(unwrapped: Unwrapped<'_>) -> Vec<(u16, u32, u8)> {
        unwrapped.recovered.map(|lost| (lost.sequence_number, lost.timestamp, lost.payload[0])).collect()
    }

    /// Unwraps a packet whose payload is `n`, behind those of packets that are so many ahead of it.
    fn unwrap(unwrapper: &mut Unwrapper, n: u8, distances: &[u8]) -> Vec<(u16, u32, u8)> {
        let earlier: Vec<[u8; 1]> = distances.iter().map(|back| [n.wrapping_sub(*back)]).collect();
        let blocks: Vec<(u16, &[u8])> = distances
            .iter()
            .zip(&earlier)
            .map(|(back, payload)| (960 * u16::from(*back), &payload[..]))
            .collect();
        let unwrapped = unwrapper.unwrap(number(n), time(n), &red(&blocks, &[n])).map(|unwrapped| {
            assert_eq!((unwrapped.primary, unwrapped.payload_type), (&[n][..], 111));
            recovered(unwrapped)
        });
        unwrapped.unwrap()
    }

    fn number(n: u8) -> u16 {
        65_530u16.wrapping_add(n.into())
    }

    fn time(n: u8) -> u32 {
        (960 * u32::from(n)).wrapping_sub(3 * 960)
    }

    #[test]
    fn lost_packets_are_recovered_from_the_next_one() {
        let lost = |all: &[u8]| all.iter().map(|n| (number(*n), time(*n), *n)).collect::<Vec<_>>();
        let mut unwrapper = Unwrapper::new();
        for (n, distances, expected, remark) in [
            (0, &[1][..], &[][..], "the first of all"),
            (1, &[1], &[], "nothing lost"),
            (3, &[1], &[2], "one lost"),
            (2, &[1], &[], "it arrives late"),
            (3, &[1], &[], "a duplicate"),
            (6, &[1], &[5], "two lost, one of them in the packet"),
            (9, &[2, 1], &[7, 8], "two lost, both in the packet; numbers and times have wrapped"),
            (11, &[3, 2, 1], &[10], "one lost, three in the packet"),
            (13, &[], &[], "one lost, none in the packet"),
            (15, &[2], &[], "one lost, and the one ahead of it is in the packet"),
            (16, &[1], &[], "nothing lost"),
        ] {
            assert_eq!(unwrap(&mut unwrapper, n, distances), lost(expected), "{remark}");
        }
    }

    #[test]
    fn blocks_that_are_empty_or_of_no_time_between_stand_for_nothing() {
        for (block, remark) in [
            ((960, &[][..]), "empty"),
            ((0, &[1][..]), "of the same time"),
            ((1920, &[1]), "of the packet before"),
        ] {
            let mut unwrapper = Unwrapper::new();
            unwrapper.unwrap(10, 5000, &red(&[], &[1])).unwrap();
            let payload = red(&[block], &[3]);
            assert_eq!(recovered(unwrapper.unwrap(12, 6920, &payload).unwrap()), [], "{remark}");
        }
        let mut unwrapper = Unwrapper::new();
        unwrapper.unwrap(10, 5000, &red(&[], &[1])).unwrap();
        assert!(unwrapper.unwrap(11, 5960, &[0xef, 0]).is_none());
        let payload = red(&[(960, &[2])], &[3]);
        assert_eq!(
            recovered(unwrapper.unwrap(12, 6920, &payload).unwrap()),
            [(11, 5960, 2)],
            "the malformed one"
        );
    }
}
