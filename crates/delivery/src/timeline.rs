//! One clock per stream, whatever its publishers' clocks do.
//!
//! Players must see timestamps that never go back, although publishers restart from zero, jump, or wrap
//! (those of RTMP and FLV at 2^32 ms, 49.7 days). The timeline of a stream starts as the first publisher's
//! own timestamps and is continued across restarts and jumps by the time that really passed.

use media::{Timestamp, TrackId};

/// A step forward of more than this between two frames of a publisher is a jump, not a pause.
const JUMP_FORWARD: Timestamp = Timestamp::from_millis(10_000);
/// A step back of more than this is a restart of the publisher's clock, not interleaving of tracks.
const JUMP_BACK: Timestamp = Timestamp::from_millis(3_000);
/// Assumed distance between the last frame before a jump and the first after it when no time passed.
const SEAM_MS: i64 = 20;
/// Where the timestamps of RTMP and FLV wrap. A step is looked at modulo this whatever the protocol: one
/// as large is a jump in any.
const WRAP: i64 = Timestamp::from_millis(1 << 32).units();
/// Tracks whose times are told apart; further ones share that of the last.
const TRACKS_MAX: usize = 16;

/// Maps a publisher's timestamps to the stream's.
///
/// Invariant: for each track the values returned never decrease.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Stream time minus unwrapped publisher time.
    offset: Timestamp,
    /// Unwrapped publisher time of the last frame; `None` before the first frame of a publisher.
    source: Option<Timestamp>,
    /// Largest stream time handed out, and when.
    head: Option<(Timestamp, u64)>,
    /// Last stream time of the first audio and the first video track. Inline, as most streams have no others.
    first: [Timestamp; 2],
    /// The same of the others, in the order they came.
    others: Vec<(TrackId, Timestamp)>,
}

impl Timeline {
    /// A publisher begins, or comes back: its timestamps have nothing to do with those before.
    pub fn restart(&mut self) {
        self.source = None;
    }

    /// Stream time of an audio or video frame with publisher time `dts`, arriving at `now_ms`.
    pub fn place(&mut self, now_ms: u64, track: TrackId, dts: Timestamp) -> Timestamp {
        let source = self.source.map_or(dts, |last| last + step(last, dts));
        let is_continuous = |last| (-JUMP_BACK..=JUMP_FORWARD).contains(&(source - last));
        if !self.source.is_some_and(is_continuous) {
            self.offset = self.seam(now_ms).map_or(Timestamp::ZERO, |seam| seam - source);
        }
        self.source = Some(source);
        let time = source + self.offset;
        let last = self.last_of(track);
        *last = (*last).max(time);
        let placed = *last;
        if self.head.is_none_or(|(head, _)| placed >= head) {
            self.head = Some((placed, now_ms));
        }
        placed
    }

    /// Stream time of a header with publisher time `dts`, which moves nothing.
    ///
    /// What it says holds where no frame of its track is put behind it by that: at or after the last of its
    /// track, and not after the newest of the stream. Many say 0, though, which means nothing: they go with
    /// the last frame of their track, or of the stream where that is long ago. Frames of a publisher that
    /// begins come behind all others, and so do its headers.
    pub fn place_header(&self, track: TrackId, dts: Timestamp) -> Timestamp {
        let Some((head, _)) = self.head else { return dts };
        let Some(source) = self.source else { return head };
        let last = match track {
            TrackId::AUDIO => self.first[0],
            TrackId::VIDEO => self.first[1],
            _ => self.others.iter().find(|(id, _)| *id == track).map_or(Timestamp::ZERO, |(_, last)| *last),
        };
        match source + step(source, dts) + self.offset {
            says if (last..=head).contains(&says) => says,
            _ if head - last <= JUMP_BACK => last,
            _ => head,
        }
    }

    /// Stream time of the newest frame, if there has been one.
    pub fn head(&self) -> Option<Timestamp> {
        self.head.map(|(head, _)| head)
    }

    /// Where the timeline goes on after a break: as much later as time really passed, at least one frame.
    fn seam(&self, now_ms: u64) -> Option<Timestamp> {
        let (head, at) = self.head?;
        Some(head + Timestamp::from_millis((now_ms.saturating_sub(at) as i64).max(SEAM_MS)))
    }

    fn last_of(&mut self, track: TrackId) -> &mut Timestamp {
        let at = match track {
            TrackId::AUDIO => return &mut self.first[0],
            TrackId::VIDEO => return &mut self.first[1],
            _ => match self.others.iter().position(|(id, _)| *id == track) {
                Some(at) => at,
                None if self.others.len() < TRACKS_MAX => {
                    self.others.push((track, Timestamp::ZERO));
                    self.others.len() - 1
                }
                None => TRACKS_MAX - 1,
            },
        };
        &mut self.others[at].1
    }
}

/// From one publisher time to the next, the shorter way around where they wrap.
fn step(from: Timestamp, to: Timestamp) -> Timestamp {
    let ahead = (to - from).units();
    if (-WRAP / 2..WRAP / 2).contains(&ahead) {
        // Nearly always: a division would cost as much as all else that is done to a frame's time.
        return Timestamp::from_units(ahead);
    }
    let ahead = ahead.rem_euclid(WRAP);
    Timestamp::from_units(if ahead >= WRAP / 2 { ahead - WRAP } else { ahead })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A timeline in milliseconds.
    #[derive(Default)]
    struct Millis(Timeline);

    impl Millis {
        fn place(&mut self, now_ms: u64, track: TrackId, dts_ms: u32) -> i64 {
            self.0.place(now_ms, track, Timestamp::from_millis(dts_ms.into())).millis()
        }

        fn place_header(&self, track: TrackId, dts_ms: u32) -> i64 {
            self.0.place_header(track, Timestamp::from_millis(dts_ms.into())).millis()
        }
    }

    #[test]
    fn first_publisher_keeps_its_own_timestamps() {
        let mut timeline = Millis::default();
        assert_eq!(timeline.place(5, TrackId::VIDEO, 90_000), 90_000);
        assert_eq!(timeline.place(45, TrackId::VIDEO, 90_040), 90_040);
    }

    #[test]
    fn interleaved_tracks_keep_their_small_steps_back() {
        let mut timeline = Millis::default();
        timeline.place(0, TrackId::VIDEO, 1000);
        assert_eq!(timeline.place(0, TrackId::AUDIO, 980), 980, "audio lags video by less than a jump");
        assert_eq!(timeline.place(0, TrackId::AUDIO, 970), 980, "but a track itself never goes back");
    }

    #[test]
    fn restarted_publisher_continues_by_the_time_that_passed() {
        let mut timeline = Millis::default();
        timeline.place(100, TrackId::VIDEO, 60_000);
        timeline.0.restart();
        assert_eq!(timeline.place(2_100, TrackId::VIDEO, 0), 62_000);
        assert_eq!(timeline.place(2_140, TrackId::VIDEO, 40), 62_040);
    }

    #[test]
    fn jumps_of_a_running_publisher_are_closed() {
        let rows = [
            (60_000u32, 5_000u32, "back to an earlier time"),
            (1_000, 3_600_000, "an hour ahead"),
            (4_000_000_000, 1_000_000_000, "far back across the sign"),
        ];
        for (before, after, remark) in rows {
            let mut timeline = Millis::default();
            let head = timeline.place(0, TrackId::VIDEO, before);
            assert_eq!(timeline.place(40, TrackId::VIDEO, after), head + 40, "{remark}");
        }
    }

    #[test]
    fn a_header_stands_between_the_frames_of_its_track() {
        let mut timeline = Millis::default();
        assert_eq!(timeline.place_header(TrackId::VIDEO, 7), 7, "nothing has come yet");
        timeline.place(0, TrackId::VIDEO, 1_000);
        timeline.place(0, TrackId::AUDIO, 1_060);
        for (says, placed, remark) in [
            (1_040, 1_040, "that of the frame behind it"),
            (1_000, 1_000, "that of the frame before it"),
            (0, 1_000, "it says nothing"),
            (1_080, 1_000, "later than anything: the frame behind it may come earlier"),
        ] {
            assert_eq!(timeline.place_header(TrackId::VIDEO, says), placed, "{remark}");
        }
        timeline.place(0, TrackId::AUDIO, 9_000);
        assert_eq!(timeline.place_header(TrackId::VIDEO, 0), 9_000, "video was away for long");
        assert_eq!(timeline.place_header(TrackId::VIDEO, 8_990), 8_990, "and comes back");
        timeline.place(0, TrackId::AUDIO, 9_500);
        timeline.0.restart();
        for track in [TrackId::AUDIO, TrackId::VIDEO] {
            assert_eq!(timeline.place_header(track, 5), 9_500, "frames of another publisher come behind all");
        }
    }

    #[test]
    fn wrap_at_32_bits_is_no_jump() {
        let mut timeline = Millis::default();
        assert_eq!(timeline.place(0, TrackId::VIDEO, u32::MAX - 19), 0xffff_ffec);
        assert_eq!(timeline.place(40, TrackId::VIDEO, 20), 0xffff_ffec + 40);
    }
}
