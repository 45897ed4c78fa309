//! One publication from several parents, one after the other, without a frame twice or out of order.
//!
//! Frames keep the times that their publisher gave them, whatever nodes they pass. A new parent begins with
//! headers and the frames since a key frame, so what reaches back to the last frame of the old one continues
//! it exactly: up to there everything is left out. Where it does not reach back, video goes on at a key
//! frame.

use std::time::Duration;

use media::{Frame, FrameRole, MediaKind, Timestamp, TrackId};

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

    /// Whether the frame is to be handed on.
    pub(crate) fn takes(&mut self, now: Duration, frame: &Frame) -> bool {
        if !matches!(frame.role, FrameRole::Key | FrameRole::Inter | FrameRole::Audio | FrameRole::Other) {
            return true;
        }
        let Some(track) = self.tracks.iter_mut().find(|track| track.id == frame.track) else {
            self.tracks.push(Track { id: frame.track, last: frame.dts, state: State::Continuous });
            return true;
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
        let takes = track.state == State::Continuous;
        if takes {
            track.last = frame.dts;
        }
        takes
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
        let frames = frames.into_iter().filter(|frame| splice.takes(Duration::ZERO, frame));
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
        // (first frame of the new parent, what is taken)
        for (first, expected) in [(13, 15..25), (16, 20..25), (20, 20..25)] {
            let mut splice = Splice::default();
            taken(&mut splice, (0..15).map(video));
            splice.change_parent(Duration::ZERO);
            assert_eq!(taken(&mut splice, (first..25).map(video)), expected.collect::<Vec<_>>(), "{first}");
        }
    }

    #[test]
    fn headers_always_pass_and_new_tracks_begin() {
        let mut splice = Splice::default();
        taken(&mut splice, (0..15).map(video));
        splice.change_parent(Duration::ZERO);
        let config = frame(V, FrameRole::Config, 0);
        assert!(splice.takes(Duration::ZERO, &config));
        assert!(splice.takes(Duration::ZERO, &frame(TrackId { index: 1, ..V }, FrameRole::Inter, 0)));
    }

    #[test]
    fn a_clock_that_is_set_back_stops_a_stream_for_ten_seconds_at_most() {
        let mut splice = Splice::default();
        taken(&mut splice, (1_000..1_015).map(video));
        // Without a change of parents, for no time at all.
        assert!(splice.takes(Duration::ZERO, &video(11)));
        taken(&mut splice, (1_020..1_025).map(video));
        splice.change_parent(Duration::ZERO);
        assert!(!splice.takes(Duration::ZERO, &video(20)));
        let later = SPLICE_WITHIN + Duration::from_millis(1);
        assert!(splice.takes(later, &video(30)) && splice.takes(later, &video(31)));
    }
}
