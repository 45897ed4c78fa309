//! Frames of an item as messages of its stream: configurations when they change, then bodies with their times.
//!
//! Remembers what the present publication has been told. How a body looks is `live::mp4`'s and `live::flv`'s business.

use live::flv::{self, Metadata};
use live::mp4::{BodyWriter, Sample, Track, TrackKind};
use live::rtmp::MediaKind;

use super::timeline::Stamp;

/// What `onMetaData` says made the stream.
const ENCODER: &str = concat!("Millstream/", env!("CARGO_PKG_VERSION"));

/// One message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: MediaKind,
    /// Its body.
    pub body: Vec<u8>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Of the present item: one of video and one of sound at most.
    writers: Vec<(u32, BodyWriter)>,
    /// `onMetaData` of the present item.
    metadata: Vec<u8>,
    /// What the publication was told last: metadata, configuration of sound and of video.
    told: [Option<Vec<u8>>; 3],
    /// Frames wait for the next key frame.
    awaits_key: bool,
    /// The present item has video, so that sound waits for it.
    has_video: bool,
}

impl Outgoing {
    /// An item with these tracks begins.
    pub fn begin_item(&mut self, tracks: &[Track]) {
        self.writers = tracks.iter().map(|track| (track.id, BodyWriter::new(track))).collect();
        let of = |kind| tracks.iter().find(|track| track.kind == kind);
        self.has_video = of(TrackKind::Video).is_some();
        self.metadata.clear();
        flv::write_metadata(
            &mut self.metadata,
            &Metadata {
                video: of(TrackKind::Video).map(|track| (track.codec, track.width, track.height)),
                sound: of(TrackKind::Audio).map(|track| {
                    (track.codec, track.sample_rate, u8::try_from(track.channels).unwrap_or(u8::MAX))
                }),
                encoder: ENCODER,
            },
        );
    }

    /// A publication begins: it knows nothing yet, and begins with a key frame.
    pub fn begin_publication(&mut self) {
        self.told = [const { None }; 3];
        self.awaits_key = true;
        for (_, writer) in &mut self.writers {
            writer.resend();
        }
    }

    /// The messages of a frame, in order; none for one that waits for a key frame.
    pub fn messages(&mut self, sample: &Sample, stamp: Stamp) -> Result<Vec<Message>, String> {
        if self.awaits_key && self.has_video && !(sample.kind == TrackKind::Video && sample.is_key) {
            return Ok(Vec::new());
        }
        self.awaits_key = false;
        let Some(kind) = media_kind(sample) else { return Ok(Vec::new()) };
        let writer = self.writers.iter_mut().find(|(id, _)| *id == sample.track_id);
        let (_, writer) = writer.ok_or("a frame of no track of the item")?;
        let mut messages = Vec::with_capacity(1);
        if self.told[0].as_ref() != Some(&self.metadata) {
            self.told[0] = Some(self.metadata.clone());
            messages.push(Message { kind: MediaKind::Data, body: self.metadata.clone() });
        }
        if let Some(config) = writer.config(sample).map_err(|error| error.to_string())? {
            let told = &mut self.told[1 + usize::from(kind == MediaKind::Video)];
            if told.as_ref() != Some(&config) {
                *told = Some(config.clone());
                messages.push(Message { kind, body: config });
            }
        }
        let body = writer.frame(sample, stamp.composition_ms).map_err(|error| error.to_string())?;
        messages.push(Message { kind, body });
        Ok(messages)
    }
}

/// What of a stream a frame is; `None` for what is neither seen nor heard.
pub fn media_kind(sample: &Sample) -> Option<MediaKind> {
    match sample.kind {
        TrackKind::Video => Some(MediaKind::Video),
        TrackKind::Audio => Some(MediaKind::Audio),
        TrackKind::Other => None,
    }
}
