//! VP8 payloads (RFC 7741 section 4): a descriptor, then a partition of a frame.
//!
//! ```text
//! |X|R|N|S|R| PID (3) |   X: |I|L|T|K| RSV |   I: |M| picture id (7 or 15) |   L: | TL0PICIDX |
//!                              T or K: | TID (2) |Y| KEYIDX (5) |      then, if S and PID = 0: |size|H|ver|P| ...
//! ```
//! Whether a frame is a key frame only its first packet says.

use super::{Layers, PayloadInfo};

/// A payload descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// No other frame refers to this one (N).
    pub non_reference: bool,
    /// Start of a partition (S).
    pub starts_partition: bool,
    /// Index of the partition, `0..=7` (PID).
    pub partition: u8,
    /// Picture id, of 7 or 15 bits.
    pub picture_id: Option<PictureId>,
    /// Index of the last frame of the base temporal layer; wraps.
    pub tl0_picture_index: Option<u8>,
    /// Temporal layer, `0..=3`.
    pub temporal_layer: Option<u8>,
    /// Depends on the base layer only (Y).
    pub layer_sync: bool,
    /// Temporal index of the key frame it depends on, `0..=31`.
    pub key_index: Option<u8>,
    /// Bytes of the descriptor.
    pub len: usize,
}

/// Number of a picture; wraps at its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureId {
    /// Seven bits.
    Short(u8),
    /// Fifteen bits.
    Long(u16),
}

impl PictureId {
    /// Writes the number `pictures` later over the number at the start of `at`, in the same width,
    /// and returns how many bytes that is.
    pub(super) fn shift(self, at: &mut [u8], pictures: u16) -> usize {
        match self {
            Self::Short(id) => {
                at[0] = id.wrapping_add(pictures as u8) & 0x7f;
                1
            }
            Self::Long(id) => {
                at[..2].copy_from_slice(&(id.wrapping_add(pictures) | 0x8000).to_be_bytes());
                2
            }
        }
    }
}

impl Descriptor {
    /// Reads the descriptor at the start of a payload; `None` if it is cut off or nothing follows it.
    #[inline]
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let (first, mut rest) = payload.split_first()?;
        let mut take = || {
            let (byte, behind) = rest.split_first()?;
            rest = behind;
            Some(*byte)
        };
        let extension = if first & 0x80 != 0 { take()? } else { 0 };
        let mut picture_id = None;
        if extension & 0x80 != 0 {
            let high = take()?;
            picture_id = Some(if high & 0x80 != 0 {
                PictureId::Long(u16::from_be_bytes([high & 0x7f, take()?]))
            } else {
                PictureId::Short(high)
            });
        }
        let tl0_picture_index = if extension & 0x40 != 0 { Some(take()?) } else { None };
        let layers = if extension & 0x30 != 0 { take()? } else { 0 };
        let len = payload.len() - rest.len();
        (len < payload.len()).then_some(Self {
            non_reference: first & 0x20 != 0,
            starts_partition: first & 0x10 != 0,
            partition: first & 7,
            picture_id,
            tl0_picture_index,
            temporal_layer: (extension & 0x20 != 0).then_some(layers >> 6),
            layer_sync: extension & 0x20 != 0 && layers & 0x20 != 0,
            key_index: (extension & 0x10 != 0).then_some(layers & 0x1f),
            len,
        })
    }
}

/// Adds `pictures` to the picture id and `tl0` to TL0PICIDX, as far as they are there; both wrap,
/// and the picture id keeps its width.
///
/// For a track whose pictures come from one encoding, then from another, or of which some were left
/// out: to its receiver the numbers go on without a gap. A payload whose descriptor is cut off
/// stays as it is.
pub fn shift(payload: &mut [u8], pictures: u16, tl0: u8) {
    let Some(descriptor) = Descriptor::parse(payload) else { return };
    let mut at = 2;
    if let Some(id) = descriptor.picture_id {
        at += id.shift(&mut payload[at..], pictures);
    }
    if let Some(index) = descriptor.tl0_picture_index {
        payload[at] = index.wrapping_add(tl0);
    }
}

/// Looks into one payload.
pub(super) fn inspect(payload: &[u8], marker: bool) -> Option<PayloadInfo> {
    let descriptor = Descriptor::parse(payload)?;
    let starts_frame = descriptor.starts_partition && descriptor.partition == 0;
    let key_frame = starts_frame && payload[descriptor.len] & 1 == 0;
    if key_frame {
        // Behind the three bytes of the tag, if they are in this packet (RFC 6386 section 9.1).
        let start_code = &payload[descriptor.len..];
        if start_code.get(3..6).is_some_and(|code| code != [0x9d, 0x01, 0x2a]) {
            return None;
        }
    }
    Some(PayloadInfo {
        key_frame,
        starts_frame,
        ends_frame: marker,
        temporal_layer: descriptor.temporal_layer,
        spatial_layer: None,
        discardable: descriptor.non_reference,
        has_parameter_sets: false,
    })
}

/// Layers that one payload says.
pub(super) fn layers(payload: &[u8]) -> Option<Layers> {
    let descriptor = Descriptor::parse(payload)?;
    let temporal = descriptor.temporal_layer.unwrap_or(0);
    let layers = Layers {
        is_known: true,
        temporal,
        is_switching_point: descriptor.layer_sync && temporal > 0,
        discardable: descriptor.non_reference,
        ..Layers::default()
    };
    let key_frame =
        descriptor.starts_partition && descriptor.partition == 0 && payload[descriptor.len] & 1 == 0;
    Some(if key_frame { layers.of_key_frame() } else { layers })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Descriptor = Descriptor {
        non_reference: false,
        starts_partition: true,
        partition: 0,
        picture_id: None,
        tl0_picture_index: None,
        temporal_layer: None,
        layer_sync: false,
        key_index: None,
        len: 1,
    };

    /// The examples of RFC 7741 sections 4.5.1 to 4.5.5 and combinations of their fields.
    #[test]
    fn descriptors_have_the_fields_their_bits_announce() {
        for (payload, expected) in [
            (&[0x10, 0][..], Some(PLAIN)),
            (&[0x00, 0], Some(Descriptor { starts_partition: false, ..PLAIN })),
            (&[0x37, 0], Some(Descriptor { non_reference: true, partition: 7, ..PLAIN })),
            (
                &[0x90, 0x80, 0x11, 0],
                Some(Descriptor { picture_id: Some(PictureId::Short(17)), len: 3, ..PLAIN }),
            ),
            (
                &[0x90, 0x80, 0x92, 0x34, 0],
                Some(Descriptor { picture_id: Some(PictureId::Long(0x1234)), len: 4, ..PLAIN }),
            ),
            (
                &[0x90, 0xe0, 0x81, 0x02, 7, 0xa0, 0],
                Some(Descriptor {
                    picture_id: Some(PictureId::Long(0x102)),
                    tl0_picture_index: Some(7),
                    temporal_layer: Some(2),
                    layer_sync: true,
                    len: 6,
                    ..PLAIN
                }),
            ),
            (&[0x90, 0x10, 0xff, 0], Some(Descriptor { key_index: Some(31), len: 3, ..PLAIN })),
            (&[0x90, 0x00, 0], Some(Descriptor { len: 2, ..PLAIN })),
            (&[0x10], None),                // nothing after it
            (&[0x90], None),                // extension cut off
            (&[0x90, 0x80], None),          // picture id cut off
            (&[0x90, 0x80, 0x80], None),    // half a picture id
            (&[0x90, 0xe0, 1, 2, 3], None), // nothing after it
        ] {
            assert_eq!(Descriptor::parse(payload), expected, "{payload:x?}");
        }
    }

    #[test]
    fn numbers_are_shifted_in_their_width_and_nothing_else_is() {
        for (payload, pictures, tl0, expected, remark) in [
            (
                &[0x90, 0xe0, 0x81, 0x02, 7, 0xa0, 9][..],
                3,
                2,
                &[0x90, 0xe0, 0x81, 0x05, 9, 0xa0, 9][..],
                "both",
            ),
            (&[0x90, 0x80, 0x7e, 9], 3, 2, &[0x90, 0x80, 0x01, 9], "seven bits wrap and stay seven"),
            (&[0x90, 0x80, 0x7e, 9], 0x183, 2, &[0x90, 0x80, 0x01, 9], "by more than seven bits"),
            (&[0x90, 0x80, 0xff, 0xff, 9], 1, 2, &[0x90, 0x80, 0x80, 0, 9], "fifteen bits wrap"),
            (&[0x90, 0x80, 0x80, 0, 9], 0xffff, 0, &[0x90, 0x80, 0xff, 0xff, 9], "backwards"),
            (&[0x90, 0x80, 0x80, 1, 9], 0, 5, &[0x90, 0x80, 0x80, 1, 9], "no TL0PICIDX"),
            (&[0x90, 0x60, 0xff, 0x40, 9], 5, 1, &[0x90, 0x60, 0, 0x40, 9], "TL0PICIDX alone wraps"),
            (&[0x90, 0x20, 0x40, 9], 5, 1, &[0x90, 0x20, 0x40, 9], "layers alone"),
            (&[0x10, 0x80, 1, 9], 5, 1, &[0x10, 0x80, 1, 9], "no extension"),
            (&[0x90, 0xc0, 0x80, 1], 5, 1, &[0x90, 0xc0, 0x80, 1], "TL0PICIDX cut off"),
            (&[0x90, 0x80, 0x80], 5, 1, &[0x90, 0x80, 0x80], "half a picture id"),
            (&[], 5, 1, &[], "nothing"),
        ] {
            let mut shifted = payload.to_vec();
            shift(&mut shifted, pictures, tl0);
            assert_eq!(shifted, expected, "{remark}");
        }
    }

    #[test]
    fn the_first_partition_of_a_frame_says_whether_it_is_a_key_frame() {
        for (payload, expected, remark) in [
            (&[0x10, 0x10, 0, 0, 0x9d, 1, 0x2a, 0][..], Some((true, true)), "key frame"),
            (&[0x10, 0x10, 0, 0], Some((true, true)), "key frame, start code in the next packet"),
            (&[0x10, 0x10, 0, 0, 0x9d, 1, 0x2b, 0], None, "wrong start code"),
            (&[0x10, 0x11, 0, 0, 0, 0, 0], Some((false, true)), "interframe"),
            (&[0x00, 0x10, 0, 0], Some((false, false)), "within a partition"),
            (&[0x11, 0x10, 0, 0], Some((false, false)), "second partition"),
        ] {
            let info = inspect(payload, false).map(|info| (info.key_frame, info.starts_frame));
            assert_eq!(info, expected, "{remark}");
        }
        let info = inspect(&[0xb0, 0x20, 0x40, 1], true).unwrap();
        assert!(info.ends_frame && info.discardable);
        assert_eq!((info.temporal_layer, info.spatial_layer), (Some(1), None));
    }
}
