//! Report block (RFC 3550 section 6.4.1): what a receiver says of one SSRC, in sender and receiver reports.

use super::NtpMiddle;

/// Most blocks of one report: its count has five bits.
pub const REPORT_BLOCKS_MAX: usize = 31;

/// What was received of one SSRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportBlock {
    /// Whose packets.
    pub ssrc: u32,
    /// Share lost since the last report, in units of 1/256.
    pub fraction_lost: u8,
    /// Lost since the beginning; negative if more were duplicated. 24 bits with sign, capped when written.
    pub cumulative_lost: i32,
    /// Highest sequence number received; the upper 16 bits count its cycles.
    pub highest_sequence_number: u32,
    /// Interarrival jitter in units of the payload's clock.
    pub jitter_rtp_units: u32,
    /// Middle of the NTP time of the last sender report; 0 if there was none.
    pub last_report: NtpMiddle,
    /// Time since that report arrived.
    pub delay_since_last_report: NtpMiddle,
}

impl ReportBlock {
    fn read(bytes: &[u8; BLOCK_LEN]) -> Self {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            ssrc: word(0),
            fraction_lost: bytes[4],
            // Shifted up and down again to extend the sign.
            cumulative_lost: (word(4) << 8).cast_signed() >> 8,
            highest_sequence_number: word(8),
            jitter_rtp_units: word(12),
            last_report: NtpMiddle(word(16)),
            delay_since_last_report: NtpMiddle(word(20)),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let lost = self.cumulative_lost.clamp(-(1 << 23), (1 << 23) - 1).cast_unsigned() & 0x00ff_ffff;
        for word in [
            self.ssrc,
            u32::from(self.fraction_lost) << 24 | lost,
            self.highest_sequence_number,
            self.jitter_rtp_units,
            self.last_report.0,
            self.delay_since_last_report.0,
        ] {
            out.extend(word.to_be_bytes());
        }
    }
}

/// The report blocks of a received report.
#[derive(Clone, Copy, Debug)]
pub struct ReportBlocks<'a>(&'a [u8]);

impl<'a> ReportBlocks<'a> {
    /// The first `count` blocks of `body`; `None` if there are fewer.
    pub(super) fn read(count: u8, body: &'a [u8]) -> Option<Self> {
        body.get(..BLOCK_LEN * usize::from(count)).map(Self)
    }

    /// Appends at most [`REPORT_BLOCKS_MAX`] blocks.
    pub(super) fn write(blocks: &[ReportBlock], out: &mut Vec<u8>) {
        blocks.iter().take(REPORT_BLOCKS_MAX).for_each(|block| block.write(out));
    }

    /// Each block.
    pub fn iter(&self) -> impl Iterator<Item = ReportBlock> + 'a {
        self.0.as_chunks().0.iter().map(ReportBlock::read)
    }

    /// How many there are, `0..=31`.
    pub fn len(&self) -> usize {
        self.0.len() / BLOCK_LEN
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

const BLOCK_LEN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_keep_their_sign_and_are_capped_at_24_bits() {
        for (lost, expected) in [
            (0, 0),
            (-1, -1),
            (0x7f_ffff, 0x7f_ffff),
            (0x80_0000, 0x7f_ffff),
            (-0x80_0000, -0x80_0000),
            (i32::MIN, -0x80_0000),
            (i32::MAX, 0x7f_ffff),
        ] {
            let block = ReportBlock { cumulative_lost: lost, fraction_lost: 0xff, ..ReportBlock::default() };
            let mut out = Vec::new();
            block.write(&mut out);
            let read = ReportBlock::read(out.first_chunk().unwrap());
            assert_eq!(read, ReportBlock { cumulative_lost: expected, ..block });
        }
    }
}
