//! Coded frames split into packets: they are restored unchanged, from few packets, of equal size as
//! far as the format allows.

mod equal_sizes;
mod frames_come_back;
mod memory_is_used_again;

use proptest::collection::vec;
use proptest::prelude::*;
use rtp::packetize::{FrameWriter, PacketSlab, Sender};

/// Packets of one frame, as `write` cuts it.
pub(crate) fn packets(write: impl FnOnce(&mut FrameWriter<'_>)) -> PacketSlab {
    let mut slab = PacketSlab::default();
    let mut sender = Sender::new(1, 65_530);
    let mut writer = sender.frame(96, 90_000, &mut slab);
    write(&mut writer);
    let written = writer.end_frame(true);
    assert_eq!(written, slab.len());
    slab
}

/// Payloads of the packets, after a look at what every header must say.
pub(crate) fn payloads(slab: &PacketSlab) -> Vec<&[u8]> {
    let last = slab.len().saturating_sub(1);
    slab.iter()
        .enumerate()
        .map(|(index, (fields, payload))| {
            assert_eq!(fields.sequence_number, 65_530u16.wrapping_add(index as u16));
            assert_eq!((fields.timestamp, fields.ssrc, fields.payload_type), (90_000, 1, 96));
            assert_eq!(fields.marker, index == last, "the marker is on the last packet alone");
            payload
        })
        .collect()
}

/// Bytes that are no pattern.
pub(crate) fn noise(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| ((at + seed).wrapping_mul(0x9e37_79b1) >> 11) as u8).collect()
}

/// Limits of payloads, short ones included, which give many packets.
pub(crate) fn limits() -> impl Strategy<Value = usize> {
    prop_oneof![64..80usize, 64..300usize, 1_100..1_300usize]
}

/// Lengths of units: most short, some long.
pub(crate) fn lengths() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![3 => 2..40usize, 2 => 40..400usize, 1 => 400..6_000usize], 1..12)
}

/// NAL units of H.264, or of H.265, with headers of all kinds.
pub(crate) fn nal_units(lengths: &[usize], kinds: &[u8], is_h265: bool) -> Vec<Vec<u8>> {
    lengths
        .iter()
        .zip(kinds.iter().cycle())
        .enumerate()
        .map(|(index, (len, kind))| {
            let mut unit = noise((*len).max(3), index);
            if is_h265 {
                unit[..2].copy_from_slice(&[(kind % 48) << 1, 1 + kind % 7]);
            } else {
                unit[0] = (kind & 0x60) | (1 + kind % 23);
            }
            // A unit ends in its stop bit.
            *unit.last_mut().unwrap() |= 1;
            unit
        })
        .collect()
}

/// OBUs with sizes, as they are in files: some with extension.
pub(crate) fn obus(lengths: &[usize], kinds: &[u8]) -> Vec<u8> {
    let mut unit = Vec::new();
    for (index, (len, kind)) in lengths.iter().zip(kinds.iter().cycle()).enumerate() {
        // Sequence header, frame header, tile group, metadata, frame, redundant frame header.
        let kind = [1u8, 3, 4, 5, 6, 7][usize::from(*kind) % 6];
        let has_extension = len % 3 == 0;
        unit.push(kind << 3 | u8::from(has_extension) << 2 | 2);
        if has_extension {
            unit.push(0x28);
        }
        let mut rest = *len;
        while rest >= 0x80 {
            unit.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        unit.push(rest as u8);
        unit.extend(noise(*len, index));
    }
    unit
}
