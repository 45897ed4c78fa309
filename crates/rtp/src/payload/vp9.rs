//! VP9 payloads (RFC 9628 section 4.2): a descriptor, then a part of a layer frame.
//!
//! ```text
//! |I|P|L|F|B|E|V|Z|   I: |M| picture id (7 or 15) |   L: | TID (3) |U| SID (3) |D|   L and not F: | TL0PICIDX |
//! F and P: | P_DIFF (7) |N|, up to three   V: | N_S (3) |Y|G|RES|, then sizes if Y, then the pictures of a group if G
//! ```
//! A picture may have several layer frames, of one timestamp; the marker ends the picture.

use super::vp8::PictureId;
use super::{Layers, PayloadInfo, PictureSizes};

/// A payload descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Picture id, of 7 or 15 bits.
    pub picture_id: Option<PictureId>,
    /// Refers to an earlier picture (P).
    pub inter_predicted: bool,
    /// Flexible mode (F).
    pub flexible: bool,
    /// Start of a layer frame (B).
    pub starts_layer_frame: bool,
    /// End of a layer frame (E).
    pub ends_layer_frame: bool,
    /// No frame of a higher spatial layer refers to it (Z).
    pub not_for_higher_layers: bool,
    /// Layer of the frame.
    pub layer: Option<Layer>,
    /// A description of the layers is inside (V).
    pub has_scalability_structure: bool,
    /// Bytes of the descriptor.
    pub len: usize,
}

/// Layer of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Temporal layer, `0..=7`.
    pub temporal: u8,
    /// A receiver may go up to this temporal layer from here (U).
    pub switching_up: bool,
    /// Spatial layer, `0..=7`.
    pub spatial: u8,
    /// Refers to the spatial layer below it in the same picture (D).
    pub inter_layer_predicted: bool,
    /// Index of the last picture of the base temporal layer; wraps. Not in flexible mode.
    pub tl0_picture_index: Option<u8>,
}

impl Descriptor {
    /// Reads the descriptor at the start of a payload; `None` if it is cut off or nothing follows it.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let flags = reader.byte()?;
        let flag = |bit: u8| flags & bit != 0;
        let picture_id = if flag(0x80) { Some(reader.picture_id()?) } else { None };
        let layer = if flag(0x20) { Some(reader.layer(flag(0x10))?) } else { None };
        if flag(0x10) && flag(0x40) {
            reader.reference_differences()?;
        }
        if flag(0x02) {
            reader.scalability_structure()?;
        }
        let len = payload.len() - reader.0.len();
        (len < payload.len()).then_some(Self {
            picture_id,
            inter_predicted: flag(0x40),
            flexible: flag(0x10),
            starts_layer_frame: flag(0x08),
            ends_layer_frame: flag(0x04),
            not_for_higher_layers: flag(0x01),
            layer,
            has_scalability_structure: flag(0x02),
            len,
        })
    }
}

/// Adds `pictures` to the picture id and `tl0` to TL0PICIDX, as far as they are there; both wrap,
/// and the picture id keeps its width.
///
/// For a track whose pictures come from one encoding, then from another: to its receiver the
/// numbers go on. Where pictures of one encoding are left out, their numbers have to stay free, as
/// references are differences of picture ids (P_DIFF) or places in a group of pictures. In flexible
/// mode there is no TL0PICIDX. A payload whose descriptor is cut off stays as it is.
pub fn shift(payload: &mut [u8], pictures: u16, tl0: u8) {
    let Some(descriptor) = Descriptor::parse(payload) else { return };
    let mut at = 1;
    if let Some(id) = descriptor.picture_id {
        at += id.shift(&mut payload[at..], pictures);
    }
    if let Some(index) = descriptor.layer.and_then(|layer| layer.tl0_picture_index) {
        payload[at + 1] = index.wrapping_add(tl0);
    }
}

/// Looks into one payload.
///
/// `key_frame`: the picture refers to no earlier one; set for all packets of all its layers.
pub(super) fn inspect(payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    let descriptor = Descriptor::parse(payload)?;
    let spatial = descriptor.layer.map(|layer| layer.spatial);
    Some(PayloadInfo {
        key_frame: !descriptor.inter_predicted,
        starts_frame: descriptor.starts_layer_frame && spatial.unwrap_or(0) == 0,
        ends_frame: marker,
        temporal_layer: descriptor.layer.map(|layer| layer.temporal),
        spatial_layer: spatial,
        discardable: false,
        has_parameter_sets: false,
    })
}

/// Layers that one payload says.
pub(super) fn layers(payload: &[u8]) -> Option<Layers> {
    let descriptor = Descriptor::parse(payload)?;
    let layer = descriptor.layer;
    let layers = Layers {
        is_known: true,
        spatial: layer.map_or(0, |layer| layer.spatial),
        temporal: layer.map_or(0, |layer| layer.temporal),
        // U is about the pictures behind this one (RFC 9628 section 4.2). That a frame with U may
        // itself be the first of its layer is how some encoders have set it, and not what it says.
        opens_higher: layer.is_some_and(|layer| layer.switching_up),
        is_spatial_switching_point: !descriptor.inter_predicted,
        inter_layer_predicted: layer.is_some_and(|layer| layer.inter_layer_predicted),
        not_for_higher_layers: descriptor.not_for_higher_layers,
        starts_layer_frame: descriptor.starts_layer_frame,
        ends_layer_frame: descriptor.ends_layer_frame,
        ..Layers::default()
    };
    // A higher spatial layer may be refreshed in a picture that is no key frame.
    let key_frame = !descriptor.inter_predicted && layers.spatial == 0;
    Some(if key_frame { layers.of_key_frame() } else { layers })
}

/// Adds the sizes of spatial layers that a payload's descriptor has; `None` if it has none.
pub(super) fn layer_sizes(payload: &[u8], sizes: &mut PictureSizes) -> Option<()> {
    let descriptor = Descriptor::parse(payload).filter(|descriptor| descriptor.has_scalability_structure)?;
    let mut reader = Reader(payload);
    let flags = reader.byte()?;
    if flags & 0x80 != 0 {
        reader.picture_id()?;
    }
    if flags & 0x20 != 0 {
        reader.layer(descriptor.flexible)?;
    }
    if descriptor.flexible && descriptor.inter_predicted {
        reader.reference_differences()?;
    }
    let structure = reader.byte()?;
    if structure & 0x10 == 0 {
        return None;
    }
    for _ in 0..=structure >> 5 {
        let width = u16::from_be_bytes([reader.byte()?, reader.byte()?]);
        let height = u16::from_be_bytes([reader.byte()?, reader.byte()?]);
        sizes.push(width.into(), height.into());
    }
    Some(())
}

/// The rest of a descriptor.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.0 = self.0.get(len..)?;
        Some(())
    }

    fn picture_id(&mut self) -> Option<PictureId> {
        let high = self.byte()?;
        Some(if high & 0x80 != 0 {
            PictureId::Long(u16::from_be_bytes([high & 0x7f, self.byte()?]))
        } else {
            PictureId::Short(high)
        })
    }

    fn layer(&mut self, flexible: bool) -> Option<Layer> {
        let indices = self.byte()?;
        Some(Layer {
            temporal: indices >> 5,
            switching_up: indices & 0x10 != 0,
            spatial: indices >> 1 & 7,
            inter_layer_predicted: indices & 1 != 0,
            tl0_picture_index: if flexible { None } else { Some(self.byte()?) },
        })
    }

    /// Up to three pictures referred to; a fourth is malformed.
    fn reference_differences(&mut self) -> Option<()> {
        for _ in 0..3 {
            if self.byte()? & 1 == 0 {
                return Some(());
            }
        }
        None
    }

    fn scalability_structure(&mut self) -> Option<()> {
        let flags = self.byte()?;
        if flags & 0x10 != 0 {
            // Width and height of each spatial layer.
            self.skip(4 * (usize::from(flags >> 5) + 1))?;
        }
        if flags & 0x08 != 0 {
            for _ in 0..self.byte()? {
                let references = self.byte()? >> 2 & 3;
                self.skip(usize::from(references))?;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Descriptor = Descriptor {
        picture_id: None,
        inter_predicted: false,
        flexible: false,
        starts_layer_frame: true,
        ends_layer_frame: false,
        not_for_higher_layers: false,
        layer: None,
        has_scalability_structure: false,
        len: 1,
    };
    const LAYER: Layer = Layer {
        temporal: 2,
        switching_up: true,
        spatial: 1,
        inter_layer_predicted: true,
        tl0_picture_index: Some(9),
    };

    #[test]
    fn descriptors_have_the_fields_their_bits_announce() {
        let structure = Descriptor { has_scalability_structure: true, ..PLAIN };
        for (payload, expected) in [
            (&[0x08, 0][..], Some(PLAIN)),
            (&[0x88, 0x11, 0], Some(Descriptor { picture_id: Some(PictureId::Short(17)), len: 2, ..PLAIN })),
            (
                &[0x88, 0x92, 0x34, 0],
                Some(Descriptor { picture_id: Some(PictureId::Long(0x1234)), len: 3, ..PLAIN }),
            ),
            (&[0x28, 0x53, 9, 0], Some(Descriptor { layer: Some(LAYER), len: 3, ..PLAIN })),
            (
                &[0x38, 0x53, 0],
                Some(Descriptor {
                    flexible: true,
                    layer: Some(Layer { tl0_picture_index: None, ..LAYER }),
                    len: 2,
                    ..PLAIN
                }),
            ),
            (&[0x58, 0x02, 0], Some(Descriptor { flexible: true, inter_predicted: true, len: 2, ..PLAIN })),
            (
                &[0x58, 3, 5, 6, 0],
                Some(Descriptor { flexible: true, inter_predicted: true, len: 4, ..PLAIN }),
            ),
            (&[0x58, 3, 5, 7, 0], None), // four references
            (&[0x0a, 0x00, 0], Some(Descriptor { len: 2, ..structure })), // empty structure
            (&[0x0a, 0x30, 1, 2, 3, 4, 5, 6, 7, 8, 0], Some(Descriptor { len: 10, ..structure })), // two sizes
            (&[0x0a, 0x08, 2, 0x04, 1, 0x00, 0], Some(Descriptor { len: 6, ..structure })), // two pictures
            (&[0x0a, 0x08, 2, 0x04, 1], None), // one of them is missing
            (&[0x0a, 0x30, 1, 2, 3, 4, 5, 6, 7], None), // half a size
            (&[0x08], None),                   // nothing after it
            (&[0x88, 0x80], None),             // half a picture id
            (&[0x28, 0x53], None),             // no TL0PICIDX
        ] {
            assert_eq!(Descriptor::parse(payload), expected, "{payload:x?}");
        }
    }

    #[test]
    fn numbers_are_shifted_in_their_width_and_nothing_else_is() {
        for (payload, pictures, tl0, expected, remark) in [
            (&[0xa8, 0x81, 0x02, 0x53, 7, 9][..], 3, 2, &[0xa8, 0x81, 0x05, 0x53, 9, 9][..], "both"),
            (
                &[0xa8, 0x7e, 0x53, 0xff, 9],
                3,
                1,
                &[0xa8, 0x01, 0x53, 0, 9],
                "both wrap, seven bits stay seven",
            ),
            (&[0x88, 0xff, 0xff, 9], 1, 2, &[0x88, 0x80, 0, 9], "fifteen bits wrap"),
            (&[0x88, 0x80, 0, 9], 0xffff, 2, &[0x88, 0xff, 0xff, 9], "backwards"),
            (&[0x28, 0x53, 7, 9], 5, 1, &[0x28, 0x53, 8, 9], "TL0PICIDX alone"),
            (&[0xf8, 0x81, 2, 0x53, 2, 9], 5, 1, &[0xf8, 0x81, 7, 0x53, 2, 9], "flexible: P_DIFF stays"),
            (&[0x38, 0x53, 9], 5, 1, &[0x38, 0x53, 9], "flexible, layers alone"),
            (&[0x08, 9], 5, 1, &[0x08, 9], "neither"),
            (&[0xa8, 0x81, 2, 0x53], 5, 1, &[0xa8, 0x81, 2, 0x53], "TL0PICIDX cut off"),
            (&[0x88, 0x80], 5, 1, &[0x88, 0x80], "half a picture id"),
            (&[0x8a, 0x01, 0x30, 1], 5, 1, &[0x8a, 0x01, 0x30, 1], "structure cut off"),
            (&[], 5, 1, &[], "nothing"),
        ] {
            let mut shifted = payload.to_vec();
            shift(&mut shifted, pictures, tl0);
            assert_eq!(shifted, expected, "{remark}");
        }
    }

    #[test]
    fn a_picture_starts_with_its_lowest_layer_and_ends_with_the_marker() {
        let info = inspect(&[0x28, 0x00, 9, 0], false).unwrap();
        assert!(info.key_frame && info.starts_frame && !info.ends_frame);
        let info = inspect(&[0x28, 0x03, 9, 0], true).unwrap();
        assert!(info.key_frame && !info.starts_frame && info.ends_frame);
        assert_eq!((info.temporal_layer, info.spatial_layer), (Some(0), Some(1)));
        let info = inspect(&[0x48, 0], false).unwrap();
        assert!(!info.key_frame && info.starts_frame);
    }
}
