//! Frames of an item as messages of its stream: configurations when they change, then bodies with their times.
//!
//! Remembers what the present publication has been sent, and ends a track that the present item does not have, so that who
//! begins to play does not wait for it. How a body looks is `mp4`'s and `rtmp::flv`'s business.

use mp4::{BodyWriter, Sample, Track, TrackKind};
use rtmp::MediaKind;
use rtmp::flv::{self, Codec, Metadata, SoundPart, VideoPart};

use super::timeline::Stamp;

/// What `onMetaData` says made the stream.
const ENCODER: &str = concat!("Millstream/", env!("CARGO_PKG_VERSION"));

/// One message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// What it is.
    pub kind: MediaKind,
    /// Its body.
    pub body: Vec<u8>,
}

/// Turns the samples of each item into FLV tags, and repeats configuration only where it changes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Of the present item: at most one of video and one of audio.
    writers: Vec<(u32, BodyWriter)>,
    /// `onMetaData` of the present item.
    metadata: Vec<u8>,
    /// `onMetaData` sent last.
    sent_metadata: Option<Vec<u8>>,
    /// Audio and video configuration sent last.
    sent: [Option<SentConfig>; 2],
    /// Frames wait for the next key frame.
    awaits_key: bool,
    /// Whether the present item has audio, and video, for which audio waits.
    has: [bool; 2],
}

/// A configuration.
#[derive(Debug, PartialEq, Eq)]
struct SentConfig {
    codec: Codec,
    body: Vec<u8>,
}

const AUDIO: usize = 0;
const VIDEO: usize = 1;

impl Outgoing {
    /// An item with these tracks begins.
    pub(super) fn begin_item(&mut self, tracks: &[Track]) {
        self.writers = tracks.iter().map(|track| (track.id, BodyWriter::new(track))).collect();
        let of = |kind| tracks.iter().find(|track| track.kind == kind);
        self.has = [TrackKind::Audio, TrackKind::Video].map(|kind| of(kind).is_some());
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
    pub(super) fn begin_publication(&mut self) {
        (self.sent_metadata, self.sent) = (None, [None, None]);
        self.awaits_key = true;
        for (_, writer) in &mut self.writers {
            writer.resend();
        }
    }

    /// The messages of a frame, in order; none for one that waits for a key frame.
    pub(super) fn messages(&mut self, sample: &Sample, stamp: Stamp) -> Result<Vec<Message>, String> {
        if self.awaits_key && self.has[VIDEO] && !(sample.kind == TrackKind::Video && sample.is_key) {
            return Ok(Vec::new());
        }
        self.awaits_key = false;
        let Some(kind) = media_kind(sample) else { return Ok(Vec::new()) };
        let writer = self.writers.iter_mut().find(|(id, _)| *id == sample.track_id);
        let (_, writer) = writer.ok_or("a frame of no track of the item")?;
        let config = writer.config(sample).map_err(|error| error.to_string())?;
        let body = writer.frame(sample, stamp.composition_ms).map_err(|error| error.to_string())?;
        let mut messages = Vec::with_capacity(1);
        if self.sent_metadata.as_ref() != Some(&self.metadata) {
            self.sent_metadata = Some(self.metadata.clone());
            messages.push(Message { kind: MediaKind::Data, body: self.metadata.clone() });
        }
        messages.extend(self.ends());
        if let Some(config) = config {
            let codec = flv::inspect(kind, &config).map_or(Codec::None, |info| info.codec);
            let config = SentConfig { codec, body: config };
            let sent = &mut self.sent[if kind == MediaKind::Video { VIDEO } else { AUDIO }];
            if sent.as_ref() != Some(&config) {
                messages.push(Message { kind, body: config.body.clone() });
                *sent = Some(config);
            }
        }
        messages.push(Message { kind, body });
        Ok(messages)
    }

    /// Ends of tracks that the publication was told of and the present item does not have.
    fn ends(&mut self) -> Vec<Message> {
        let mut ends = Vec::new();
        for (track, sent) in self.sent.iter_mut().enumerate() {
            if self.has[track] {
                continue;
            }
            let Some(sent) = sent.take() else { continue };
            let mut body = Vec::new();
            let (kind, written) = match track {
                VIDEO => (MediaKind::Video, flv::write_video_head(&mut body, sent.codec, VideoPart::End)),
                _ => (MediaKind::Audio, flv::write_sound_head(&mut body, sent.codec, SoundPart::End)),
            };
            ends.extend(written.map(|()| Message { kind, body }));
        }
        ends
    }
}

/// What of a stream a frame is; `None` for what is neither seen nor heard.
pub(super) fn media_kind(sample: &Sample) -> Option<MediaKind> {
    match sample.kind {
        TrackKind::Video => Some(MediaKind::Video),
        TrackKind::Audio => Some(MediaKind::Audio),
        TrackKind::Other => None,
    }
}
