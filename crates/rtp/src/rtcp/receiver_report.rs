//! Receiver report (RFC 3550 section 6.4.2): report blocks of a receiver that sends no media.

use super::{RECEIVER_REPORT, REPORT_BLOCKS_MAX, ReportBlock, ReportBlocks, begin, end, word};

/// A receiver report.
#[derive(Clone, Copy, Debug)]
pub struct ReceiverReport<'a> {
    /// SSRC of its sender.
    pub ssrc: u32,
    /// What it received.
    pub blocks: ReportBlocks<'a>,
}

impl<'a> ReceiverReport<'a> {
    pub(super) fn read(count: u8, body: &'a [u8]) -> Option<Self> {
        Some(Self { ssrc: word(body, 0)?, blocks: ReportBlocks::read(count, &body[4..])? })
    }

    /// Appends a report with at most [`REPORT_BLOCKS_MAX`] of the blocks.
    pub fn write(out: &mut Vec<u8>, ssrc: u32, blocks: &[ReportBlock]) {
        let start = begin(out, RECEIVER_REPORT, blocks.len().min(REPORT_BLOCKS_MAX) as u8);
        out.extend(ssrc.to_be_bytes());
        ReportBlocks::write(blocks, out);
        end(out, start);
    }
}
