//! RTCP (RFC 3550 section 6, RFC 4585): walking through compound packets, and appending packets to a buffer.
//!
//! ```text
//! |V=2|P| count or format |  packet type  |  length in words - 1  |  body ...
//! ```
//! One file per packet type. A well-framed packet with a broken body is an error of its own; the
//! iteration continues after it. Reduced-size RTCP is accepted (RFC 5506): the first packet need
//! not be a report.

mod bye;
mod congestion_feedback;
mod fir;
mod nack;
mod ntp;
mod pli;
mod receiver_report;
mod remb;
mod report_block;
mod sender_report;
mod source_description;
mod transport_feedback;

use std::error::Error;
use std::fmt;
use std::iter::FusedIterator;

pub use bye::Bye;
pub use congestion_feedback::{CongestionFeedback, PacketArrival, StreamArrivals};
pub use fir::{Fir, FirEntry};
pub use nack::{NACK_ENTRIES_MAX, Nack};
pub use ntp::{NtpMiddle, NtpTime};
pub use pli::Pli;
pub use receiver_report::ReceiverReport;
pub use remb::Remb;
pub use report_block::{REPORT_BLOCKS_MAX, ReportBlock, ReportBlocks};
pub use sender_report::{SenderInfo, SenderReport};
pub use source_description::{SdesItem, SourceDescription};
pub use transport_feedback::{
    Arrival, FEEDBACK_STATUSES_MAX, FeedbackHead, PacketStatus, TransportFeedback, Written,
};

/// One RTCP packet of a compound.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Rtcp<'a> {
    /// Sender report (RFC 3550 section 6.4.1).
    SenderReport(SenderReport<'a>),
    /// Receiver report (RFC 3550 section 6.4.2).
    ReceiverReport(ReceiverReport<'a>),
    /// Source description (RFC 3550 section 6.5).
    SourceDescription(SourceDescription<'a>),
    /// Goodbye (RFC 3550 section 6.6).
    Bye(Bye<'a>),
    /// Generic NACK (RFC 4585 section 6.2.1).
    Nack(Nack<'a>),
    /// Transport-wide congestion control feedback.
    TransportFeedback(TransportFeedback<'a>),
    /// Congestion control feedback (RFC 8888).
    CongestionFeedback(CongestionFeedback<'a>),
    /// Picture loss indication (RFC 4585 section 6.3.1).
    Pli(Pli),
    /// Full intra request (RFC 5104 section 4.3.1).
    Fir(Fir<'a>),
    /// Receiver estimated maximum bitrate.
    Remb(Remb<'a>),
    /// Another type, or another format of a feedback type.
    Other {
        /// Packet type.
        packet_type: u8,
        /// Count or feedback format, `0..=31`.
        format: u8,
        /// What follows the four-byte head, without padding.
        body: &'a [u8],
    },
}

/// Why bytes are not RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtcpError {
    /// Too few bytes for a head.
    TooShort,
    /// Not version 2.
    BadVersion,
    /// The length reaches behind the end.
    BadLength,
    /// Padding of zero bytes, or more than there is.
    BadPadding,
    /// The body does not hold what the packet type says.
    BadBody,
}

impl fmt::Display for RtcpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooShort => "shorter than an RTCP header",
            Self::BadVersion => "not RTCP version 2",
            Self::BadLength => "the RTCP length reaches behind the end",
            Self::BadPadding => "the RTCP padding does not fit",
            Self::BadBody => "the RTCP body does not fit its type",
        })
    }
}

impl Error for RtcpError {}

/// The packets of a compound packet, decrypted and authenticated by others.
///
/// At most one per four bytes. A framing error is the last item, because nothing after it can be
/// located.
pub fn packets(compound: &[u8]) -> Packets<'_> {
    Packets { rest: compound }
}

/// Iterator over the packets of a compound.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<Rtcp<'a>, RtcpError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let framed = frame(self.rest);
        self.rest = framed.as_ref().map_or(&[], |frame| frame.rest);
        Some(framed.and_then(|frame| frame.read()))
    }
}

impl FusedIterator for Packets<'_> {}

/// One packet cut out of a compound.
struct Frame<'a> {
    format: u8,
    packet_type: u8,
    body: &'a [u8],
    rest: &'a [u8],
}

fn frame(bytes: &[u8]) -> Result<Frame<'_>, RtcpError> {
    let head: &[u8; HEAD_LEN] = bytes.first_chunk().ok_or(RtcpError::TooShort)?;
    if head[0] >> 6 != 2 {
        return Err(RtcpError::BadVersion);
    }
    let len = 4 * (1 + usize::from(u16::from_be_bytes([head[2], head[3]])));
    let (packet, rest) = bytes.split_at_checked(len).ok_or(RtcpError::BadLength)?;
    let mut body = &packet[HEAD_LEN..];
    if head[0] & 0x20 != 0 {
        let padding = usize::from(*body.last().ok_or(RtcpError::BadPadding)?);
        // RFC 3550 wants whole words of it; Chromium pads transport-wide feedback by 1 to 3 bytes
        // and says so here.
        if padding == 0 || padding > body.len() {
            return Err(RtcpError::BadPadding);
        }
        body = &body[..body.len() - padding];
    }
    Ok(Frame { format: head[0] & 0x1f, packet_type: head[1], body, rest })
}

impl<'a> Frame<'a> {
    fn read(&self) -> Result<Rtcp<'a>, RtcpError> {
        let (format, body) = (self.format, self.body);
        let read = match (self.packet_type, format) {
            (SENDER_REPORT, _) => SenderReport::read(format, body).map(Rtcp::SenderReport),
            (RECEIVER_REPORT, _) => ReceiverReport::read(format, body).map(Rtcp::ReceiverReport),
            (SOURCE_DESCRIPTION, _) => SourceDescription::read(format, body).map(Rtcp::SourceDescription),
            (BYE, _) => Bye::read(format, body).map(Rtcp::Bye),
            (TRANSPORT_LAYER, GENERIC_NACK) => Nack::read(body).map(Rtcp::Nack),
            (TRANSPORT_LAYER, TRANSPORT_WIDE) => TransportFeedback::read(body).map(Rtcp::TransportFeedback),
            (TRANSPORT_LAYER, CONGESTION) => CongestionFeedback::read(body).map(Rtcp::CongestionFeedback),
            (PAYLOAD_SPECIFIC, PICTURE_LOSS) => Pli::read(body).map(Rtcp::Pli),
            (PAYLOAD_SPECIFIC, FULL_INTRA) => Fir::read(body).map(Rtcp::Fir),
            (PAYLOAD_SPECIFIC, APPLICATION) if remb::is_remb(body) => Remb::read(body).map(Rtcp::Remb),
            (packet_type, _) => Some(Rtcp::Other { packet_type, format, body }),
        };
        read.ok_or(RtcpError::BadBody)
    }
}

/// Appends a head whose length [`end`] fills in; returns where it is.
fn begin(out: &mut Vec<u8>, packet_type: u8, format: u8) -> usize {
    out.extend([0x80 | format & 0x1f, packet_type, 0, 0]);
    out.len() - HEAD_LEN
}

/// Ends the packet begun at `start`, padding its body with zeros to whole words.
fn end(out: &mut Vec<u8>, start: usize) {
    let words = (out.len() - start).div_ceil(4);
    out.resize(start + 4 * words, 0);
    out[start + 2..start + 4].copy_from_slice(&((words - 1) as u16).to_be_bytes());
}

/// Big-endian word at `at` of a body.
fn word(body: &[u8], at: usize) -> Option<u32> {
    body.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

const HEAD_LEN: usize = 4;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const BYE: u8 = 203;
const TRANSPORT_LAYER: u8 = 205;
const PAYLOAD_SPECIFIC: u8 = 206;

const GENERIC_NACK: u8 = 1;
const CONGESTION: u8 = 11;
const TRANSPORT_WIDE: u8 = 15;
const PICTURE_LOSS: u8 = 1;
const FULL_INTRA: u8 = 4;
const APPLICATION: u8 = 15;

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, format and body.
    type Found = (u8, u8, Vec<u8>);

    fn walk(bytes: &[u8]) -> Vec<Result<Found, RtcpError>> {
        packets(bytes)
            .map(|packet| {
                packet.map(|packet| match packet {
                    Rtcp::Other { packet_type, format, body } => (packet_type, format, body.to_vec()),
                    known => panic!("{known:?}"),
                })
            })
            .collect()
    }

    #[test]
    fn a_compound_is_cut_where_its_lengths_say() {
        let compound =
            [0x83, 220, 0, 0, 0x80, 221, 0, 1, 1, 2, 3, 4, 0xa0, 250, 0, 2, 5, 6, 7, 8, 0, 0, 0, 4];
        assert_eq!(
            walk(&compound),
            [Ok((220, 3, vec![])), Ok((221, 0, vec![1, 2, 3, 4])), Ok((250, 0, vec![5, 6, 7, 8]))]
        );
        assert_eq!(walk(&[]), []);
    }

    #[test]
    fn broken_framing_is_the_last_item() {
        for (bytes, error) in [
            (&[0x80, 220, 0][..], RtcpError::TooShort),
            (&[0x40, 220, 0, 0, 0x80, 220, 0, 0], RtcpError::BadVersion),
            (&[0x80, 220, 0, 1, 1, 2, 3], RtcpError::BadLength),
            (&[0x80, 220, 0xff, 0xff, 1, 2, 3, 4], RtcpError::BadLength),
            (&[0xa0, 220, 0, 0], RtcpError::BadPadding),
            (&[0xa0, 220, 0, 1, 0, 0, 0, 0], RtcpError::BadPadding),
            (&[0xa0, 220, 0, 1, 0, 0, 0, 5], RtcpError::BadPadding),
            (&[0xa0, 220, 0, 1, 0, 0, 0, 8], RtcpError::BadPadding),
        ] {
            assert_eq!(walk(bytes), [Err(error)], "{bytes:x?}");
        }
    }

    #[test]
    fn a_broken_body_does_not_hide_what_follows() {
        // A sender report without sender information, then a type that is not known.
        assert_eq!(
            walk(&[0x80, 200, 0, 1, 0, 0, 0, 1, 0x80, 220, 0, 0]),
            [Err(RtcpError::BadBody), Ok((220, 0, vec![]))]
        );
    }
}
