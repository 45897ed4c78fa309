//! Sender report (RFC 3550 section 6.4.1): which wall clock time which RTP timestamp stands for.

use super::{REPORT_BLOCKS_MAX, ReportBlock, ReportBlocks, SENDER_REPORT, begin, end, word};
use crate::rtcp::NtpTime;

/// What a sender says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderInfo {
    /// Wall clock time of the report.
    pub ntp: NtpTime,
    /// The same time in units of the payload's clock, on the scale of the stream's timestamps.
    pub rtp_timestamp: u32,
    /// Packets sent since the beginning; wraps.
    pub packets: u32,
    /// Payload bytes sent since the beginning, without headers and padding; wraps.
    pub payload_bytes: u32,
}

/// A sender report.
#[derive(Clone, Copy, Debug)]
pub struct SenderReport<'a> {
    /// SSRC of its sender, and of the stream it describes.
    pub ssrc: u32,
    /// Information about its own stream.
    pub info: SenderInfo,
    /// What it received of others.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> SenderReport<'a> {
    pub(super) fn read(count: u8, body: &'a [u8]) -> Option<Self> {
        let (high, low) = (word(body, 4)?, word(body, 8)?);
        let info = SenderInfo {
            ntp: NtpTime(u64::from(high) << 32 | u64::from(low)),
            rtp_timestamp: word(body, 12)?,
            packets: word(body, 16)?,
            payload_bytes: word(body, 20)?,
        };
        Some(Self { ssrc: word(body, 0)?, info, blocks: ReportBlocks::read(count, &body[24..])? })
    }

    /// Appends a report with at most [`REPORT_BLOCKS_MAX`] of the blocks.
    pub fn write(out: &mut Vec<u8>, ssrc: u32, info: &SenderInfo, blocks: &[ReportBlock]) {
        let start = begin(out, SENDER_REPORT, blocks.len().min(REPORT_BLOCKS_MAX) as u8);
        out.extend(ssrc.to_be_bytes());
        out.extend(info.ntp.0.to_be_bytes());
        for word in [info.rtp_timestamp, info.packets, info.payload_bytes] {
            out.extend(word.to_be_bytes());
        }
        ReportBlocks::write(blocks, out);
        end(out, start);
    }
}
