//! Congestion control feedback (RFC 8888 section 3.1): per stream, when each packet arrived and how
//! it was marked.
//!
//! ```text
//! | sender SSRC | block of a stream ... | report timestamp (32) |
//! block   | SSRC | begin sequence (16) | reports (16) | report (16) ... | padding to whole words |
//! report  |R| ECN (2) | arrival time offset (13) |     R: received; offset before the timestamp, in 1/1024 s
//! ```
//! An offset of 0x1fff is one that is not known, 0x1ffe one that is too long.

use super::{CONGESTION, NtpMiddle, TRANSPORT_LAYER, begin, end, word};

/// A received feedback whose blocks were checked.
#[derive(Clone, Copy, Debug)]
pub struct CongestionFeedback<'a> {
    /// SSRC of the receiver of the packets.
    pub sender_ssrc: u32,
    /// When it was made, by the receiver's clock.
    pub report_time: NtpMiddle,
    blocks: &'a [u8],
}

/// What it says of one stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamArrivals<'a> {
    /// Of which stream.
    pub ssrc: u32,
    /// Sequence number of the first packet spoken of.
    pub begin: u16,
    reports: &'a [u8],
}

/// What it says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketArrival {
    /// Its RTP sequence number.
    pub sequence_number: u16,
    /// Whether it arrived.
    pub received: bool,
    /// How long before `report_time`, in 1/1024 s, `0..=8189`; `None`: did not arrive, is not
    /// known, or longer.
    pub offset: Option<u16>,
    /// The two bits of the IP header (RFC 3168 section 5): 3 is a mark.
    pub ecn: u8,
}

impl<'a> CongestionFeedback<'a> {
    /// Appends a feedback, of each stream its SSRC and packets whose sequence numbers follow each other.
    ///
    /// # Panics
    ///
    /// If a stream has more than 16,384 packets.
    pub fn write<'p>(
        out: &mut Vec<u8>,
        sender_ssrc: u32,
        report_time: NtpMiddle,
        streams: impl IntoIterator<Item = (u32, &'p [PacketArrival])>,
    ) {
        let start = begin(out, TRANSPORT_LAYER, CONGESTION);
        out.extend(sender_ssrc.to_be_bytes());
        for (ssrc, packets) in streams {
            assert!(packets.len() <= REPORTS_MAX, "more than a block holds");
            let first = packets.first().map_or(0, |packet| packet.sequence_number);
            out.extend(ssrc.to_be_bytes());
            out.extend(first.to_be_bytes());
            out.extend((packets.len() as u16).to_be_bytes());
            for packet in packets {
                let offset = packet.offset.map_or(OFFSET_UNKNOWN, |offset| offset.min(OFFSET_TOO_LONG));
                let report = 1 << 15 | u16::from(packet.ecn & 3) << 13 | offset;
                out.extend(if packet.received { report } else { 0 }.to_be_bytes());
            }
            if packets.len() % 2 == 1 {
                out.extend([0; 2]);
            }
        }
        out.extend(report_time.0.to_be_bytes());
        end(out, start);
    }

    pub(super) fn read(body: &'a [u8]) -> Option<Self> {
        let end = body.len().checked_sub(4)?;
        let feedback = Self {
            sender_ssrc: word(body, 0)?,
            report_time: NtpMiddle(word(body, end)?),
            blocks: body.get(4..end)?,
        };
        let mut rest = feedback.blocks;
        while !rest.is_empty() {
            rest = block(rest)?.1;
        }
        Some(feedback)
    }

    /// Each stream spoken of, at most one per eight bytes.
    pub fn streams(&self) -> impl Iterator<Item = StreamArrivals<'a>> + 'a {
        let mut rest = self.blocks;
        std::iter::from_fn(move || {
            let (stream, behind) = block(rest)?;
            rest = behind;
            Some(stream)
        })
    }
}

impl<'a> StreamArrivals<'a> {
    /// How many packets it speaks of.
    #[expect(clippy::len_without_is_empty, reason = "a count, and nothing that one would ask for emptiness")]
    pub fn len(&self) -> usize {
        self.reports.len() / 2
    }

    /// Each packet spoken of, in order.
    pub fn packets(&self) -> impl Iterator<Item = PacketArrival> + 'a {
        let begin = self.begin;
        self.reports.as_chunks().0.iter().zip(0..).map(move |(report, offset)| {
            let report = u16::from_be_bytes(*report);
            let received = report >> 15 != 0;
            PacketArrival {
                sequence_number: begin.wrapping_add(offset),
                received,
                offset: Some(report & 0x1fff).filter(|offset| received && *offset < OFFSET_TOO_LONG),
                ecn: if received { (report >> 13) as u8 & 3 } else { 0 },
            }
        })
    }
}

/// The first block, and what follows it.
fn block(bytes: &[u8]) -> Option<(StreamArrivals<'_>, &[u8])> {
    let (ssrc, counts) = (word(bytes, 0)?, word(bytes, 4)?);
    let count = usize::from(counts as u16);
    if count > REPORTS_MAX {
        return None;
    }
    let len = 2 * count;
    let reports = bytes.get(8..8 + len)?;
    let rest = bytes.get(8 + len.next_multiple_of(4)..)?;
    Some((StreamArrivals { ssrc, begin: (counts >> 16) as u16, reports }, rest))
}

const OFFSET_UNKNOWN: u16 = 0x1fff;
const OFFSET_TOO_LONG: u16 = 0x1ffe;
/// Packets of one block at most (RFC 8888 section 3.1).
const REPORTS_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{Rtcp, RtcpError, packets};

    fn packet(blocks: &[u8]) -> Vec<u8> {
        let body = [&[0, 0, 0, 7], blocks, &[0, 1, 0x80, 0]].concat();
        let words = (body.len() / 4) as u16;
        [&[0x8b, 205], &words.to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn packets_of_two_streams_are_read() {
        let blocks = [
            &[0, 0, 0, 1, 0xff, 0xff, 0, 3][..],
            &[0x80, 5, 0, 0, 0xff, 0xfe, 0, 0], // ECN 0, 5/1024 s; lost; marked and too long ago; padding
            &[0, 0, 0, 2, 0, 9, 0, 2],
            &[0xa0, 0, 0xdf, 0xff], // ECT(1), at once; ECT(0), not known
        ];
        let bytes = packet(&blocks.concat());
        let Some(Ok(Rtcp::CongestionFeedback(feedback))) = packets(&bytes).next() else {
            panic!("{bytes:x?}")
        };
        assert_eq!((feedback.sender_ssrc, feedback.report_time), (7, NtpMiddle(0x1_8000)));
        let read: Vec<_> = feedback
            .streams()
            .map(|stream| {
                let packets = stream.packets();
                let packets = packets
                    .map(|packet| (packet.sequence_number, packet.received, packet.offset, packet.ecn));
                (stream.ssrc, packets.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(
            read,
            [
                (1, vec![(0xffff, true, Some(5), 0), (0, false, None, 0), (1, true, None, 3)]),
                (2, vec![(9, true, Some(0), 1), (10, true, None, 2)]),
            ]
        );
    }

    #[test]
    fn what_is_written_is_read() {
        let packet =
            |sequence_number, received, offset, ecn| PacketArrival { sequence_number, received, offset, ecn };
        let one = [packet(65_535, true, Some(8189), 3), packet(0, false, None, 0), packet(1, true, None, 1)];
        let two = [packet(7, true, Some(0), 2)];
        let mut bytes = Vec::new();
        CongestionFeedback::write(&mut bytes, 5, NtpMiddle(9), [(1, &one[..]), (2, &two), (3, &[])]);
        let Some(Ok(Rtcp::CongestionFeedback(feedback))) = packets(&bytes).next() else {
            panic!("{bytes:x?}")
        };
        assert_eq!((feedback.sender_ssrc, feedback.report_time), (5, NtpMiddle(9)));
        let streams = feedback.streams().map(|stream| (stream.ssrc, stream.packets().collect::<Vec<_>>()));
        assert_eq!(streams.collect::<Vec<_>>(), [(1, one.to_vec()), (2, two.to_vec()), (3, vec![])]);
    }

    #[test]
    fn what_does_not_hold_all_it_announces_is_refused() {
        for (blocks, streams, remark) in [
            (&[][..], Some(0), "of no stream"),
            (&[0, 0, 0, 1, 0, 0, 0, 0], Some(1), "of no packet"),
            (&[0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0, 0, 0], Some(1), "of one packet, with padding"),
            (&[0, 0, 0, 1], None, "no numbers"),
            (&[0, 0, 0, 1, 0, 0, 0, 3, 0x80, 0, 0x80, 0], None, "a report is missing"),
            (&[0, 0, 0, 1, 0, 0, 0xff, 0xff, 0x80, 0, 0x80, 0], None, "most are missing"),
            (&[&[0, 0, 0, 1, 0, 0, 0x40, 0][..], &[0; 32_768]].concat(), Some(1), "as many as there may be"),
            (&[&[0, 0, 0, 1, 0, 0, 0x40, 1][..], &[0; 32_772]].concat(), None, "one more"),
        ] {
            let bytes = packet(blocks);
            let read = match packets(&bytes).next() {
                Some(Ok(Rtcp::CongestionFeedback(feedback))) => Some(feedback.streams().count()),
                Some(Err(RtcpError::BadBody)) => None,
                other => panic!("{other:?}"),
            };
            assert_eq!(read, streams, "{remark}");
        }
        assert!(packets(&[0x8b, 205, 0, 1, 0, 0, 0, 7]).next().unwrap().is_err(), "no timestamp");
    }
}
