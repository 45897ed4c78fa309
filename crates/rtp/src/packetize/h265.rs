//! H.265 access units to payloads (RFC 7798): single NAL units, aggregation packets, fragmentation units.
//!
//! ```text
//! NAL unit   |F| type (6) | layer (6) | temporal id + 1 (3) | ...
//! AP         | head of type 48 | size (16) | NAL unit | size (16) | NAL unit | ...
//! FU         | head of type 49 |S|E| type (6) | fragment
//! ```
//! Without decoding order numbers: `sprop-max-don-diff` is 0. Otherwise as `h264.rs`.

use super::{FrameWriter, UnitFormat};

/// Writes the NAL units of one access unit, without start codes or lengths ahead of them, in decoding order.
///
/// Units without a whole head, with a temporal id of 0 on the wire or of a type that is not a NAL
/// unit's own (48 to 63) are left out, and so are those with the forbidden bit.
pub fn packetize<'a>(
    units: impl Iterator<Item = &'a [u8]> + Clone,
    payload_bytes_max: usize,
    writer: &mut FrameWriter<'_>,
) {
    FORMAT.packetize(units, payload_bytes_max, writer);
}

const FORMAT: UnitFormat = UnitFormat { header_len: 2, aggregation, fragment, is_unit };

fn is_unit(unit: &[u8]) -> bool {
    unit.len() >= 2 && unit[0] >> 1 < AGGREGATION && unit[1] & 7 != 0
}

/// Layer and temporal id are the lowest of all units (section 4.4.2).
fn aggregation(units: &mut dyn Iterator<Item = &[u8]>, writer: &mut FrameWriter<'_>) {
    let (mut layer, mut temporal) = (0x3f, 7);
    for unit in units {
        layer = layer.min((unit[0] & 1) << 5 | unit[1] >> 3);
        temporal = temporal.min(unit[1] & 7);
    }
    writer.put(&[AGGREGATION << 1 | layer >> 5, layer << 3 | temporal]);
}

fn fragment(unit: &[u8], is_first: bool, is_last: bool, writer: &mut FrameWriter<'_>) {
    let fu = u8::from(is_first) << 7 | u8::from(is_last) << 6 | unit[0] >> 1;
    writer.put(&[unit[0] & 1 | FRAGMENTATION << 1, unit[1], fu]);
}

const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;

#[cfg(test)]
mod tests {
    use super::super::{PacketSlab, Sender};
    use super::*;

    fn payloads(units: &[&[u8]], payload_bytes_max: usize) -> Vec<Vec<u8>> {
        let mut slab = PacketSlab::default();
        let mut sender = Sender::new(1, 0);
        let mut writer = sender.frame(97, 0, &mut slab);
        packetize(units.iter().copied(), payload_bytes_max, &mut writer);
        writer.end_frame(true);
        slab.iter().map(|(_, payload)| payload.to_vec()).collect()
    }

    #[test]
    fn parameter_sets_share_a_packet_and_a_slice_is_cut_evenly() {
        let mut idr = vec![7; 302];
        idr[..2].copy_from_slice(&[0x26, 0x01]);
        let sent = payloads(&[&[0x40, 1, 9], &[0x42, 1, 8, 8], &[0x44, 1, 7], &idr], 103);
        assert_eq!(sent[0], [0x60, 1, 0, 3, 0x40, 1, 9, 0, 4, 0x42, 1, 8, 8, 0, 3, 0x44, 1, 7]);
        let lengths: Vec<_> = sent.iter().map(Vec::len).collect();
        assert_eq!(lengths[1..], [103, 103, 103]);
        assert_eq!(
            [&sent[1][..4], &sent[2][..4], &sent[3][..4]],
            [[0x62, 1, 0x93, 7], [0x62, 1, 0x13, 7], [0x62, 1, 0x53, 7]]
        );
    }

    #[test]
    fn an_aggregate_has_the_lowest_ids_of_its_units() {
        // Layer 33 and temporal id 2 beside layer 2 and temporal id 0.
        let sent = payloads(&[&[0x03, 0x0b, 1], &[0x02, 0x11, 1]], 100);
        assert_eq!(sent[0][..2], [0x60, 0x11]);
        let sent = payloads(&[&[0x03, 0x0b, 1], &[0x03, 0x0b, 1]], 100);
        assert_eq!(sent[0][..2], [0x61, 0x0b]);
    }

    #[test]
    fn what_is_no_unit_is_left_out() {
        for broken in [
            &[][..],
            &[0x26],
            &[0x26, 0x00, 1],
            &[0x60, 1, 0, 1],
            &[0x62, 1, 0x93],
            &[0x7e, 1],
            &[0xa6, 1, 0xaf],
        ] {
            assert_eq!(payloads(&[broken, &[0x26, 1, 0xaf], broken], 100), [[0x26, 1, 0xaf]], "{broken:x?}");
        }
    }
}
