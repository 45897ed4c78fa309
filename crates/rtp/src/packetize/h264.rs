//! H.264 access units to payloads (RFC 6184): single NAL units, STAP-A, FU-A; packetization mode 1.
//!
//! ```text
//! NAL unit   |F|NRI|  type   | ...
//! STAP-A     |F|NRI|   24    | size (16) | NAL unit | size (16) | NAL unit | ...
//! FU-A       |F|NRI|   28    |S|E|R|  type   | fragment
//! ```
//! Parameter sets and SEI, which are short, share a packet (section 5.7.1); slices are split into
//! equal fragments (section 5.8). Units are sent unchanged: the caller leaves out what receivers do
//! not need (delimiters, filler).

use super::{FrameWriter, UnitFormat};

/// Writes the NAL units of one access unit, without start codes or lengths ahead of them, in decoding order.
///
/// Units that are empty or of a type that is not a NAL unit's own (0, 24 to 31) are left out: a
/// receiver would take them for packets of this format. So are those with the forbidden bit: they
/// say that they are damaged.
pub fn packetize<'a>(
    units: impl Iterator<Item = &'a [u8]> + Clone,
    payload_bytes_max: usize,
    writer: &mut FrameWriter<'_>,
) {
    FORMAT.packetize(units, payload_bytes_max, writer);
}

const FORMAT: UnitFormat = UnitFormat { header_len: 1, aggregation, fragment, is_unit };

fn is_unit(unit: &[u8]) -> bool {
    // A unit has a body, of whose bytes the last is not 0; end of sequence and of stream have none.
    unit.first().is_some_and(|header| header & 0x80 == 0 && (1..=23).contains(&(header & 0x1f)))
}

/// NRI is the highest of all units (section 5.7).
fn aggregation(units: &mut dyn Iterator<Item = &[u8]>, writer: &mut FrameWriter<'_>) {
    let reference = units.map(|unit| unit[0] & 0x60).max().unwrap_or(0);
    writer.put(&[reference | STAP_A]);
}

fn fragment(unit: &[u8], is_first: bool, is_last: bool, writer: &mut FrameWriter<'_>) {
    let fu = u8::from(is_first) << 7 | u8::from(is_last) << 6 | unit[0] & 0x1f;
    writer.put(&[unit[0] & 0x60 | FU_A, fu]);
}

const STAP_A: u8 = 24;
const FU_A: u8 = 28;

#[cfg(test)]
mod tests {
    use super::super::{PacketSlab, Sender};
    use super::*;

    fn payloads(units: &[&[u8]], payload_bytes_max: usize) -> Vec<Vec<u8>> {
        let mut slab = PacketSlab::default();
        let mut sender = Sender::new(1, 0);
        let mut writer = sender.frame(96, 0, &mut slab);
        packetize(units.iter().copied(), payload_bytes_max, &mut writer);
        writer.end_frame(true);
        slab.iter().map(|(_, payload)| payload.to_vec()).collect()
    }

    fn unit(header: u8, len: usize) -> Vec<u8> {
        let mut unit: Vec<u8> = (0..len).map(|at| at as u8 | 1).collect();
        unit[0] = header;
        unit
    }

    #[test]
    fn short_units_share_a_packet_and_long_ones_are_cut_evenly() {
        let (sps, pps, idr) = (unit(0x67, 20), unit(0x68, 4), unit(0x65, 250));
        let sent = payloads(&[&sps, &pps, &idr], 100);
        let lengths: Vec<_> = sent.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1 + 2 + 20 + 2 + 4, 85, 85, 85], "249 bytes in three fragments of 83");
        assert_eq!(sent[0][..3], [0x78, 0, 20]);
        assert_eq!([sent[1][0], sent[1][1], sent[1][2]], [0x7c, 0x85, idr[1]]);
        assert_eq!([sent[2][0], sent[2][1], sent[3][1]], [0x7c, 0x05, 0x45]);
    }

    #[test]
    fn a_unit_alone_is_sent_as_it_is() {
        for len in 1..=100 {
            let slice = unit(0x41, len);
            assert_eq!(payloads(&[&slice], 100), [slice]);
        }
        assert_eq!(payloads(&[&unit(0x41, 101)], 100).len(), 2);
        // It just fits, and another one with it does not.
        let (first, second) = (unit(0x06, 60), unit(0x01, 36));
        assert_eq!(payloads(&[&first, &second], 100), [first, second]);
        assert_eq!(payloads(&[&unit(0x06, 59), &unit(0x01, 36)], 100).len(), 1);
    }

    #[test]
    fn what_is_no_unit_is_left_out() {
        for broken in [&[][..], &[0x60, 1], &[0x78, 0, 1, 0x67], &[0x7c, 0x85, 1], &[0x1f], &[0xe5, 0x88]] {
            assert_eq!(payloads(&[broken], 100), [] as [Vec<u8>; 0], "{broken:x?}");
            assert_eq!(payloads(&[broken, &[0x65, 0x88], broken], 100), [[0x65, 0x88]], "{broken:x?}");
        }
    }

    #[test]
    fn an_aggregate_is_as_important_as_its_most_important_unit() {
        assert_eq!(payloads(&[&[0x06, 1], &[0x68, 2], &[0x27, 3]], 100)[0][0], 0x78);
        assert_eq!(payloads(&[&[0x06, 1], &[0x01, 2]], 100)[0][0], 0x18);
    }
}
