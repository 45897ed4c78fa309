//! One publication from several parents, one after the other, without a frame twice or out of order.
//!
//! Frames keep the times that their publisher gave them, whatever nodes they pass. A new parent begins with
//! headers and the frames since a key frame, so what reaches back to the last frame of the old one continues
//! it exactly: up to there everything is left out. Where it does not reach back, video goes on at a key
//! frame.

use std::time::Duration;

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};

use crate::connection::LeftOut;

/// For so long after a change of parents, frames may be ones that were there already. Afterwards a publisher
/// has set its clock back.
const SPLICE_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Splice {
    tracks: Vec<Track>,
    changed_at: Option<Duration>,
}

#[derive(Debug)]
struct Track {
    id: TrackId,
    last: Timestamp,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Every frame is the next one.
    Continuous,
    /// A new parent has not sent anything of it yet.
    Changed,
    /// What comes continues what was there, from the first frame that is later on.
    CatchingUp,
    /// Something is missing: the next key frame ends that.
    UntilKey,
}

impl Splice {
    /// Another parent begins.
    pub(crate) fn change_parent(&mut self, now: Duration) {
        self.changed_at = Some(now);
        self.tracks.iter_mut().for_each(|track| track.state = State::Changed);
    }

    /// Whether the frame is to be handed on, and why not.
    pub(crate) fn take(&mut self, now: Duration, frame: &Frame) -> Result<(), LeftOut> {
        if !matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio | FrameRole::Other) {
            return Ok(());
        }
        let Some(track) = self.tracks.iter_mut().find(|track| track.id == frame.track) else {
            self.tracks.push(Track { id: frame.track, last: frame.dts, state: State::Continuous });
            return Ok(());
        };
        let is_over = self.changed_at.is_none_or(|at| now.saturating_sub(at) > SPLICE_WITHIN);
        let is_later = frame.dts > track.last;
        track.state = match track.state {
            _ if frame.is_key() && (is_later || is_over) => State::Continuous,
            State::Changed if frame.track.kind != MediaKind::Video => State::CatchingUp,
            // It is among what was there: so is all that follows, up to the first that is later.
            State::Changed if frame.is_key() || !is_later => State::CatchingUp,
            State::Changed => State::UntilKey,
            state => state,
        };
        if track.state == State::CatchingUp && (is_later || is_over) {
            track.state = State::Continuous;
        }
        match track.state {
            State::Continuous => {
                track.last = frame.dts;
                Ok(())
            }
            State::Changed | State::CatchingUp => Err(LeftOut::Repeated),
            State::UntilKey => Err(LeftOut::Undecodable),
        }
    }
}

#[cfg(test)]
mod tests {
    use media::Codec;

    use super::*;

    const V: TrackId = TrackId::VIDEO;
    const A: TrackId = TrackId::AUDIO;

    fn frame(track: TrackId, role: FrameRole, ms: i64) -> Frame {
        let time = Timestamp::from_millis(ms);
        Frame::new(track, role, Codec::H264, (time, time), vec![1])
    }

    /// Key frames every 10 numbers, 40 ms apart.
    fn video(number: i64) -> Frame {
        frame(V, if number % 10 == 0 { FrameRole::Key } else { FrameRole::Inter }, number * 40)
    }

    fn taken(splice: &mut Splice, frames: impl IntoIterator<Item = Frame>) -> Vec<i64> {
        let frames = frames.into_iter().filter(|frame| splice.take(Duration::ZERO, frame).is_ok());
        frames.map(|frame| frame.dts.millis() / 40).collect()
    }

    #[test]
    fn what_reaches_back_continues_exactly() {
        for first in [0, 10] {
            let mut splice = Splice::default();
            assert_eq!(taken(&mut splice, (0..15).map(video)), (0..15).collect::<Vec<_>>());
            assert_eq!(taken(&mut splice, (0..20).map(|n| frame(A, FrameRole::Audio, n * 40))).len(), 20);
            splice.change_parent(Duration::ZERO);
            assert_eq!(taken(&mut splice, (first..30).map(video)), (15..30).collect::<Vec<_>>());
            let audio = (first..30).map(|n| frame(A, FrameRole::Audio, n * 40));
            assert_eq!(taken(&mut splice, audio), (20..30).collect::<Vec<_>>());
        }
    }

    #[test]
    fn without_a_group_of_pictures_what_was_there_continues_and_what_was_not_waits_for_a_key_frame() {
        // (first frame of the new parent, what is taken, why the others are not)
        let rows = [
            (13, 15..25, &[LeftOut::Repeated; 2][..]),
            (16, 20..25, &[LeftOut::Undecodable; 4]),
            (20, 20..25, &[]),
        ];
        for (first, expected, why) in rows {
            let mut splice = Splice::default();
            taken(&mut splice, (0..15).map(video));
            splice.change_parent(Duration::ZERO);
            let frames = (first..25).map(video).map(|frame| (splice.take(Duration::ZERO, &frame), frame));
            let (taken, left_out): (Vec<_>, Vec<_>) = frames.partition(|(result, _)| result.is_ok());
            let numbers = taken.iter().map(|(_, frame)| frame.dts.millis() / 40);
            assert!(numbers.eq(expected), "{first}");
            assert!(
                left_out.iter().filter_map(|(result, _)| result.err()).eq(why.iter().copied()),
                "{first}"
            );
        }
    }

    #[test]
    fn headers_always_pass_and_new_tracks_begin() {
        let mut splice = Splice::default();
        taken(&mut splice, (0..15).map(video));
        splice.change_parent(Duration::ZERO);
        let config = frame(V, FrameRole::Config, 0);
        assert_eq!(splice.take(Duration::ZERO, &config), Ok(()));
        let other = frame(TrackId { index: 1, ..V }, FrameRole::Inter, 0);
        assert_eq!(splice.take(Duration::ZERO, &other), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_a_stream_for_ten_seconds_at_most() {
        let mut splice = Splice::default();
        taken(&mut splice, (1_000..1_015).map(video));
        // Without a change of parents, for no time at all.
        assert_eq!(splice.take(Duration::ZERO, &video(11)), Ok(()));
        taken(&mut splice, (1_020..1_025).map(video));
        splice.change_parent(Duration::ZERO);
        assert_eq!(splice.take(Duration::ZERO, &video(20)), Err(LeftOut::Repeated));
        let later = SPLICE_WITHIN + Duration::from_millis(1);
        assert_eq!([30, 31].map(|number| splice.take(later, &video(number))), [Ok(()); 2]);
    }
}
