//! Which timestamp of each track belongs to which instant, and when to say so again.
//!
//! What a sender report says (RFC 3550 section 6.4.1), as values: the timestamps of both tracks at
//! one instant, by the one [`StreamClock`]. That is what lets receivers play audio and video
//! together.

use std::time::{Duration, Instant};

use sfu::NtpRtpMapping;

use super::StreamClock;
use super::timestamps::rtp_timestamp;

/// The mappings of both tracks at one instant; `None` of a track that has sent nothing, or while
/// nothing is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockMappings {
    /// Of the video track.
    pub video: Option<NtpRtpMapping>,
    /// Of the audio track.
    pub audio: Option<NtpRtpMapping>,
}

/// Decides when mappings are due.
#[derive(Debug, Default)]
pub(crate) struct MappingSchedule {
    due: Option<Instant>,
    /// Which tracks were mapped last, video and audio, and the delay it was done with.
    last: Option<([bool; 2], i64)>,
}

impl MappingSchedule {
    /// Mappings, if they are due: as soon as a track has sent something, whenever the clock has
    /// stepped, and once a second. `tracks`: whether video and audio have sent something, with the
    /// clock rate of each.
    ///
    /// Call it when all frames that arrived together have gone in: of a GOP that is fed at once,
    /// the last frame tells the time.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        clock: &StreamClock,
        tracks: [(bool, u32); 2],
    ) -> Option<ClockMappings> {
        let (time_us, delay_us) = (clock.time_us(now)?, clock.delay_us()?);
        let active = tracks.map(|(is_active, _)| is_active);
        let is_news =
            self.last.is_none_or(|(last, last_us)| last != active || (last_us - delay_us).abs() > NEWS_US);
        if active == [false; 2] || !(is_news || self.due.is_none_or(|due| due <= now)) {
            return None;
        }
        (self.due, self.last) = (Some(now + INTERVAL), Some((active, delay_us)));
        let [video, audio] = tracks.map(|(is_active, clock_rate)| {
            is_active.then(|| NtpRtpMapping { at: now, timestamp: rtp_timestamp(time_us, clock_rate) })
        });
        Some(ClockMappings { video, audio })
    }

    /// When the next are due at the latest, once there have been some.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// Time between two mappings.
const INTERVAL: Duration = Duration::from_secs(1);
/// A clock that has moved by more than this since the last mapping has stepped: it moves by 0.5 ms
/// a second else.
const NEWS_US: i64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [(bool, u32); 2] = [(true, 90_000), (true, 48_000)];
    const VIDEO_ONLY: [(bool, u32); 2] = [(true, 90_000), (false, 48_000)];

    #[test]
    fn both_tracks_are_mapped_at_the_same_instant() {
        let now = netsim::Clock::new().now();
        let (mut clock, mut schedule) = (StreamClock::new(now), MappingSchedule::default());
        assert_eq!(schedule.poll(now, &clock, BOTH), None, "no time is known");
        clock.arrived(now, 10_000_000);
        assert_eq!(schedule.poll(now, &clock, [(false, 90_000); 2]), None, "nothing was sent");
        let at = now + Duration::from_millis(500);
        let mapping = |timestamp| Some(NtpRtpMapping { at, timestamp });
        let expected = ClockMappings { video: mapping(945_000), audio: mapping(504_000) };
        assert_eq!(schedule.poll(at, &clock, BOTH), Some(expected));
    }

    #[test]
    fn mappings_are_due_each_second_and_with_news() {
        let now = netsim::Clock::new().now();
        let (mut clock, mut schedule) = (StreamClock::new(now), MappingSchedule::default());
        clock.arrived(now, 0);
        assert_eq!(schedule.next_timeout(), None);
        assert!(schedule.poll(now, &clock, VIDEO_ONLY).is_some());
        assert_eq!(schedule.poll(now, &clock, VIDEO_ONLY), None);
        let both = schedule.poll(now, &clock, BOTH).expect("audio has begun");
        assert!(both.video.is_some() && both.audio.is_some());
        assert_eq!(schedule.next_timeout(), Some(now + INTERVAL));
        let almost = now + INTERVAL - Duration::from_millis(1);
        assert_eq!(schedule.poll(almost, &clock, BOTH), None);
        assert!(schedule.poll(now + INTERVAL, &clock, BOTH).is_some());
        clock.arrived(now + INTERVAL, 99_000_000);
        clock.arrived(now + INTERVAL, 99_000_000);
        assert!(schedule.poll(now + INTERVAL, &clock, BOTH).is_some(), "the clock has stepped");
    }
}
