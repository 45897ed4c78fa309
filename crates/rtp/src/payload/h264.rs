//! H.264 payloads (RFC 6184): single NAL units, STAP-A and FU-A, the ones packetization modes 0 and 1 have.
//!
//! ```text
//! NAL unit   |F|NRI|  type   | ...             type 1..=23 itself, 24 STAP-A, 28 FU-A
//! STAP-A     |24| size (16) | NAL unit | size (16) | NAL unit | ...
//! FU-A       |28|S|E|R|  type   | fragment
//! ```
//! Nothing in the payload marks the start of a frame; it is inferred from the slice with macroblock
//! 0, and from the units that precede slices. Interleaved packets (STAP-B, MTAP, FU-B) are refused:
//! they are never negotiated here.

use super::{Layers, PayloadInfo};

/// Looks into one payload.
///
/// `key_frame`: it contains an IDR slice or an SPS. Encoders send an SPS with each frame a decoder
/// can start with, even if that frame is not an IDR but begins a refresh.
pub(super) fn inspect(payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    let mut info = PayloadInfo { ends_frame: marker, discardable: true, ..PayloadInfo::default() };
    units(payload, |header, body, first| unit(header, body, first, &mut info))?;
    Some(info)
}

/// Layers that one payload says.
///
/// A picture that no other refers to (`nal_ref_idc` 0) counts as temporal layer 1: plain H.264 says
/// no more. Its SEI and delimiter, in packets of their own, look the same if others refer to it or
/// not.
pub(super) fn layers(payload: &[u8]) -> Option<Layers> {
    let mut layers = Layers { discardable: true, ..Layers::default() };
    let (mut key_frame, mut scalable) = (false, None);
    units(payload, |header, body, first| match header & 0x1f {
        kind @ (SLICE..=IDR) => {
            layers.is_known = true;
            layers.discardable &= header & 0x60 == 0;
            key_frame |= kind == IDR;
        }
        SPS => key_frame = true,
        kind @ (PREFIX | EXTENSION) => scalable = scalable.or(ScalableHead::read(kind, body, first)),
        _ => {}
    })?;
    layers.discardable &= layers.is_known;
    if let Some(head) = scalable {
        layers =
            Layers { is_known: true, spatial: head.spatial.unwrap_or(0), temporal: head.temporal, ..layers };
    } else if layers.discardable {
        (layers.temporal, layers.is_switching_point) = (1, true);
    }
    Some(if key_frame { layers.of_key_frame() } else { layers })
}

/// The SPS of a payload, with its header, if it has a whole one.
pub(super) fn sps(payload: &[u8]) -> Option<Vec<u8>> {
    let mut sps = None;
    let is_fragment = payload.first().is_some_and(|header| header & 0x1f == FU_A);
    units(payload, |header, body, _| {
        if header & 0x1f == SPS && !is_fragment {
            sps.get_or_insert_with(|| [&[header], body].concat());
        }
    })?;
    sps
}

/// Header and body of each NAL unit of a payload, and whether the body begins with the unit's first
/// byte after the header; `None` if the payload is malformed.
fn units<'a>(payload: &'a [u8], mut each: impl FnMut(u8, &'a [u8], bool)) -> Option<()> {
    let header = *payload.first()?;
    match header & 0x1f {
        1..=23 => each(header, &payload[1..], true),
        STAP_A => {
            let mut rest = &payload[1..];
            // At least one unit, none of them empty.
            loop {
                let (size, behind) = rest.split_first_chunk()?;
                let (nal, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
                let (header, body) = nal.split_first()?;
                if !(1..=23).contains(&(header & 0x1f)) {
                    return None;
                }
                each(*header, body, true);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        FU_A => {
            let fu = *payload.get(1)?;
            let (start, end) = (fu & 0x80 != 0, fu & 0x40 != 0);
            // A unit of one fragment must not be sent as fragments (RFC 6184 section 5.8).
            if (start && end) || !(1..=23).contains(&(fu & 0x1f)) {
                return None;
            }
            each(header & 0x60 | fu & 0x1f, &payload[2..], start);
        }
        _ => return None,
    }
    Some(())
}

/// Evaluates one NAL unit; `first`: its body begins with the unit's first byte after the header.
fn unit(header: u8, body: &[u8], first: bool, info: &mut PayloadInfo) {
    let kind = header & 0x1f;
    // Units that no other frame is predicted from.
    info.discardable &= header & 0x60 == 0;
    match kind {
        SLICE | PARTITION_A | IDR => {
            info.key_frame |= kind == IDR;
            // first_mb_in_slice is the first field, Exp-Golomb coded: a leading one bit is 0.
            info.starts_frame |= first && body.first().is_some_and(|byte| byte & 0x80 != 0);
        }
        SPS | SUBSET_SPS | PPS => {
            info.key_frame |= kind == SPS;
            info.has_parameter_sets = true;
            info.starts_frame |= first;
        }
        SEI | DELIMITER => info.starts_frame |= first,
        PREFIX | EXTENSION => {
            if let Some(head) = ScalableHead::read(kind, body, first) {
                info.temporal_layer = Some(head.temporal);
                info.spatial_layer = head.spatial.or(info.spatial_layer);
                info.starts_frame |= kind == PREFIX;
            }
        }
        _ => {}
    }
}

/// The three bytes ahead of a scalable slice (H.264 section G.7.3.1.1):
/// `|1|I|priority|N|dependency (3)|quality (4)|temporal (3)|U|D|O|11|`.
#[derive(Clone, Copy)]
struct ScalableHead {
    /// Of a slice that is not of the base layer.
    spatial: Option<u8>,
    temporal: u8,
}

impl ScalableHead {
    /// Reads it at the start of a unit's body.
    fn read(kind: u8, body: &[u8], first: bool) -> Option<Self> {
        let [flags, dependency, temporal, ..] = *body else { return None };
        (first && flags & 0x80 != 0).then_some(Self {
            spatial: (kind == EXTENSION).then_some(dependency >> 4 & 7),
            temporal: temporal >> 5,
        })
    }
}

const SLICE: u8 = 1;
const PARTITION_A: u8 = 2;
const IDR: u8 = 5;
const SEI: u8 = 6;
const SPS: u8 = 7;
const PPS: u8 = 8;
const DELIMITER: u8 = 9;
const PREFIX: u8 = 14;
const SUBSET_SPS: u8 = 15;
const EXTENSION: u8 = 20;
const STAP_A: u8 = 24;
const FU_A: u8 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    /// key, starts, discardable, parameter sets
    fn flags(payload: &[u8]) -> Option<(bool, bool, bool, bool)> {
        let info = inspect(payload, false)?;
        assert!(!info.ends_frame);
        assert!(inspect(payload, true)?.ends_frame);
        Some((info.key_frame, info.starts_frame, info.discardable, info.has_parameter_sets))
    }

    #[test]
    fn each_packetization_is_seen_through() {
        let (no, yes) = (false, true);
        for (payload, expected, remark) in [
            (&[0x65, 0x88][..], Some((yes, yes, no, no)), "IDR, macroblock 0"),
            (&[0x65, 0x48], Some((yes, no, no, no)), "IDR, a later slice"),
            (&[0x41, 0x9a], Some((no, yes, no, no)), "slice others refer to"),
            (&[0x01, 0x9a], Some((no, yes, yes, no)), "slice nobody refers to"),
            (&[0x67, 0x42, 0xc0], Some((yes, yes, no, yes)), "SPS"),
            (&[0x68, 0xce], Some((no, yes, no, yes)), "PPS"),
            (&[0x06, 5, 1], Some((no, yes, yes, no)), "SEI"),
            (&[0x09, 0xf0], Some((no, yes, yes, no)), "access unit delimiter"),
            (&[0x0c, 0xff], Some((no, no, yes, no)), "filler"),
            (&[0x65], Some((yes, no, no, no)), "a unit that is cut off"),
            (
                &[0x78, 0, 2, 0x67, 0x42, 0, 2, 0x68, 0xce, 0, 2, 0x65, 0x88],
                Some((yes, yes, no, yes)),
                "STAP-A",
            ),
            (&[0x18, 0, 1, 6, 0, 2, 1, 0x9a], Some((no, yes, yes, no)), "STAP-A nobody refers to"),
            (&[0x78], None, "STAP-A of nothing"),
            (&[0x78, 0], None, "STAP-A, half a size"),
            (&[0x78, 0, 0], None, "STAP-A, an empty unit"),
            (&[0x78, 0, 3, 0x67, 0x42], None, "STAP-A, a unit that is missing"),
            (&[0x78, 0, 1, 0x67, 9], None, "STAP-A, a byte behind"),
            (&[0x78, 0, 1, 0x78], None, "STAP-A in STAP-A"),
            (&[0x7c, 0x85, 0x88], Some((yes, yes, no, no)), "FU-A, start of IDR"),
            (&[0x7c, 0x05, 0x88], Some((yes, no, no, no)), "FU-A, middle of IDR"),
            (&[0x7c, 0x45, 0x88], Some((yes, no, no, no)), "FU-A, end of IDR"),
            (&[0x1c, 0x81, 0x88], Some((no, yes, yes, no)), "FU-A, start of a slice nobody refers to"),
            (&[0x5c, 0x81, 0x48], Some((no, no, no, no)), "FU-A, start of a later slice"),
            (&[0x7c, 0xc5, 0x88], None, "FU-A, start and end"),
            (&[0x7c, 0x9c, 0x88], None, "FU-A in FU-A"),
            (&[0x7c], None, "FU-A without header"),
            (&[0x60, 1], None, "type 0"),
            (&[0x79, 1], None, "STAP-B"),
            (&[0x7d, 1, 1, 1], None, "FU-B"),
            (&[0x7f, 1], None, "type 31"),
        ] {
            assert_eq!(flags(payload), expected, "{remark}");
        }
    }

    #[test]
    fn scalable_slices_say_their_layer() {
        let info = inspect(&[0x6e, 0x80, 0x80, 0x4f], false).unwrap();
        assert_eq!((info.temporal_layer, info.spatial_layer), (Some(2), None));
        let info = inspect(&[0x74, 0xc0, 0x90, 0x27], false).unwrap();
        assert_eq!((info.temporal_layer, info.spatial_layer), (Some(1), Some(1)));
        assert_eq!(inspect(&[0x6e, 0x00, 0x80, 0x4f], false).unwrap().temporal_layer, None, "MVC");
        assert_eq!(inspect(&[0x6e, 0x80], false).unwrap().temporal_layer, None, "cut off");
    }
}
