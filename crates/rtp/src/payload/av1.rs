//! AV1 payloads (RTP payload format for AV1, section 4): an aggregation header, then pieces of OBUs.
//!
//! ```text
//! |Z|Y| W (2) |N|RSV|   Z: goes on with an OBU of the packet before   Y: its last OBU goes on in the next packet
//! W = 0: each element has its length ahead of it (LEB128); else W elements, the last without length
//! OBU   |F| type (4) |X|S|R|   X: | temporal (3) | spatial (2) | RSV |   S: | size (LEB128) |
//! ```
//! Temporal delimiters are not sent. Nothing marks the start of a frame explicitly; it is inferred
//! from the type of OBU.

use media::bitstream::sized;

use super::{Layers, PayloadInfo};

/// Looks into one payload.
///
/// `key_frame`: the packet begins a coded video sequence (N), or brings a sequence header.
pub(super) fn inspect(payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    let mut info = PayloadInfo { ends_frame: marker, ..PayloadInfo::default() };
    info.key_frame =
        elements(payload, |element, first, is_cut| obu(element, first, is_cut, &mut info))? || info.key_frame;
    Some(info)
}

/// Layers that one payload says: those of its first OBU of a frame, or of the first that has
/// layers.
pub(super) fn layers(payload: &[u8]) -> Option<Layers> {
    let mut layers = Layers::default();
    let mut key_frame = false;
    let new_sequence = elements(payload, |element, _, is_cut| {
        let head = Head::read(element, is_cut)?;
        key_frame |= head.kind == SEQUENCE_HEADER;
        let of_frame = matches!(head.kind, FRAME_HEADER | TILE_GROUP | FRAME | REDUNDANT_FRAME_HEADER);
        if !layers.is_known && (of_frame && !head.has_extension || head.layers.is_some()) {
            let (temporal, spatial) = head.layers.unwrap_or_default();
            layers = Layers { is_known: true, temporal, spatial, ..layers };
        }
        Some(())
    })?;
    Some(if key_frame || new_sequence { layers.of_key_frame() } else { layers })
}

/// What `read` finds in the payload of the sequence header OBU that a packet has, if it has one.
pub(super) fn with_sequence_header<T>(payload: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let mut found = None;
    elements(payload, |element, _, is_cut| {
        let head = Head::read(element, is_cut)?;
        if head.kind == SEQUENCE_HEADER && !is_cut && found.is_none() {
            let behind = element.get(if head.has_extension { 2 } else { 1 }..)?;
            // S: a size is ahead of it.
            let content = if element[0] & 0x02 != 0 { sized(behind)?.0 } else { behind };
            found = read(content);
        }
        Some(())
    })?;
    found
}

/// Each element that begins with the head of an OBU, whether it is the first of its packet, and
/// whether more of it is in the next one. Returns whether a coded video sequence begins (N); `None`
/// if the payload is malformed, or if `each` finds that.
fn elements(payload: &[u8], mut each: impl FnMut(&[u8], bool, bool) -> Option<()>) -> Option<bool> {
    let (aggregation, mut rest) = payload.split_first()?;
    let (continues, goes_on) = (aggregation & 0x80 != 0, aggregation & 0x40 != 0);
    let (count, new_sequence) = (usize::from(aggregation >> 4 & 3), aggregation & 0x08 != 0);
    if rest.is_empty() || (continues && new_sequence) {
        return None;
    }
    let mut index = 0;
    while !rest.is_empty() {
        index += 1;
        let element;
        (element, rest) = if count != 0 && index == count { (rest, &[][..]) } else { sized(rest)? };
        // The first element of a continuation has no header of its own, an empty one says nothing.
        if (index > 1 || !continues) && !element.is_empty() {
            each(element, index == 1, goes_on && rest.is_empty())?;
        }
    }
    // Fewer elements than were announced.
    (count == 0 || index == count).then_some(new_sequence)
}

/// Adds what an OBU's head says; `first`: it is the first of its packet, `is_cut`: more of it is in
/// the next one.
fn obu(element: &[u8], first: bool, is_cut: bool, info: &mut PayloadInfo) -> Option<()> {
    let head = Head::read(element, is_cut)?;
    if let Some((temporal, spatial)) = head.layers {
        // Those of the first OBU that has them.
        info.temporal_layer.get_or_insert(temporal);
        info.spatial_layer.get_or_insert(spatial);
    }
    if head.kind == SEQUENCE_HEADER {
        info.has_parameter_sets = true;
        info.key_frame = true;
    }
    info.starts_frame |= first && matches!(head.kind, SEQUENCE_HEADER | FRAME_HEADER | METADATA | FRAME);
    Some(())
}

/// Head of an OBU.
struct Head {
    kind: u8,
    has_extension: bool,
    /// Temporal and spatial layer, from the extension, which may be in the next packet.
    layers: Option<(u8, u8)>,
}

impl Head {
    /// Reads it at the start of an element; `None` if it is malformed.
    fn read(element: &[u8], is_cut: bool) -> Option<Self> {
        let head = *element.first()?;
        if head & 0x80 != 0 {
            return None;
        }
        let has_extension = head & 0x04 != 0;
        let mut layers = None;
        if has_extension && !(is_cut && element.len() == 1) {
            let extension = *element.get(1)?;
            layers = Some((extension >> 5, extension >> 3 & 3));
        }
        Some(Self { kind: head >> 3 & 0x0f, has_extension, layers })
    }
}

const SEQUENCE_HEADER: u8 = 1;
const FRAME_HEADER: u8 = 3;
const TILE_GROUP: u8 = 4;
const METADATA: u8 = 5;
const FRAME: u8 = 6;
const REDUNDANT_FRAME_HEADER: u8 = 7;

#[cfg(test)]
mod tests {
    use super::*;

    /// key, starts, parameter sets
    fn flags(payload: &[u8]) -> Option<(bool, bool, bool)> {
        let info = inspect(payload, false)?;
        Some((info.key_frame, info.starts_frame, info.has_parameter_sets))
    }

    #[test]
    fn elements_are_found_with_and_without_a_count() {
        let (no, yes) = (false, true);
        for (payload, expected, remark) in [
            (&[0x18, 0x08, 0, 0][..], Some((yes, yes, yes)), "a sequence header, N"),
            (&[0x28, 2, 0x08, 0, 0x30, 1], Some((yes, yes, yes)), "sequence header and frame"),
            (&[0x00, 2, 0x08, 0, 2, 0x30, 1], Some((yes, yes, yes)), "the same without count"),
            (&[0x10, 0x30, 1], Some((no, yes, no)), "a frame"),
            (&[0x50, 0x30, 1], Some((no, yes, no)), "a frame that goes on"),
            (&[0x90, 0x0a, 1], Some((no, no, no)), "a continuation that looks like a sequence header"),
            (&[0x90, 0xff, 1], Some((no, no, no)), "a continuation that looks forbidden"),
            (&[0xa0, 1, 0xff, 0x30, 1], Some((no, no, no)), "a continuation, then a frame"),
            (&[0x10, 0x20, 1], Some((no, no, no)), "a tile group"),
            (&[0x10, 0x1a, 1], Some((no, yes, no)), "a frame header"),
            (&[0x98, 0x30, 1], None, "a continuation that begins a sequence"),
            (&[0x10], None, "nothing inside"),
            (&[0x10, 0xb0], None, "forbidden bit"),
            (&[0x00, 3, 0x30, 1], None, "a byte is missing"),
            (&[0x20, 2, 0x30, 1], None, "one of two is missing"),
            (&[0x30, 1, 0x30, 1, 0x30], None, "one of three is missing"),
            (&[0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0], None, "an endless length"),
            (&[0x00, 0x82, 0x00, 0x30, 1], Some((no, yes, no)), "a length with spare bytes"),
            (&[0x10, 0x34], None, "extension cut off"),
            (&[0x50, 0x34], Some((no, yes, no)), "extension in the next packet"),
            (&[0; 1500], Some((no, no, no)), "1499 empty elements"),
        ] {
            assert_eq!(flags(payload), expected, "{remark}");
        }
    }

    #[test]
    fn layers_are_those_of_the_first_obu_that_has_them() {
        let info = inspect(&[0x20, 3, 0x34, 0x48, 0, 0x34, 0x50, 0], true).unwrap();
        assert_eq!((info.temporal_layer, info.spatial_layer, info.ends_frame), (Some(2), Some(1), true));
    }
}
