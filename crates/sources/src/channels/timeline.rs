//! One timeline over all items of a channel: each begins where the one before ends, exactly.
//!
//! So nothing adds up, however often a playlist goes round. An item lasts as long as its longest
//! track, to the end of its last whole frame: no track ever runs into the next item, and the others
//! end at most about a frame earlier.

use media::{MediaKind, Timestamp};

/// Where the timeline begins: video that is decoded before it is shown has times below that of its
/// item's beginning, and times on the wire are never negative. RTMP and FLV round times down to
/// milliseconds: by half of one they get the nearest.
const BEGINNING: Timestamp = Timestamp::from_units(Timestamp::UNITS_PER_SECOND + HALF_MILLISECOND);
const HALF_MILLISECOND: i64 = Timestamp::UNITS_PER_SECOND / 2_000;

/// Frames are shown this long after they were decoded, at most, as far as anybody waits for them.
const REORDERED_MAX: Timestamp = Timestamp::from_millis(500);

/// Maps the times of each item to those of one continuous stream.
///
/// Invariant: the decoding times of each track increase, as long as its frames are at least two
/// milliseconds apart.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    /// Time of the present item's zero.
    zero: Timestamp,
    /// Time at which all that was placed has been shown.
    end: Timestamp,
    /// Time at which the last of it has begun to be shown.
    shown: Timestamp,
    /// Last decoding time of audio and of video.
    last: [Option<Timestamp>; 2],
}

impl Default for Timeline {
    fn default() -> Self {
        Self { zero: BEGINNING, end: BEGINNING, shown: BEGINNING, last: [None; 2] }
    }
}

impl Timeline {
    /// One on which so much has been played.
    #[cfg(test)]
    pub(crate) fn after(played: std::time::Duration) -> Self {
        let end = BEGINNING + played.into();
        Self { zero: end, end, shown: end, ..Self::default() }
    }

    /// The next item begins, joined at `from` of its own time.
    pub(super) fn begin_item(&mut self, from: Timestamp) {
        self.zero = self.end - from;
    }

    /// Decoding and presentation time on the stream of a frame of the present item that lasts for
    /// `duration`. Frames of a track come in the order in which they are decoded.
    pub(super) fn place(
        &mut self,
        kind: MediaKind,
        (dts, pts): (Timestamp, Timestamp),
        duration: Timestamp,
    ) -> (Timestamp, Timestamp) {
        self.end = self.end.max(self.zero + (pts + duration));
        self.shown = self.shown.max(self.zero + pts);
        let pts = (self.zero + pts).max(Timestamp::ZERO);
        let dts = (self.zero + dts).max(Timestamp::ZERO);
        let last = &mut self.last[usize::from(kind == MediaKind::Video)];
        // The first frames of an item with B-frames are decoded before the item begins, and the
        // item before may have none: then they come as late as they may, but in order.
        let dts = last.map_or(dts, |last| dts.max((last + Timestamp::from_millis(1)).min(pts)).max(last));
        *last = Some(dts);
        (dts, pts)
    }

    /// The present item is over. `duration` is its length when it was played to its end; of one
    /// that was left before, what was placed counts.
    pub(super) fn end_item(&mut self, duration: Option<Timestamp>) {
        if let Some(duration) = duration {
            self.end = self.end.max(self.zero + duration);
        }
    }

    /// The present item is left when `timestamp_ms` is due: the next one need not wait until its
    /// last frame has been shown to its end.
    pub(super) fn leave_item(&mut self, timestamp_ms: u64) {
        let now = Timestamp::from_millis(i64::try_from(timestamp_ms).unwrap_or(i64::MAX));
        let now = now + Timestamp::from_units(HALF_MILLISECOND);
        // Frames that are sent and not yet shown have their time.
        self.end = self.end.min(now.max(self.shown.min(now + REORDERED_MAX)));
    }

    /// Time on the stream of a time of the present item, milliseconds.
    pub(super) fn at(&self, item: Timestamp) -> u64 {
        (self.zero + item).millis().max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Decoding and presentation time within an item, and duration.
    type ItemTime = (Timestamp, Timestamp, Timestamp);

    /// Times of a frame on the wire: when it is decoded, and for how long after that it is not
    /// shown, in milliseconds.
    fn place(timeline: &mut Timeline, kind: MediaKind, (dts, pts, duration): ItemTime) -> (i64, i64) {
        let (dts, pts) = timeline.place(kind, (dts, pts), duration);
        (dts.millis(), pts.millis() - dts.millis())
    }

    /// An item of video at 29.97 frames a second and AAC at 44.1 kHz, in order of decoding.
    fn item(video_frames: i64, audio_frames: i64, reorder: i64) -> Vec<(MediaKind, ItemTime)> {
        let video_at = |index: i64| Timestamp::from_ticks(index * 1_001, 30_000);
        let audio_at = |index: i64| Timestamp::from_ticks(index * 1_024, 44_100);
        let video = (0..video_frames)
            .map(|index| (MediaKind::Video, (video_at(index - reorder), video_at(index), video_at(1))));
        let audio = (0..audio_frames)
            .map(|index| (MediaKind::Audio, (audio_at(index), audio_at(index), audio_at(1))));
        let mut all: Vec<_> = video.chain(audio).collect();
        all.sort_by_key(|(_, (dts, ..))| *dts);
        all
    }

    #[test]
    fn a_day_of_loops_neither_drifts_nor_repeats_nor_leaves_gaps() {
        let frames = item(300, 431, 2); // 10.010 s of video, 10.008 s of audio
        let mut timeline = Timeline::default();
        let mut last = [None::<i64>; 2];
        for round in 0..8_640_i64 {
            timeline.begin_item(Timestamp::ZERO);
            let begins = Timestamp::from_millis(1_000) + Timestamp::from_ticks(round * 300 * 1_001, 30_000);
            for (kind, time) in &frames {
                let (timestamp_ms, composition_ms) = place(&mut timeline, *kind, *time);
                let exact = begins + time.1;
                let shown = timestamp_ms + composition_ms;
                assert_eq!(shown, exact.ticks(1_000), "round {round}: not the nearest to {exact:?}");
                let last = &mut last[usize::from(*kind == MediaKind::Video)];
                let step = timestamp_ms - last.unwrap_or(timestamp_ms - 33);
                let allowed = if *kind == MediaKind::Video { 33..=34 } else { 23..=33 };
                assert!(last.is_none() || allowed.contains(&step), "round {round}, {kind:?}: step of {step}");
                *last = Some(timestamp_ms);
            }
            timeline.end_item(Some(Timestamp::from_ticks(300 * 1_001, 30_000)));
        }
    }

    #[test]
    fn frames_that_are_decoded_ahead_stay_in_order_behind_an_item_without_such() {
        let mut timeline = Timeline::default();
        let mut stamps = Vec::new();
        for reorder in [0, 2, 0, 5] {
            timeline.begin_item(Timestamp::ZERO);
            stamps.extend(item(30, 0, reorder).iter().map(|(kind, time)| place(&mut timeline, *kind, *time)));
            timeline.end_item(None);
        }
        for pair in stamps.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{pair:?}");
        }
        let shown = |(timestamp_ms, composition_ms): (i64, i64)| timestamp_ms + composition_ms;
        for pair in stamps.windows(2) {
            assert!((33..=34).contains(&(shown(pair[1]) - shown(pair[0]))), "{pair:?}");
        }
        assert!(stamps.iter().all(|(_, composition_ms)| *composition_ms >= 0));
    }

    #[test]
    fn an_item_that_breaks_ends_where_it_was_and_one_that_is_joined_begins_there() {
        let mut timeline = Timeline::default();
        timeline.begin_item(ms(5_000));
        let stamp = place(&mut timeline, MediaKind::Video, (ms(5_000), ms(5_000), ms(40)));
        assert_eq!(stamp, (1_000, 0));
        assert_eq!(timeline.at(ms(7_000)), 3_000);
        timeline.end_item(None);
        timeline.begin_item(ms(0));
        assert_eq!(place(&mut timeline, MediaKind::Video, (ms(0), ms(0), ms(40))).0, 1_040);
    }

    #[test]
    fn an_item_that_is_left_does_not_hold_the_next_one_up() {
        let mut timeline = Timeline::default();
        timeline.begin_item(ms(0));
        place(&mut timeline, MediaKind::Video, (ms(0), ms(80), ms(40)));
        place(&mut timeline, MediaKind::Video, (ms(9_000), ms(9_080), ms(15_000)));
        timeline.leave_item(4_000);
        timeline.begin_item(ms(0));
        let audio = (ms(0), ms(0), ms(20));
        let stamp = place(&mut timeline, MediaKind::Audio, audio);
        assert_eq!(stamp.0, 4_500, "not 25,080, and behind what may still be shown");
        timeline.leave_item(60_000);
        timeline.begin_item(ms(0));
        assert_eq!(place(&mut timeline, MediaKind::Audio, audio).0, 4_520);
    }

    #[test]
    fn absurd_times_do_no_harm() {
        let mut timeline = Timeline::default();
        for value in [i64::MIN, -1, 0, i64::MAX, i64::MIN].map(Timestamp::from_units) {
            timeline.begin_item(value);
            timeline.place(MediaKind::Audio, (value, value), value);
            timeline.end_item(Some(value));
        }
    }
}
