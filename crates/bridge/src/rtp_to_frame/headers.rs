//! Metadata of the stream: sent again whenever it has changed.

use std::sync::Arc;

use media::config::Record;
use media::{Codec, Frame, Metadata, Timestamp};

use super::FramesOut;

/// What players have been told of the stream as a whole.
#[derive(Debug, Default)]
pub(super) struct Headers(Metadata);

impl Headers {
    /// Video is configured so from here.
    pub(super) fn video(&mut self, codec: Codec, record: &Record, time: Timestamp, out: &mut FramesOut) {
        self.set(Metadata { video: Some((codec, record.width, record.height)), ..self.0 }, time, out);
    }

    /// Audio is configured so from here: codec, samples per second, channels.
    pub(super) fn audio(&mut self, audio: (Codec, u32, u8), time: Timestamp, out: &mut FramesOut) {
        self.set(Metadata { audio: Some(audio), ..self.0 }, time, out);
    }

    /// Another publisher, of whom nothing is known.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn set(&mut self, metadata: Metadata, time: Timestamp, out: &mut FramesOut) {
        if self.0 != metadata {
            self.0 = metadata;
            out.frames.push(Arc::new(Frame::metadata(metadata, time)));
        }
    }
}
