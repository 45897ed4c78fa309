//! A frame as the tally counts it: as the FLV tag body that it was published in.

use media::{Codec, Frame, FrameRole};
use rtmp::MediaKind;

use crate::stamp::{AVC_TAG_HEADER_BYTES, PREFIX_BYTES};
use crate::tally::Arrival;

/// Bytes of a body for which what it is counted by is made.
pub type Prefix = [u8; PREFIX_BYTES];

/// What came with `frame`; `None` for what is not coded media, which nobody counts.
pub fn arrival<'a>(frame: &Frame, prefix: &'a mut Prefix) -> Option<Arrival<'a>> {
    let (kind, header): (_, &[u8]) = match (frame.role, frame.codec) {
        (FrameRole::Key, _) => (MediaKind::Video, &[0x17, 1, 0, 0, 0]),
        (FrameRole::Inter, _) => (MediaKind::Video, &[0x27, 1, 0, 0, 0]),
        (FrameRole::Audio, Codec::Aac) => (MediaKind::Audio, &[0xaf, 1]),
        (FrameRole::Audio, _) => (MediaKind::Audio, &[0x2f]),
        _ => return None,
    };
    debug_assert!(header.len() <= AVC_TAG_HEADER_BYTES);
    let data = frame.data();
    let taken = data.len().min(PREFIX_BYTES - header.len());
    prefix[..header.len()].copy_from_slice(header);
    prefix[header.len()..header.len() + taken].copy_from_slice(&data[..taken]);
    Some(Arrival {
        kind,
        timestamp: frame.dts.millis() as u32,
        length: (header.len() + data.len()) as u32,
        prefix: &prefix[..header.len() + taken],
    })
}

#[cfg(test)]
mod tests {
    use media::{Timestamp, TrackId};

    use super::*;
    use crate::sample::{Sample, Timeline};
    use crate::stamp;

    #[test]
    fn a_frame_counts_as_the_tag_it_came_in() {
        let mut sample = Sample::embedded().expect("the embedded sample is readable");
        let mut timeline = Timeline::new(3);
        for _ in 0..200 {
            let due = timeline.take(&mut sample, 77);
            let (kind, length) = (due.kind, due.body.len());
            let (frame, _) = super::super::ts::frame_of(&due).expect("a frame");
            let mut prefix = [0; PREFIX_BYTES];
            let counted = arrival(&frame, &mut prefix).expect("media");
            assert_eq!((counted.kind, counted.length as usize), (kind, length));
            assert_eq!(stamp::find(counted.prefix).is_some(), kind == MediaKind::Video);
        }
        let nothing = (Timestamp::ZERO, Timestamp::ZERO);
        let config = Frame::new(TrackId::VIDEO, FrameRole::Config, Codec::H264, nothing, vec![1]);
        assert!(arrival(&config, &mut [0; PREFIX_BYTES]).is_none());
    }
}
