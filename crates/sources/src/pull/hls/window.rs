//! Which segments of a media playlist come next, as it is loaded again and again.
//!
//! A number names a segment (RFC 8216 section 6.2.1): those that were taken are not taken again,
//! whatever became of their URIs. Without socket or clock.

use std::ops::Range;
use std::time::Duration;

use hls::read::{MediaPlaylist, Segment};

/// How many target durations before its end a live playlist is joined (section 6.3.3).
const HOLD_BACK: u32 = 3;
/// Target durations are taken for this at least, and
const TARGET_MIN: Duration = Duration::from_millis(500);
/// this at most, whatever the playlist says.
const TARGET_MAX: Duration = Duration::from_secs(60);

/// A place in a playlist that changes.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Number of the segment that is next.
    next: Option<u64>,
    /// Number of the first segment when the playlist was loaded last.
    first: u64,
    /// Discontinuities up to the segment taken last, as counted by the playlist or here.
    period: u64,
    /// Segments that were in the playlist no more when they were to be taken.
    pub(super) lost: u64,
}

impl Window {
    /// The segments of a playlist that come next. Take each by [`Self::take`].
    pub(super) fn load(&mut self, playlist: &MediaPlaylist) -> Range<usize> {
        let count = playlist.segments.len();
        let first = playlist.media_sequence;
        let end = first.saturating_add(count as u64);
        if count == 0 {
            return 0..0;
        }
        let joined = || if playlist.is_ended { 0 } else { live_begin(playlist) };
        let (begin, has_jumped) = match self.next {
            None => (joined(), true),
            Some(next) if (first..=end).contains(&next) => ((next - first) as usize, false),
            // Too late for it: what is left of a playlist that has ended, or where it is live.
            Some(next) if next < first => {
                let begin = joined();
                self.lost = self.lost.saturating_add(first - next).saturating_add(begin as u64);
                (begin, true)
            }
            // The server counts from another number.
            Some(_) if end <= self.first => {
                self.period = self.period.saturating_add(1);
                (joined(), true)
            }
            // A cache has given an earlier playlist.
            Some(_) => return count..count,
        };
        if has_jumped {
            let passed = playlist.segments[..begin].iter().filter(|segment| segment.is_discontinuity).count();
            let counted = playlist.discontinuity_sequence.saturating_add(passed as u64);
            self.period = self.period.max(counted);
            self.next = Some(first.saturating_add(begin as u64));
        }
        self.first = first;
        begin..count
    }

    /// Takes the next segment; gives its number, and that of the stretch of media that it belongs to.
    pub(super) fn take(&mut self, segment: &Segment) -> (u64, u64) {
        let number = self.next.unwrap_or_default();
        self.next = Some(number.saturating_add(1));
        self.period = self.period.saturating_add(u64::from(segment.is_discontinuity));
        (number, self.period)
    }
}

/// The target duration, as far as it is believed.
pub(super) fn target_duration(playlist: &MediaPlaylist) -> Duration {
    playlist.target_duration.clamp(TARGET_MIN, TARGET_MAX)
}

/// The segment at which a live playlist is joined.
fn live_begin(playlist: &MediaPlaylist) -> usize {
    let hold_back = target_duration(playlist) * HOLD_BACK;
    let mut behind = Duration::ZERO;
    let begin = playlist.segments.iter().rposition(|segment| {
        behind += segment.duration;
        behind >= hold_back
    });
    begin.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn playlist(first: u64, count: usize, cuts: &[usize]) -> MediaPlaylist {
        let segment = |index: usize| Segment {
            uri: format!("{}.ts", first + index as u64),
            duration: Duration::from_secs(2),
            is_discontinuity: cuts.contains(&index),
            ..Segment::default()
        };
        MediaPlaylist {
            target_duration: Duration::from_secs(2),
            media_sequence: first,
            segments: (0..count).map(segment).collect(),
            ..MediaPlaylist::default()
        }
    }

    /// Numbers and periods of the segments that are taken of a playlist.
    fn taken(window: &mut Window, playlist: &MediaPlaylist) -> Vec<(u64, u64)> {
        window.load(playlist).map(|index| window.take(&playlist.segments[index])).collect()
    }

    #[test]
    fn a_live_playlist_is_joined_three_target_durations_before_its_end() {
        let mut window = Window::default();
        assert_eq!(taken(&mut window, &playlist(100, 10, &[])), [(107, 0), (108, 0), (109, 0)]);
        assert_eq!(taken(&mut window, &playlist(100, 10, &[])), []);
        assert_eq!(taken(&mut window, &playlist(102, 10, &[])), [(110, 0), (111, 0)]);
        assert_eq!(taken(&mut Window::default(), &playlist(5, 2, &[])), [(5, 0), (6, 0)], "there is less");
        assert_eq!(taken(&mut Window::default(), &playlist(5, 0, &[])), []);
        // Half of what it says it is.
        let mut short = playlist(0, 10, &[]);
        short.target_duration = Duration::from_secs(4);
        assert_eq!(taken(&mut Window::default(), &short).len(), 6);
        short.target_duration = Duration::MAX;
        assert_eq!(taken(&mut Window::default(), &short).len(), 10);
    }

    #[test]
    fn what_has_ended_is_played_from_its_beginning() {
        let mut film = playlist(0, 4, &[2]);
        film.is_ended = true;
        assert_eq!(taken(&mut Window::default(), &film), [(0, 0), (1, 0), (2, 1), (3, 1)]);
    }

    #[test]
    fn discontinuities_are_counted_even_if_the_playlist_does_not() {
        let mut window = Window::default();
        let mut live = playlist(10, 3, &[0]);
        live.discontinuity_sequence = 4;
        assert_eq!(taken(&mut window, &live), [(10, 5), (11, 5), (12, 5)]);
        // The tag has left, and the number stays what it was.
        let mut live = playlist(12, 4, &[2]);
        live.discontinuity_sequence = 4;
        assert_eq!(taken(&mut window, &live), [(13, 5), (14, 6), (15, 6)]);
    }

    #[test]
    fn who_is_too_late_goes_on_where_it_is_live() {
        let mut window = Window::default();
        taken(&mut window, &playlist(0, 3, &[]));
        let mut later = playlist(20, 10, &[5]);
        later.discontinuity_sequence = 2;
        assert_eq!(taken(&mut window, &later), [(27, 3), (28, 3), (29, 3)]);
        assert_eq!(window.lost, 24);
    }

    #[test]
    fn an_earlier_playlist_is_passed_and_another_count_is_followed() {
        let mut window = Window::default();
        taken(&mut window, &playlist(100, 5, &[]));
        assert_eq!(taken(&mut window, &playlist(99, 5, &[])), []);
        assert_eq!(taken(&mut window, &playlist(100, 6, &[])), [(105, 0)]);
        assert_eq!(
            taken(&mut window, &playlist(0, 5, &[])),
            [(2, 1), (3, 1), (4, 1)],
            "a server begins again"
        );
        assert_eq!(taken(&mut window, &playlist(1, 5, &[])), [(5, 1)]);
    }

    #[test]
    fn numbers_at_the_end_of_all_numbers_do_no_harm() {
        let mut window = Window::default();
        taken(&mut window, &playlist(u64::MAX - 1, 1, &[]));
        let mut last = playlist(0, 5, &[0]);
        (last.media_sequence, last.discontinuity_sequence) = (u64::MAX, u64::MAX);
        taken(&mut window, &last);
        // Far back, far ahead, and back again.
        taken(&mut window, &playlist(0, 5, &[]));
        taken(&mut window, &last);
        assert_eq!(window.period, u64::MAX);
        assert_eq!(taken(&mut window, &playlist(0, 5, &[])).len(), 3);
        taken(&mut window, &last);
    }
}
