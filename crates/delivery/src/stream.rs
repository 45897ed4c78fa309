//! One stream on one worker: its timeline, headers and GOP cache, whoever publishes it at the moment.
//!
//! A worker has a `Stream` for each stream published to it or played from it. It outlives its publishers, so that
//! players survive a reconnection; it knows no players: they hang on the delivery logs made from what
//! [`Stream::receive`] lets through.

use std::sync::Arc;

use crate::frame::{Frame, FrameRole, Track};
use crate::gop::{GopCache, GopLimits};
use crate::timeline::Timeline;

/// What a player needs before its first frame.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// `onMetaData`.
    pub metadata: Option<Arc<Frame>>,
    /// Video decoder configuration.
    pub video: Option<Arc<Frame>>,
    /// Audio decoder configuration.
    pub audio: Option<Arc<Frame>>,
}

impl Headers {
    /// In the order they are sent: metadata, video, audio.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Frame>> {
        [&self.metadata, &self.video, &self.audio].into_iter().flatten()
    }

    fn slot(&mut self, frame: &Frame) -> Option<&mut Option<Arc<Frame>>> {
        match (frame.role, frame.track) {
            (FrameRole::Metadata, _) => Some(&mut self.metadata),
            (FrameRole::Config, Track::Video) => Some(&mut self.video),
            (FrameRole::Config, Track::Audio) => Some(&mut self.audio),
            _ => None,
        }
    }
}

/// A frame that goes to the players.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Stream time, milliseconds.
    pub time_ms: u64,
    /// Whether a player may begin with this frame.
    pub entry: bool,
}

/// A publisher that sends sound but no video for this long has stopped its video (camera off), milliseconds.
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
    /// Headers of sound and of video that have ended: they hold again if frames go on without others.
    ended: [Option<Arc<Frame>>; 2],
    has_video: bool,
    has_audio: bool,
    /// Since when the current publisher has sent sound and no video, if it sent sound last.
    sound_only_since_ms: Option<u64>,
    awaits_key: bool,
    last_key_ms: Option<u64>,
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
            ended: [None, None],
            has_video: false,
            has_audio: false,
            sound_only_since_ms: None,
            awaits_key: false,
            last_key_ms: None,
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
        self.ended = [None, None];
        self.has_video = false;
        self.has_audio = false;
        self.sound_only_since_ms = None;
        self.awaits_key = true;
        self.last_key_ms = None;
    }

    /// Frames were lost on the way here: video is useless up to the next key frame.
    pub fn frames_lost(&mut self) {
        self.gop.clear();
        self.awaits_key = true;
    }

    /// Takes in a frame; `None` when players must not get it (repeated headers, ends of tracks, video that cannot be
    /// decoded).
    pub fn receive(&mut self, now_ms: u64, frame: &Arc<Frame>) -> Option<Received> {
        self.count(frame);
        if let Some(slot) = self.headers.slot(frame) {
            let repeated = slot.as_ref().is_some_and(|known| known.payload == frame.payload);
            *slot = Some(Arc::clone(frame));
            if frame.role == FrameRole::Config {
                self.ended[usize::from(frame.track == Track::Video)] = None;
            }
            self.note_track(now_ms, frame.track);
            return (!repeated).then(|| self.keep(self.header_time(frame), frame));
        }
        if frame.role == FrameRole::End {
            self.track_ended(frame.track);
            return None;
        }
        if frame.track == Track::Data {
            return Some(self.keep(self.header_time(frame), frame));
        }
        self.note_track(now_ms, frame.track);
        match (frame.role, &mut self.ended) {
            (FrameRole::Audio, [sound @ Some(_), _]) => self.headers.audio = sound.take(),
            (FrameRole::Key, [_, video @ Some(_)]) => self.headers.video = video.take(),
            _ => {}
        }
        let time_ms = self.timeline.place(now_ms, frame.track, frame.timestamp);
        match frame.role {
            FrameRole::Key => self.key_frame(time_ms),
            FrameRole::Inter if self.awaits_key => return None,
            FrameRole::Audio if !self.expects_video(now_ms) => return Some(self.sound_entry(time_ms)),
            _ => {}
        }
        Some(self.keep(time_ms, frame))
    }

    /// Data keeps no time of its own (it often says 0): it belongs to the frame before it.
    fn header_time(&self, frame: &Frame) -> u64 {
        match frame.track {
            Track::Data => self.timeline.head().unwrap_or(frame.timestamp.into()),
            track => self.timeline.place_header(track, frame.timestamp),
        }
    }

    /// Who begins from now on is told nothing of the track, and does not wait for it.
    fn track_ended(&mut self, track: Track) {
        match track {
            Track::Video => {
                self.ended[1] = self.headers.video.take();
                self.has_video = false;
                self.awaits_key = true;
                self.gop.clear();
                self.entry_headers = self.headers.clone();
            }
            Track::Audio => {
                self.ended[0] = self.headers.audio.take();
                self.has_audio = false;
            }
            Track::Data => {}
        }
    }

    /// Whether a new player should wait for a key frame: there is video, and it has not stopped.
    fn expects_video(&self, now_ms: u64) -> bool {
        let sound_only_ms = self.sound_only_since_ms.map_or(0, |since| now_ms.saturating_sub(since));
        self.has_video && sound_only_ms <= VIDEO_STOPPED_MS
    }

    fn sound_entry(&mut self, time_ms: u64) -> Received {
        // Who begins here has no picture that later ones could refer to.
        self.awaits_key = true;
        self.gop.clear();
        self.entry_headers = self.headers.clone();
        Received { time_ms, entry: true }
    }

    fn key_frame(&mut self, time_ms: u64) {
        self.awaits_key = false;
        self.entry_headers = self.headers.clone();
        if let Some(last) = self.last_key_ms.replace(time_ms) {
            self.key_frame_interval_ms = time_ms.saturating_sub(last);
        }
    }

    fn keep(&mut self, time_ms: u64, frame: &Arc<Frame>) -> Received {
        self.gop.push(time_ms, frame);
        Received { time_ms, entry: frame.role == FrameRole::Key }
    }

    fn note_track(&mut self, now_ms: u64, track: Track) {
        match track {
            Track::Video => {
                self.has_video = true;
                self.sound_only_since_ms = None;
            }
            Track::Audio => _ = self.sound_only_since_ms.get_or_insert(now_ms),
            Track::Data => {}
        }
        self.has_audio |= track == Track::Audio;
    }

    fn count(&mut self, frame: &Frame) {
        let bytes = frame.payload.len() as u64;
        self.bytes_in += bytes;
        match frame.track {
            Track::Video => {
                self.sample.video_bytes += bytes;
                self.sample.video_frames +=
                    u32::from(matches!(frame.role, FrameRole::Key | FrameRole::Inter));
            }
            Track::Audio => self.sample.audio_bytes += bytes,
            Track::Data => {}
        }
    }

    /// Headers of sound and of video that have ended and may go on.
    pub fn ended(&self) -> impl Iterator<Item = &Arc<Frame>> {
        self.ended.iter().flatten()
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

    /// Stream time of the newest frame, milliseconds; 0 before the first.
    pub fn timeline_head_ms(&self) -> u64 {
        self.timeline.head().unwrap_or(0)
    }

    /// The frames a new player begins with.
    pub fn gop(&self) -> &GopCache {
        &self.gop
    }

    /// Whether the current publisher has sent video.
    pub fn has_video(&self) -> bool {
        self.has_video
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
    use super::*;

    const LIMITS: GopLimits = GopLimits { enabled: true, bytes_max: 1 << 20, duration_ms_max: 10_000 };

    fn frame(track: Track, role: FrameRole, timestamp: u32, payload: &[u8]) -> Arc<Frame> {
        Arc::new(Frame { track, role, timestamp, payload: payload.to_vec() })
    }

    fn video(role: FrameRole, timestamp: u32) -> Arc<Frame> {
        frame(Track::Video, role, timestamp, b"v")
    }

    #[test]
    fn video_passes_from_the_first_key_frame_on() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        assert_eq!(stream.receive(0, &video(FrameRole::Inter, 0)), None);
        let key = stream.receive(40, &video(FrameRole::Key, 40));
        assert_eq!(key, Some(Received { time_ms: 40, entry: true }));
        let inter = stream.receive(80, &video(FrameRole::Inter, 80));
        assert_eq!(inter, Some(Received { time_ms: 80, entry: false }));
        stream.frames_lost();
        assert_eq!(stream.receive(120, &video(FrameRole::Inter, 120)), None);
        assert_eq!(stream.gop().frames().len(), 0);
    }

    #[test]
    fn repeated_headers_are_not_sent_again_and_new_ones_are() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let config = |payload: &[u8]| frame(Track::Video, FrameRole::Config, 0, payload);
        assert!(stream.receive(0, &config(b"a")).is_some());
        assert!(stream.receive(0, &config(b"a")).is_none());
        assert!(stream.receive(0, &config(b"b")).is_some());
        assert_eq!(stream.headers().iter().count(), 1);
    }

    #[test]
    fn headers_of_the_entry_point_are_those_before_its_key_frame() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &frame(Track::Video, FrameRole::Config, 0, b"old"));
        stream.receive(0, &video(FrameRole::Key, 0));
        stream.receive(10, &frame(Track::Video, FrameRole::Config, 10, b"new"));
        assert_eq!(stream.entry_headers().video.as_ref().unwrap().payload, b"old");
        assert_eq!(stream.gop().frames().len(), 2, "the new header follows in its place");
    }

    #[test]
    fn every_frame_of_an_audio_stream_is_an_entry() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let audio = frame(Track::Audio, FrameRole::Audio, 23, b"a");
        assert_eq!(stream.receive(0, &audio), Some(Received { time_ms: 23, entry: true }));
        stream.receive(0, &frame(Track::Video, FrameRole::Config, 0, b"c"));
        assert_eq!(stream.receive(0, &audio).map(|received| received.entry), Some(false));
    }

    #[test]
    fn sound_is_an_entry_again_once_video_has_stopped() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 0));
        let sound = |timestamp| frame(Track::Audio, FrameRole::Audio, timestamp, b"a");
        let entry = |received: Option<Received>| received.map(|received| received.entry);
        assert_eq!(
            entry(stream.receive(9_000, &sound(40))),
            Some(false),
            "the publisher was silent as a whole"
        );
        assert_eq!(entry(stream.receive(12_000, &sound(3_040))), Some(false));
        assert_eq!(entry(stream.receive(12_001, &sound(3_041))), Some(true));
        assert_eq!(stream.gop().frames().len(), 0, "nobody begins with the old picture");
        assert_eq!(
            stream.receive(12_010, &video(FrameRole::Inter, 3_050)),
            None,
            "video goes on with a key frame"
        );
        assert_eq!(entry(stream.receive(12_050, &video(FrameRole::Key, 3_090))), Some(true));
        assert_eq!(entry(stream.receive(12_060, &sound(3_100))), Some(false));
    }

    #[test]
    fn a_track_that_has_ended_is_not_offered_to_new_players() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        let config = |track| frame(track, FrameRole::Config, 0, b"c");
        let sound = |timestamp| frame(Track::Audio, FrameRole::Audio, timestamp, b"a");
        let end = |track| frame(track, FrameRole::End, 80, b"");
        for header in [config(Track::Video), config(Track::Audio)] {
            stream.receive(0, &header);
        }
        stream.receive(0, &video(FrameRole::Key, 0));
        assert_eq!(stream.receive(40, &end(Track::Video)), None, "players of old need not know");
        assert_eq!(stream.gop().frames().len(), 0, "nobody begins with the old picture");
        assert_eq!(stream.receive(40, &sound(40)), Some(Received { time_ms: 40, entry: true }));
        assert!(stream.entry_headers().video.is_none() && stream.entry_headers().audio.is_some());
        assert_eq!((stream.has_video(), stream.has_audio()), (false, true));
        assert!(stream.receive(80, &config(Track::Video)).is_some(), "the same header begins it again");
        stream.receive(80, &video(FrameRole::Key, 80));
        stream.receive(90, &end(Track::Audio));
        stream.receive(120, &video(FrameRole::Key, 120));
        assert!(stream.entry_headers().video.is_some() && stream.entry_headers().audio.is_none());
        assert_eq!((stream.has_video(), stream.has_audio()), (true, false));
    }

    #[test]
    fn a_track_that_goes_on_after_its_end_has_its_header_again() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &frame(Track::Video, FrameRole::Config, 0, b"c"));
        stream.receive(0, &video(FrameRole::Key, 0));
        stream.receive(40, &frame(Track::Video, FrameRole::End, 40, b""));
        assert!(stream.headers().video.is_none() && stream.ended().count() == 1);
        stream.receive(80, &video(FrameRole::Key, 80));
        assert!(stream.entry_headers().video.is_some() && stream.has_video());
        assert_eq!(stream.ended().count(), 0);
    }

    #[test]
    fn a_header_does_not_come_after_the_first_frame_it_is_for() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 1_000));
        stream.receive(0, &frame(Track::Audio, FrameRole::Audio, 1_060, b"a"));
        let header = stream.receive(40, &frame(Track::Video, FrameRole::Config, 1_033, b"new"));
        assert_eq!(header.map(|received| received.time_ms), Some(1_033));
        assert_eq!(stream.receive(40, &video(FrameRole::Key, 1_033)).map(|r| r.time_ms), Some(1_033));
    }

    #[test]
    fn late_metadata_does_not_disturb_the_timeline() {
        let mut stream = Stream::new(LIMITS, 0);
        stream.publisher_started();
        stream.receive(0, &video(FrameRole::Key, 50_000));
        let metadata = frame(Track::Data, FrameRole::Metadata, 0, b"m");
        assert_eq!(stream.receive(5, &metadata).map(|received| received.time_ms), Some(50_000));
        assert_eq!(stream.receive(40, &video(FrameRole::Inter, 50_040)).map(|r| r.time_ms), Some(50_040));
        assert_eq!(stream.timeline_head_ms(), 50_040);
    }

    #[test]
    fn rates_are_per_second_of_the_sample() {
        let mut stream = Stream::new(LIMITS, 1_000);
        stream.publisher_started();
        stream.receive(1_000, &frame(Track::Video, FrameRole::Key, 0, &[0; 1000]));
        stream.receive(1_200, &frame(Track::Audio, FrameRole::Audio, 0, &[0; 100]));
        stream.sample_rates(1_500);
        let rates = stream.rates();
        assert_eq!((rates.video_bits_per_second, rates.audio_bits_per_second), (16_000, 1_600));
        assert_eq!(rates.video_frames_per_second, 2.0);
    }
}
