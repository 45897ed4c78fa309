//! `onMetaData`: told again whenever what it says has changed.

use std::sync::Arc;

use delivery::{Frame, FrameRole, Track};
use media::Codec;
use media::config::Record;
use rtmp::flv::{Metadata, write_metadata};

use super::FramesOut;

/// What players have been told of the stream as a whole.
#[derive(Debug, Default)]
pub(super) struct Headers {
    video: Option<(Codec, u32, u32)>,
    audio: Option<(Codec, u32, u8)>,
}

impl Headers {
    /// Video is configured so from here.
    pub(super) fn video(&mut self, codec: Codec, record: &Record, time_ms: u64, out: &mut FramesOut) {
        let video = Some((codec, record.width, record.height));
        if std::mem::replace(&mut self.video, video) != video {
            self.tell(time_ms, out);
        }
    }

    /// Audio is configured so from here: codec, samples per second, channels.
    pub(super) fn audio(&mut self, audio: (Codec, u32, u8), time_ms: u64, out: &mut FramesOut) {
        if self.audio.replace(audio) != Some(audio) {
            self.tell(time_ms, out);
        }
    }

    /// Another publisher, of whom nothing is known.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn tell(&self, time_ms: u64, out: &mut FramesOut) {
        let mut payload = Vec::new();
        let Self { video, audio } = *self;
        write_metadata(&mut payload, &Metadata { video, sound: audio, encoder: ENCODER });
        let (track, role, timestamp) = (Track::Data, FrameRole::Metadata, time_ms as u32);
        out.frames.push(Arc::new(Frame { track, role, timestamp, payload }));
    }
}

const ENCODER: &str = concat!("Millstream ", env!("CARGO_PKG_VERSION"));
