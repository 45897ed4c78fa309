//! One clock per stream, whatever its publishers' clocks do.

use media::{MediaKind, Timestamp, TrackId};
use serde::{Deserialize, Serialize};

/// A step forward of more than this between two frames of a publisher is a jump, not a pause.
const JUMP_FORWARD: Timestamp = Timestamp::from_millis(10_000);
/// A step back of more than this is a restart of the publisher's clock, not interleaving of tracks.
const JUMP_BACK: Timestamp = Timestamp::from_millis(3_000);
/// Assumed distance between the last frame before a jump and the first after it when no time passed.
const SEAM_MS: i64 = 20;
/// Where the timestamps of RTMP and FLV wrap. A step is looked at modulo this whatever the protocol: one
/// as large is a jump in any.
const WRAP: i64 = Timestamp::from_millis(1 << 32).units();
/// Tracks with times of their own; further ones share that of the last.
const TRACKS_MAX: usize = 16;

/// Maps a publisher's timestamps to the stream's.
///
/// Players must see timestamps that never go back, although publishers restart from zero, jump, or wrap
/// (those of RTMP and FLV at 2^32 ms, 49.7 days). The timeline of a stream starts as the first publisher's
/// own timestamps and is continued across restarts and jumps by the time that really passed.
///
/// Tracks may be far apart, as those of a publisher that lost one of its inputs for a while: a frame that
/// continues its own track is no jump, wherever the other tracks are. A jump of all of them keeps them
/// together.
///
/// Invariant: for each track the values returned never decrease.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Of the last frame of any track; `None` before the first frame of a publisher.
    newest: Option<Placed>,
    /// Largest stream time handed out, and when.
    head: Option<(Timestamp, u64)>,
    /// Largest stream time of a header ahead of all frames.
    first_header: Option<Timestamp>,
    /// The first audio and the first video track. Inline, as most streams have no others.
    first: [Track; 2],
    /// The others, in the order they came.
    others: Vec<(TrackId, Track)>,
}

/// Where a [`Timeline`] is, for another process to go on with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimelineState {
    newest: Option<Placed>,
    /// With the time since it was handed out, milliseconds.
    head: Option<(Timestamp, u64)>,
    first_header: Option<Timestamp>,
    first: [Track; 2],
    others: Vec<(TrackId, Track)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Track {
    /// Last stream time.
    last: Timestamp,
    /// Of its last frame; `None` before the first frame of a publisher.
    placed: Option<Placed>,
}

/// How a frame was placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Placed {
    /// Its unwrapped publisher time.
    source: Timestamp,
    /// Stream time minus unwrapped publisher time.
    offset: Timestamp,
}

impl Placed {
    /// The same for a frame with publisher time `dts`, if it continues from this one, and how far away it is.
    fn continued(self, dts: Timestamp) -> Option<(i64, Self)> {
        let ahead = step(self.source, dts);
        let source = self.source + ahead;
        let is_continuous = (-JUMP_BACK..=JUMP_FORWARD).contains(&ahead);
        is_continuous.then_some((ahead.units().abs(), Self { source, ..self }))
    }
}

impl Timeline {
    /// Where it is.
    pub(crate) fn state(&self, now_ms: u64) -> TimelineState {
        let Self { newest, head, first_header, first, others } = self;
        TimelineState {
            newest: *newest,
            head: head.map(|(time, at_ms)| (time, now_ms.saturating_sub(at_ms))),
            first_header: *first_header,
            first: *first,
            others: others.clone(),
        }
    }

    /// One that goes on from there. Of the pause since the last frame counts what this process has been
    /// there for.
    pub(crate) fn resumed(now_ms: u64, state: TimelineState) -> Self {
        let TimelineState { newest, head, first_header, first, mut others } = state;
        others.truncate(TRACKS_MAX);
        let head = head.map(|(time, since_ms)| (time, now_ms.saturating_sub(since_ms)));
        Self { newest, head, first_header, first, others }
    }

    /// A publisher begins, or comes back: its timestamps have nothing to do with those before.
    pub fn restart(&mut self) {
        self.newest = None;
        let others = self.others.iter_mut().map(|(_, track)| track);
        self.first.iter_mut().chain(others).for_each(|track| track.placed = None);
        // One that has sent headers and nothing else is continued right behind them.
        self.head = self.head.or(self.first_header.map(|time| (time, u64::MAX)));
    }

    /// Stream time of an audio or video frame with publisher time `dts`, arriving at `now_ms`.
    pub fn place(&mut self, now_ms: u64, track: TrackId, dts: Timestamp) -> Timestamp {
        let (newest, head) = (self.newest, self.head);
        let track = self.track(track);
        // The nearer of the two: when the clock of all tracks is set back, a track that sends seldom is
        // nearer to the others by then than to its own last frame.
        let before = [track.placed, newest].into_iter().flatten();
        let nearest = before.filter_map(|placed| placed.continued(dts)).min_by_key(|(distance, _)| *distance);
        let placed = nearest.map(|(_, placed)| placed).unwrap_or_else(|| Placed {
            source: dts,
            offset: head.map_or(Timestamp::ZERO, |head| seam(head, now_ms) - dts),
        });
        track.placed = Some(placed);
        track.last = track.last.max(placed.source + placed.offset);
        let time = track.last;
        self.newest = Some(placed);
        if self.head.is_none_or(|(head, _)| time >= head) {
            self.head = Some((time, now_ms));
        }
        time
    }

    /// Stream time of a header with publisher time `dts`, which moves no frame of its publisher.
    ///
    /// What it says holds where no frame of its track is put behind it by that: at or after the last of its
    /// track, and not after the newest of the stream. Many say 0, though, which means nothing: they go with
    /// the last frame of their track, or of the stream where that is long ago. Frames of a publisher that
    /// begins come behind all others, and so do its headers.
    pub fn place_header(&mut self, track: TrackId, dts: Timestamp) -> Timestamp {
        let Some((head, _)) = self.head else {
            self.first_header = self.first_header.max(Some(dts));
            return dts;
        };
        let track = match track {
            TrackId::AUDIO => self.first[0],
            TrackId::VIDEO => self.first[1],
            _ => self.others.iter().find(|(id, _)| *id == track).map(|(_, track)| *track).unwrap_or_default(),
        };
        let Some(Placed { source, offset }) = track.placed.or(self.newest) else { return head };
        match source + step(source, dts) + offset {
            says if (track.last..=head).contains(&says) => says,
            _ if head - track.last <= JUMP_BACK => track.last,
            _ => head,
        }
    }

    /// Stream time of the newest frame, if there has been one.
    pub fn head(&self) -> Option<Timestamp> {
        self.head.map(|(head, _)| head)
    }

    /// Stream time of the newest audio; 0 before the first.
    pub(crate) fn newest_audio(&self) -> Timestamp {
        let others = self.others.iter().filter(|(track, _)| track.kind == MediaKind::Audio);
        others.map(|(_, track)| track.last).fold(self.first[0].last, Timestamp::max)
    }

    fn track(&mut self, track: TrackId) -> &mut Track {
        let at = match track {
            TrackId::AUDIO => return &mut self.first[0],
            TrackId::VIDEO => return &mut self.first[1],
            _ => match self.others.iter().position(|(id, _)| *id == track) {
                Some(at) => at,
                None if self.others.len() < TRACKS_MAX => {
                    self.others.push((track, Track::default()));
                    self.others.len() - 1
                }
                None => TRACKS_MAX - 1,
            },
        };
        &mut self.others[at].1
    }
}

/// Where the timeline goes on after a break: as much later as time really passed, at least one frame.
fn seam((head, at_ms): (Timestamp, u64), now_ms: u64) -> Timestamp {
    head + Timestamp::from_millis((now_ms.saturating_sub(at_ms) as i64).max(SEAM_MS))
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

        fn place_header(&mut self, track: TrackId, dts_ms: u32) -> i64 {
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
    fn a_publisher_that_sent_headers_only_is_continued_behind_them() {
        let mut timeline = Millis::default();
        assert_eq!(timeline.place_header(TrackId::VIDEO, 9_000), 9_000);
        timeline.0.restart();
        assert_eq!(timeline.place_header(TrackId::VIDEO, 40), 9_000);
        let first = timeline.place(500, TrackId::VIDEO, 40);
        assert!(first > 9_000, "{first}");
        assert_eq!(timeline.place(540, TrackId::VIDEO, 80), first + 40);
    }

    #[test]
    fn wrap_at_32_bits_is_no_jump() {
        let mut timeline = Millis::default();
        assert_eq!(timeline.place(0, TrackId::VIDEO, u32::MAX - 19), 0xffff_ffec);
        assert_eq!(timeline.place(40, TrackId::VIDEO, 20), 0xffff_ffec + 40);
    }

    #[test]
    fn tracks_that_are_far_apart_go_on_as_each_does() {
        let mut timeline = Millis::default();
        for at in 0..50 {
            let now_ms = u64::from(at) * 40;
            // From the tenth frame on audio is 5 s ahead of video. Neither steps, and time runs as it does.
            let video = 60_000 + at * 40;
            let audio = if at < 10 { video } else { video + 5_000 };
            assert_eq!(timeline.place(now_ms, TrackId::AUDIO, audio), i64::from(audio));
            assert_eq!(timeline.place(now_ms, TrackId::VIDEO, video), i64::from(video));
        }
        // The publisher's clock restarts, for both at once.
        let head = timeline.0.head().unwrap().millis();
        assert_eq!(timeline.place(2_000, TrackId::AUDIO, 0), head + 40);
        assert_eq!(timeline.place(2_000, TrackId::VIDEO, 10), head + 50, "by the same as audio");
        assert_eq!(timeline.place(2_040, TrackId::AUDIO, 40), head + 80);
    }

    #[test]
    fn a_track_whose_clock_alone_jumps_is_taken_back_to_the_others() {
        let mut timeline = Millis::default();
        for at in 0..100 {
            let now_ms = u64::from(at) * 40;
            let audio = if at < 50 { at * 40 } else { 3_600_000 + at * 40 };
            let heard = timeline.place(now_ms, TrackId::AUDIO, audio);
            assert_eq!(timeline.place(now_ms, TrackId::VIDEO, at * 40), i64::from(at * 40));
            assert!((heard - i64::from(at * 40)).abs() <= 40, "{heard} at {at}");
        }
    }

    #[test]
    fn a_track_that_sends_seldom_is_set_back_with_the_others() {
        // A picture every second, or every ten: after audio is set back by 3.5 s, the next picture is no
        // further from the one before it than a pause, or the interleaving of tracks.
        for period_ms in [1_000, 10_000] {
            let mut timeline = Millis::default();
            let mut apart = Vec::new();
            for at in 0..3_000u32 {
                let (now_ms, set_back) = (u64::from(at) * 20, if at < 1_010 { 0 } else { 3_500 });
                let dts = 60_000 + at * 20 - set_back;
                let heard = timeline.place(now_ms, TrackId::AUDIO, dts);
                if at * 20 % period_ms == 0 {
                    apart.push(timeline.place(now_ms, TrackId::VIDEO, dts) - heard);
                }
            }
            assert!(apart.iter().all(|apart| apart.abs() <= 40), "{period_ms}: {apart:?}");
        }
    }
}
