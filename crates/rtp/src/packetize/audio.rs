//! Audio to payloads: Opus (RFC 7587), one packet each, and G.711 (RFC 3551 section 4.5.14), any
//! number of samples.

use super::{FrameWriter, limited, piece_len};

/// Writes one audio packet, which cannot be split; `false`, and nothing written, if it is empty or
/// longer than the limit.
pub fn whole(packet: &[u8], payload_bytes_max: usize, writer: &mut FrameWriter<'_>) -> bool {
    let fits = !packet.is_empty() && packet.len() <= limited(payload_bytes_max);
    if fits {
        writer.begin();
        writer.put(packet);
    }
    fits
}

/// The frames, in order, in which samples of G.711 are sent: each at most 20 ms, all of one length
/// but the last, each with its own timestamp.
pub fn g711_pieces(samples: &[u8]) -> impl Iterator<Item = &[u8]> {
    samples.chunks(piece_len(samples.len(), G711_SAMPLES_MAX))
}

/// 20 ms at 8 kHz, one byte each: the packet time of RFC 3551 table 1, which every receiver
/// supports.
const G711_SAMPLES_MAX: usize = 160;
