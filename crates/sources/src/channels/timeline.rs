//! One timeline over all items of a channel: each begins where the one before ends, exactly.
//!
//! Times of items are nanoseconds and are added as such; they become the milliseconds of RTMP only when they are sent.
//! So nothing adds up, however often a playlist goes round. An item lasts as long as its longest track, to the end of its
//! last whole frame: no track ever runs into the next item, and the others end at most about a frame earlier.

use rtmp::MediaKind;

/// Where the timeline begins, nanoseconds: pictures that are decoded before they are shown have times below that of
/// their item's beginning, and times on the wire are never negative.
const BEGINNING_NS: i64 = 1_000_000_000;

/// Pictures are shown this long after they were decoded, at most, as far as anybody waits for them.
const REORDERED_NS_MAX: i64 = 500_000_000;

/// Times of a frame within its item, nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemTime {
    /// When it is decoded. Negative where pictures are decoded before the first one is shown.
    pub dts_ns: i64,
    /// When it is shown.
    pub pts_ns: i64,
    /// How long.
    pub duration_ns: i64,
}

/// Times of a frame on the wire, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// When it is decoded, since the timeline began. RTMP carries the lower 32 bits.
    pub timestamp_ms: u64,
    /// When it is shown, after that.
    pub composition_ms: i32,
}

/// Maps the times of each item to the timestamps of one continuous stream.
///
/// Invariant: the timestamps of each track increase, as long as its frames are at least two milliseconds apart.
#[derive(Debug, Clone)]
pub(super) struct Timeline {
    /// Time of the present item's zero.
    zero_ns: i64,
    /// Time at which all that was placed has been shown.
    end_ns: i64,
    /// Time at which the last of it has begun to be shown.
    shown_ns: i64,
    /// Last timestamp of audio and of video.
    last_ms: [Option<i64>; 2],
}

impl Default for Timeline {
    fn default() -> Self {
        Self { zero_ns: BEGINNING_NS, end_ns: BEGINNING_NS, shown_ns: BEGINNING_NS, last_ms: [None; 2] }
    }
}

impl Timeline {
    /// One on which so much has been played.
    #[cfg(test)]
    pub(crate) fn after(played: std::time::Duration) -> Self {
        let end_ns = BEGINNING_NS + i64::try_from(played.as_nanos()).expect("some centuries at most");
        Self { zero_ns: end_ns, end_ns, shown_ns: end_ns, ..Self::default() }
    }

    /// The next item begins, joined at `from_ns` of its own time.
    pub(super) fn begin_item(&mut self, from_ns: i64) {
        self.zero_ns = self.end_ns.saturating_sub(from_ns);
    }

    /// Places a frame of the present item. Frames of a track come in the order in which they are decoded.
    pub(super) fn place(&mut self, kind: MediaKind, time: ItemTime) -> Stamp {
        let end_ns = time.pts_ns.saturating_add(time.duration_ns);
        self.end_ns = self.end_ns.max(self.zero_ns.saturating_add(end_ns));
        self.shown_ns = self.shown_ns.max(self.zero_ns.saturating_add(time.pts_ns));
        let shown_ms = to_ms(self.zero_ns.saturating_add(time.pts_ns)).max(0);
        let wanted_ms = to_ms(self.zero_ns.saturating_add(time.dts_ns)).max(0);
        let last = &mut self.last_ms[usize::from(kind == MediaKind::Video)];
        // The first pictures of an item with B-frames are decoded before the item begins, and the item before may have
        // none: then they come as late as they may, but in order.
        let timestamp_ms = last.map_or(wanted_ms, |last| wanted_ms.max((last + 1).min(shown_ms)).max(last));
        *last = Some(timestamp_ms);
        let composition_ms = (shown_ms - timestamp_ms).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        Stamp { timestamp_ms: timestamp_ms as u64, composition_ms }
    }

    /// The present item is over. `duration_ns` is its length when it was played to its end; of one that was left before,
    /// what was placed counts.
    pub(super) fn end_item(&mut self, duration_ns: Option<i64>) {
        if let Some(duration_ns) = duration_ns {
            self.end_ns = self.end_ns.max(self.zero_ns.saturating_add(duration_ns));
        }
    }

    /// The present item is left when `timestamp_ms` is due: the next one need not wait until its last frame has been shown
    /// to its end.
    pub(super) fn leave_item(&mut self, timestamp_ms: u64) {
        let now_ns = i64::try_from(timestamp_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        // Frames that are sent and not yet shown have their time.
        let soonest = now_ns.max(self.shown_ns.min(now_ns.saturating_add(REORDERED_NS_MAX)));
        self.end_ns = self.end_ns.min(soonest);
    }

    /// Timestamp of `item_ns` of the present item, milliseconds.
    pub(super) fn at(&self, item_ns: i64) -> u64 {
        to_ms(self.zero_ns.saturating_add(item_ns)).max(0) as u64
    }
}

/// The nearest millisecond.
fn to_ms(ns: i64) -> i64 {
    ns.saturating_add(500_000).div_euclid(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn frame(dts_ns: i64, pts_ns: i64, duration_ns: i64) -> ItemTime {
        ItemTime { dts_ns, pts_ns, duration_ns }
    }

    /// An item of video at 29.97 pictures a second and AAC at 44.1 kHz, in order of decoding.
    fn item(pictures: i64, sounds: i64, reorder: i64) -> Vec<(MediaKind, ItemTime)> {
        let picture_ns = 1_001_000_000 / 30;
        let sound_at = |index: i64| index * 1_024 * 1_000_000_000 / 44_100;
        let video = (0..pictures).map(|index| {
            let at = index * picture_ns;
            (MediaKind::Video, frame(at - reorder * picture_ns, at, picture_ns))
        });
        let sound = (0..sounds).map(|index| {
            let at = sound_at(index);
            (MediaKind::Audio, frame(at, at, sound_at(index + 1) - at))
        });
        let mut all: Vec<_> = video.chain(sound).collect();
        all.sort_by_key(|(_, time)| time.dts_ns);
        all
    }

    #[test]
    fn a_day_of_loops_neither_drifts_nor_repeats_nor_leaves_gaps() {
        let frames = item(300, 431, 2); // 10.010 s of video, 10.008 s of sound
        let length_ns = 300 * (1_001_000_000 / 30);
        let mut timeline = Timeline::default();
        let mut last = [None::<u64>; 2];
        for round in 0..8_640_i64 {
            timeline.begin_item(0);
            for (kind, time) in &frames {
                let stamp = timeline.place(*kind, *time);
                let exact = BEGINNING_NS + round * length_ns + time.pts_ns;
                let shown = stamp.timestamp_ms.cast_signed() + i64::from(stamp.composition_ms);
                assert!((shown * MS - exact).abs() <= MS / 2, "round {round}: {shown} is not {exact}");
                let last = &mut last[usize::from(*kind == MediaKind::Video)];
                let step = stamp.timestamp_ms - last.unwrap_or(stamp.timestamp_ms - 33);
                let allowed = if *kind == MediaKind::Video { 33..=34 } else { 23..=33 };
                assert!(last.is_none() || allowed.contains(&step), "round {round}, {kind:?}: step of {step}");
                *last = Some(stamp.timestamp_ms);
            }
            timeline.end_item(Some(length_ns));
        }
    }

    #[test]
    fn pictures_that_are_decoded_ahead_stay_in_order_behind_an_item_without_such() {
        let mut timeline = Timeline::default();
        let mut stamps = Vec::new();
        for reorder in [0, 2, 0, 5] {
            timeline.begin_item(0);
            stamps.extend(item(30, 0, reorder).iter().map(|(kind, time)| timeline.place(*kind, *time)));
            timeline.end_item(None);
        }
        for pair in stamps.windows(2) {
            assert!(pair[0].timestamp_ms < pair[1].timestamp_ms, "{pair:?}");
        }
        let shown = |stamp: &Stamp| stamp.timestamp_ms as i64 + i64::from(stamp.composition_ms);
        for pair in stamps.windows(2) {
            assert!((33..=34).contains(&(shown(&pair[1]) - shown(&pair[0]))), "{pair:?}");
        }
        assert!(stamps.iter().all(|stamp| stamp.composition_ms >= 0));
    }

    #[test]
    fn an_item_that_breaks_ends_where_it_was_and_one_that_is_joined_begins_there() {
        let mut timeline = Timeline::default();
        timeline.begin_item(5_000 * MS);
        let stamp = timeline.place(MediaKind::Video, frame(5_000 * MS, 5_000 * MS, 40 * MS));
        assert_eq!(stamp, Stamp { timestamp_ms: 1_000, composition_ms: 0 });
        assert_eq!(timeline.at(7_000 * MS), 3_000);
        timeline.end_item(None);
        timeline.begin_item(0);
        let stamp = timeline.place(MediaKind::Video, frame(0, 0, 40 * MS));
        assert_eq!(stamp.timestamp_ms, 1_040);
    }

    #[test]
    fn an_item_that_is_left_does_not_hold_the_next_one_up() {
        let mut timeline = Timeline::default();
        timeline.begin_item(0);
        timeline.place(MediaKind::Video, frame(0, 80 * MS, 40 * MS));
        timeline.place(MediaKind::Video, frame(9_000 * MS, 9_080 * MS, 15_000 * MS));
        timeline.leave_item(4_000);
        timeline.begin_item(0);
        let stamp = timeline.place(MediaKind::Audio, frame(0, 0, 20 * MS));
        assert_eq!(stamp.timestamp_ms, 4_500, "not 25,080, and behind what may still be shown");
        timeline.leave_item(60_000);
        timeline.begin_item(0);
        assert_eq!(timeline.place(MediaKind::Audio, frame(0, 0, 20 * MS)).timestamp_ms, 4_520);
    }

    #[test]
    fn absurd_times_do_no_harm() {
        let mut timeline = Timeline::default();
        for value in [i64::MIN, -1, 0, i64::MAX, i64::MIN] {
            timeline.begin_item(value);
            timeline.place(MediaKind::Audio, frame(value, value, value));
            timeline.end_item(Some(value));
        }
    }
}
