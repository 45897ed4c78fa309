//! Congestion control feedback (RFC 8888 section 3.1): per stream, when each packet arrived and how
//! it was marked.
//!
//! ```text
//! | sender SSRC | block of a stream ... | report timestamp (32) |
//! block   | SSRC | begin sequence (16) | reports (16) | report (16) ... | padding to whole words |
//! report  |R| ECN (2) | arrival time offset (13) |     R: received; offset before the timestamp, in 1/1024 s
//! ```
//! An offset of 0x1fff is one that is not known, 0x1ffe one that is too long.

use super::{NtpMiddle, word};

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
    let len = 2 * usize::from(counts as u16);
    let reports = bytes.get(8..8 + len)?;
    let rest = bytes.get(8 + len.next_multiple_of(4)..)?;
    Some((StreamArrivals { ssrc, begin: (counts >> 16) as u16, reports }, rest))
}

const OFFSET_TOO_LONG: u16 = 0x1ffe;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtcp::{Rtcp, RtcpError, packets};

    fn packet(blocks: &[u8]) -> Vec<u8> {
        let body = [&[0, 0, 0, 7], blocks, &[0, 1, 0x80, 0]].concat();
        let words = (body.len() / 4) as u8;
        [&[0x8b, 205, 0, words], &body[..]].concat()
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
    fn what_does_not_hold_all_it_announces_is_refused() {
        for (blocks, streams, remark) in [
            (&[][..], Some(0), "of no stream"),
            (&[0, 0, 0, 1, 0, 0, 0, 0], Some(1), "of no packet"),
            (&[0, 0, 0, 1, 0, 0, 0, 1, 0x80, 0, 0, 0], Some(1), "of one packet, with padding"),
            (&[0, 0, 0, 1], None, "no numbers"),
            (&[0, 0, 0, 1, 0, 0, 0, 3, 0x80, 0, 0x80, 0], None, "a report is missing"),
            (&[0, 0, 0, 1, 0, 0, 0xff, 0xff, 0x80, 0, 0x80, 0], None, "most are missing"),
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
