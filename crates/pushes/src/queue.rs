//! What waits for a target: bounded in bytes and in time. A queue that is full is emptied, and goes
//! on with the next frame that a decoder can begin with.
//!
//! What is old goes and what is new stays: a viewer of a live stream has no use for the former.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use media::{Frame, FrameRole, MediaKind, TrackId};

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// Bytes of frames.
    pub bytes: usize,
    /// Longest time that a frame waits.
    pub time: Duration,
}

/// The queue of one push.
#[derive(Debug)]
pub(crate) struct Queue {
    limits: QueueLimits,
    /// Frames, and when they came.
    frames: VecDeque<(Instant, Arc<Frame>)>,
    bytes: usize,
    /// What the publication began with may be more than the limit: its group of pictures.
    start_bytes: usize,
    configs: BTreeMap<TrackId, Arc<Frame>>,
    metadata: Option<Arc<Frame>>,
    has_video: bool,
    waits: Waits,
    left_out: u64,
}

/// What is left out up to the next frame that a decoder can begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// Video: where a stream begins, its audio may be ahead of its first picture.
    Video,
    /// Everything: where frames were left out, the target goes on with all tracks at once.
    All,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            frames: VecDeque::new(),
            bytes: 0,
            start_bytes: 0,
            configs: BTreeMap::new(),
            metadata: None,
            has_video: false,
            waits: Waits::Video,
            left_out: 0,
        }
    }

    /// A publication begins with these frames. What waits is of the one before, and stays.
    pub(crate) fn start(&mut self, now: Instant, frames: Vec<Arc<Frame>>) {
        self.configs.clear();
        self.metadata = None;
        self.has_video = frames.iter().any(|frame| frame.track.kind == MediaKind::Video);
        self.waits = Waits::Video;
        self.start_bytes = frames.iter().map(|frame| frame.bytes_held()).sum();
        for frame in frames {
            self.append(now, frame);
        }
    }

    /// The next frame.
    pub(crate) fn push(&mut self, now: Instant, frame: Arc<Frame>) {
        let is_full = self.bytes + frame.bytes_held() > self.limits.bytes + self.start_bytes
            || self.frames.front().is_some_and(|(came, _)| now - *came > self.limits.time);
        if is_full && !self.frames.is_empty() {
            self.left_out += self.frames.iter().filter(|(_, frame)| is_media(frame)).count() as u64;
            self.frames.clear();
            (self.bytes, self.start_bytes) = (0, 0);
            self.waits = Waits::All;
        }
        self.append(now, frame);
    }

    /// Frames were left out before they came here; these go on.
    pub(crate) fn gap(&mut self, now: Instant, dropped: u64, frames: Vec<Arc<Frame>>) {
        self.left_out += dropped;
        for frame in frames {
            self.push(now, frame);
        }
    }

    /// The oldest frame.
    pub(crate) fn pop(&mut self) -> Option<Arc<Frame>> {
        let (_, frame) = self.frames.pop_front()?;
        self.bytes -= frame.bytes_held();
        if self.frames.is_empty() {
            self.start_bytes = 0;
        }
        Some(frame)
    }

    /// What waits, the oldest first.
    pub(crate) fn frames(&self) -> Vec<Arc<Frame>> {
        self.frames.iter().map(|(_, frame)| Arc::clone(frame)).collect()
    }

    /// Whether what waits says which tracks the stream has: video and audio, or one of them for as
    /// long as `settling`.
    pub(crate) fn has_tracks(&self, settling: Duration) -> bool {
        let media = || self.frames.iter().map(|(_, frame)| frame).filter(|frame| is_media(frame));
        let has = |kind| media().any(|frame| frame.track.kind == kind);
        let span = media().map(|frame| frame.dts).max().zip(media().map(|frame| frame.dts).min());
        let is_long = span.is_some_and(|(newest, oldest)| (newest - oldest).to_duration() >= settling);
        is_long || (has(MediaKind::Video) && has(MediaKind::Audio))
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the publication has video.
    pub(crate) fn has_video(&self) -> bool {
        self.has_video
    }

    /// Frames of audio and video left out so far.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    fn append(&mut self, now: Instant, frame: Arc<Frame>) {
        self.has_video |= frame.track.kind == MediaKind::Video;
        match frame.role {
            FrameRole::Config => {
                self.configs.insert(frame.track, Arc::clone(&frame));
            }
            FrameRole::End => {
                self.configs.remove(&frame.track);
            }
            FrameRole::Metadata => self.metadata = Some(Arc::clone(&frame)),
            _ => {}
        }
        match self.waits {
            Waits::Nothing => {}
            Waits::Video if frame.role == FrameRole::Inter => {
                self.left_out += 1;
                return;
            }
            Waits::Video if frame.is_key() => self.waits = Waits::Nothing,
            Waits::Video => {}
            Waits::All if is_media(&frame) && (frame.is_key() || !self.has_video) => {
                self.waits = Waits::Nothing;
                let headers: Vec<_> =
                    self.metadata.iter().chain(self.configs.values()).map(Arc::clone).collect();
                headers.into_iter().for_each(|header| self.put(now, header));
            }
            Waits::All => {
                self.left_out += u64::from(is_media(&frame));
                return;
            }
        }
        self.put(now, frame);
    }

    fn put(&mut self, now: Instant, frame: Arc<Frame>) {
        self.bytes += frame.bytes_held();
        self.frames.push_back((now, frame));
    }
}

fn is_media(frame: &Frame) -> bool {
    matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test is where virtual time begins")]
mod tests {
    use media::{Codec, Timestamp};

    use super::*;

    const LIMITS: QueueLimits = QueueLimits { bytes: 1000, time: Duration::from_secs(5) };

    fn frame(track: TrackId, role: FrameRole, number: i64, bytes: usize) -> Arc<Frame> {
        let time = Timestamp::from_millis(number);
        let codec = if track == TrackId::VIDEO { Codec::H264 } else { Codec::Aac };
        Arc::new(Frame::new(track, role, codec, (time, time), vec![0; bytes]))
    }

    fn video(role: FrameRole, number: i64) -> Arc<Frame> {
        frame(TrackId::VIDEO, role, number, 100)
    }

    fn taken(queue: &mut Queue) -> Vec<i64> {
        std::iter::from_fn(|| queue.pop()).map(|frame| frame.dts.millis()).collect()
    }

    #[test]
    fn a_full_queue_goes_on_with_headers_and_the_next_key_frame() {
        let now = Instant::now();
        let mut queue = Queue::new(LIMITS);
        queue.start(now, vec![video(FrameRole::Config, 0), video(FrameRole::Key, 1)]);
        assert_eq!(taken(&mut queue), [0, 1]);
        for number in 2..12 {
            queue.push(now, video(FrameRole::Inter, number));
        }
        assert_eq!(queue.left_out(), 0, "as many as there is room for");
        queue.push(now, video(FrameRole::Inter, 12));
        queue.push(now, frame(TrackId::AUDIO, FrameRole::Audio, 13, 10));
        queue.push(now, video(FrameRole::Key, 14));
        queue.push(now, video(FrameRole::Inter, 15));
        assert_eq!(taken(&mut queue), [0, 14, 15]);
        assert_eq!(queue.left_out(), 12);
    }

    #[test]
    fn a_key_frame_that_finds_the_queue_full_is_where_it_goes_on() {
        let now = Instant::now();
        let mut queue = Queue::new(LIMITS);
        queue.start(now, vec![video(FrameRole::Config, 0), video(FrameRole::Key, 1)]);
        taken(&mut queue);
        (2..12).for_each(|number| queue.push(now, video(FrameRole::Inter, number)));
        queue.push(now, video(FrameRole::Key, 12));
        assert_eq!((taken(&mut queue), queue.left_out()), (vec![0, 12], 10));
    }

    #[test]
    fn what_has_waited_too_long_is_left_out() {
        let now = Instant::now();
        let mut queue = Queue::new(LIMITS);
        queue.start(now, vec![video(FrameRole::Config, 0), video(FrameRole::Key, 1)]);
        queue.push(now + LIMITS.time, video(FrameRole::Inter, 2));
        queue.push(now + LIMITS.time + Duration::from_millis(1), video(FrameRole::Inter, 3));
        assert_eq!((taken(&mut queue), queue.left_out()), (vec![], 3));
    }

    #[test]
    fn what_a_publication_begins_with_has_room_however_large_it_is() {
        let now = Instant::now();
        let mut queue = Queue::new(LIMITS);
        let mut frames = vec![video(FrameRole::Config, 0), video(FrameRole::Key, 1)];
        frames.extend((2..50).map(|number| video(FrameRole::Inter, number)));
        queue.start(now, frames);
        queue.push(now, video(FrameRole::Inter, 50));
        assert_eq!((taken(&mut queue).len(), queue.left_out()), (51, 0));
    }

    #[test]
    fn audio_alone_needs_no_key_frame_and_video_begins_with_one() {
        let now = Instant::now();
        let mut queue = Queue::new(LIMITS);
        queue.start(now, vec![frame(TrackId::AUDIO, FrameRole::Config, 0, 2)]);
        queue.push(now, frame(TrackId::AUDIO, FrameRole::Audio, 1, 10));
        assert_eq!(taken(&mut queue), [0, 1]);
        queue.start(now, vec![video(FrameRole::Config, 2), frame(TrackId::AUDIO, FrameRole::Audio, 3, 10)]);
        queue.push(now, video(FrameRole::Inter, 4));
        assert_eq!(taken(&mut queue), [2, 3], "the sound ahead of the first picture");
        queue.gap(now, 7, vec![video(FrameRole::Config, 5), video(FrameRole::Key, 6)]);
        assert_eq!((taken(&mut queue), queue.left_out()), (vec![5, 6], 8));
    }
}
