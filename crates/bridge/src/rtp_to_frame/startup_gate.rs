//! The beginning of a publisher: what it sends is held back until its tracks are known.
//!
//! Players make up their minds at the first bytes: which tracks there are, and (`onMetaData`) of which kind.
//! Audio comes at once, video begins with a key frame some packets later, AAC has been through a transcoder.
//! So the first frames wait for each other, a second or so at most; then metadata and configurations go
//! ahead, and what comes after passes freely. Audio from before the first picture is left out.

use std::sync::Arc;
use std::time::{Duration, Instant};

use media::{Frame, FrameRole, MediaKind};

use super::{FramesOut, RtpPayload};

/// State of the beginning. A new one for each publisher.
#[derive(Debug, Default)]
pub(super) struct StartupGate {
    /// When its first packet came.
    since: Option<Instant>,
    audio: Progress,
    video: Progress,
    held: Vec<Arc<Frame>>,
    is_over: bool,
}

impl StartupGate {
    /// One that holds nothing back.
    pub(super) fn over() -> Self {
        Self { is_over: true, ..Self::default() }
    }
}

/// How far a track is.
#[derive(Debug, Default, Clone, Copy)]
struct Progress {
    is_seen: bool,
    is_ready: bool,
}

impl Progress {
    /// Whether the beginning need not wait for it any longer.
    fn is_settled(self, waited: Duration, limit: Duration) -> bool {
        self.is_ready || waited >= if self.is_seen { limit } else { UNSEEN_WAIT.min(limit) }
    }
}

impl StartupGate {
    /// A packet has come.
    pub(super) fn note(&mut self, now: Instant, payload: &RtpPayload<'_>) {
        self.since.get_or_insert(now);
        match payload.kind() {
            MediaKind::Audio => self.audio.is_seen = true,
            _ => self.video.is_seen = true,
        }
    }

    /// Looks at the frames from `first` on: holds them back, or lets all go.
    pub(super) fn pass(&mut self, now: Instant, first: usize, out: &mut FramesOut) {
        if self.is_over {
            return;
        }
        for frame in out.frames.drain(first..) {
            match frame.track.kind {
                MediaKind::Audio => self.audio.is_ready = true,
                MediaKind::Video => self.video.is_ready = true,
                MediaKind::Data => {}
            }
            self.held.push(frame);
        }
        let waited = self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let is_settled =
            self.audio.is_settled(waited, AUDIO_WAIT) && self.video.is_settled(waited, VIDEO_WAIT);
        if (self.held.is_empty() || !is_settled) && self.held.len() < HELD_FRAMES_MAX {
            return;
        }
        self.is_over = true;
        let held = std::mem::take(&mut self.held);
        let is_media =
            |frame: &&Arc<Frame>| matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio);
        let first_picture = held.iter().find(|frame| frame.track.kind == MediaKind::Video && is_media(frame));
        let Some(begin) = first_picture.or_else(|| held.iter().find(is_media)) else {
            out.frames.extend(held);
            return;
        };
        let (begin, has_pictures) = (begin.dts, first_picture.is_some());
        // The newest metadata describes both tracks; of configurations the first is that of the first frames.
        let metadata = held.iter().rfind(|frame| frame.track.kind == MediaKind::Data);
        let config =
            |kind| held.iter().position(|frame| (frame.track.kind, frame.role) == (kind, FrameRole::Config));
        let configs = [config(MediaKind::Video), config(MediaKind::Audio)];
        let ahead = metadata.into_iter().chain(configs.into_iter().flatten().map(|at| &held[at]));
        out.frames.extend(ahead.map(|frame| {
            let mut frame = Frame::clone(frame);
            (frame.dts, frame.pts) = (begin, begin);
            Arc::new(frame)
        }));
        let rest = held.iter().enumerate().filter(|(at, frame)| {
            let is_early = frame.track.kind == MediaKind::Audio && has_pictures && frame.dts < begin;
            frame.track.kind != MediaKind::Data && !configs.contains(&Some(*at)) && !is_early
        });
        out.frames.extend(rest.map(|(_, frame)| Arc::clone(frame)));
    }

    /// When to look again.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let since = self.since.filter(|_| !self.is_over && !self.held.is_empty())?;
        let wait = |track: Progress, limit: Duration| match track {
            Progress { is_ready: true, .. } => Duration::ZERO,
            Progress { is_seen: true, .. } => limit,
            Progress { is_seen: false, .. } => UNSEEN_WAIT,
        };
        Some(since + wait(self.audio, AUDIO_WAIT).max(wait(self.video, VIDEO_WAIT)))
    }
}

/// How long to wait for the first packet of a track: publishers begin all of theirs at once.
const UNSEEN_WAIT: Duration = Duration::from_millis(200);
/// How long to wait for the first key frame when there is video: the publisher was asked for one.
const VIDEO_WAIT: Duration = Duration::from_secs(3);
/// How long to wait for the first audio frame when there is audio: it may come from a transcoder.
const AUDIO_WAIT: Duration = Duration::from_secs(1);
/// Frames held back at most; then they go as they are.
const HELD_FRAMES_MAX: usize = 512;
