//! H.265 payloads (RFC 7798): single NAL units, aggregation packets and fragmentation units.
//!
//! ```text
//! NAL unit   |F| type (6) | layer (6) | temporal id + 1 (3) | ...         48 aggregation, 49 fragmentation
//! AP         | head of type 48 | size (16) | NAL unit | size (16) | NAL unit | ...
//! FU         | head of type 49 |S|E| type (6) | fragment
//! ```
//! Decoding order numbers (`sprop-max-don-diff` above 0) and PACI packets are refused or misread:
//! WebRTC peers do not offer them.

use super::{Layers, PayloadInfo};

/// Looks into one payload.
///
/// `key_frame`: it contains a random access picture (IRAP), a VPS or an SPS.
pub(super) fn inspect(payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    let mut info = PayloadInfo { ends_frame: marker, discardable: true, ..PayloadInfo::default() };
    let head = units(payload, |head, body, first| unit(head.kind, body, first, &mut info))?;
    // An aggregation packet has the lowest ids of its units (RFC 7798 section 4.4.2).
    info.temporal_layer = Some(head.temporal_layer);
    info.spatial_layer = (head.layer != 0).then_some(head.layer);
    Some(info)
}

/// Layers that one payload says: those of its slices, which all have the same.
pub(super) fn layers(payload: &[u8]) -> Option<Layers> {
    let mut slice = None;
    let mut key_frame = false;
    let head = units(payload, |head, _, _| {
        key_frame |= IRAP.contains(&head.kind) || matches!(head.kind, VPS | SPS);
        if head.kind < 32 {
            slice = Some(head);
        }
    })?;
    let kind = slice.map(|slice| slice.kind);
    let head = slice.unwrap_or(head);
    let is_tsa = matches!(kind, Some(TSA_N | TSA_R));
    let layers = Layers {
        is_known: slice.is_some(),
        spatial: head.layer,
        temporal: head.temporal_layer,
        is_switching_point: is_tsa || matches!(kind, Some(STSA_N | STSA_R)),
        opens_higher: is_tsa,
        discardable: kind.is_some_and(is_discardable),
        ..Layers::default()
    };
    Some(if key_frame { layers.of_key_frame() } else { layers })
}

/// The SPS of a payload, behind a head of two bytes that say nothing, if it has a whole one.
pub(super) fn sps(payload: &[u8]) -> Option<Vec<u8>> {
    let mut sps = None;
    let is_fragment = payload.first().is_some_and(|head| head >> 1 & 0x3f == FRAGMENTATION);
    units(payload, |head, body, _| {
        if head.kind == SPS && !is_fragment {
            sps.get_or_insert_with(|| [&[0, 0], body].concat());
        }
    })?;
    sps
}

/// Head and body of each NAL unit of a payload, and whether the body begins with the unit's first
/// byte after the head. Returns the head of the payload, `None` if it is malformed.
fn units<'a>(payload: &'a [u8], mut each: impl FnMut(Head, &'a [u8], bool)) -> Option<Head> {
    let (head, rest) = payload.split_first_chunk()?;
    let head = Head::read(*head)?;
    match head.kind {
        0..=47 => each(head, rest, true),
        AGGREGATION => aggregation(rest, each)?,
        FRAGMENTATION => {
            let fu = *rest.first()?;
            let (start, end, kind) = (fu & 0x80 != 0, fu & 0x40 != 0, fu & 0x3f);
            // One fragment is no fragmentation (RFC 7798 section 4.4.3).
            if (start && end) || kind >= AGGREGATION {
                return None;
            }
            each(Head { kind, ..head }, &rest[1..], start);
        }
        _ => return None,
    }
    Some(head)
}

fn aggregation<'a>(mut rest: &'a [u8], mut each: impl FnMut(Head, &'a [u8], bool)) -> Option<()> {
    // At least one unit, each with its head.
    loop {
        let (size, behind) = rest.split_first_chunk()?;
        let (nal, behind) = behind.split_at_checked(usize::from(u16::from_be_bytes(*size)))?;
        let (head, body) = nal.split_first_chunk()?;
        each(Head::read(*head).filter(|head| head.kind < AGGREGATION)?, body, true);
        rest = behind;
        if rest.is_empty() {
            return Some(());
        }
    }
}

/// Evaluates one NAL unit; `first`: its body begins with the unit's first byte after the header.
fn unit(kind: u8, body: &[u8], first: bool, info: &mut PayloadInfo) {
    // Delimiters, SEI and filler are no pictures.
    info.discardable &= is_discardable(kind) || (DELIMITER..=SEI_SUFFIX).contains(&kind);
    match kind {
        0..=31 => {
            info.key_frame |= IRAP.contains(&kind);
            // first_slice_segment_in_pic_flag is the first bit.
            info.starts_frame |= first && body.first().is_some_and(|byte| byte & 0x80 != 0);
        }
        VPS | SPS | PPS => {
            info.key_frame |= kind != PPS;
            info.has_parameter_sets = true;
            info.starts_frame |= first;
        }
        DELIMITER | SEI_PREFIX => info.starts_frame |= first,
        _ => {}
    }
}

/// Even types below 16 are pictures that no other of their temporal layer refers to (H.265 table
/// 7-1).
fn is_discardable(kind: u8) -> bool {
    kind < 16 && kind.is_multiple_of(2)
}

/// Head of a NAL unit.
#[derive(Clone, Copy)]
struct Head {
    kind: u8,
    layer: u8,
    temporal_layer: u8,
}

impl Head {
    fn read(bytes: [u8; 2]) -> Option<Self> {
        let [high, low] = bytes;
        // The temporal id is written plus one and never 0.
        let temporal_layer = (low & 7).checked_sub(1)?;
        Some(Self { kind: high >> 1 & 0x3f, layer: (high & 1) << 5 | low >> 3, temporal_layer })
    }
}

/// Temporal sub-layer access: a decoder may go up to the picture's layer and those above (H.265
/// table 7-1).
const TSA_N: u8 = 2;
const TSA_R: u8 = 3;
/// Step-wise temporal sub-layer access: to the picture's layer.
const STSA_N: u8 = 4;
const STSA_R: u8 = 5;
/// Pictures a decoder can start with (H.265 section 7.4.2.2, reserved ones included).
const IRAP: std::ops::RangeInclusive<u8> = 16..=23;
const VPS: u8 = 32;
const SPS: u8 = 33;
const PPS: u8 = 34;
const DELIMITER: u8 = 35;
const SEI_PREFIX: u8 = 39;
const SEI_SUFFIX: u8 = 40;
const AGGREGATION: u8 = 48;
const FRAGMENTATION: u8 = 49;

#[cfg(test)]
mod tests {
    use super::*;

    /// key, starts, discardable, parameter sets
    fn flags(payload: &[u8]) -> Option<(bool, bool, bool, bool)> {
        let info = inspect(payload, false)?;
        Some((info.key_frame, info.starts_frame, info.discardable, info.has_parameter_sets))
    }

    #[test]
    fn each_packetization_is_seen_through() {
        let (no, yes) = (false, true);
        for (payload, expected, remark) in [
            (&[0x26, 1, 0xaf][..], Some((yes, yes, no, no)), "IDR_W_RADL, first slice"),
            (&[0x26, 1, 0x2f], Some((yes, no, no, no)), "IDR_W_RADL, a later slice"),
            (&[0x2a, 1, 0xaf], Some((yes, yes, no, no)), "CRA"),
            (&[0x02, 1, 0x80], Some((no, yes, no, no)), "TRAIL_R"),
            (&[0x00, 1, 0x80], Some((no, yes, yes, no)), "TRAIL_N"),
            (&[0x40, 1, 0x0c], Some((yes, yes, no, yes)), "VPS"),
            (&[0x42, 1, 0x01], Some((yes, yes, no, yes)), "SPS"),
            (&[0x44, 1, 0xc0], Some((no, yes, no, yes)), "PPS"),
            (&[0x46, 1, 0x50], Some((no, yes, yes, no)), "delimiter"),
            (&[0x50, 1, 0x50], Some((no, no, yes, no)), "SEI behind the picture"),
            (&[0x60, 1, 0, 3, 0x42, 1, 1, 0, 3, 0x26, 1, 0xaf], Some((yes, yes, no, yes)), "aggregation"),
            (&[0x60, 1], None, "aggregation of nothing"),
            (&[0x60, 1, 0, 1, 0x42], None, "aggregation, half a head"),
            (&[0x60, 1, 0, 3, 0x42, 1], None, "aggregation, a byte is missing"),
            (&[0x60, 1, 0, 2, 0x60, 1], None, "aggregation in aggregation"),
            (&[0x62, 1, 0x93, 0xaf], Some((yes, yes, no, no)), "fragment, start of IDR"),
            (&[0x62, 1, 0x13, 0xaf], Some((yes, no, no, no)), "fragment, middle of IDR"),
            (&[0x62, 1, 0x53, 0xaf], Some((yes, no, no, no)), "fragment, end of IDR"),
            (&[0x62, 1, 0xd3, 0xaf], None, "fragment, start and end"),
            (&[0x62, 1, 0xb1, 0xaf], None, "fragment of a fragment"),
            (&[0x62, 1], None, "fragment without head"),
            (&[0x64, 1, 1], None, "PACI"),
            (&[0x26, 0, 0xaf], None, "temporal id 0"),
            (&[0x26], None, "half a head"),
        ] {
            assert_eq!(flags(payload), expected, "{remark}");
        }
    }

    #[test]
    fn layers_are_those_of_the_head() {
        let info = inspect(&[0x02, 3, 0x80], true).unwrap();
        assert_eq!((info.temporal_layer, info.spatial_layer, info.ends_frame), (Some(2), None, true));
        let info = inspect(&[0x03, 0x09, 0x80], false).unwrap();
        assert_eq!((info.temporal_layer, info.spatial_layer), (Some(0), Some(33)));
    }
}
