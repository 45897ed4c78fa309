//! Times of a publisher as a target gets them: they go on where the publisher's clock jumps or wraps.
//!
//! Frames have the times of their publisher, whose clock may be set back, and by RTMP wraps after 49.7
//! days. Players of this server see the stream's timeline, on which that is a step of one frame, and so
//! do targets: RTMP would say 0 for all that is earlier than the first frame, and the clock of a
//! transport stream would stand still.

use std::sync::Arc;

use delivery::Timeline;
use media::{Frame, FrameRole, MediaKind, Timestamp};
use tokio::time::Instant;

/// Puts the frames of one attempt on a timeline.
#[derive(Debug)]
pub(crate) struct Times {
    timeline: Timeline,
    began: Instant,
    /// How much later than its publisher said the last frame is.
    shift: Timestamp,
}

impl Times {
    pub(crate) fn new(now: Instant) -> Self {
        Self { timeline: Timeline::default(), began: now, shift: Timestamp::ZERO }
    }

    /// The frame with the time that it has for the target: its own, until the clock jumps.
    pub(crate) fn place(&mut self, now: Instant, frame: Arc<Frame>) -> Arc<Frame> {
        let shift = match (frame.role, frame.track.kind) {
            (FrameRole::Key | FrameRole::Inter | FrameRole::Audio, _) => {
                let now_ms = now.duration_since(self.began).as_millis() as u64;
                self.shift = self.timeline.place(now_ms, frame.track, frame.dts) - frame.dts;
                self.shift
            }
            // Times within cues are relative to those of the frames.
            (_, MediaKind::Data) => self.shift,
            _ => self.timeline.place_header(frame.track, frame.dts) - frame.dts,
        };
        if shift == Timestamp::ZERO {
            return frame;
        }
        let mut placed = Arc::unwrap_or_clone(frame);
        placed.dts += shift;
        placed.pts += shift;
        Arc::new(placed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use media::{Codec, TrackId};

    use super::*;

    fn frame(track: TrackId, role: FrameRole, dts_ms: i64) -> Arc<Frame> {
        let (dts, later) = (Timestamp::from_millis(dts_ms), Timestamp::from_millis(80));
        let codec = if track.kind == MediaKind::Audio { Codec::Aac } else { Codec::H264 };
        Arc::new(Frame::new(track, role, codec, (dts, dts + later), vec![7]))
    }

    /// Times of frames of which one comes every 20 ms, DTS and PTS.
    fn placed(frames: &[Arc<Frame>]) -> Vec<(i64, i64)> {
        let began = Instant::now();
        let mut times = Times::new(began);
        let each = (0..).zip(frames).map(|(at, frame)| {
            let placed = times.place(began + Duration::from_millis(20 * at), Arc::clone(frame));
            assert_eq!(placed.data(), frame.data());
            (placed.dts.millis(), placed.pts.millis())
        });
        each.collect()
    }

    #[test]
    fn a_clock_that_runs_on_is_left_alone() {
        let began = Instant::now();
        let mut times = Times::new(began);
        for (track, role, dts_ms) in [
            (TrackId::VIDEO, FrameRole::Config, 5_000),
            (TrackId::VIDEO, FrameRole::Key, 5_000),
            (TrackId::AUDIO, FrameRole::Audio, 4_990),
            (TrackId::VIDEO, FrameRole::Inter, 5_040),
        ] {
            let frame = frame(track, role, dts_ms);
            assert!(Arc::ptr_eq(&times.place(began, Arc::clone(&frame)), &frame), "{dts_ms}");
        }
    }

    #[test]
    fn a_clock_that_jumps_or_wraps_goes_on() {
        let wrap = 1 << 32;
        // By RTMP the wrap is no jump: the time between the two is known.
        for (before, after) in [(36_000_000, 0), (0, 36_000_000), (wrap - 10, 30)] {
            let times = placed(&[
                frame(TrackId::VIDEO, FrameRole::Key, before),
                frame(TrackId::VIDEO, FrameRole::Config, after),
                frame(TrackId::VIDEO, FrameRole::Key, after),
                frame(TrackId::AUDIO, FrameRole::Audio, after + 5),
                frame(TrackId::DATA, FrameRole::Other, after + 5),
                frame(TrackId::VIDEO, FrameRole::Inter, after + 40),
            ]);
            let next = before + 40;
            assert!((before..=next).contains(&times[1].0), "{times:?}");
            let expected = [next, next + 5, next + 5, next + 40].map(|dts| (dts, dts + 80));
            assert_eq!(times[2..], expected, "{before} to {after}");
        }
    }
}
