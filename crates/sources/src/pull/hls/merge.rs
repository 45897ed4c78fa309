//! The frames of several playlists as one stream: by time, on a clock that goes on over
//! discontinuities.
//!
//! Segments of one period have one clock, in all playlists (RFC 8216 section 4.3.2.3), which the
//! stream has as well; where the next period begins, its first frame follows the last one. Servers
//! lie, so that clocks that jump without saying it, and playlists whose periods are not those of the
//! others, do not stop the stream: they are put right by [`GAP_MAX`], [`BACK_MAX`] and [`SPLIT_MAX`].
//! Without socket or clock.

use media::{Frame, Timestamp, TrackId};
use tokio::sync::OwnedSemaphorePermit;

use super::demux::BACK_MAX;
use super::rendition::Piece;

/// Longest time without a frame that the stream has, too: beyond it, the clock has jumped.
const GAP_MAX: Timestamp = Timestamp::from_millis(5_000);
/// For how long a playlist may stay in its period after the others have left it.
const SPLIT_MAX: Timestamp = Timestamp::from_millis(10_000);
/// How far apart the clocks of playlists are of which one has wrapped at 2^33 ticks of 90 kHz.
const WRAP: Timestamp = Timestamp::from_units((1 << 33) * (Timestamp::UNITS_PER_SECOND / 90_000));

/// Puts frames in order.
#[derive(Debug, Default)]
pub(super) struct Merge {
    lanes: Vec<Lane>,
    /// The period that is given out, and the time in it that frames of all lanes are close to.
    period: Option<(u64, Timestamp)>,
    /// From the clock of the period to that of the stream.
    offset: Timestamp,
    /// Of each track: when its last frame is decoded, and when the next one may be.
    last: Vec<(TrackId, Timestamp, Timestamp)>,
    /// When the last of all frames ends.
    end: Timestamp,
    /// When the periods of lanes have begun to differ.
    split: Option<Timestamp>,
}

/// One playlist.
#[derive(Debug, Default)]
struct Lane {
    frames: std::collections::VecDeque<Frame>,
    room: Option<OwnedSemaphorePermit>,
    period: u64,
    /// Added to its periods.
    bump: u64,
    /// Added to its times, in the period `wrapped_in`.
    wrap: Timestamp,
    wrapped_in: Option<u64>,
    /// Time of the last frame of each track, as the playlist has it.
    last: Vec<(TrackId, Timestamp)>,
    has_ended: bool,
}

impl Merge {
    pub(super) fn new(lanes: usize) -> Self {
        Self { lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(), ..Self::default() }
    }

    /// The lane that has to have a frame, or its end, before the next one is known.
    pub(super) fn needs(&self) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.frames.is_empty() && !lane.has_ended)
    }

    /// The next segment of a lane that [`needs`](Self::needs) one.
    pub(super) fn push(&mut self, lane: usize, piece: Piece) {
        let lane = &mut self.lanes[lane];
        if lane.period != piece.period {
            lane.last.clear();
        }
        (lane.frames, lane.period, lane.room) = (piece.frames, piece.period, piece.room);
        lane.notice_step_back();
    }

    /// No more segments of a lane come.
    pub(super) fn end(&mut self, lane: usize) {
        self.lanes[lane].has_ended = true;
    }

    /// Whether nothing more comes of any.
    pub(super) fn has_ended(&self) -> bool {
        self.lanes.iter().all(|lane| lane.has_ended && lane.frames.is_empty())
    }

    /// The next frame, if no lane needs anything.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let period = self.period_to_give()?;
        if self.period.is_none_or(|(current, _)| current != period) {
            self.begin_period(period);
        }
        let (_, near) = self.period?;
        let heads = self.lanes.iter_mut().filter(|lane| lane.number() == Some(period));
        let (time, lane) =
            heads.filter_map(|lane| Some((lane.time(near, period)?, lane))).min_by_key(|of| of.0)?;
        let mut frame = lane.frames.pop_front()?;
        lane.took(&frame);
        let wrap = lane.wrap;
        let mut shift = wrap + self.offset;
        let ahead = time + self.offset - self.end;
        if ahead > GAP_MAX && !self.last.is_empty() {
            self.offset = self.offset - ahead;
            shift = wrap + self.offset;
        }
        self.place(&mut frame, shift);
        Some(frame)
    }

    /// The lowest period that any lane is in, but for lanes that do not come along.
    fn period_to_give(&mut self) -> Option<u64> {
        let numbers = || self.lanes.iter().filter_map(Lane::number);
        let (lowest, highest) = (numbers().min()?, numbers().max()?);
        if lowest == highest {
            self.split = None;
            return Some(lowest);
        }
        let since = *self.split.get_or_insert(self.end);
        if self.end - since <= SPLIT_MAX {
            return Some(lowest);
        }
        self.split = None;
        for lane in &mut self.lanes {
            if let Some(number) = lane.number() {
                lane.bump = lane.bump.saturating_add(highest - number);
            }
        }
        Some(highest)
    }

    fn begin_period(&mut self, period: u64) {
        let of_it = || self.lanes.iter().filter(|lane| lane.number() == Some(period));
        let first = |lane: &Lane| lane.frames.front().map(|frame| frame.dts);
        let Some(near) = of_it().find_map(first) else { return };
        let begin = of_it().filter_map(first).map(|dts| dts + wrap_to(near, dts)).min().unwrap_or(near);
        self.offset = match self.last.is_empty() {
            // The source's own times, none of which is below 0.
            true => Timestamp::ZERO.max(Timestamp::ZERO - begin),
            false => self.end - begin,
        };
        self.period = Some((period, near));
    }

    /// Gives a frame its times on the stream's clock, which never steps back within a track.
    fn place(&mut self, frame: &mut Frame, shift: Timestamp) {
        let known = self.last.iter_mut().find(|(track, ..)| *track == frame.track);
        let least = known.as_ref().map_or(Timestamp::ZERO, |(_, last, _)| *last);
        frame.pts += shift;
        frame.dts = (frame.dts + shift).max(least);
        frame.pts = frame.pts.max(frame.dts);
        let dts = frame.dts;
        match known {
            Some((_, last, next)) => {
                // It lasts for as long as the one before, if it has the time of that one itself.
                let length = if dts > *last { dts - *last } else { *next - *last };
                (*last, *next) = (dts, dts + length);
                self.end = self.end.max(*next);
            }
            None => {
                self.last.push((frame.track, dts, dts));
                self.end = self.end.max(dts);
            }
        }
    }
}

impl Lane {
    /// The period of its next frame.
    fn number(&self) -> Option<u64> {
        (!self.frames.is_empty()).then(|| self.period.saturating_add(self.bump))
    }

    /// When its next frame is decoded, on the clock of the period.
    fn time(&mut self, near: Timestamp, period: u64) -> Option<Timestamp> {
        let dts = self.frames.front()?.dts;
        if self.wrapped_in != Some(period) {
            (self.wrap, self.wrapped_in) = (wrap_to(near, dts), Some(period));
        }
        Some(dts + self.wrap)
    }

    fn took(&mut self, frame: &Frame) {
        match self.last.iter_mut().find(|(track, _)| *track == frame.track) {
            Some((_, last)) => *last = frame.dts,
            None => self.last.push((frame.track, frame.dts)),
        }
        if self.frames.is_empty() {
            (self.frames, self.room) = Default::default();
        }
        self.notice_step_back();
    }

    /// A clock that steps back begins another period, although the playlist does not say so.
    fn notice_step_back(&mut self) {
        let Some(next) = self.frames.front() else { return };
        let last = self.last.iter().find(|(track, _)| *track == next.track);
        if last.is_some_and(|(_, last)| *last > next.dts + BACK_MAX) {
            self.bump = self.bump.saturating_add(1);
            self.last.clear();
        }
    }
}

/// What is to be added to `time` so that it is near another one of a clock of 33 bits.
fn wrap_to(near: Timestamp, time: Timestamp) -> Timestamp {
    let half = Timestamp::from_units(WRAP.units() / 2);
    if time > near + half {
        Timestamp::ZERO - WRAP
    } else if near > time + half {
        WRAP
    } else {
        Timestamp::ZERO
    }
}

#[cfg(test)]
mod tests {
    use media::{Codec, FrameRole, MediaKind};

    use super::*;

    const VIDEO: TrackId = TrackId { kind: MediaKind::Video, index: 0 };
    const AUDIO: TrackId = TrackId { kind: MediaKind::Audio, index: 0 };

    fn frame(track: TrackId, ms: i64) -> Frame {
        let (role, codec) = match track.kind {
            MediaKind::Audio => (FrameRole::Audio, Codec::Aac),
            _ => (FrameRole::Inter, Codec::H264),
        };
        let dts = Timestamp::from_millis(ms);
        Frame::new(track, role, codec, (dts, dts), vec![1])
    }

    fn piece(track: TrackId, period: u64, times: impl IntoIterator<Item = i64>) -> Piece {
        Piece { frames: times.into_iter().map(|ms| frame(track, ms)).collect(), period, room: None }
    }

    /// The times of the frames of each lane's pieces, in the order in which they are given out.
    fn merged(lanes: Vec<Vec<Piece>>) -> Vec<(MediaKind, i64)> {
        let mut merge = Merge::new(lanes.len());
        let mut lanes: Vec<_> = lanes.into_iter().map(Vec::into_iter).collect();
        let mut out = Vec::new();
        loop {
            while let Some(lane) = merge.needs() {
                match lanes[lane].next() {
                    Some(piece) => merge.push(lane, piece),
                    None => merge.end(lane),
                }
            }
            match merge.next() {
                Some(frame) => out.push((frame.track.kind, frame.dts.millis())),
                None => break,
            }
        }
        assert!(merge.has_ended());
        out
    }

    fn times(out: &[(MediaKind, i64)], kind: MediaKind) -> Vec<i64> {
        out.iter().filter(|of| of.0 == kind).map(|of| of.1).collect()
    }

    #[test]
    fn playlists_are_merged_by_time_and_keep_their_clock() {
        let video = vec![piece(VIDEO, 0, [9_000, 9_040]), piece(VIDEO, 0, [9_080, 9_120])];
        let audio = vec![piece(AUDIO, 0, [9_010, 9_030, 9_050, 9_090])];
        let out = merged(vec![video, audio]);
        let times: Vec<i64> = out.iter().map(|of| of.1).collect();
        assert_eq!(times, [9_000, 9_010, 9_030, 9_040, 9_050, 9_080, 9_090, 9_120]);
    }

    #[test]
    fn times_go_on_over_a_discontinuity_in_all_playlists() {
        let video = vec![piece(VIDEO, 0, [0, 40, 80]), piece(VIDEO, 1, [700_000, 700_040])];
        let audio = vec![piece(AUDIO, 0, [0, 20, 40, 60, 80, 100]), piece(AUDIO, 1, [700_000, 700_020])];
        let out = merged(vec![video, audio]);
        assert_eq!(times(&out, MediaKind::Video), [0, 40, 80, 120, 160]);
        assert_eq!(times(&out, MediaKind::Audio), [0, 20, 40, 60, 80, 100, 120, 140]);
    }

    #[test]
    fn clocks_that_jump_without_saying_it_go_on() {
        let out = merged(vec![vec![piece(VIDEO, 0, [5_000, 5_040]), piece(VIDEO, 0, [0, 40])]]);
        assert_eq!(times(&out, MediaKind::Video), [5_000, 5_040, 5_080, 5_120], "back");
        let out = merged(vec![vec![piece(VIDEO, 0, [0, 40, 3_000_000, 3_000_040])]]);
        assert_eq!(times(&out, MediaKind::Video), [0, 40, 80, 120], "ahead");
        let out = merged(vec![vec![piece(VIDEO, 0, [0, 40]), piece(VIDEO, 0, [4_040])]]);
        assert_eq!(times(&out, MediaKind::Video), [0, 40, 4_040], "a segment is missing");
    }

    #[test]
    fn a_playlist_that_does_not_come_along_is_taken_along() {
        let video: Vec<i64> = (0..1_000).map(|index| index * 40).collect();
        let audio = vec![piece(AUDIO, 0, [0, 20]), piece(AUDIO, 1, (1..2_000).map(|index| index * 20))];
        let out = merged(vec![vec![piece(VIDEO, 0, video)], audio]);
        assert_eq!(out.len(), 3_001);
        let last = out.iter().rposition(|of| of.0 == MediaKind::Video).expect("video");
        let first = out.iter().position(|of| of == &(MediaKind::Audio, 20)).expect("audio");
        assert!(first < 10 && last > 1_000, "they go on side by side: {first} {last}");
        for kind in [MediaKind::Audio, MediaKind::Video] {
            let times = times(&out, kind);
            assert!(times.is_sorted() && times.last().is_some_and(|last| *last < 60_000));
        }
    }

    #[test]
    fn periods_of_any_number_are_taken() {
        let video: Vec<i64> = (0..1_000).map(|index| index * 40).collect();
        let audio = (1..1_000).map(|index| index * 20);
        // The video is taken along to the last number that there is, and its clock then steps back;
        // the audio's has stepped back before.
        let video = vec![piece(VIDEO, 0, video), piece(VIDEO, 0, [0, 40]), piece(VIDEO, u64::MAX, [0, 40])];
        let audio = vec![
            piece(AUDIO, u64::MAX, [5_000, 0, 20]),
            piece(AUDIO, u64::MAX, audio),
            piece(AUDIO, u64::MAX, [0, 20]),
        ];
        let out = merged(vec![video, audio]);
        assert_eq!(out.len(), 1_004 + 1_004);
        for kind in [MediaKind::Audio, MediaKind::Video] {
            assert!(times(&out, kind).is_sorted());
        }
    }

    #[test]
    fn a_clock_that_has_wrapped_is_that_of_the_other() {
        let ms = |ticks: i64| ticks / 90;
        let end = ms(1 << 33);
        let video = vec![piece(VIDEO, 0, [end - 40, end, end + 40])];
        let audio = vec![piece(AUDIO, 0, [1, 21, 41])];
        let out = merged(vec![video, audio]);
        let times = times(&out, MediaKind::Audio);
        assert!(times.iter().all(|time| (end..end + 50).contains(time)), "{times:?}");
        assert_eq!(out[0], (MediaKind::Video, end - 40));
    }

    #[test]
    fn times_below_zero_are_moved_up() {
        let out = merged(vec![vec![piece(VIDEO, 0, [-80, -40, 0])]]);
        assert_eq!(times(&out, MediaKind::Video), [0, 40, 80]);
    }
}
