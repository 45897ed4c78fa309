//! What H.264 and H.265 payloads have in common: NAL units go alone, together with their
//! neighbours, or in fragments.
//!
//! A fragment holds a piece of one unit, so each slice that is split is a run of equal packets, and
//! parameter sets ahead of a key frame are another. x264 at 600 kbit/s and 30 frames a second is
//! sent in 1.02 runs a frame with one slice and in 2.02 with two (`-tune zerolatency -threads 2`).
//! Filling up the packet of the parameter sets with SEI filler would join it to the run of the key
//! frame, for a kilobyte more to each viewer: one run in 60 frames is cheaper.

use super::{FrameWriter, limited, piece_len};

/// How a format writes units.
pub(super) struct Format {
    /// Bytes of a NAL unit's header; those of an aggregation packet's payload header are as many.
    pub(super) header_len: usize,
    /// Writes the payload header of an aggregation packet that holds these units.
    pub(super) aggregation: fn(&mut dyn Iterator<Item = &[u8]>, &mut FrameWriter<'_>),
    /// Writes the payload header of a fragment of a unit; whether it is the first, and whether the last.
    pub(super) fragment: fn(&[u8], bool, bool, &mut FrameWriter<'_>),
    /// Whether a unit can be sent at all.
    pub(super) is_unit: fn(&[u8]) -> bool,
}

impl Format {
    /// Writes all units, in order.
    ///
    /// Consecutive units share a packet as far as they fit, which gives the fewest packets
    /// possible; a unit that is too long is split into equal fragments.
    pub(super) fn packetize<'a>(
        &self,
        units: impl Iterator<Item = &'a [u8]> + Clone,
        payload_bytes_max: usize,
        writer: &mut FrameWriter<'_>,
    ) {
        let limit = limited(payload_bytes_max);
        let mut units = units.filter(|unit| (self.is_unit)(unit));
        while let Some(unit) = units.clone().next() {
            let together = self.fitting(units.clone(), limit);
            match together {
                0 => self.fragments(unit, limit, writer),
                1 => {
                    writer.begin();
                    writer.put(unit);
                }
                _ => self.aggregate(units.clone().take(together), writer),
            }
            units.by_ref().take(together.max(1)).for_each(drop);
        }
    }

    /// How many of the next units go into one packet: 0 if not even the first does.
    fn fitting<'a>(&self, units: impl Iterator<Item = &'a [u8]>, limit: usize) -> usize {
        let mut together = self.header_len;
        let mut count = 0;
        for unit in units {
            together += SIZE_LEN + unit.len();
            // One alone needs neither the header nor its size.
            if together > limit && (count > 0 || unit.len() > limit) {
                break;
            }
            count += 1;
        }
        count
    }

    fn aggregate<'a>(&self, units: impl Iterator<Item = &'a [u8]> + Clone, writer: &mut FrameWriter<'_>) {
        writer.begin();
        (self.aggregation)(&mut units.clone(), writer);
        for unit in units {
            // Fits: a payload is shorter than 2^16 bytes.
            writer.put(&(unit.len() as u16).to_be_bytes());
            writer.put(unit);
        }
    }

    fn fragments(&self, unit: &[u8], limit: usize, writer: &mut FrameWriter<'_>) {
        // The unit's header travels in the fragment's, which is one byte longer.
        let body = &unit[self.header_len..];
        let mut rest = body;
        let len = piece_len(body.len(), limit - self.header_len - 1);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(len.min(rest.len()));
            writer.begin();
            (self.fragment)(unit, rest.len() == body.len(), behind.is_empty(), writer);
            writer.put(piece);
            rest = behind;
        }
    }
}

/// Bytes of a unit's size in an aggregation packet.
const SIZE_LEN: usize = 2;
