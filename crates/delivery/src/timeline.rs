//! One clock per stream, whatever its publishers' clocks do.
//!
//! Players must see timestamps that never go back, although publishers restart from zero, jump, or wrap at
//! 2^32 ms (49.7 days). The timeline of a stream is a 64-bit count of milliseconds: it starts as the first
//! publisher's own timestamps and is continued across restarts and jumps by the time that really passed.

use crate::frame::Track;

/// A step forward of more than this between two frames of a publisher is a jump, not a pause, in milliseconds.
const JUMP_FORWARD_MS: i64 = 10_000;
/// A step back of more than this is a restart of the publisher's clock, not interleaving of tracks.
const JUMP_BACK_MS: i64 = 3_000;
/// Assumed distance between the last frame before a jump and the first after it when no time passed.
const SEAM_MS: i64 = 20;

/// Maps a publisher's timestamps to the stream's.
///
/// Invariant: for each track the values returned never decrease.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// Stream time minus unwrapped publisher time.
    offset: i64,
    /// Unwrapped publisher time of the last frame; `None` before the first frame of a publisher.
    source: Option<i64>,
    /// Largest stream time handed out, and when.
    head: Option<(i64, u64)>,
    /// Last stream time of audio and of video.
    tracks: [i64; 2],
}

impl Timeline {
    /// A publisher begins, or comes back: its timestamps have nothing to do with those before.
    pub fn restart(&mut self) {
        self.source = None;
    }

    /// Stream time of an audio or video frame with publisher time `timestamp`, arriving at `now_ms`.
    pub fn place(&mut self, now_ms: u64, track: Track, timestamp: u32) -> u64 {
        let source = match self.source {
            Some(last) => last + i64::from(timestamp.wrapping_sub(last as u32).cast_signed()),
            None => i64::from(timestamp),
        };
        let step = self.source.map_or(i64::MAX, |last| source - last);
        if !(-JUMP_BACK_MS..=JUMP_FORWARD_MS).contains(&step) {
            self.offset = self.seam(now_ms).map_or(0, |seam| seam - source);
        }
        self.source = Some(source);
        let slot = &mut self.tracks[usize::from(track == Track::Video)];
        *slot = (source + self.offset).max(*slot);
        let placed = *slot;
        if self.head.is_none_or(|(head, _)| placed >= head) {
            self.head = Some((placed, now_ms));
        }
        placed as u64
    }

    /// Stream time of a header with publisher time `timestamp`, which moves nothing.
    ///
    /// What it says holds where no frame of its track is put behind it by that: at or after the last of its track, and
    /// not after the newest of the stream. Many say 0, though, which means nothing: they go with the last frame of their
    /// track, or of the stream where that is long ago. Frames of a publisher that begins come behind all others, and so
    /// do its headers.
    pub fn place_header(&self, track: Track, timestamp: u32) -> u64 {
        let Some((head, _)) = self.head else { return timestamp.into() };
        let Some(source) = self.source else { return head as u64 };
        let last = self.tracks[usize::from(track == Track::Video)];
        let says = source + i64::from(timestamp.wrapping_sub(source as u32).cast_signed()) + self.offset;
        let placed = match says {
            says if (last..=head).contains(&says) => says,
            _ if head - last <= JUMP_BACK_MS => last,
            _ => head,
        };
        placed as u64
    }

    /// Stream time of the newest frame, if there has been one.
    pub fn head(&self) -> Option<u64> {
        self.head.map(|(head, _)| head as u64)
    }

    /// Where the timeline goes on after a break: as much later as time really passed, at least one frame.
    fn seam(&self, now_ms: u64) -> Option<i64> {
        let (head, at) = self.head?;
        Some(head + (now_ms.saturating_sub(at) as i64).max(SEAM_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_publisher_keeps_its_own_timestamps() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.place(5, Track::Video, 90_000), 90_000);
        assert_eq!(timeline.place(45, Track::Video, 90_040), 90_040);
    }

    #[test]
    fn interleaved_tracks_keep_their_small_steps_back() {
        let mut timeline = Timeline::default();
        timeline.place(0, Track::Video, 1000);
        assert_eq!(timeline.place(0, Track::Audio, 980), 980, "audio lags video by less than a jump");
        assert_eq!(timeline.place(0, Track::Audio, 970), 980, "but a track itself never goes back");
    }

    #[test]
    fn restarted_publisher_continues_by_the_time_that_passed() {
        let mut timeline = Timeline::default();
        timeline.place(100, Track::Video, 60_000);
        timeline.restart();
        assert_eq!(timeline.place(2_100, Track::Video, 0), 62_000);
        assert_eq!(timeline.place(2_140, Track::Video, 40), 62_040);
    }

    #[test]
    fn jumps_of_a_running_publisher_are_closed() {
        let rows = [
            (60_000u32, 5_000u32, "back to an earlier time"),
            (1_000, 3_600_000, "an hour ahead"),
            (4_000_000_000, 1_000_000_000, "far back across the sign"),
        ];
        for (before, after, remark) in rows {
            let mut timeline = Timeline::default();
            let head = timeline.place(0, Track::Video, before);
            assert_eq!(timeline.place(40, Track::Video, after), head + 40, "{remark}");
        }
    }

    #[test]
    fn a_header_stands_between_the_frames_of_its_track() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.place_header(Track::Video, 7), 7, "nothing has come yet");
        timeline.place(0, Track::Video, 1_000);
        timeline.place(0, Track::Audio, 1_060);
        for (says, placed, remark) in [
            (1_040, 1_040, "that of the frame behind it"),
            (1_000, 1_000, "that of the frame before it"),
            (0, 1_000, "it says nothing"),
            (1_080, 1_000, "later than anything: the frame behind it may come earlier"),
        ] {
            assert_eq!(timeline.place_header(Track::Video, says), placed, "{remark}");
        }
        timeline.place(0, Track::Audio, 9_000);
        assert_eq!(timeline.place_header(Track::Video, 0), 9_000, "video was away for long");
        assert_eq!(timeline.place_header(Track::Video, 8_990), 8_990, "and comes back");
        timeline.place(0, Track::Audio, 9_500);
        timeline.restart();
        for track in [Track::Audio, Track::Video] {
            assert_eq!(timeline.place_header(track, 5), 9_500, "frames of another publisher come behind all");
        }
    }

    #[test]
    fn wrap_at_32_bits_is_no_jump() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.place(0, Track::Video, u32::MAX - 19), 0xffff_ffec);
        assert_eq!(timeline.place(40, Track::Video, 20), 0xffff_ffec + 40);
    }
}
