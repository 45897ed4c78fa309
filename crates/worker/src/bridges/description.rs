//! What has been seen of a publisher's frames that says what they would be as packets.

use std::sync::Arc;

use media::{Frame, FrameRole, MediaKind};

/// What a publisher's frames have shown, and how often they have been looked at.
#[derive(Debug, Default)]
pub(crate) struct Description {
    /// The first frame of audio, and of video, if no header came before it: nothing else describes the track.
    pub(super) first: [Option<Arc<Frame>>; 2],
    /// Pictures that are sent before others which are shown earlier, as far as they are counted.
    out_of_order: u32,
    /// How often the stream has been described as packets without a pause.
    pub(super) made: u8,
    /// When it is to be described again, because too little of it had been seen.
    pub(super) due_ms: Option<u64>,
    /// The operator has been told what of the pictures WebRTC cannot show.
    pub(super) is_warned: bool,
}

impl Description {
    /// Takes in a frame that is no header, and says whether it tells something new. `has_config`: the header
    /// of its track came before it.
    pub(crate) fn note(&mut self, frame: &Arc<Frame>, has_config: bool) -> bool {
        // Some codecs say what they are only with a key frame.
        let is_awaited = frame.role == FrameRole::Key && self.due_ms.is_some();
        let is_first = !has_config && self.note_first(frame);
        let has_shown_order = self.note_order(frame);
        is_awaited || is_first || has_shown_order
    }

    fn note_first(&mut self, frame: &Arc<Frame>) -> bool {
        let first = match frame.track.kind {
            MediaKind::Audio => &mut self.first[0],
            MediaKind::Video => &mut self.first[1],
            MediaKind::Data => return false,
        };
        let is_first = first.is_none();
        if is_first {
            *first = Some(Arc::clone(frame));
        }
        is_first
    }

    /// Whether enough is known by now of a publisher that does not send pictures in the order they are shown.
    fn note_order(&mut self, frame: &Frame) -> bool {
        let is_counted = frame.track.kind == MediaKind::Video
            && self.out_of_order < ORDER_PICTURES
            && frame.pts != frame.dts
            && frame.pts.millis() != frame.dts.millis();
        self.out_of_order += u32::from(is_counted);
        is_counted && (self.out_of_order == 1 || self.out_of_order == ORDER_PICTURES)
    }

    /// A track is over: what was known of it says nothing of what may come.
    pub(crate) fn track_ended(&mut self, kind: MediaKind) {
        match kind {
            MediaKind::Audio => self.first[0] = None,
            MediaKind::Video => (self.first[1], self.out_of_order) = (None, 0),
            MediaKind::Data => {}
        }
    }
}

/// Pictures after which the order that a publisher sends them in is known: more than an encoder keeps back.
const ORDER_PICTURES: u32 = 24;
