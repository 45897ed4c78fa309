//! Frames of an item as those of its stream: metadata and configurations when they change, then
//! access units.
//!
//! Remembers what the current publication has been sent, and ends a track that the current item
//! does not have, so that new players do not wait for it.

use std::sync::Arc;

use media::{Frame, FrameRole, MediaKind, Metadata};
use mp4::{Sample, Track};

/// Precedes samples with what a player needs to know before them, and repeats that only where it
/// changes.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Metadata of the present item.
    metadata: Metadata,
    /// Metadata sent last.
    sent_metadata: Option<Metadata>,
    /// Configurations of the present item's audio and video, as far as they have come.
    configs: [Option<Frame>; 2],
    /// Audio and video configuration sent last.
    sent: [Option<Frame>; 2],
    /// Frames wait for the next key frame.
    awaits_key: bool,
    /// Whether the present item has audio, and video, for which audio waits.
    has: [bool; 2],
}

const AUDIO: usize = 0;
const VIDEO: usize = 1;

impl Outgoing {
    /// An item with these tracks begins: at most one of video and one of audio.
    pub(super) fn begin_item(&mut self, tracks: &[Track]) {
        let of = |kind| tracks.iter().find(|track| track.track.kind == kind);
        let (audio, video) = (of(MediaKind::Audio), of(MediaKind::Video));
        self.has = [audio.is_some(), video.is_some()];
        self.configs = [None, None];
        self.metadata = Metadata {
            video: video.map(|track| (track.codec, track.width, track.height)),
            audio: audio.map(|track| {
                (track.codec, track.sample_rate, u8::try_from(track.channels).unwrap_or(u8::MAX))
            }),
        };
    }

    /// A publication begins: it knows nothing yet, and begins with a key frame.
    pub(super) fn begin_publication(&mut self) {
        (self.sent_metadata, self.sent) = (None, [None, None]);
        self.awaits_key = true;
    }

    /// The frames to send for a sample, in order; none for one that waits for a key frame.
    pub(super) fn frames(&mut self, sample: Sample) -> Vec<Arc<Frame>> {
        let Sample { mut frame, mut config, .. } = sample;
        // Whichever track of its file it is, it is the only one of its kind here.
        for frame in [&mut frame].into_iter().chain(&mut config) {
            frame.track.index = 0;
        }
        let own = match frame.track.kind {
            MediaKind::Audio => AUDIO,
            MediaKind::Video => VIDEO,
            MediaKind::Data => return Vec::new(),
        };
        if config.is_some() {
            self.configs[own] = config;
        }
        if self.awaits_key && self.has[VIDEO] && !frame.is_key() {
            return Vec::new();
        }
        self.awaits_key = false;
        let times = (frame.dts, frame.pts);
        let mut frames = Vec::with_capacity(1);
        if self.sent_metadata.replace(self.metadata) != Some(self.metadata) {
            frames.push(Arc::new(Frame::metadata(self.metadata, frame.dts)));
        }
        // Tracks of the publication that the current item does not have.
        for (track, sent) in self.sent.iter_mut().enumerate() {
            let Some(ended) = sent.take_if(|_| !self.has[track]) else { continue };
            let end = Frame::new(ended.track, FrameRole::End, ended.codec, times, Vec::new());
            frames.push(Arc::new(end));
        }
        if let Some(config) = &self.configs[own]
            && !self.sent[own].as_ref().is_some_and(|sent| sent.repeats(config))
        {
            let mut config = config.clone();
            (config.dts, config.pts) = (frame.dts, frame.dts);
            self.sent[own] = Some(config.clone());
            frames.push(Arc::new(config));
        }
        frames.push(Arc::new(frame));
        frames
    }
}
