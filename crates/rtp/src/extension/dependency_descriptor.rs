//! Dependency descriptor (AV1 RTP specification, appendix A): frame borders beside the payload, for
//! any codec.
//!
//! ```text
//! |S|E| template id |       frame number (16)       |T|A|D|F|C| ...   the second part only if there are more bytes
//! ```
//! Read as far as forwarding whole layers needs it. Left out: templates, chains and decode targets,
//! which only a server that drops frames out of a layer needs; the descriptor is carried through as
//! it is.

/// The fields of a dependency descriptor that every packet has, and whether it brings a new structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DependencyDescriptor {
    /// First packet of a frame.
    pub starts_frame: bool,
    /// Last packet of a frame.
    pub ends_frame: bool,
    /// Which template of the structure describes the frame, `0..=63`.
    pub template_id: u8,
    /// Number of the frame; wraps at 2^16.
    pub frame_number: u16,
    /// A template structure comes with it: the first packet of a key frame.
    pub has_structure: bool,
}

impl DependencyDescriptor {
    /// Reads the mandatory fields and the flag behind them; `None` if there are fewer than three bytes.
    #[inline]
    pub fn parse(data: &[u8]) -> Option<Self> {
        let [first, high, low, ..] = *data else { return None };
        Some(Self {
            starts_frame: first & 0x80 != 0,
            ends_frame: first & 0x40 != 0,
            template_id: first & 0x3f,
            frame_number: u16::from_be_bytes([high, low]),
            has_structure: data.get(3).is_some_and(|flags| flags & 0x80 != 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_fields_and_the_structure_flag_are_read() {
        let descriptor = DependencyDescriptor::parse(&[0x80 | 5, 1, 2]).unwrap();
        assert_eq!(
            descriptor,
            DependencyDescriptor {
                starts_frame: true,
                ends_frame: false,
                template_id: 5,
                frame_number: 0x0102,
                has_structure: false
            }
        );
        assert!(DependencyDescriptor::parse(&[0x40, 0, 0, 0x80]).unwrap().has_structure);
        assert!(DependencyDescriptor::parse(&[0x40, 0, 0, 0x80]).unwrap().ends_frame);
        assert!(!DependencyDescriptor::parse(&[0x40, 0, 0, 0x7f]).unwrap().has_structure);
        assert_eq!(DependencyDescriptor::parse(&[0xff, 0xff]), None);
    }
}
