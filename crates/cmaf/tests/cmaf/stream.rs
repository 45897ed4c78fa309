//! A segmenter under test: frames made here go in, and what comes out is checked as it comes.

use std::sync::Arc;
use std::time::Duration;

use cmaf::{Output, Part, Segment, SegmentStart, Segmenter, Settings};
use media::{Codec, Frame, FrameRole, Timestamp, TrackId};

use crate::boxes::{Chunk, InitSegment, read_chunk, read_init};

/// When streams of tests begin, seconds since 1970.
pub(crate) const BEGIN: u64 = 1_700_000_000;
/// Record with one SPS and one PPS (96x64), sizes of four bytes.
pub(crate) const AVCC: &[u8] = b"\x01\x42\xc0\x0a\xff\xe1\x00\x04\x67\x42\xc0\x0a\x01\x00\x02\x68\xce";
/// AAC LC, 48 kHz, stereo.
pub(crate) const AAC: &[u8] = b"\x11\x90";

/// A segment as it came out.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) start: SegmentStart,
    pub(crate) parts: Vec<(Part, Chunk)>,
    pub(crate) done: Option<Segment>,
}

impl Made {
    pub(crate) fn duration(&self) -> Timestamp {
        self.done.as_ref().map_or(Timestamp::ZERO, |done| done.duration)
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = &crate::boxes::Sample> {
        self.parts.iter().flat_map(|(_, chunk)| &chunk.samples)
    }
}

/// One rendition as it came out.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) id: TrackId,
    pub(crate) inits: Vec<(cmaf::Init, InitSegment)>,
    pub(crate) segments: Vec<Made>,
    sequence: u32,
    /// End of the newest sample in ticks, and as a time.
    end: i64,
    ends_at: Timestamp,
}

/// A segmenter, and all that it made.
pub(crate) struct Stream {
    pub(crate) segmenter: Segmenter,
    pub(crate) tracks: Vec<Track>,
    pub(crate) is_ended: bool,
    target_duration: Option<u32>,
}

impl Stream {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            segmenter: Segmenter::new(settings),
            tracks: Vec::new(),
            is_ended: false,
            target_duration: None,
        }
    }

    pub(crate) fn push(&mut self, frame: Frame) {
        let now = Duration::from_secs(BEGIN) + frame.dts.to_duration();
        self.segmenter.push(now, frame.dts, &Arc::new(frame));
        self.take();
    }

    pub(crate) fn restart(&mut self) {
        self.segmenter.restart();
        self.take();
    }

    pub(crate) fn finish(&mut self) {
        self.segmenter.finish();
        self.take();
        assert!(self.is_ended);
        for track in &self.tracks {
            assert!(track.segments.iter().all(|segment| segment.done.is_some()), "all segments are complete");
        }
    }

    pub(crate) fn track(&self, id: TrackId) -> &Track {
        self.tracks.iter().find(|track| track.id == id).expect("a rendition")
    }

    /// Checks what is new.
    fn take(&mut self) {
        let target = self.segmenter.target_duration();
        assert!(
            self.target_duration.is_none() || self.target_duration == target,
            "the target duration stays"
        );
        self.target_duration = target;
        while let Some(output) = self.segmenter.poll_output() {
            assert!(!self.is_ended, "nothing comes behind the end");
            match output {
                Output::Init(init) => {
                    let read = read_init(&init.bytes);
                    assert_eq!(read.timescale, init.format.timescale());
                    let at = self.tracks.iter().position(|track| track.id == init.rendition);
                    let at = at.unwrap_or_else(|| {
                        let id = init.rendition;
                        let ends_at = Timestamp::ZERO;
                        self.tracks.push(Track {
                            id,
                            inits: vec![],
                            segments: vec![],
                            sequence: 0,
                            end: 0,
                            ends_at,
                        });
                        self.tracks.len() - 1
                    });
                    let inits = &mut self.tracks[at].inits;
                    if let Some((last, _)) = inits.last() {
                        assert!(
                            last.number < init.number && last.bytes != init.bytes,
                            "a new init is another"
                        );
                        assert_eq!(last.part_target, init.part_target, "the part target stays");
                    }
                    inits.push((init, read));
                }
                Output::SegmentStart(start) => self.start(start),
                Output::Part(part) => self.part(part),
                Output::Segment(done) => {
                    let track = self.track_mut(done.rendition);
                    let open = track.segments.last_mut().expect("a segment that began");
                    assert_eq!((open.start.msn, open.done.is_none()), (done.msn, true));
                    assert_eq!(done.gap, open.parts.is_empty());
                    if !done.gap {
                        let sum =
                            open.parts.iter().fold(Timestamp::ZERO, |sum, (part, _)| sum + part.duration);
                        let error = (sum - done.duration).units().abs();
                        assert!(error <= open.parts.len() as i64, "parts make up their segment: {error}");
                    }
                    assert!(
                        done.duration > Timestamp::ZERO && done.duration < Timestamp::from_millis(60_000)
                    );
                    if let Some(target) = target {
                        let rounded = (done.duration.millis() + 500) / 1000;
                        assert!(rounded <= i64::from(target), "{rounded} s, {target} s announced");
                    }
                    open.done = Some(done);
                }
                Output::End => self.is_ended = true,
            }
        }
    }

    fn start(&mut self, start: SegmentStart) {
        let track = self.track_mut(start.rendition);
        if let Some(last) = track.segments.last() {
            assert!(last.done.is_some(), "the segment before is complete");
            assert_eq!(last.start.msn + 1, start.msn);
            assert!(last.start.discontinuity_sequence <= start.discontinuity_sequence);
            assert!(last.start.start < start.start, "media time goes on");
            assert!(last.start.wall_clock < start.wall_clock, "dates go on");
        }
        if let Some(init) = start.init {
            let (last, _) = track.inits.last().expect("an init segment comes first");
            assert_eq!(last.number, init);
            let is_new = last.number == start.msn;
            let before = track.segments.last().map(|last| last.start.discontinuity_sequence);
            if is_new && track.inits.len() > 1 {
                assert_ne!(before, Some(start.discontinuity_sequence), "a new init, and no discontinuity");
            }
        }
        track.segments.push(Made { start, parts: Vec::new(), done: None });
    }

    fn part(&mut self, part: Part) {
        let track = self.track_mut(part.rendition);
        let (init, read) = track.inits.last().expect("an init segment comes first");
        let scale = read.timescale;
        let chunk = read_chunk(&part.bytes);
        assert_eq!(chunk.track_id, read.track_id);
        assert_eq!(chunk.sequence, track.sequence + 1);
        track.sequence = chunk.sequence;
        assert_eq!(part.duration, Timestamp::from_ticks(chunk.ticks() as i64, scale), "a true duration");
        assert_eq!(part.samples as usize, chunk.samples.len());
        assert_eq!(part.independent, chunk.samples[0].is_sync);
        assert!(part.duration <= init.part_target || chunk.samples.len() == 1, "{:?}", part.duration);
        let open = track.segments.last_mut().expect("a segment that began");
        assert!(open.done.is_none() && open.start.msn == part.msn && open.start.init.is_some());
        assert_eq!(part.number as usize, open.parts.len());
        assert_eq!(chunk.reference.is_some(), part.number == 0, "the wall clock is in the first part");
        let first = &chunk.samples[0];
        if part.number == 0 {
            let time = |ticks| Timestamp::from_ticks(ticks, scale);
            assert_eq!((open.start.start, open.start.presented), (time(first.dts), time(first.pts)));
            let (ntp, media) = chunk.reference.unwrap();
            assert_eq!(media, first.pts as u64);
            let seconds = (ntp >> 32) - 2_208_988_800;
            assert!(seconds.abs_diff(open.start.wall_clock.as_secs()) <= 11);
            assert!(
                time(first.dts) >= track.ends_at,
                "media time goes on: {} after {}",
                first.dts,
                track.end
            );
        } else {
            assert_eq!(first.dts, track.end, "a part begins where the one before it ends");
        }
        let last = chunk.samples.last().unwrap();
        track.end = last.dts + i64::from(last.duration);
        track.ends_at = Timestamp::from_ticks(track.end, scale);
        open.parts.push((part, chunk));
    }

    fn track_mut(&mut self, id: TrackId) -> &mut Track {
        self.tracks.iter_mut().find(|track| track.id == id).expect("an init segment comes first")
    }
}

pub(crate) fn frame(
    track: TrackId,
    role: FrameRole,
    codec: Codec,
    (dts, pts): (Timestamp, Timestamp),
    data: &[u8],
) -> Frame {
    Frame::new(track, role, codec, (dts, pts), data.to_vec())
}

pub(crate) fn avc_config() -> Frame {
    frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, (Timestamp::ZERO, Timestamp::ZERO), AVCC)
}

pub(crate) fn aac_config() -> Frame {
    frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, (Timestamp::ZERO, Timestamp::ZERO), AAC)
}

/// A picture; its data says when it is.
pub(crate) fn picture(dts: Timestamp, pts: Timestamp, is_key: bool) -> Frame {
    let role = if is_key { FrameRole::Key } else { FrameRole::Inter };
    let data = [&[0, 0, 0, 12, 0x65][..], &dts.units().to_be_bytes(), &[1, 2, 3]].concat();
    frame(TrackId::VIDEO, role, Codec::H264, (dts, pts), &data)
}

pub(crate) fn picture_at(millis: i64, is_key: bool) -> Frame {
    let time = Timestamp::from_millis(millis);
    picture(time, time, is_key)
}

/// A frame of AAC.
pub(crate) fn sound(time: Timestamp) -> Frame {
    let data = [&[0x21, 0x10][..], &time.units().to_be_bytes()].concat();
    frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, (time, time), &data)
}

pub(crate) fn sound_at(millis: i64) -> Frame {
    sound(Timestamp::from_millis(millis))
}

/// Pictures and sound as an RTMP publisher sends them: in whole milliseconds, from `from` to `to`.
pub(crate) fn publish(stream: &mut Stream, from: i64, to: i64, per_second: i64, gop: i64) {
    let pictures = (0..)
        .map(|index| (from + index * 1000 / per_second, index % gop == 0))
        .take_while(|(millis, _)| *millis < to)
        .map(|(millis, is_key)| picture_at(millis, is_key));
    let sounds = (0..)
        .map(|index| from + index * 1024 * 1000 / 48_000)
        .take_while(|millis| *millis < to)
        .map(sound_at);
    let mut frames: Vec<_> = pictures.chain(sounds).collect();
    frames.sort_by_key(|frame| frame.dts);
    for frame in frames {
        stream.push(frame);
    }
}
