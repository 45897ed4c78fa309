//! From the frames of a publication to parts and segments of its renditions.
//!
//! Video decides where segments begin: at key frames. Audio follows: its segment ends with the last frame
//! that begins before the key frame is shown. A stream without video has its segments cut by time.
//!
//! Media time begins near 0 and never goes back. It follows the publisher's clock; where that jumps, or
//! another publisher goes on, media time goes on behind what there is, and a discontinuity says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use media::{Codec, Frame, FrameRole, MediaKind, Timestamp, TrackId};

use crate::audio::frame_samples;
use crate::chunk::Sample;
use crate::format::VIDEO_TIMESCALE;
use crate::rendition::{Boundary, Rendition, Waiting};
use crate::{Counters, Format, Output, Refusal, Settings};

/// Makes parts and segments of the frames of a stream.
///
/// **Call [`Segmenter::push`] for every frame in order, then [`Segmenter::poll_output`] until it gives
/// nothing.** It holds references to frames until their part is complete, at most
/// [`Settings::waiting_frames`] besides the part at hand.
#[derive(Debug)]
pub struct Segmenter {
    settings: Settings,
    counters: Counters,
    /// What the configurations say, by track.
    formats: Vec<(TrackId, Known)>,
    renditions: Vec<Rendition>,
    /// Begins of segments that not all renditions have passed.
    boundaries: VecDeque<Boundary>,
    next_msn: u64,
    /// Frames before anything is decided, since the begin or the last break.
    startup: Option<Vec<Pushed>>,
    startup_bytes: usize,
    /// Media time minus the publisher's time.
    shift: Timestamp,
    wall_offset: Timestamp,
    /// Newest media time of any frame, and decode time of the newest video.
    newest: Option<Timestamp>,
    video_at: Option<Timestamp>,
    /// Media time at which it goes on after a break.
    resumes_at: Timestamp,
    /// Decode time of the newest key frame in ticks, and how far key frames are apart.
    last_key: Option<i64>,
    key_frame_interval: Option<Timestamp>,
    /// Pictures were dropped that needed one.
    awaits_key: bool,
    discontinuities: u64,
    /// The next segment begins with a discontinuity, and as soon as it can.
    breaks: bool,
    target_duration: Option<u32>,
    is_finished: bool,
    out: VecDeque<Output>,
}

/// What is known of how a track is coded; `Ok(None)` until a configuration or a frame says it.
type Known = Result<Option<Arc<Format>>, Refusal>;

#[derive(Debug, Clone)]
struct Pushed {
    now: Duration,
    dts: Timestamp,
    frame: Arc<Frame>,
    format: Arc<Format>,
}

impl Segmenter {
    /// A segmenter of a stream that nobody has published yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counters: Counters::default(),
            formats: Vec::new(),
            renditions: Vec::new(),
            boundaries: VecDeque::new(),
            next_msn: settings.first_msn,
            startup: Some(Vec::new()),
            startup_bytes: 0,
            shift: Timestamp::ZERO,
            wall_offset: Timestamp::ZERO,
            newest: None,
            video_at: None,
            resumes_at: Timestamp::ZERO,
            last_key: None,
            key_frame_interval: settings.key_frame_interval,
            awaits_key: false,
            discontinuities: 0,
            breaks: false,
            target_duration: None,
            is_finished: false,
            out: VecDeque::new(),
        }
    }

    /// Takes in a frame that came when the wall clock was `now` since 1970. `dts` is its time on the
    /// stream's timeline: [`Frame::dts`], or that as the caller has moved it.
    ///
    /// Frames that were kept, as in a GOP cache, came earlier: by as much as their time is before that of the
    /// newest. Dates of segments are made of it.
    pub fn push(&mut self, now: Duration, dts: Timestamp, frame: &Arc<Frame>) {
        if self.is_finished {
            return self.drop_frame(frame, "the publication is over");
        }
        match frame.role {
            FrameRole::Config => return self.configure(frame),
            FrameRole::Key | FrameRole::Inter | FrameRole::Audio => {}
            FrameRole::Metadata | FrameRole::End | FrameRole::Other => return,
        }
        let Some(format) = self.format_of(frame) else { return };
        if frame.data().is_empty() || frame.data().len() > self.settings.part_bytes {
            return self.drop_frame(frame, "it is empty or too large");
        }
        self.check_jump(dts, frame.track);
        let pushed = Pushed { now, dts, frame: Arc::clone(frame), format };
        match &mut self.startup {
            Some(startup) => {
                self.startup_bytes += frame.data().len();
                startup.push(pushed);
                if self.is_ready() {
                    self.start();
                }
            }
            None => self.place(&pushed),
        }
    }

    /// Another publisher goes on with the stream: its clock and configurations are its own.
    pub fn restart(&mut self) {
        self.interrupt();
        self.formats.clear();
    }

    /// The publication is over: everything goes out, and nothing more comes in.
    pub fn finish(&mut self) {
        if self.is_finished {
            return;
        }
        self.is_finished = true;
        self.interrupt();
        self.out.push_back(Output::End);
    }

    /// What was made, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// Longest duration of a segment, rounded to seconds, once it is known; it does not change then.
    pub fn target_duration(&self) -> Option<u32> {
        self.target_duration
    }

    /// Whether a key frame of video would be welcome: pictures wait for one, a segment is as long as it
    /// should be, or a format has changed.
    pub fn wants_key_frame(&self) -> bool {
        if let Some(startup) = &self.startup {
            let has = |role| startup.iter().any(|pushed| pushed.frame.role == role);
            return has(FrameRole::Inter) && !has(FrameRole::Key);
        }
        let since_key = self
            .last_key
            .zip(self.video_at)
            .map(|(last, newest)| newest - Timestamp::from_ticks(last, VIDEO_TIMESCALE));
        self.awaits_key || since_key.is_some_and(|since| self.breaks || since >= self.settings.segment)
    }

    /// Whether any track can be carried, as far as is known.
    pub fn has_tracks(&self) -> bool {
        self.formats.iter().any(|(_, known)| known.is_ok())
    }

    /// Why a track is not carried, if it is not.
    pub fn refusals(&self) -> impl Iterator<Item = (TrackId, Refusal)> {
        self.formats.iter().filter_map(|(track, format)| Some((*track, *format.as_ref().err()?)))
    }

    /// The tracks that are carried, as they are coded now; frames of a new format may wait for a key frame.
    pub fn formats(&self) -> impl Iterator<Item = (TrackId, &Arc<Format>)> {
        self.formats.iter().filter_map(|(track, known)| Some((*track, known.as_ref().ok()?.as_ref()?)))
    }

    /// What was left out.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn configure(&mut self, frame: &Frame) {
        let at = self.track(frame.track);
        if self.formats[at].1 == Err(Refusal::TooManyTracks) {
            return;
        }
        let read = Format::of_config(frame).map(|format| format.map(Arc::new));
        match (&self.formats[at].1, &read) {
            // Repeated: the format stays the same object, with the size that a key frame has.
            (Ok(Some(known)), Ok(Some(new))) if known.codec == new.codec && known.record == new.record => {}
            _ => self.formats[at].1 = read,
        }
    }

    /// Index of a track among the formats; a new one may be one too many.
    fn track(&mut self, track: TrackId) -> usize {
        if let Some(at) = self.formats.iter().position(|(known, _)| *known == track) {
            return at;
        }
        let is_carried = |(known, format): &&(TrackId, Result<_, Refusal>)| {
            known.kind == track.kind && *format != Err(Refusal::TooManyTracks)
        };
        let carried = self.formats.iter().filter(is_carried).count();
        let limit = if track.kind == MediaKind::Video { 1 } else { self.settings.audio_tracks };
        if self.formats.len() == TRACKS_MAX {
            // Which one it replaces does not matter: it is refused.
            self.formats.pop();
        }
        let format = if carried < limit { Ok(None) } else { Err(Refusal::TooManyTracks) };
        self.formats.push((track, format));
        self.formats.len() - 1
    }

    /// The format that a frame is in; `None` if it cannot be carried.
    fn format_of(&mut self, frame: &Frame) -> Option<Arc<Format>> {
        let at = self.track(frame.track);
        let known = &mut self.formats[at].1;
        let needs_frame = match (frame.codec, &known) {
            (_, Err(Refusal::TooManyTracks | Refusal::Codec(_))) => false,
            (Codec::Mp3 | Codec::Ac3 | Codec::Eac3, _) => true,
            // The record does not have the size of the picture.
            (Codec::Vp9, _) => frame.role == FrameRole::Key,
            (_, Ok(Some(_)) | Err(_)) => false,
            (_, Ok(None)) => true,
        };
        if needs_frame {
            match (Format::of_frame(frame), &known) {
                (Ok(new), Ok(Some(old))) => {
                    let record = if old.record.is_empty() || frame.codec != old.codec {
                        new.record.clone()
                    } else {
                        old.record.clone()
                    };
                    let new = Format { record, ..new };
                    if !new.is_same(old) {
                        *known = Ok(Some(Arc::new(new)));
                    }
                }
                (Ok(new), _) => *known = Ok(Some(Arc::new(new))),
                (Err(refusal @ Refusal::Codec(_)), _) => *known = Err(refusal),
                (Err(refusal), Ok(None)) => {
                    // A configuration may still come.
                    tracing::trace!(track = ?frame.track, %refusal, "frame dropped");
                    self.counters.frames_dropped += 1;
                    return None;
                }
                (Err(_), _) => {}
            }
        }
        match known {
            Ok(Some(format)) if format.codec == frame.codec => Some(Arc::clone(format)),
            Err(refusal) => {
                tracing::trace!(track = ?frame.track, %refusal, "frame refused");
                self.counters.frames_refused += 1;
                None
            }
            _ => {
                self.drop_frame(frame, "its configuration is missing");
                None
            }
        }
    }

    fn drop_frame(&mut self, frame: &Frame, why: &'static str) {
        tracing::trace!(track = ?frame.track, why, "frame dropped");
        self.counters.frames_dropped += 1;
    }

    /// Breaks the timeline if the publisher's clock has jumped.
    fn check_jump(&mut self, dts: Timestamp, track: TrackId) {
        let (newest, last) = match &self.startup {
            Some(startup) => {
                let newest = startup.iter().map(|pushed| pushed.dts).max();
                let of_track = startup.iter().rev().find(|pushed| pushed.frame.track == track);
                (newest, of_track.map(|pushed| pushed.dts))
            }
            None => {
                let last = self.renditions.iter().find(|rendition| rendition.id == track);
                let last =
                    last.filter(|rendition| rendition.is_present).and_then(|rendition| {
                        match rendition.waiting.back() {
                            Some(waiting) => Some(waiting.time),
                            None => rendition
                                .last
                                .as_ref()
                                .map(|last| Timestamp::from_ticks(last.dts, rendition.timescale())),
                        }
                    });
                (self.newest.map(|newest| newest - self.shift), last.map(|last| last - self.shift))
            }
        };
        let jumps = newest.is_some_and(|newest| dts - newest > JUMP_FORWARD || newest - dts > JUMP_BACK)
            || last.is_some_and(|last| last - dts > STEP_BACK_MAX);
        if jumps {
            self.counters.jumps += 1;
            tracing::trace!(?track, ?dts, ?newest, "the publisher's clock jumps");
            self.interrupt();
        }
    }

    /// Ends what is there; what comes next begins like a new publication, behind a discontinuity.
    fn interrupt(&mut self) {
        if self.startup.as_ref().is_some_and(|startup| !startup.is_empty()) {
            self.start();
        }
        let video = self.renditions.iter().position(|rendition| rendition.id.kind == MediaKind::Video);
        if let Some(index) = video
            && let Some(last) = &self.renditions[index].last
        {
            // The newest picture has its duration, too.
            let ticks = last.dts + i64::from(self.renditions[index].nominal());
            self.bound_segment(index, ticks);
        }
        self.drain_audio(true);
        let ends = self.renditions.iter().filter_map(Rendition::end);
        // Not before the newest segment, which may have nothing in some renditions.
        let began = self.boundaries.back().map(|boundary| boundary.time + Timestamp::from_millis(1));
        let end = ends.chain(self.newest).chain(began).fold(self.resumes_at, Timestamp::max);
        if !self.renditions.is_empty() {
            // A first segment that is cut off says how long they are, too.
            self.announce(self.settings.segment);
        }
        for rendition in &mut self.renditions {
            // A track without frames passes all segments that there were.
            while let Some(next) =
                self.boundaries.iter().find(|boundary| boundary.msn == rendition.next_msn()).copied()
            {
                rendition.enter(next, next.time, &mut self.counters, &mut self.out);
            }
            rendition.leave(end, &mut self.counters, &mut self.out);
            rendition.last = None;
            rendition.is_present = false;
        }
        self.boundaries.clear();
        self.resumes_at = end;
        self.breaks = self.next_msn > self.settings.first_msn;
        (self.newest, self.video_at, self.last_key) = (None, None, None);
        self.startup = Some(Vec::new());
    }

    /// Whether it is known how the publication begins: with video, or without.
    fn is_ready(&self) -> bool {
        let Some(startup) = &self.startup else { return false };
        let (Some(first), Some(newest)) = (startup.first(), startup.last()) else { return false };
        if startup.len() >= self.settings.waiting_frames || self.startup_bytes > self.settings.waiting_bytes {
            return true;
        }
        let is_video = |track: &TrackId| track.kind == MediaKind::Video;
        let key = startup.iter().position(|pushed| pushed.frame.is_key());
        if let Some(key) = key {
            let video = startup[key..].iter().filter(|pushed| is_video(&pushed.frame.track)).count();
            return video >= STARTUP_PICTURES || newest.dts - startup[key].dts >= STARTUP;
        }
        let expects_video = self.formats.iter().any(|(track, format)| is_video(track) && format.is_ok());
        newest.dts - first.dts >= if expects_video { VIDEO_STOPPED } else { STARTUP }
    }

    /// Begins with what came: at the first key frame, or with audio only.
    fn start(&mut self) {
        let Some(startup) = self.startup.take() else { return };
        self.startup_bytes = 0;
        let key = startup.iter().position(|pushed| pushed.frame.is_key());
        let Some(first) = key.map(|at| &startup[at]).or(startup.iter().min_by_key(|pushed| pushed.dts))
        else {
            self.startup = Some(startup);
            return;
        };
        if key.is_none() && first.frame.track.kind == MediaKind::Video {
            // Pictures without a key frame, and the publication is over.
            self.counters.frames_dropped += startup.len() as u64;
            self.startup = Some(Vec::new());
            return;
        }
        // Audio that is heard together with the first picture may begin before it.
        let audio = startup.iter().filter(|pushed| pushed.frame.track.kind == MediaKind::Audio);
        let audio = audio.map(|pushed| pushed.dts).filter(|dts| first.dts - *dts < AUDIO_LEAD);
        let shown = first.dts + presentation_offset(&first.frame);
        self.shift = self.resumes_at - audio.chain([shown]).fold(first.dts, Timestamp::min);
        // Frames may have waited in a queue: the one that came soonest says best when they were captured.
        let offset = |pushed: &Pushed| Timestamp::from(pushed.now) - (pushed.dts + self.shift);
        let offset = startup.iter().map(offset).min().unwrap_or(Timestamp::ZERO);
        // Never back: dates of segments follow each other.
        self.wall_offset = if self.breaks { offset.max(self.wall_offset) } else { offset };
        let video: Vec<_> =
            startup.iter().filter(|pushed| pushed.frame.track.kind == MediaKind::Video).collect();
        let picture = match (video.first(), video.last()) {
            (Some(first), Some(last)) if video.len() > 1 => {
                Timestamp::from_units((last.dts - first.dts).units() / (video.len() as i64 - 1))
            }
            _ => Timestamp::ZERO,
        };
        let time = self.shift + first.dts + presentation_offset(&first.frame);
        match key {
            // What comes before it has no segment.
            Some(_) => self.video_at = Some(self.resumes_at),
            None => {
                self.add_boundary(time);
            }
        }
        let known: Vec<_> = self.formats.iter().map(|(track, format)| (*track, format.clone())).collect();
        for (track, format) in known {
            if let Ok(Some(format)) = format
                && (track.kind == MediaKind::Audio || key.is_some())
            {
                self.rendition(track, &format, picture);
            }
        }
        match (key, self.key_frame_interval) {
            (None, _) => self.announce(self.settings.segment),
            (Some(_), Some(interval)) => self.announce(self.segment_of(interval)),
            (Some(_), None) => {}
        }
        for (index, pushed) in startup.iter().enumerate() {
            if key.is_some_and(|key| index < key) && pushed.frame.track.kind == MediaKind::Video {
                self.drop_frame(&pushed.frame, "the key frame that it needs is missing");
                continue;
            }
            self.place(pushed);
        }
    }

    /// Index of the rendition of a track, which is made if there is none.
    fn rendition(&mut self, track: TrackId, format: &Arc<Format>, picture: Timestamp) -> usize {
        if let Some(at) = self.renditions.iter().position(|rendition| rendition.id == track) {
            return at;
        }
        let target = self.part_target(format, picture);
        // It begins with the segment at hand while that is new.
        let joins_at = match (self.boundaries.back(), self.newest) {
            (Some(open), Some(newest)) if newest - open.time > STARTUP => open.msn + 1,
            (Some(open), _) => open.msn,
            (None, _) => self.next_msn,
        };
        self.renditions.push(Rendition::new(track, Arc::clone(format), target, joins_at, &self.settings));
        self.renditions.len() - 1
    }

    /// Longest part: whole frames that come nearest to the duration asked for, and 5 % for clocks that
    /// count milliseconds.
    ///
    /// All but the last part of a segment have to have 85 % of it (RFC 8216bis section 4.4.3.7): frames
    /// longer than 15 % would break that with any other target.
    fn part_target(&self, format: &Format, picture: Timestamp) -> Timestamp {
        let wanted = self.settings.part.units().max(1);
        let frame = match (format.kind(), picture.units()) {
            (MediaKind::Video, 1..) => picture.units(),
            (MediaKind::Video, _) => wanted / 6,
            _ => {
                let samples = frame_samples(format, &[]).unwrap_or(960);
                Timestamp::from_ticks(samples.into(), format.sample_rate).units()
            }
        };
        let count = ((wanted + frame / 2) / frame.max(1)).max(1);
        let target = count * frame + count * frame / 20;
        // Whole milliseconds, as the playlist says it.
        Timestamp::from_millis(Timestamp::from_units(target).millis() + 1)
    }

    /// How long segments become with key frames at this distance: as many of them as come nearest.
    fn segment_of(&self, interval: Timestamp) -> Timestamp {
        let (wanted, interval) = (self.settings.segment.units(), interval.units().max(1));
        let count = (wanted.saturating_add(interval / 2) / interval).max(1);
        Timestamp::from_units(interval.saturating_mul(count)).max(self.settings.segment)
    }

    /// Decides the target duration if that has not been done: for segments of this duration, and for all
    /// that there are.
    fn announce(&mut self, segment: Timestamp) {
        let made = self.renditions.iter().map(Rendition::longest).max().unwrap_or_default();
        let longest = segment.max(made).max(self.settings.segment);
        self.target_duration.get_or_insert(self.round(longest));
        self.bound_renditions();
    }

    /// Tells all renditions how long their segments may become.
    fn bound_renditions(&mut self) {
        let longest = self.longest_segment() + AUDIO_SLACK;
        for rendition in &mut self.renditions {
            rendition.segment_max = longest;
        }
    }

    /// Target duration for segments of this duration, with a quarter of a second for encoders that are not
    /// exact.
    fn round(&self, segment: Timestamp) -> u32 {
        let most = self.settings.segment_max.millis();
        ((segment.millis().min(most) + 750) / 1000).clamp(1, 3600) as u32
    }

    fn add_boundary(&mut self, time: Timestamp) -> Boundary {
        let time = match self.boundaries.back() {
            Some(last) => time.max(last.time + Timestamp::from_units(1)),
            None => time,
        };
        let is_discontinuity = std::mem::take(&mut self.breaks);
        self.discontinuities += u64::from(is_discontinuity);
        let audio_from = if self.boundaries.is_empty() { self.resumes_at.min(time) } else { time };
        let boundary = Boundary {
            msn: self.next_msn,
            time,
            audio_from,
            discontinuity_sequence: self.discontinuities,
            is_discontinuity,
            wall_offset: self.wall_offset,
        };
        self.next_msn += 1;
        self.boundaries.push_back(boundary);
        boundary
    }

    fn place(&mut self, pushed: &Pushed) {
        let dts = pushed.dts + self.shift;
        let pts = dts + presentation_offset(&pushed.frame);
        self.newest = self.newest.max(Some(dts));
        self.bound_renditions();
        let index = self.rendition(pushed.frame.track, &pushed.format, Timestamp::ZERO);
        if pushed.frame.track.kind == MediaKind::Video {
            self.place_video(index, dts, pts, pushed);
            // Audio does not wait for pictures that wait for a key frame.
            if self.renditions[index].last.is_some() {
                self.video_at = self.video_at.max(Some(dts));
            }
        } else {
            let rendition = &mut self.renditions[index];
            rendition.is_present = true;
            let (format, frame) = (Arc::clone(&pushed.format), Arc::clone(&pushed.frame));
            rendition.waiting_bytes += frame.data().len();
            rendition.waiting.push_back(Waiting { time: pts, format, frame });
        }
        self.end_stopped_video();
        self.drain_audio(false);
        self.pass_silence();
    }

    fn place_video(&mut self, index: usize, dts: Timestamp, pts: Timestamp, pushed: &Pushed) {
        let is_key = pushed.frame.is_key();
        self.awaits_key = !is_key && self.renditions[index].last.is_none();
        if self.awaits_key {
            return self.drop_frame(&pushed.frame, "the key frame that it needs is missing");
        }
        let mut ticks = dts.ticks(VIDEO_TIMESCALE);
        let first_free = match &self.renditions[index].last {
            Some(last) => last.dts + 1,
            None => self.renditions[index].free_from(VIDEO_TIMESCALE),
        };
        if ticks < first_free {
            self.counters.times_moved += 1;
            ticks = first_free;
        }
        let is_full = self.bound_segment(index, ticks);
        let longest = self.longest_segment();
        let Self { renditions, counters, out, .. } = self;
        let rendition = &mut renditions[index];
        rendition.finish_last(ticks, counters, out);
        let elapsed = rendition.segment_start.map_or(0, |start| ticks - start);
        let elapsed = Timestamp::from_ticks(elapsed, VIDEO_TIMESCALE);
        let is_other = !rendition.continues(&pushed.format);
        if is_key {
            let interval = self.last_key.map(|last| Timestamp::from_ticks(ticks - last, VIDEO_TIMESCALE));
            self.key_frame_interval = interval.or(self.key_frame_interval);
            self.last_key = Some(ticks);
        }
        // At the key frame that is nearest to the end, and before the last that the target allows.
        let interval = self.key_frame_interval.unwrap_or(elapsed);
        let is_near = elapsed.units() + interval.units() / 2 >= self.settings.segment.units()
            || elapsed + interval > longest;
        if !rendition.is_present || is_full || is_key && (self.breaks || is_other || is_near) {
            self.begin_video_segment(index, (ticks, pts), elapsed, &pushed.format);
        } else if elapsed > UNKNOWN_INTERVAL_MAX {
            self.announce(self.settings.segment_max);
        }
        if self.renditions[index].segment_start.is_none() {
            // Gaps may have taken what was free.
            ticks = ticks.max(self.renditions[index].free_from(VIDEO_TIMESCALE));
        }
        let shown = pts.ticks(VIDEO_TIMESCALE).max(0);
        let composition = i32::try_from(shown - ticks).unwrap_or(0);
        let frame = Arc::clone(&pushed.frame);
        let sample = Sample { frame, dts: ticks, composition, duration: 0, is_key };
        self.renditions[index].begin_sample(sample, None, &mut self.out);
    }

    /// Ends the segment without a key frame if a picture that comes at `ticks` makes it longer than was
    /// announced: before the picture that is there, or, where that alone takes so long, behind it: then there
    /// is a hole, and the next one begins a segment.
    fn bound_segment(&mut self, index: usize, ticks: i64) -> bool {
        let longest = self.longest_segment().ticks(VIDEO_TIMESCALE);
        let rendition = &mut self.renditions[index];
        let (Some(last), Some(start)) = (&rendition.last, rendition.segment_start) else {
            return false;
        };
        if ticks - start <= longest {
            return false;
        }
        let format = Arc::clone(&rendition.format);
        self.counters.segments_cut += 1;
        tracing::trace!(track = ?rendition.id, "a segment ends without a key frame");
        if last.dts > start {
            let last = rendition.last.take().expect("it is there");
            let elapsed = Timestamp::from_ticks(last.dts - start, VIDEO_TIMESCALE);
            let pts = Timestamp::from_ticks(last.dts + i64::from(last.composition), VIDEO_TIMESCALE);
            self.begin_video_segment(index, (last.dts, pts), elapsed, &format);
            self.renditions[index].begin_sample(last, None, &mut self.out);
            return self.bound_segment(index, ticks);
        }
        rendition.finish_last(start + longest, &mut self.counters, &mut self.out);
        true
    }

    /// A segment begins with a picture that is decoded and shown at these times; the one before has lasted
    /// for `elapsed`.
    fn begin_video_segment(
        &mut self,
        index: usize,
        (ticks, pts): (i64, Timestamp),
        elapsed: Timestamp,
        format: &Arc<Format>,
    ) {
        self.breaks |= !self.renditions[index].continues(format);
        if elapsed > Timestamp::ZERO {
            // The first segment says how long the others become.
            self.announce(elapsed);
        }
        let boundary = self.add_boundary(pts);
        let rendition = &mut self.renditions[index];
        if rendition.is_new() {
            rendition.joins_at = boundary.msn;
        }
        // It may have been away for some segments.
        let next_of = |rendition: &Rendition, boundaries: &VecDeque<Boundary>| {
            boundaries.iter().find(|next| next.msn == rendition.next_msn()).copied()
        };
        while let Some(next) = next_of(rendition, &self.boundaries) {
            let begins = Timestamp::from_ticks(ticks, VIDEO_TIMESCALE);
            let end = if next.msn == boundary.msn { begins } else { next.time };
            rendition.enter(next, end, &mut self.counters, &mut self.out);
        }
        rendition.is_present = true;
        rendition.set_format(format, &mut self.out);
    }

    /// How long a segment may become: rounded, not more than was announced.
    fn longest_segment(&self) -> Timestamp {
        match self.target_duration {
            // Less than half a second more, as segments of audio end with whole frames.
            Some(seconds) => Timestamp::from_millis(i64::from(seconds) * 1000 + 400),
            None => self.settings.segment_max,
        }
    }

    /// Audio that goes on alone has its segments by time.
    fn end_stopped_video(&mut self) {
        let (Some(newest), Some(video_at)) = (self.newest, self.video_at) else { return };
        if newest - video_at <= VIDEO_STOPPED.min(self.longest_segment()) {
            return;
        }
        self.video_at = None;
        for rendition in &mut self.renditions {
            if rendition.id.kind == MediaKind::Video {
                rendition.is_present = false;
                rendition.leave(newest, &mut self.counters, &mut self.out);
            }
        }
    }

    /// Places audio that waits, as far as it is known which segment it belongs to; `all` of it at an end.
    fn drain_audio(&mut self, all: bool) {
        let video_is_awaited = self.startup.is_some() && !all;
        for index in 0..self.renditions.len() {
            let newest = self.renditions[index].waiting.back().map(|waiting| waiting.time);
            while let Some(first) = self.renditions[index].waiting.front() {
                let is_due = match self.video_at {
                    Some(video_at) => first.time < video_at,
                    None => !video_is_awaited,
                };
                let is_late = newest.is_some_and(|newest| newest - first.time > self.settings.interleave)
                    || self.renditions[index].waiting.len() > self.settings.waiting_frames
                    || self.renditions[index].waiting_bytes > self.settings.waiting_bytes;
                if !(is_due || is_late || all) {
                    break;
                }
                let rendition = &mut self.renditions[index];
                let first = rendition.waiting.pop_front().expect("there is a first");
                rendition.waiting_bytes -= first.frame.data().len();
                self.place_audio(index, &first);
            }
        }
    }

    fn place_audio(&mut self, index: usize, waiting: &Waiting) {
        let rendition = &self.renditions[index];
        let rate = waiting.format.sample_rate;
        let is_same = rendition.continues(&waiting.format);
        let samples = frame_samples(&waiting.format, waiting.frame.data());
        let said = waiting.time.ticks(rate);
        // Frames follow each other to the sample, whatever the rounding of their times; where those are
        // further away, something is missing or the clocks differ.
        let ticks = match &rendition.last {
            Some(last) if is_same => {
                let expected = last.dts + i64::from(rendition.nominal());
                if (said - expected).abs() <= i64::from(rate) * AUDIO_TOLERANCE_MS / 1000 {
                    expected
                } else {
                    self.counters.times_moved += u64::from(said < expected);
                    said.max(last.dts + i64::from(rendition.nominal().div_ceil(2)))
                }
            }
            _ => said.max(rendition.free_from(rate)),
        };
        let time = Timestamp::from_ticks(ticks, rate);
        let leads = self.video_at.is_none() && self.leading_audio() == Some(index);
        let open = self.boundaries.back().map(|boundary| boundary.time);
        let is_long = open.is_some_and(|open| time - open >= self.settings.segment);
        if leads && (open.is_none() || is_long || !is_same || self.breaks) {
            self.breaks |= !is_same;
            self.add_boundary(time);
        }
        let longest = (self.longest_segment() + AUDIO_SLACK).ticks(rate);
        let Self { renditions, counters, out, .. } = self;
        let rendition = &mut renditions[index];
        let is_next = |next: &&Boundary| next.msn == rendition.next_msn() && next.audio_from <= time;
        let stays = self.boundaries.iter().find(is_next).is_none();
        let end = rendition.segment_start.map_or(i64::MAX, |start| start + longest);
        if stays && ticks + i64::from(samples.unwrap_or(0)) > end {
            // It came so much earlier than the picture at which its segment ends that it was not waited for.
            return self.drop_frame(&waiting.frame, "its segment would be longer than was announced");
        }
        if is_same {
            rendition.finish_last(ticks.min(end), counters, out);
        }
        while let Some(next) = self
            .boundaries
            .iter()
            .find(|next| next.msn == rendition.next_msn() && next.audio_from <= time)
            .copied()
        {
            rendition.enter(next, next.time, counters, out);
        }
        let starts = rendition.segment_start.is_none();
        let Some(at) = rendition.at else {
            return self.drop_frame(&waiting.frame, "its segment has not begun");
        };
        let may_change = starts && at.is_discontinuity;
        if !(is_same || may_change) {
            // With video, a new format has to wait for the next key frame.
            self.breaks = true;
            return self.drop_frame(&waiting.frame, "its format is not that of the segment");
        }
        let ticks = if starts { ticks.max(rendition.free_from(rate)) } else { ticks };
        if starts {
            rendition.set_format(&waiting.format, &mut self.out);
        }
        let frame = Arc::clone(&waiting.frame);
        let sample = Sample { frame, dts: ticks, composition: 0, duration: 0, is_key: true };
        rendition.begin_sample(sample, samples, &mut self.out);
    }

    /// The audio rendition that decides about segments where there is no video.
    fn leading_audio(&self) -> Option<usize> {
        let is_leading =
            |rendition: &Rendition| rendition.id.kind == MediaKind::Audio && rendition.is_present;
        self.renditions.iter().position(is_leading)
    }

    /// Renditions that have nothing to say pass the segments of the others.
    fn pass_silence(&mut self) {
        let Some(newest) = self.newest else { return };
        for rendition in &mut self.renditions {
            if rendition.id.kind == MediaKind::Video && rendition.is_present {
                continue;
            }
            while let Some(next) =
                self.boundaries.iter().find(|next| next.msn == rendition.next_msn()).copied()
            {
                let waits = rendition.waiting.front().is_some();
                if waits || newest - next.time <= self.settings.interleave {
                    break;
                }
                rendition.enter(next, next.time, &mut self.counters, &mut self.out);
            }
        }
        let passed = self.renditions.iter().map(Rendition::next_msn).min().unwrap_or(0);
        while self.boundaries.len() > 1 && self.boundaries[0].msn + 1 < passed {
            self.boundaries.pop_front();
        }
    }
}

/// Presentation minus decode time of a frame.
fn presentation_offset(frame: &Frame) -> Timestamp {
    let offset = frame.pts - frame.dts;
    let is_sane = (-PRESENTATION_OFFSET_MAX..=PRESENTATION_OFFSET_MAX).contains(&offset);
    if is_sane { offset } else { Timestamp::ZERO }
}

/// A step forward of more than this between two frames is a jump, not a pause.
const JUMP_FORWARD: Timestamp = Timestamp::from_millis(10_000);
/// A frame further than this behind the newest is not interleaved, its clock has gone back.
const JUMP_BACK: Timestamp = Timestamp::from_millis(3_000);
/// The same within a track, where frames should not go back at all.
const STEP_BACK_MAX: Timestamp = Timestamp::from_millis(500);
/// A publisher that sends audio but no video for this long has stopped its video.
const VIDEO_STOPPED: Timestamp = Timestamp::from_millis(3_000);
/// What is looked at before a publication begins: how far pictures are apart, and whether there are any.
const STARTUP: Timestamp = Timestamp::from_millis(400);
const STARTUP_PICTURES: usize = 7;
/// Without a second key frame for so long, the longest segment is announced.
const UNKNOWN_INTERVAL_MAX: Timestamp = Timestamp::from_millis(6_000);
/// How far times of audio may be from where its samples put it.
const AUDIO_TOLERANCE_MS: i64 = 60;
/// Longest time between decoding and presentation. More is no reordering of an encoder, and not believed.
const PRESENTATION_OFFSET_MAX: Timestamp = Timestamp::from_millis(10_000);
/// How much earlier than the first picture audio may begin: about two frames.
const AUDIO_LEAD: Timestamp = Timestamp::from_millis(50);
/// How much longer than segments of video those of audio may be, as they end with whole frames: with it they
/// still round to what was announced.
const AUDIO_SLACK: Timestamp = Timestamp::from_millis(95);
/// Tracks of which anything is remembered; further ones are refused.
const TRACKS_MAX: usize = 32;
