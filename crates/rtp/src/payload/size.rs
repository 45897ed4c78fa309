//! Sizes of pictures, as the first packets of a key frame tell them.

use media::config;

use super::{Codec, av1, h264, h265, vp8, vp9};

/// Size of a picture, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureSize {
    /// Its width.
    pub width: u16,
    /// Its height.
    pub height: u16,
}

/// Sizes of the spatial layers of an encoding, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureSizes {
    sizes: [PictureSize; SPATIAL_LAYERS_MAX],
    /// `0 <= len <= SPATIAL_LAYERS_MAX`.
    len: usize,
}

impl PictureSizes {
    /// Adds the size of the next higher spatial layer. There is no ninth.
    pub fn push(&mut self, width: u32, height: u32) {
        let (Ok(width), Ok(height)) = (width.try_into(), height.try_into()) else { return };
        if let Some(place) = self.sizes.get_mut(self.len) {
            *place = PictureSize { width, height };
            self.len += 1;
        }
    }

    /// That of pictures with this spatial layer as their highest; of the highest there is if there are
    /// fewer. `None` if nothing is known.
    pub fn of(&self, spatial: u8) -> Option<PictureSize> {
        self.sizes[..self.len].iter().take(usize::from(spatial) + 1).next_back().copied()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What one payload has on the sizes of its pictures: parameter sets of H.264 and H.265, a sequence header
/// of AV1, the first packet of a key frame of VP8 and VP9. Spatial layers are distinguished in VP9, whose
/// descriptor has their sizes. Empty if it tells nothing.
pub fn picture_sizes(codec: Codec, payload: &[u8]) -> PictureSizes {
    let mut sizes = PictureSizes::default();
    if codec == Codec::Vp9 && vp9::layer_sizes(payload, &mut sizes).is_some() {
        return sizes;
    }
    let size = match codec {
        Codec::H264 => h264::sps(payload).and_then(|sps| config::picture_size(codec, &sps)),
        Codec::H265 => h265::sps(payload).and_then(|sps| config::picture_size(codec, &sps)),
        Codec::Av1 => av1::with_sequence_header(payload, |header| config::picture_size(codec, header)),
        Codec::Vp8 => vp8::Descriptor::parse(payload)
            .and_then(|descriptor| config::picture_size(codec, payload.get(descriptor.len..)?)),
        Codec::Vp9 => vp9::Descriptor::parse(payload)
            .and_then(|descriptor| config::picture_size(codec, payload.get(descriptor.len..)?)),
        _ => None,
    };
    if let Some((width, height)) = size.filter(|(width, height)| *width > 0 && *height > 0) {
        sizes.push(width, height);
    }
    sizes
}

/// Spatial layers that payload formats can name (three bits).
const SPATIAL_LAYERS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn size(codec: Codec, payload: &[u8]) -> Option<(u16, u16)> {
        picture_sizes(codec, payload).of(7).map(|size| (size.width, size.height))
    }

    /// 1280x720 of libx264, as `media` has it.
    const SPS: [u8; 24] = [
        0x67, 0x42, 0xc0, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xfe, 0xb0, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00,
        0x00, 0x03, 0x00, 0x3c, 0x0f, 0x18, 0x32,
    ];

    #[test]
    fn a_parameter_set_alone_or_with_others_tells_the_size() {
        let sps = [&SPS[..], &[0xa0]].concat();
        assert_eq!(size(Codec::H264, &sps), Some((1280, 718)));
        let mut stap = vec![24, 0, 2, 9, 0x10, 0, sps.len() as u8];
        stap.extend(&sps);
        stap.extend([0, 4, 0x68, 0xce, 0x0f, 0xc8]);
        assert_eq!(size(Codec::H264, &stap), Some((1280, 718)));
        for len in 0..sps.len() - 3 {
            let _ = size(Codec::H264, &sps[..len]);
        }
        assert_eq!(size(Codec::H264, &[0x65, 0x88, 1, 2]), None, "a slice");
    }

    #[test]
    fn key_frames_of_vp8_tell_the_size_and_others_do_not() {
        let key = [0x10, 0x50, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01];
        assert_eq!(size(Codec::Vp8, &key), Some((640, 360)));
        assert_eq!(size(Codec::Vp8, &[0x10, 0x51, 0, 0, 1, 2, 3, 4, 5, 6, 7]), None);
    }

    #[test]
    fn a_scalability_structure_has_the_size_of_each_layer() {
        // B and V; three layers with sizes.
        let mut payload = vec![0x0a, 2 << 5 | 0x10];
        for (width, height) in [(320u16, 180u16), (640, 360), (1280, 720)] {
            payload.extend(width.to_be_bytes());
            payload.extend(height.to_be_bytes());
        }
        payload.extend([0x82, 0x49]);
        let sizes = picture_sizes(Codec::Vp9, &payload);
        let heights = [0, 1, 2, 7].map(|spatial| sizes.of(spatial).map(|size| size.height));
        assert_eq!(heights, [Some(180), Some(360), Some(720), Some(720)]);
        for len in 0..payload.len() {
            let _ = picture_sizes(Codec::Vp9, &payload[..len]);
        }
        assert!(picture_sizes(Codec::Vp9, &[0x08, 0x86, 0]).is_empty());
    }

    #[test]
    fn nothing_is_made_up_of_what_is_empty_or_audio() {
        for codec in super::super::CODECS {
            assert!(picture_sizes(codec, &[]).is_empty());
        }
        assert_eq!(PictureSizes::default().of(0), None);
    }
}
