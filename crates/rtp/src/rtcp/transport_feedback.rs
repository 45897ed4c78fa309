//! Transport-wide feedback (draft-holmer-rmcat-transport-wide-cc-extensions-01 section 3.1): when
//! each packet arrived.
//!
//! ```text
//! | sender SSRC | media SSRC | base sequence (16) | statuses (16) | reference time (24) | feedback count (8) |
//! | chunks (16 each) ... | receive deltas (8 or 16 each) ... |
//! chunk  |0| symbol (2) | run length (13) |      |1|0| 14 symbols of 1 bit |      |1|1| 7 symbols of 2 bits |
//! ```
//! Symbols: 0 not received, 1 received with a delta of 0..=255, 2 with one of 16 bits and sign.
//! Deltas count from the packet before, the first from the reference time, in units of 250 us.

use super::{TRANSPORT_LAYER, TRANSPORT_WIDE, begin, end, word};

/// Most packets one feedback that is written speaks of; a longer gap ahead of the first arrival is left out.
pub const FEEDBACK_STATUSES_MAX: usize = 1024;

/// A received feedback whose chunks and deltas were checked.
#[derive(Clone, Copy, Debug)]
pub struct TransportFeedback<'a> {
    /// SSRC of the receiver of the packets.
    pub sender_ssrc: u32,
    /// One of the streams they are of.
    pub media_ssrc: u32,
    /// Transport-wide number of the first packet spoken of.
    pub base: u16,
    /// How many packets it speaks of.
    pub statuses: u16,
    /// Counts the feedback packets; wraps.
    pub count: u8,
    /// In units of 250 us, a multiple of 256.
    reference_ticks: i64,
    chunks: &'a [u8],
    deltas: &'a [u8],
}

/// What a feedback says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStatus {
    /// Its transport-wide sequence number.
    pub sequence_number: u16,
    /// When it arrived, in units of 250 us of the receiver's clock, which wraps after 12 days;
    /// `None`: it did not.
    pub arrival_ticks: Option<i64>,
}

/// A packet that arrived, for a feedback to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its transport-wide sequence number, unwrapped.
    pub sequence_number: u64,
    /// When it arrived, in units of 250 us since a moment that stays the same.
    pub ticks: i64,
}

/// Head of a feedback to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackHead {
    /// Our SSRC.
    pub sender_ssrc: u32,
    /// One of the sender's streams.
    pub media_ssrc: u32,
    /// Number of this feedback; the next one has the next number.
    pub count: u8,
    /// First packet to speak of, arrived or not: the one behind the last that was spoken of.
    pub base: u64,
}

/// What of the arrivals went into a feedback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many of the arrivals.
    pub arrivals: usize,
    /// `base` of the next feedback.
    pub next_base: u64,
}

impl<'a> TransportFeedback<'a> {
    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let (counts, reference) = (word(body, 8)?, word(body, 12)?);
        let statuses = counts as u16;
        let mut rest = &body[16..];
        let (mut left, mut delta_bytes) = (usize::from(statuses), 0);
        while left > 0 {
            let (chunk, behind) = rest.split_first_chunk()?;
            let chunk = Chunk(u16::from_be_bytes(*chunk));
            let symbols = chunk.len().min(left);
            delta_bytes += chunk.delta_bytes(symbols)?;
            left -= symbols;
            rest = behind;
        }
        let chunks = &body[16..body.len() - rest.len()];
        Some(Self {
            sender_ssrc: word(body, 0)?,
            media_ssrc: word(body, 4)?,
            base: (counts >> 16) as u16,
            statuses,
            count: reference as u8,
            // Signed 24 bits in units of 64 ms.
            reference_ticks: i64::from(reference.cast_signed() >> 8) * TICKS_PER_REFERENCE,
            chunks,
            deltas: rest.get(..delta_bytes)?,
        })
    }

    /// Each packet spoken of, in order; `statuses` of them.
    pub fn packets(&self) -> impl Iterator<Item = PacketStatus> + 'a {
        let Self { base, statuses, mut reference_ticks, chunks, mut deltas, .. } = *self;
        let chunks = chunks.as_chunks().0.iter().map(|chunk| Chunk(u16::from_be_bytes(*chunk)));
        let symbols = chunks.flat_map(|chunk| (0..chunk.len()).map(move |at| chunk.symbol(at)));
        symbols.take(usize::from(statuses)).zip(0..).map(move |(symbol, offset)| {
            let delta = match symbol {
                SMALL => deltas.split_first_chunk().map(|([delta], rest)| (i64::from(*delta), rest)),
                LARGE => deltas
                    .split_first_chunk()
                    .map(|(delta, rest)| (i64::from(i16::from_be_bytes(*delta)), rest)),
                _ => None,
            };
            let arrival_ticks = delta.map(|(delta, rest)| {
                deltas = rest;
                reference_ticks += delta;
                reference_ticks
            });
            PacketStatus { sequence_number: base.wrapping_add(offset), arrival_ticks }
        })
    }

    /// Appends a feedback on as many of `arrivals` as it can hold, which are in rising order of
    /// their numbers, each once, none below `head.base`; nothing for none. **Call again with the
    /// rest and `next_base`.**
    ///
    /// It holds [`FEEDBACK_STATUSES_MAX`] packets, and no two arrivals in a row more than 8 s apart.
    pub fn write(out: &mut Vec<u8>, head: &FeedbackHead, arrivals: &[Arrival]) -> Written {
        let Some(first) = arrivals.first() else { return Written { arrivals: 0, next_base: head.base } };
        let gap = first.sequence_number.saturating_sub(head.base);
        let base = if gap < FEEDBACK_STATUSES_MAX as u64 { head.base } else { first.sequence_number };
        let reference = first.ticks.div_euclid(TICKS_PER_REFERENCE);

        let mut symbols = [NOT_RECEIVED; FEEDBACK_STATUSES_MAX];
        let (mut len, mut taken, mut ticks) = (0, 0, reference * TICKS_PER_REFERENCE);
        for arrival in arrivals {
            let at = arrival.sequence_number.wrapping_sub(base);
            let Ok(delta) = i16::try_from(arrival.ticks.wrapping_sub(ticks)) else { break };
            if at < len as u64 || at >= FEEDBACK_STATUSES_MAX as u64 {
                break;
            }
            symbols[at as usize] = if (0..=255).contains(&delta) { SMALL } else { LARGE };
            len = at as usize + 1;
            taken += 1;
            ticks = arrival.ticks;
        }
        if taken == 0 {
            // Below the base: out of order, and never to be spoken of.
            return Written { arrivals: 1, next_base: head.base };
        }

        let start = begin(out, TRANSPORT_LAYER, TRANSPORT_WIDE);
        out.extend(head.sender_ssrc.to_be_bytes());
        out.extend(head.media_ssrc.to_be_bytes());
        out.extend((base as u16).to_be_bytes());
        out.extend((len as u16).to_be_bytes());
        out.extend(((reference as u32) << 8 | u32::from(head.count)).to_be_bytes());
        write_chunks(out, &symbols[..len]);
        write_deltas(out, reference * TICKS_PER_REFERENCE, &arrivals[..taken]);
        end(out, start);
        Written { arrivals: taken, next_base: base + len as u64 }
    }
}

fn write_chunks(out: &mut Vec<u8>, mut symbols: &[u8]) {
    while let Some(first) = symbols.first() {
        let run = symbols.iter().take_while(|symbol| *symbol == first).count();
        let (narrow, wide) = (symbols.len().min(14), symbols.len().min(7));
        // A run as soon as it says as much as the chunk of single symbols would.
        let (chunk, len) = if run >= narrow {
            (u16::from(*first) << 13 | run as u16, run)
        } else if symbols[..narrow].iter().all(|symbol| *symbol <= SMALL) {
            (0x8000 | pack(&symbols[..narrow], 14, 1), narrow)
        } else if run > wide {
            (u16::from(*first) << 13 | run as u16, run)
        } else {
            (0xc000 | pack(&symbols[..wide], 7, 2), wide)
        };
        out.extend(chunk.to_be_bytes());
        symbols = &symbols[len..];
    }
}

/// Symbols from the top bit of 14 downwards; those that are missing are zero.
fn pack(symbols: &[u8], capacity: usize, bits: usize) -> u16 {
    let packed = symbols.iter().fold(0, |packed, symbol| packed << bits | u16::from(*symbol));
    packed << (bits * (capacity - symbols.len()))
}

fn write_deltas(out: &mut Vec<u8>, mut ticks: i64, arrivals: &[Arrival]) {
    for arrival in arrivals {
        let delta = arrival.ticks - ticks;
        match u8::try_from(delta) {
            Ok(small) => out.push(small),
            Err(_) => out.extend((delta as i16).to_be_bytes()),
        }
        ticks = arrival.ticks;
    }
}

/// A chunk of symbols.
#[derive(Clone, Copy)]
struct Chunk(u16);

impl Chunk {
    fn len(self) -> usize {
        match self.0 >> 14 {
            0 | 1 => usize::from(self.0 & 0x1fff),
            2 => 14,
            _ => 7,
        }
    }

    fn symbol(self, at: usize) -> u8 {
        (match self.0 >> 14 {
            0 | 1 => self.0 >> 13 & 3,
            2 => self.0 >> (13 - at) & 1,
            _ => self.0 >> (12 - 2 * at) & 3,
        }) as u8
    }

    /// Bytes of the deltas of its first `len` symbols; `None` if one of them is reserved.
    fn delta_bytes(self, len: usize) -> Option<usize> {
        let bytes = |symbol| (symbol != RESERVED).then_some(usize::from(symbol));
        if self.0 >> 15 == 0 {
            // A run of no packets would never end the walk.
            return if len == 0 { None } else { Some(len * bytes(self.symbol(0))?) };
        }
        (0..len).try_fold(0, |sum, at| Some(sum + bytes(self.symbol(at))?))
    }
}

const NOT_RECEIVED: u8 = 0;
/// Also the bytes of its delta, as is `LARGE`.
const SMALL: u8 = 1;
const LARGE: u8 = 2;
const RESERVED: u8 = 3;

/// 64 ms in units of 250 us.
const TICKS_PER_REFERENCE: i64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{Rtcp, RtcpError, packets};

    fn symbols(chunk: u16) -> Vec<u8> {
        let chunk = Chunk(chunk);
        (0..chunk.len()).map(|at| chunk.symbol(at)).collect()
    }

    /// The examples of the draft, sections 3.1.3 and 3.1.4.
    #[test]
    fn chunks_are_read_as_in_the_examples_of_the_draft() {
        assert_eq!(symbols(0b000_0000011011101), [NOT_RECEIVED; 221]);
        assert_eq!(symbols(0b011_0000000011000), [RESERVED; 24]);
        assert_eq!(symbols(0b10_01111100011100), [0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0]);
        assert_eq!(symbols(0b11_00110101010000), [0, 3, 1, 1, 1, 0, 0]);
    }

    fn read(compound: &[u8]) -> Result<(u16, Vec<PacketStatus>), RtcpError> {
        match packets(compound).next() {
            Some(Ok(Rtcp::TransportFeedback(feedback))) => Ok((feedback.base, feedback.packets().collect())),
            Some(Err(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// A packet Chromium sent, kept among the tests of pion/rtcp: one byte of padding, which RFC
    /// 3550 does not know.
    #[test]
    fn a_packet_of_chromium_is_read() {
        let bytes = [
            0xaf, 0xcd, 0, 5, 0xfa, 0x17, 0xfa, 0x17, 0x43, 3, 0x2f, 0xa0, 0, 0x99, 0, 1, 0x3d, 0xe8, 2,
            0x17, 0x20, 1, 0x94, 1,
        ];
        // 37 ms behind a reference time of 4057090 times 64 ms.
        let arrival_ticks = Some(4_057_090 * TICKS_PER_REFERENCE + 148);
        assert_eq!(read(&bytes), Ok((153, vec![PacketStatus { sequence_number: 153, arrival_ticks }])));
    }

    #[test]
    fn what_does_not_hold_all_it_announces_is_refused() {
        let packet = |statuses: u8, rest: &[u8]| {
            let mut bytes = vec![0x8f, 205, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
            bytes.extend([0, 7, 0, statuses, 0, 0, 1, 0]);
            bytes.extend(rest);
            bytes[3] = (bytes.len() / 4 - 1) as u8;
            bytes
        };
        for (statuses, rest, expected, remark) in [
            (0, &[][..], Some(0), "about nothing"),
            (1, &[], None, "no chunk"),
            (2, &[0x20, 2, 1, 2], Some(2), "two small deltas"),
            (3, &[0x20, 3, 1, 2], None, "a delta is missing"),
            (2, &[0x40, 2, 1, 2], None, "a large delta is missing"),
            (1, &[0x40, 1, 0xff, 0xff], Some(1), "a negative delta"),
            (1, &[0x60, 1, 1, 2], None, "a reserved symbol"),
            (1, &[0x20, 0, 1, 2], None, "a run of nothing"),
            (3, &[0x20, 5, 1, 2, 3, 0, 0, 0], Some(3), "a run longer than the packet speaks of"),
            (1, &[0xdf, 0xff, 1, 0], Some(1), "reserved symbols behind the last"),
            (2, &[0xdf, 0xff, 1, 0], None, "a reserved symbol in a vector"),
        ] {
            let read = read(&packet(statuses, rest)).ok().map(|(_, statuses)| statuses.len());
            assert_eq!(read, expected, "{remark}");
        }
    }

    #[test]
    fn arrivals_are_written_in_the_fewest_chunks() {
        let head = FeedbackHead { sender_ssrc: 1, media_ssrc: 2, count: 3, base: 0x1_fffe };
        let arrival = |offset: u64, ticks| Arrival { sequence_number: head.base + offset, ticks };
        for (arrivals, chunks, next, remark) in [
            (vec![arrival(0, 256)], vec![0x2001], 1, "one"),
            ((0..100).map(|at| arrival(at, 256)).collect(), vec![0x2064], 100, "a hundred in a row"),
            (vec![arrival(0, 256), arrival(2, 256)], vec![0xa800], 3, "one is missing"),
            (vec![arrival(50, 256)], vec![50, 0x2001], 51, "fifty are missing"),
            (vec![arrival(0, 256), arrival(1, 5000)], vec![0xd800], 2, "a long pause"),
            (vec![arrival(0, 256), arrival(1, 40_000)], vec![0x2001], 1, "a pause that does not fit"),
        ] {
            let mut out = Vec::new();
            let written = TransportFeedback::write(&mut out, &head, &arrivals);
            assert_eq!(written.next_base, head.base + next, "{remark}");
            let words = out[20..].chunks_exact(2).take(chunks.len());
            let words: Vec<u16> = words.map(|word| u16::from_be_bytes([word[0], word[1]])).collect();
            assert_eq!(words, chunks, "{remark}");
            let (base, statuses) = read(&out).unwrap();
            assert_eq!((base, statuses.len()), (0xfffe, next as usize), "{remark}");
        }
    }

    #[test]
    fn what_comes_below_the_base_is_skipped_and_long_gaps_are_left_out() {
        let head = FeedbackHead { sender_ssrc: 1, media_ssrc: 2, count: 3, base: 5000 };
        let mut out = Vec::new();
        let late = [Arrival { sequence_number: 4999, ticks: 0 }];
        let written = TransportFeedback::write(&mut out, &head, &late);
        assert_eq!((written, out.len()), (Written { arrivals: 1, next_base: 5000 }, 0));
        let far = [Arrival { sequence_number: 5000 + 1024, ticks: 0 }];
        let written = TransportFeedback::write(&mut out, &head, &far);
        assert_eq!(written, Written { arrivals: 1, next_base: 6025 });
        assert_eq!(read(&out).unwrap().0, 6024);
        assert_eq!(TransportFeedback::write(&mut out, &head, &[]), Written { arrivals: 0, next_base: 5000 });
    }
}
