//! The sending side of one stream of frames: what waits to be sent, and what is left out when the link is
//! slower than the stream.
//!
//! Frames wait here, not in the socket, because here they can still be left out. When the first of them is
//! late, video goes up to the newest key frame that is not late itself, or to the next one to come; audio
//! goes only as far as it is late. Configurations and metadata always stay: a decoder needs them, and of each
//! track only the newest is kept then.
//!
//! A node begins with frames of the past, all at once. They count as having come at twice the stream's own
//! pace, and so do the live ones behind them until these are caught up with: a link of twice the stream's rate
//! carries all of it, and a slower one leaves out as soon as it falls behind that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};
use tracing::trace;

use crate::frame::{FRAME_COST, bytes, put_head};
use crate::limits::{
    CATCH_UP_MAX, CHUNK_BYTES_MAX, FRAME_BYTES_MAX, LATE_AFTER, LATE_BEFORE_KEY, QUEUE_BYTES_MAX,
};
use crate::message::{HEADER_BYTES, Message};

#[derive(Debug, Default)]
pub(crate) struct Serve {
    waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// The frame that is being sent, and how much of it has been.
    begun: Option<(Arc<Frame>, usize)>,
    /// Bytes that the other node takes before it has used more. A frame that is begun is finished, so this
    /// may fall below 0.
    credit: i64,
    /// Video tracks that resume at their next key frame.
    until_key: Vec<TrackId>,
    /// Frames left out since the last one that was sent.
    gap: u32,
    /// Of the frame sent last.
    before: Timestamp,
    pace: Pace,
}

/// Whether what is sent is still behind live, because of what the node began with.
#[derive(Debug, Default, Clone, Copy)]
enum Pace {
    #[default]
    NotBegun,
    /// Since the first frame, which has this time.
    Behind(Duration, Timestamp),
    Live,
}

#[derive(Debug)]
struct Waiting {
    frame: Arc<Frame>,
    /// When its wait began; of what a node begins with maybe later than now.
    since: Duration,
}

impl Serve {
    pub(crate) fn new(window: u32) -> Self {
        Self { credit: i64::from(window), ..Self::default() }
    }

    /// Queues a frame; says how many were left out.
    pub(crate) fn push(&mut self, now: Duration, frame: Arc<Frame>) -> u32 {
        let gap = self.gap;
        if bytes(&frame).len() > FRAME_BYTES_MAX {
            self.gap = self.gap.saturating_add(1);
        } else if frame.role == FrameRole::Inter && self.until_key.contains(&frame.track) {
            trace!(track = ?frame.track, "left out until the next key frame");
            self.gap = self.gap.saturating_add(1);
        } else {
            if frame.role == FrameRole::Key {
                self.until_key.retain(|track| *track != frame.track);
            }
            let since = self.since(now, &frame);
            self.waiting_bytes += bytes(&frame).len();
            self.waiting.push_back(Waiting { frame, since });
        }
        self.leave_out_late(now);
        self.gap.saturating_sub(gap)
    }

    /// From when on a frame that comes now waits.
    fn since(&mut self, now: Duration, frame: &Frame) -> Duration {
        if is_kept(frame) {
            return now;
        }
        if let Pace::NotBegun = self.pace {
            self.pace = Pace::Behind(now, frame.dts);
        }
        let Pace::Behind(begun, first) = self.pace else { return now };
        let since = begun + (frame.dts - first).to_duration() / 2;
        if since < now || self.waiting.is_empty() && now > begun + LATE_AFTER {
            self.pace = Pace::Live;
        }
        since.clamp(now, now + CATCH_UP_MAX)
    }

    /// Frames that never came to be sent.
    pub(crate) fn skip(&mut self, frames: u32) {
        self.gap = self.gap.saturating_add(frames);
    }

    pub(crate) fn add_credit(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(i64::from(bytes));
    }

    /// Whether there is something that may be sent now.
    pub(crate) fn has_output(&self) -> bool {
        self.begun.is_some() || self.credit > 0 && !self.waiting.is_empty()
    }

    /// Whether all that was queued has been sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.is_none() && self.waiting.is_empty()
    }

    /// Writes the next part of a frame, of `room` bytes at most; says how many frames were left out before it.
    pub(crate) fn put_next(&mut self, now: Duration, id: u32, room: usize, out: &mut Vec<u8>) -> u32 {
        let room = room.min(CHUNK_BYTES_MAX);
        let gap = self.gap;
        self.leave_out_late(now);
        let left_out = self.gap - gap;
        let Some((frame, sent)) = self.begun.take() else {
            if self.credit > 0
                && let Some(Waiting { frame, .. }) = self.waiting.pop_front()
            {
                self.waiting_bytes -= bytes(&frame).len();
                self.begin(id, frame, room, out);
            }
            return left_out;
        };
        let rest = &bytes(&frame)[sent..];
        let part = &rest[..rest.len().min(room)];
        Message::More { id, bytes: part }.put(out);
        self.credit -= part.len() as i64;
        if part.len() < rest.len() {
            let sent = sent + part.len();
            self.begun = Some((frame, sent));
        }
        left_out
    }

    fn begin(&mut self, id: u32, frame: Arc<Frame>, room: usize, out: &mut Vec<u8>) {
        if self.gap > 0 {
            Message::Gap { id, frames: self.gap }.put(out);
            self.gap = 0;
        }
        let mut first = Vec::with_capacity(HEADER_BYTES + 32 + bytes(&frame).len().min(room));
        put_head(&mut first, &frame, self.before);
        self.before = frame.dts;
        let all = bytes(&frame);
        let part = &all[..all.len().min(room)];
        first.extend(part);
        Message::Frame { id, head_and_bytes: &first }.put(out);
        self.credit -= (part.len() + FRAME_COST) as i64;
        if part.len() < all.len() {
            let sent = part.len();
            self.begun = Some((frame, sent));
        }
    }

    /// Leaves out what must not be sent any more.
    fn leave_out_late(&mut self, now: Duration) {
        let is_late = |waiting: &Waiting| now.saturating_sub(waiting.since) > LATE_AFTER;
        let mut frames = self.waiting.iter().filter(|waiting| !is_kept(&waiting.frame));
        let waited = frames.next().map_or(Duration::ZERO, |first| now.saturating_sub(first.since));
        // What is before a key frame delays it, and this by all that it is.
        let is_before_key =
            waited > LATE_BEFORE_KEY && frames.any(|waiting| waiting.frame.role == FrameRole::Key);
        let limit = if is_before_key { LATE_BEFORE_KEY } else { LATE_AFTER };
        if waited <= limit && self.waiting_bytes <= QUEUE_BYTES_MAX {
            return;
        }
        let too_many = self.waiting_bytes > QUEUE_BYTES_MAX;
        let before = self.waiting.len();
        // Where each video track goes on: its newest key frame that is in time. With too many bytes a
        // group of pictures is what is too large.
        let mut resume: Vec<(TrackId, Option<usize>)> = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate() {
            let Frame { track, role, .. } = *waiting.frame;
            if track.kind == MediaKind::Video && !is_kept(&waiting.frame) {
                let resumes = role == FrameRole::Key && !is_late(waiting) && !too_many;
                match resume.iter_mut().find(|(known, _)| *known == track) {
                    Some((_, from)) if resumes => *from = Some(at),
                    Some(_) => {}
                    None => resume.push((track, resumes.then_some(at))),
                }
            }
        }
        if waited <= LATE_AFTER && !too_many {
            // Only what is before a key frame goes.
            resume.retain(|(_, from)| from.is_some());
        }
        for (track, from) in &resume {
            if from.is_none() && !self.until_key.contains(track) {
                self.until_key.push(*track);
            }
        }
        let mut configs: Vec<(TrackId, FrameRole, usize)> = Vec::new();
        for (at, waiting) in self.waiting.iter().enumerate().filter(|(_, waiting)| is_kept(&waiting.frame)) {
            let Frame { track, role, .. } = *waiting.frame;
            configs.retain(|(known, known_role, _)| (*known, *known_role) != (track, role));
            configs.push((track, role, at));
        }
        let (mut at, mut bytes_left) = (0, 0);
        self.waiting.retain(|waiting| {
            let track = waiting.frame.track;
            let stays = if is_kept(&waiting.frame) {
                configs.iter().any(|(_, _, kept)| *kept == at)
            } else if let Some((_, from)) = resume.iter().find(|(known, _)| *known == track) {
                from.is_some_and(|from| at >= from)
            } else {
                !is_late(waiting) && !too_many
            };
            at += 1;
            bytes_left += if stays { bytes(&waiting.frame).len() } else { 0 };
            stays
        });
        self.waiting_bytes = bytes_left;
        let left_out = before - self.waiting.len();
        trace!(left_out, "left out what is late");
        self.gap = self.gap.saturating_add(u32::try_from(left_out).unwrap_or(u32::MAX));
    }
}

/// What is never left out, because later frames are nothing without it.
fn is_kept(frame: &Frame) -> bool {
    matches!(frame.role, FrameRole::Config | FrameRole::Metadata | FrameRole::End)
}

#[cfg(test)]
mod tests {
    use media::Codec;

    use super::*;
    use crate::frame::Head;
    use crate::wire::Reader;

    fn frame(track: TrackId, role: FrameRole, number: i64) -> Arc<Frame> {
        let time = Timestamp::from_millis(number);
        Arc::new(Frame::new(track, role, Codec::H264, (time, time), vec![7; 100]))
    }

    const VIDEO: TrackId = TrackId::VIDEO;
    const AUDIO: TrackId = TrackId::AUDIO;

    /// Times of the frames that are sent now, in milliseconds, and frames left out before each.
    fn sent(serve: &mut Serve, now: Duration) -> Vec<(i64, u32)> {
        let (mut sent, mut gap, mut before) = (Vec::new(), 0, serve.before);
        while serve.has_output() {
            let mut out = Vec::new();
            serve.put_next(now, 1, usize::MAX, &mut out);
            let mut input = &out[..];
            while let Some((message, len)) = Message::read(input).unwrap() {
                input = &input[len..];
                match message {
                    Message::Gap { frames, .. } => gap = frames,
                    Message::Frame { head_and_bytes, .. } => {
                        let head = Head::read(&mut Reader::new(head_and_bytes, ""), before).unwrap();
                        before = head.dts();
                        sent.push((before.millis(), std::mem::take(&mut gap)));
                    }
                    Message::More { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        sent
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn late_video_goes_up_to_a_key_frame_in_time_and_late_audio_as_far_as_it_is_late() {
        let mut serve = Serve::new(1 << 20);
        serve.push(ms(0), frame(VIDEO, FrameRole::Config, 0));
        for number in 0..20 {
            let role = if number % 10 == 0 { FrameRole::Key } else { FrameRole::Inter };
            serve.push(ms(number * 100), frame(VIDEO, role, number as i64));
            serve.push(ms(number * 100), frame(AUDIO, FrameRole::Audio, number as i64));
        }
        // At 1.9 s the second group of pictures is in time, and audio from 1.0 s on.
        let expected: Vec<_> = (10..20).flat_map(|number| [(number, 0), (number, 0)]).collect();
        let sent_now = sent(&mut serve, ms(1_900));
        assert_eq!(sent_now[0], (0, 20), "the configuration stays, and says what was left out");
        assert_eq!(sent_now[1..], expected);
        // Nothing that a decoder could begin with: the next key frame ends that.
        serve.push(ms(2_000), frame(VIDEO, FrameRole::Inter, 20));
        assert_eq!(sent(&mut serve, ms(3_000)), []);
        serve.push(ms(3_000), frame(VIDEO, FrameRole::Inter, 21));
        assert_eq!(sent(&mut serve, ms(3_000)), []);
        serve.push(ms(3_000), frame(VIDEO, FrameRole::Key, 22));
        serve.push(ms(3_000), frame(VIDEO, FrameRole::Inter, 23));
        assert_eq!(sent(&mut serve, ms(3_000)), [(22, 2), (23, 0)]);
    }

    #[test]
    fn a_key_frame_in_time_ends_what_is_late_before_it() {
        let mut serve = Serve::new(1 << 20);
        serve.push(ms(0), frame(VIDEO, FrameRole::Key, 0));
        serve.push(ms(0), frame(VIDEO, FrameRole::Inter, 1));
        serve.push(ms(0), frame(AUDIO, FrameRole::Audio, 2));
        serve.push(ms(500), frame(VIDEO, FrameRole::Key, 3));
        serve.push(ms(500), frame(VIDEO, FrameRole::Inter, 4));
        serve.push(ms(500), frame(AUDIO, FrameRole::Audio, 5));
        assert_eq!(sent(&mut serve, ms(1_000)), [(3, 3), (4, 0), (5, 0)]);
    }

    #[test]
    fn a_key_frame_does_not_wait_behind_what_is_nearly_late() {
        let mut serve = Serve::new(1 << 20);
        serve.push(ms(0), frame(VIDEO, FrameRole::Inter, 0));
        serve.push(ms(0), frame(AUDIO, FrameRole::Audio, 1));
        assert_eq!(serve.push(ms(451), frame(VIDEO, FrameRole::Inter, 2)), 0);
        assert_eq!(serve.push(ms(451), frame(VIDEO, FrameRole::Key, 3)), 2);
        assert_eq!(sent(&mut serve, ms(451)), [(1, 2), (3, 0)], "audio is not late");
        let other = TrackId { index: 1, ..VIDEO };
        serve.push(ms(1_000), frame(other, FrameRole::Inter, 4));
        serve.push(ms(1_451), frame(VIDEO, FrameRole::Key, 5));
        assert_eq!(sent(&mut serve, ms(1_451)), [(4, 0), (5, 0)], "nor is what has no key frame");
    }

    #[test]
    fn without_credit_nothing_is_begun_and_what_is_begun_is_finished() {
        let mut serve = Serve::new(1);
        let times = (Timestamp::ZERO, Timestamp::ZERO);
        let large = Frame::new(VIDEO, FrameRole::Key, Codec::H264, times, vec![7; CHUNK_BYTES_MAX * 2 + 1]);
        serve.push(ms(0), Arc::new(large));
        serve.push(ms(0), frame(VIDEO, FrameRole::Inter, 1));
        let mut out = Vec::new();
        for _ in 0..3 {
            assert!(serve.has_output());
            serve.put_next(ms(0), 1, usize::MAX, &mut out);
        }
        assert!(!serve.has_output() && !serve.is_empty());
        serve.add_credit((CHUNK_BYTES_MAX * 2 + FRAME_COST) as u32);
        assert!(!serve.has_output(), "what the large one took is to be used first");
        serve.add_credit(1);
        assert_eq!(sent(&mut serve, ms(0)), [(1, 0)]);
        assert!(serve.is_empty());
    }

    #[test]
    fn more_bytes_than_may_wait_are_left_out_but_for_configurations() {
        let mut serve = Serve::new(1 << 30);
        serve.push(ms(0), frame(VIDEO, FrameRole::Config, 0));
        serve.push(ms(0), frame(VIDEO, FrameRole::Config, 1));
        let times = (Timestamp::from_millis(2), Timestamp::from_millis(2));
        let large = Arc::new(Frame::new(VIDEO, FrameRole::Key, Codec::H264, times, vec![7; FRAME_BYTES_MAX]));
        for _ in 0..3 {
            serve.push(ms(0), large.clone());
        }
        // With the configurations the second was too much; for the third there was room again.
        assert_eq!(sent(&mut serve, ms(0)), [(1, 3), (2, 0)]);
        let huge = vec![7; FRAME_BYTES_MAX + 1];
        assert_eq!(
            serve.push(ms(0), Arc::new(Frame::new(AUDIO, FrameRole::Audio, Codec::Aac, times, huge))),
            1
        );
        assert!(serve.is_empty());
    }
}
