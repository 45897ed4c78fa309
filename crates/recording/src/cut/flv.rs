//! FLV: each frame is a tag, as players of HTTP-FLV get it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};
use rtmp::flv::{TagBody, write_file_header, write_tag_parts};

use super::Piece;
use crate::settings::Rotation;

#[derive(Debug)]
pub(super) struct FlvCutter {
    rotation: Rotation,
    fragment: Timestamp,
    /// What players need before the frames of a track, and what the publisher says of itself.
    configs: BTreeMap<TrackId, Arc<Frame>>,
    metadata: Option<Arc<Frame>>,
    file: Option<File>,
    next_file: u64,
    /// Video has come since the publisher began: files begin with its key frames.
    has_video: bool,
    frames_dropped: u64,
    out: VecDeque<Piece>,
}

#[derive(Debug)]
struct File {
    number: u64,
    base: Timestamp,
    newest: Timestamp,
    bytes: u64,
    /// Tags that are not a fragment yet, and the time of the first of them.
    tags: Vec<u8>,
    tags_from: Timestamp,
    wants_end: bool,
    is_lost: bool,
}

impl FlvCutter {
    pub(super) fn new(rotation: Rotation, fragment: Duration) -> Self {
        Self {
            rotation,
            fragment: Timestamp::from_millis(fragment.as_millis() as i64),
            configs: BTreeMap::new(),
            metadata: None,
            file: None,
            next_file: 0,
            has_video: false,
            frames_dropped: 0,
            out: VecDeque::new(),
        }
    }

    pub(super) fn push(&mut self, now: Duration, frame: &Arc<Frame>) {
        let is_video = frame.track.kind == MediaKind::Video;
        match frame.role {
            FrameRole::Config => {
                let before = self.configs.insert(frame.track, Arc::clone(frame));
                self.has_video |= is_video;
                match (&mut self.file, before) {
                    (Some(_), Some(before)) if before.repeats(frame) => {}
                    (Some(file), Some(_)) => file.wants_end = true,
                    // A track is added, which FLV does not announce.
                    (Some(_), None) => self.write(frame, frame.dts),
                    (None, _) => {}
                }
                return;
            }
            FrameRole::Metadata => {
                self.metadata = Some(Arc::clone(frame));
                return;
            }
            FrameRole::End | FrameRole::Other => return,
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => self.has_video |= is_video,
        }
        if let Some(file) = &mut self.file {
            let step = frame.dts - file.newest;
            file.wants_end |= step > JUMP_FORWARD
                || step < JUMP_BACK
                || (frame.dts - file.base).to_duration() >= self.rotation.after
                || file.bytes + file.tags.len() as u64 >= self.rotation.bytes;
            if step > JUMP_FORWARD || step < JUMP_BACK {
                self.end();
            }
        }
        let may_begin = if self.has_video { frame.is_key() && is_video } else { !is_video };
        if self.file.as_ref().is_some_and(|file| file.wants_end) && may_begin {
            self.end();
        }
        if self.file.is_none() {
            if !may_begin {
                self.frames_dropped += 1;
                return;
            }
            self.begin(now, frame);
        }
        self.write(frame, frame.dts);
        if let Some(file) = &self.file
            && frame.dts - file.tags_from >= self.fragment
        {
            self.send();
        }
    }

    pub(super) fn interrupt(&mut self) {
        self.end();
        self.configs.clear();
        (self.metadata, self.has_video) = (None, false);
    }

    pub(super) fn lose(&mut self, number: u64) {
        if let Some(file) = self.file.as_mut().filter(|file| file.number == number) {
            (file.is_lost, file.wants_end) = (true, true);
        }
    }

    pub(super) fn poll(&mut self) -> Option<Piece> {
        self.out.pop_front()
    }

    pub(super) fn frames_dropped(&self) -> u64 {
        self.frames_dropped
    }

    fn begin(&mut self, now: Duration, frame: &Frame) {
        let mut head = Vec::new();
        let has_audio = self.configs.keys().any(|track| track.kind == MediaKind::Audio) || !self.has_video;
        write_file_header(&mut head, has_audio, self.has_video);
        let number = self.next_file;
        self.next_file += 1;
        self.out.push_back(Piece::Begin { file: number, start: now, head });
        let base = frame.dts;
        self.file = Some(File {
            number,
            base,
            newest: base,
            bytes: 0,
            tags: Vec::new(),
            tags_from: base,
            wants_end: false,
            is_lost: false,
        });
        for header in self.metadata.iter().chain(self.configs.values()).cloned().collect::<Vec<_>>() {
            self.write(&header, base);
        }
    }

    fn write(&mut self, frame: &Frame, dts: Timestamp) {
        let Some(file) = &mut self.file else { return };
        let Some(body) = TagBody::of(frame).filter(|_| !file.is_lost) else {
            // Sent with an earlier frame, or FLV has no place for it.
            self.frames_dropped += u64::from(file.is_lost);
            return;
        };
        file.newest = file.newest.max(dts);
        // Audio that comes late may be of before the first picture.
        let millis = (dts.millis() - file.base.millis()).clamp(0, u32::MAX.into()) as u32;
        write_tag_parts(&mut file.tags, frame.track.kind, millis, body.parts());
    }

    /// The tags at hand are a fragment.
    fn send(&mut self) {
        let Some(file) = &mut self.file else { return };
        let tags = std::mem::take(&mut file.tags);
        let media = (file.newest - file.tags_from).to_duration();
        file.tags_from = file.newest;
        file.bytes += tags.len() as u64;
        if !(tags.is_empty() || file.is_lost) {
            self.out.push_back(Piece::Fragment { file: file.number, bytes: Bytes::from(tags), media });
        }
    }

    fn end(&mut self) {
        self.send();
        if let Some(file) = self.file.take() {
            self.out.push_back(Piece::End { file: file.number });
        }
    }
}

/// Steps of the publisher's clock that are no pause, and no interleaving.
const JUMP_FORWARD: Timestamp = Timestamp::from_millis(10_000);
const JUMP_BACK: Timestamp = Timestamp::from_millis(-3_000);
