//! One stream on one worker: its timeline, headers and GOP cache, whoever publishes it at the moment.
//!
//! A worker has a `Stream` for each stream published to it or played from it. It outlives its publishers, so
//! that players survive a reconnection; it knows no players: they hang on the delivery logs made from what
//! [`Stream::receive`] lets through.

use std::sync::Arc;

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};

use crate::gop::{GopCache, GopLimits};
use crate::state::{FrameState, StateImpossible, StreamState};
use crate::timeline::Timeline;

/// What a player needs before its first frame.
///
/// The configuration of a track that came in the body of another track's is not in FLV by itself: a player
/// that joins after that other track has a new configuration goes without it.
#[derive(Debug, Default)]
pub struct Headers {
    /// `onMetaData`.
    pub metadata: Option<Arc<Frame>>,
    /// Decoder configuration of the first video track that came, and of the first audio track.
    first: [Option<Arc<Frame>>; 2],
    /// Those of other tracks, in the order they came.
    others: Vec<Arc<Frame>>,
}

impl Headers {
    /// In the order they are sent: metadata, video, audio.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Frame>> {
        let of = |kind| self.others.iter().filter(move |config| config.track.kind == kind);
        let [video, audio] = &self.first;
        let video = video.iter().chain(of(MediaKind::Video));
        self.metadata.iter().chain(video).chain(audio).chain(of(MediaKind::Audio))
    }

    /// Decoder configuration of a track.
    pub fn config(&self, track: TrackId) -> Option<&Arc<Frame>> {
        self.first.iter().flatten().chain(&self.others).find(|config| config.track == track)
    }

    /// Decoder configuration of the first track of a kind.
    pub fn first_config(&self, kind: MediaKind) -> Option<&Arc<Frame>> {
        self.first[usize::from(kind != MediaKind::Video)].as_ref()
    }

    /// Takes in a header. Returns whether it says something new; one of too many tracks is not kept.
    fn set(&mut self, frame: &Arc<Frame>) -> bool {
        let mut configs = self.first.iter_mut().flatten().chain(&mut self.others);
        let known = match frame.role {
            FrameRole::Metadata => self.metadata.as_mut(),
            _ => configs.find(|config| config.track == frame.track),
        };
        if let Some(known) = known {
            return !std::mem::replace(known, Arc::clone(frame)).repeats(frame);
        }
        let first = &mut self.first[usize::from(frame.track.kind != MediaKind::Video)];
        if frame.role == FrameRole::Metadata {
            self.metadata = Some(Arc::clone(frame));
        } else if first.is_none() {
            *first = Some(Arc::clone(frame));
        } else if self.others.len() < OTHER_CONFIGS_MAX {
            self.others.push(Arc::clone(frame));
        } else {
            tracing::trace!(track = ?frame.track, "the configuration of one track too many is not kept");
        }
        true
    }

    fn remove(&mut self, track: TrackId) -> Option<Arc<Frame>> {
        if let Some(at) = self.others.iter().position(|config| config.track == track) {
            return Some(self.others.remove(at));
        }
        let first = &mut self.first[usize::from(track.kind != MediaKind::Video)];
        let removed = first.take_if(|config| config.track == track)?;
        let next = self.others.iter().position(|config| config.track.kind == track.kind);
        *first = next.map(|at| self.others.remove(at));
        Some(removed)
    }
}

impl Clone for Headers {
    fn clone(&self) -> Self {
        Self { metadata: self.metadata.clone(), first: self.first.clone(), others: self.others.clone() }
    }

    /// Keeps the memory: done with every key frame.
    fn clone_from(&mut self, other: &Self) {
        self.metadata.clone_from(&other.metadata);
        self.first.clone_from(&other.first);
        self.others.clone_from(&other.others);
    }
}

/// Configurations kept for new players besides those of the first tracks, and of tracks that have ended.
/// Encoders send a handful of tracks; one configuration may have 64 kB.
const OTHER_CONFIGS_MAX: usize = 14;

/// A frame that goes to the players.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Stream time.
    pub time: Timestamp,
    /// Whether a player may begin with this frame.
    pub entry: bool,
}

/// A publisher that sends audio but no video for this long has stopped its video (camera off), milliseconds.
const VIDEO_STOPPED_MS: u64 = 3_000;

/// Rates of a stream over the last sample, about a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamRates {
    /// Video payload bits per second.
    pub video_bits_per_second: u64,
    /// Audio payload bits per second.
    pub audio_bits_per_second: u64,
    /// Video frames per second.
    pub video_frames_per_second: f32,
}

/// State of one stream on one worker.
#[derive(Debug)]
pub struct Stream {
    timeline: Timeline,
    gop: GopCache,
    headers: Headers,
    /// Headers in effect at the newest entry point.
    entry_headers: Headers,
    /// Newest audio when it came.
    entry_audio: Timestamp,
    /// Configurations of tracks that have ended: they hold again if frames go on without others.
    ended: Vec<Arc<Frame>>,
    /// The video track that players begin with: the first that came, until it stops and another goes on.
    video: Option<TrackId>,
    /// When it last came.
    video_at_ms: u64,
    has_audio: bool,
    /// Since when the current publisher has sent audio and no video, if it sent audio last.
    audio_only_since_ms: Option<u64>,
    awaits_key: bool,
    last_key: Option<Timestamp>,
    key_frame_interval_ms: u64,
    bytes_in: u64,
    sample: Sample,
    rates: StreamRates,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    since_ms: u64,
    video_bytes: u64,
    audio_bytes: u64,
    video_frames: u32,
}

impl Stream {
    /// A stream nobody has published yet.
    pub fn new(limits: GopLimits, now_ms: u64) -> Self {
        Self {
            timeline: Timeline::default(),
            gop: GopCache::new(limits),
            headers: Headers::default(),
            entry_headers: Headers::default(),
            entry_audio: Timestamp::ZERO,
            ended: Vec::new(),
            video: None,
            video_at_ms: now_ms,
            has_audio: false,
            audio_only_since_ms: None,
            awaits_key: false,
            last_key: None,
            key_frame_interval_ms: 0,
            bytes_in: 0,
            sample: Sample { since_ms: now_ms, ..Sample::default() },
            rates: StreamRates::default(),
        }
    }

    /// A publisher begins. Nothing of an earlier one is offered to new players; time goes on from it.
    pub fn publisher_started(&mut self) {
        self.timeline.restart();
        self.gop.clear();
        self.headers = Headers::default();
        self.entry_headers = Headers::default();
        self.ended.clear();
        self.video = None;
        self.has_audio = false;
        self.audio_only_since_ms = None;
        self.awaits_key = true;
        self.last_key = None;
    }

    /// Where it is, for another process to go on with.
    pub fn state(&self, now_ms: u64) -> StreamState {
        StreamState {
            timeline: self.timeline.state(now_ms),
            headers: self.headers.iter().map(FrameState::of).collect(),
            ended: self.ended.iter().map(FrameState::of).collect(),
            video: self.video,
            video_since_ms: now_ms.saturating_sub(self.video_at_ms),
            has_audio: self.has_audio,
            audio_only_ms: self.audio_only_since_ms.map(|since| now_ms.saturating_sub(since)),
            awaits_key: self.awaits_key,
            last_key: self.last_key,
            key_frame_interval_ms: self.key_frame_interval_ms,
        }
    }

    /// Goes on from `state`, of a publisher that has begun in another process and goes on here. Players get
    /// the next frame that comes; new ones begin at the next key frame.
    ///
    /// # Errors
    ///
    /// No stream can be there. This one stays as it is.
    pub fn resume(&mut self, now_ms: u64, state: StreamState) -> Result<(), StateImpossible> {
        let mut headers = Headers::default();
        let mut ended = Vec::new();
        for header in state.headers.into_iter().filter(FrameState::is_header) {
            headers.set(&header.frame()?);
        }
        for config in state.ended.into_iter().filter(FrameState::is_header).take(OTHER_CONFIGS_MAX) {
            ended.push(config.frame()?);
        }
        self.publisher_started();
        self.timeline = Timeline::resumed(now_ms, state.timeline);
        (self.headers, self.ended) = (headers, ended);
        self.video = state.video.filter(|track| track.kind == MediaKind::Video);
        self.video_at_ms = now_ms.saturating_sub(state.video_since_ms);
        self.has_audio = state.has_audio;
        self.audio_only_since_ms = state.audio_only_ms.map(|period| now_ms.saturating_sub(period));
        self.awaits_key = state.awaits_key;
        self.last_key = state.last_key;
        self.key_frame_interval_ms = state.key_frame_interval_ms;
        Ok(())
    }

    /// Another publisher will go on where that of `state` has ended: players see time go on.
    pub fn resume_time(&mut self, now_ms: u64, state: StreamState) {
        self.timeline = Timeline::resumed(now_ms, state.timeline);
        self.timeline.restart();
    }

    /// Frames were lost on the way here: video is useless up to the next key frame.
    pub fn frames_lost(&mut self) {
        self.gop.clear();
        self.awaits_key = true;
    }

    /// Takes in a frame; `None` when players must not get it (repeated headers, the end of all video or all
    /// audio, video that cannot be decoded).
    pub fn receive(&mut self, now_ms: u64, frame: &Arc<Frame>) -> Option<Received> {
        self.count(frame);
        let kind = frame.track.kind;
        match frame.role {
            FrameRole::Config if kind != MediaKind::Data => {
                self.ended.retain(|config| config.track != frame.track);
                self.note_track(now_ms, frame.track);
                return self.headers.set(frame).then(|| self.keep_header(frame));
            }
            FrameRole::Metadata => {
                return self.headers.set(frame).then(|| self.keep_header(frame));
            }
            FrameRole::End => {
                self.track_ended(frame.track);
                // Players of the only track of its kind are not told, so that they are still there if it goes
                // on.
                let goes_on = self.headers.first_config(kind).is_some();
                return goes_on.then(|| self.keep_header(frame));
            }
            _ if kind == MediaKind::Data => return Some(self.keep_header(frame)),
            _ => {}
        }
        self.note_track(now_ms, frame.track);
        if matches!(frame.role, FrameRole::Audio | FrameRole::Key)
            && let Some(at) = self.ended.iter().position(|config| config.track == frame.track)
        {
            self.headers.set(&self.ended.swap_remove(at));
        }
        let time = self.timeline.place(now_ms, frame.track, frame.dts);
        match frame.role {
            FrameRole::Key
                if self.video == Some(frame.track)
                    || now_ms.saturating_sub(self.video_at_ms) > VIDEO_STOPPED_MS =>
            {
                self.video = Some(frame.track);
                return Some(self.key_frame(time, frame));
            }
            FrameRole::Inter if self.awaits_key => {
                tracing::trace!(track = ?frame.track, "frame dropped: the key frame that it needs is missing");
                return None;
            }
            FrameRole::Audio if !self.expects_video(now_ms) => return Some(self.audio_entry(time)),
            _ => {}
        }
        Some(self.keep(time, frame))
    }

    /// Data keeps no time of its own (it often says 0): it belongs to the frame before it.
    fn keep_header(&mut self, frame: &Arc<Frame>) -> Received {
        let time = match frame.track.kind {
            MediaKind::Data => self.timeline.head().unwrap_or(frame.dts),
            _ => self.timeline.place_header(frame.track, frame.dts),
        };
        self.keep(time, frame)
    }

    /// A player that joins from now on gets nothing about the track, and does not wait for it.
    fn track_ended(&mut self, track: TrackId) {
        if let Some(config) = self.headers.remove(track) {
            if self.ended.len() == OTHER_CONFIGS_MAX {
                self.ended.remove(0);
            }
            self.ended.push(config);
        }
        let next = self.headers.first_config(track.kind).map(|config| config.track);
        match track.kind {
            MediaKind::Video if self.video.is_none_or(|video| video == track) => {
                self.video = next;
                self.awaits_key = true;
                self.gop.clear();
                self.entry_headers.clone_from(&self.headers);
            }
            MediaKind::Audio => self.has_audio = next.is_some(),
            _ => {}
        }
    }

    /// Whether a new player should wait for a key frame: there is video, and it has not stopped.
    fn expects_video(&self, now_ms: u64) -> bool {
        let audio_only_ms = self.audio_only_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        self.video.is_some() && audio_only_ms <= VIDEO_STOPPED_MS
    }

    /// Whether a player that comes now can begin only at a key frame that is still to come.
    pub fn begins_later(&self, now_ms: u64) -> bool {
        self.expects_video(now_ms) && self.gop.frames().len() == 0
    }

    fn audio_entry(&mut self, time: Timestamp) -> Received {
        // A player that begins here has no picture that later ones could refer to.
        self.awaits_key = true;
        self.gop.clear();
        self.entry_headers.clone_from(&self.headers);
        self.entry_audio = self.timeline.newest_audio();
        Received { time, entry: true }
    }

    fn key_frame(&mut self, time: Timestamp, frame: &Arc<Frame>) -> Received {
        self.awaits_key = false;
        self.entry_headers.clone_from(&self.headers);
        self.entry_audio = self.timeline.newest_audio();
        if let Some(last) = self.last_key.replace(time) {
            self.key_frame_interval_ms = (time - last).millis().max(0) as u64;
        }
        self.gop.push(time, frame, true);
        Received { time, entry: true }
    }

    fn keep(&mut self, time: Timestamp, frame: &Arc<Frame>) -> Received {
        self.gop.push(time, frame, false);
        Received { time, entry: false }
    }

    fn note_track(&mut self, now_ms: u64, track: TrackId) {
        match track.kind {
            MediaKind::Video => {
                if *self.video.get_or_insert(track) == track {
                    self.video_at_ms = now_ms;
                }
                self.audio_only_since_ms = None;
            }
            MediaKind::Audio => {
                self.has_audio = true;
                self.audio_only_since_ms.get_or_insert(now_ms);
            }
            MediaKind::Data => {}
        }
    }

    fn count(&mut self, frame: &Frame) {
        let bytes = frame.bytes() as u64;
        self.bytes_in += bytes;
        match frame.track.kind {
            MediaKind::Video => {
                self.sample.video_bytes += bytes;
                self.sample.video_frames +=
                    u32::from(matches!(frame.role, FrameRole::Key | FrameRole::Inter));
            }
            MediaKind::Audio => self.sample.audio_bytes += bytes,
            MediaKind::Data => {}
        }
    }

    /// Configurations of tracks that have ended and may go on.
    pub fn ended(&self) -> impl Iterator<Item = &Arc<Frame>> {
        self.ended.iter()
    }

    /// Ends a sample of the rates and begins the next; call it about once a second.
    pub fn sample_rates(&mut self, now_ms: u64) {
        let sample = std::mem::replace(&mut self.sample, Sample { since_ms: now_ms, ..Sample::default() });
        let elapsed_ms = now_ms.saturating_sub(sample.since_ms).max(1);
        self.rates = StreamRates {
            video_bits_per_second: sample.video_bytes * 8000 / elapsed_ms,
            audio_bits_per_second: sample.audio_bytes * 8000 / elapsed_ms,
            video_frames_per_second: sample.video_frames as f32 * 1000.0 / elapsed_ms as f32,
        };
    }

    /// Headers of the current publisher, newest of each kind.
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Headers a player needs that begins at the newest entry point.
    pub fn entry_headers(&self) -> &Headers {
        &self.entry_headers
    }

    /// Stream time of the newest audio that came before the newest entry point: a player that begins there
    /// again may have got it, and the key frame may have been captured earlier.
    pub fn entry_audio(&self) -> Timestamp {
        self.entry_audio
    }

    /// Stream time of the newest frame; 0 before the first.
    pub fn timeline_head(&self) -> Timestamp {
        self.timeline.head().unwrap_or(Timestamp::ZERO)
    }

    /// The GOP cache keeps at most this much from now on.
    pub fn limit_gop(&mut self, bytes_max: usize) {
        self.gop.limit(bytes_max);
    }

    /// The frames a new player begins with.
    pub fn gop(&self) -> &GopCache {
        &self.gop
    }

    /// Whether the current publisher has sent video.
    pub fn has_video(&self) -> bool {
        self.video.is_some()
    }

    /// Whether the current publisher has sent audio.
    pub fn has_audio(&self) -> bool {
        self.has_audio
    }

    /// Distance of the last two key frames, milliseconds; 0 when unknown.
    pub fn key_frame_interval_ms(&self) -> u64 {
        self.key_frame_interval_ms
    }

    /// Payload bytes received since the stream was made.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Rates of the last sample.
    pub fn rates(&self) -> StreamRates {
        self.rates
    }
}

#[cfg(test)]
mod tests {
    use media::Codec;

    use super::*;

    const LIMITS: GopLimits = GopLimits { enabled: true, bytes_max: 1 << 20, duration_ms_max: 10_000 };

    fn frame(track: TrackId, role: FrameRole, time_ms: i64, data: &[u8]) -> Arc<Frame> {
        let time = Timestamp::from_millis(time_ms);
        Arc::new(Frame::new(track, role, Codec::None, (time, time), data.to_vec()))
    }

    fn video(role: FrameRole, time_ms: i64) -> Arc<Frame> {
        frame(TrackId::VIDEO, role, time_ms, b"v")
    }

    fn entry_at(time_ms: i64) -> Received {
        Received { time: Timestamp::from_millis(time_ms), entry: true }
    }

    fn time_ms(received: Option<Received>) -> Option<i64> {
        received.map(|received| received.time.millis())
    }

    #[test]
    fn video_passes_from_the_first_key_frame_on() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        assert_eq!(stream.receive(0, &video(FrameRole::Inter, 0)), None);
        let key = stream.receive(40, &video(FrameRole::Key, 40));
        assert_eq!(key, Some(entry_at(40)));
        let inter = stream.receive(80, &video(FrameRole::Inter, 80));
        assert_eq!(inter, Some(Received { entry: false, ..entry_at(80) }));
        stream.frames_lost();
        assert_eq!(stream.receive(120, &video(FrameRole::Inter, 120)), None);
        assert_eq!(stream.gop().frames().len(), 0);
    }

    #[test]
    fn repeated_headers_are_not_sent_again_and_new_ones_are() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let config = |payload: &[u8]| frame(TrackId::VIDEO, FrameRole::Config, 0, payload);
        assert!(stream.receive(0, &config(b"a")).is_some());
        assert!(stream.receive(0, &config(b"a")).is_none());
        assert!(stream.receive(0, &config(b"b")).is_some());
        assert_eq!(stream.headers().iter().count(), 1);
    }

    #[test]
    fn headers_of_the_entry_point_are_those_before_its_key_frame() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &frame(TrackId::VIDEO, FrameRole::Config, 0, b"old"));
        stream.receive(0, &video(FrameRole::Key, 0));
        stream.receive(10, &frame(TrackId::VIDEO, FrameRole::Config, 10, b"new"));
        assert_eq!(stream.entry_headers().config(TrackId::VIDEO).unwrap().data(), b"old");
        assert_eq!(stream.gop().frames().len(), 2, "the new header follows in its place");
    }

    #[test]
    fn audio_that_came_before_a_key_frame_may_be_later() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let audio = |track, time_ms| frame(track, FrameRole::Audio, time_ms, b"a");
        stream.receive(0, &audio(TrackId::AUDIO, 80));
        stream.receive(0, &audio(TrackId { kind: MediaKind::Audio, index: 1 }, 100));
        stream.receive(0, &video(FrameRole::Key, 40));
        stream.receive(0, &audio(TrackId::AUDIO, 120));
        assert_eq!(stream.entry_audio(), Timestamp::from_millis(100));
    }

    #[test]
    fn every_frame_of_an_audio_stream_is_an_entry() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let audio = frame(TrackId::AUDIO, FrameRole::Audio, 23, b"a");
        assert_eq!(stream.receive(0, &audio), Some(entry_at(23)));
        stream.receive(0, &frame(TrackId::VIDEO, FrameRole::Config, 0, b"c"));
        assert_eq!(stream.receive(0, &audio).map(|received| received.entry), Some(false));
    }

    #[test]
    fn audio_is_an_entry_again_once_video_has_stopped() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 0));
        let audio = |timestamp| frame(TrackId::AUDIO, FrameRole::Audio, timestamp, b"a");
        let entry = |received: Option<Received>| received.map(|received| received.entry);
        assert_eq!(
            entry(stream.receive(9_000, &audio(40))),
            Some(false),
            "the publisher was silent as a whole"
        );
        assert_eq!(entry(stream.receive(12_000, &audio(3_040))), Some(false));
        assert_eq!(entry(stream.receive(12_001, &audio(3_041))), Some(true));
        assert_eq!(stream.gop().frames().len(), 0, "nobody begins with the old picture");
        assert_eq!(
            stream.receive(12_010, &video(FrameRole::Inter, 3_050)),
            None,
            "video goes on with a key frame"
        );
        assert_eq!(entry(stream.receive(12_050, &video(FrameRole::Key, 3_090))), Some(true));
        assert_eq!(entry(stream.receive(12_060, &audio(3_100))), Some(false));
    }

    #[test]
    fn a_track_that_has_ended_is_not_offered_to_new_players() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let config = |track| frame(track, FrameRole::Config, 0, b"c");
        let audio = |timestamp| frame(TrackId::AUDIO, FrameRole::Audio, timestamp, b"a");
        let end = |track| frame(track, FrameRole::End, 80, b"");
        for header in [config(TrackId::VIDEO), config(TrackId::AUDIO)] {
            stream.receive(0, &header);
        }
        stream.receive(0, &video(FrameRole::Key, 0));
        assert_eq!(stream.receive(40, &end(TrackId::VIDEO)), None, "players of old need not know");
        assert_eq!(stream.gop().frames().len(), 0, "nobody begins with the old picture");
        assert_eq!(stream.receive(40, &audio(40)), Some(entry_at(40)));
        assert!(
            stream.entry_headers().config(TrackId::VIDEO).is_none()
                && stream.entry_headers().config(TrackId::AUDIO).is_some()
        );
        assert_eq!((stream.has_video(), stream.has_audio()), (false, true));
        assert!(stream.receive(80, &config(TrackId::VIDEO)).is_some(), "the same header begins it again");
        stream.receive(80, &video(FrameRole::Key, 80));
        stream.receive(90, &end(TrackId::AUDIO));
        stream.receive(120, &video(FrameRole::Key, 120));
        assert!(
            stream.entry_headers().config(TrackId::VIDEO).is_some()
                && stream.entry_headers().config(TrackId::AUDIO).is_none()
        );
        assert_eq!((stream.has_video(), stream.has_audio()), (true, false));
    }

    #[test]
    fn a_track_that_goes_on_after_its_end_has_its_header_again() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &frame(TrackId::VIDEO, FrameRole::Config, 0, b"c"));
        stream.receive(0, &video(FrameRole::Key, 0));
        stream.receive(40, &frame(TrackId::VIDEO, FrameRole::End, 40, b""));
        assert!(stream.headers().config(TrackId::VIDEO).is_none() && stream.ended().count() == 1);
        stream.receive(80, &video(FrameRole::Key, 80));
        assert!(stream.entry_headers().config(TrackId::VIDEO).is_some() && stream.has_video());
        assert_eq!(stream.ended().count(), 0);
    }

    #[test]
    fn a_header_does_not_come_after_the_first_frame_it_is_for() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 1_000));
        stream.receive(0, &frame(TrackId::AUDIO, FrameRole::Audio, 1_060, b"a"));
        let header = stream.receive(40, &frame(TrackId::VIDEO, FrameRole::Config, 1_033, b"new"));
        assert_eq!(time_ms(header), Some(1_033));
        assert_eq!(time_ms(stream.receive(40, &video(FrameRole::Key, 1_033))), Some(1_033));
    }

    #[test]
    fn late_metadata_does_not_disturb_the_timeline() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 50_000));
        let metadata = frame(TrackId::DATA, FrameRole::Metadata, 0, b"m");
        assert_eq!(time_ms(stream.receive(5, &metadata)), Some(50_000));
        assert_eq!(time_ms(stream.receive(40, &video(FrameRole::Inter, 50_040))), Some(50_040));
        assert_eq!(stream.timeline_head().millis(), 50_040);
    }

    #[test]
    fn rates_are_per_second_of_the_sample() {
        let mut stream = Stream::new(LIMITS, 1_000);
        stream.publisher_started();
        stream.receive(1_000, &frame(TrackId::VIDEO, FrameRole::Key, 0, &[0; 1000]));
        stream.receive(1_200, &frame(TrackId::AUDIO, FrameRole::Audio, 0, &[0; 100]));
        stream.sample_rates(1_500);
        let rates = stream.rates();
        assert_eq!((rates.video_bits_per_second, rates.audio_bits_per_second), (16_000, 1_600));
        assert_eq!(rates.video_frames_per_second, 2.0);
    }

    #[test]
    fn each_track_has_its_own_header_and_times() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let second = |kind| TrackId { kind, index: 1 };
        let (video_1, audio_1) = (second(MediaKind::Video), second(MediaKind::Audio));
        for (track, data) in
            [(audio_1, b"a1"), (TrackId::AUDIO, b"a0"), (TrackId::VIDEO, b"v0"), (video_1, b"v1")]
        {
            assert!(stream.receive(0, &frame(track, FrameRole::Config, 0, data)).is_some());
        }
        let order: Vec<_> = stream.headers().iter().map(|config| config.data().to_vec()).collect();
        assert_eq!(order, [b"v0", b"v1", b"a1", b"a0"], "video first, then as they came");
        assert_eq!(stream.headers().first_config(MediaKind::Audio).unwrap().track, audio_1);
        // Audio of one track may be behind that of the other.
        stream.receive(0, &video(FrameRole::Key, 1_000));
        let audio = |track, time_ms| frame(track, FrameRole::Audio, time_ms, b"a");
        assert_eq!(time_ms(stream.receive(0, &audio(TrackId::AUDIO, 1_040))), Some(1_040));
        assert_eq!(time_ms(stream.receive(0, &audio(audio_1, 1_020))), Some(1_020));
        assert_eq!(time_ms(stream.receive(0, &audio(audio_1, 1_010))), Some(1_020));
    }

    #[test]
    fn players_begin_with_key_frames_of_the_first_video_track() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let other = TrackId { index: 1, ..TrackId::VIDEO };
        let entry = |received: Option<Received>| received.map(|received| received.entry);
        assert_eq!(entry(stream.receive(0, &video(FrameRole::Key, 0))), Some(true));
        assert_eq!(entry(stream.receive(0, &frame(other, FrameRole::Key, 0, b"o"))), Some(false));
        assert_eq!(stream.gop().frames().len(), 2, "a player gets both");
        assert_eq!(entry(stream.receive(40, &frame(other, FrameRole::Inter, 40, b"o"))), Some(false));
        // The first has stopped, and did not say so.
        assert_eq!(entry(stream.receive(3_001, &frame(other, FrameRole::Key, 3_001, b"o"))), Some(true));
        assert_eq!(stream.gop().frames().len(), 1);
    }

    #[test]
    fn the_end_of_one_of_several_tracks_is_passed_on() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let second = TrackId { index: 1, ..TrackId::AUDIO };
        stream.receive(0, &frame(TrackId::AUDIO, FrameRole::Config, 0, b"a0"));
        stream.receive(0, &frame(second, FrameRole::Config, 0, b"a1"));
        assert!(stream.receive(40, &frame(TrackId::AUDIO, FrameRole::End, 40, b"")).is_some());
        assert!(stream.has_audio() && stream.headers().config(TrackId::AUDIO).is_none());
        assert_eq!(stream.receive(80, &frame(second, FrameRole::End, 80, b"")), None);
        assert!(!stream.has_audio());
        assert_eq!(stream.ended().count(), 2);
    }

    #[test]
    fn configurations_of_too_many_tracks_are_not_kept() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        for index in 0..=u8::MAX {
            let track = TrackId { index, ..TrackId::AUDIO };
            assert!(stream.receive(0, &frame(track, FrameRole::Config, 0, b"a")).is_some());
        }
        assert_eq!(stream.headers().iter().count(), 1 + OTHER_CONFIGS_MAX);
    }

    #[test]
    fn configurations_of_too_many_ended_tracks_are_not_kept() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        for index in 0..=u8::MAX {
            let track = TrackId { index, ..TrackId::AUDIO };
            stream.receive(0, &frame(track, FrameRole::Config, 0, b"a"));
            stream.receive(0, &frame(track, FrameRole::End, 0, b""));
        }
        let kept: Vec<_> = stream.ended().map(|config| config.track.index).collect();
        assert_eq!((kept.len(), kept.last()), (OTHER_CONFIGS_MAX, Some(&u8::MAX)));
    }
}
