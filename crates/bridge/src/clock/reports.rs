//! Sender reports of the virtual publisher that a bridge is (RFC 3550 section 6.4.1).
//!
//! Each names the wall time and, for each track, the timestamp of the same instant by the one [`StreamClock`]: that is
//! what lets receivers play audio and video together. They go into the stream of packets as a publisher's would.

use std::time::{Duration, Instant};

use rtp::rtcp::{SenderInfo, SenderReport, SourceDescription};
use sfu::WallClock;

use super::stream::StreamClock;
use super::timestamps::rtp_timestamp;

/// One track as its report tells of it.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// SSRC of the track.
    pub ssrc: u32,
    /// Units of its timestamps in a second.
    pub clock_rate: u32,
    /// Packets sent so far. While there are none, the track is not reported.
    pub packets: u32,
    /// Their payload bytes.
    pub payload_bytes: u32,
}

/// Decides when to report.
#[derive(Debug, Default)]
pub struct SenderReports {
    due: Option<Instant>,
    /// Tracks in the last report, and the delay it was made with.
    told: Option<(usize, i64)>,
}

impl SenderReports {
    /// Replaces `out` by a compound packet, if one is due: as soon as a track has sent something, whenever the clock
    /// has stepped, and once a second.
    ///
    /// Call it when all frames that arrived together have gone in: of a GOP that is fed at once, the last frame tells
    /// the time.
    pub fn write(
        &mut self,
        now: Instant,
        wall: &WallClock,
        clock: &StreamClock,
        senders: &[Sender],
        out: &mut Vec<u8>,
    ) -> bool {
        let (Some(time_us), Some(delay_us)) = (clock.time_us(now), clock.delay_us()) else { return false };
        let active = || senders.iter().filter(|sender| sender.packets > 0);
        let is_news = self.told.is_none_or(|(tracks, told_us)| {
            tracks != active().count() || (told_us - delay_us).abs() > NEWS_US
        });
        if active().count() == 0 || !(is_news || self.due.is_none_or(|due| due <= now)) {
            return false;
        }
        (self.due, self.told) = (Some(now + INTERVAL), Some((active().count(), delay_us)));
        out.clear();
        for sender in active() {
            let info = SenderInfo {
                ntp: wall.ntp(now),
                rtp_timestamp: rtp_timestamp(time_us, sender.clock_rate),
                packets: sender.packets,
                payload_bytes: sender.payload_bytes,
            };
            SenderReport::write(out, sender.ssrc, &info, &[]);
        }
        active().for_each(|sender| SourceDescription::write_cname(out, sender.ssrc, CNAME));
        true
    }

    /// When the next is due at the latest, once there has been one.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// Time between two reports.
const INTERVAL: Duration = Duration::from_secs(1);
/// A clock that has moved by more than this since the last report has stepped: it moves by 0.5 ms a second else.
const NEWS_US: i64 = 5_000;
/// The same for both tracks. It never leaves this server: viewers are told another one.
const CNAME: &str = "bridge";

#[cfg(test)]
mod tests {
    use rtp::rtcp::{NtpTime, Rtcp, packets};

    use super::*;

    const VIDEO: Sender = Sender { ssrc: 1, clock_rate: 90_000, packets: 5, payload_bytes: 500 };
    const AUDIO: Sender = Sender { ssrc: 2, clock_rate: 48_000, packets: 7, payload_bytes: 70 };

    fn read(rtcp: &[u8]) -> Vec<(u32, SenderInfo)> {
        let reports = packets(rtcp).map(Result::unwrap).filter_map(|packet| match packet {
            Rtcp::SenderReport(report) => Some((report.ssrc, report.info)),
            _ => None,
        });
        reports.collect()
    }

    #[test]
    fn both_tracks_are_told_the_same_instant() {
        let now = netsim::Clock::new().now();
        let wall = WallClock { at: now, ntp: NtpTime(7 << 32) };
        let (mut clock, mut reports, mut out) =
            (StreamClock::new(now), SenderReports::default(), vec![1, 2, 3]);
        assert!(!reports.write(now, &wall, &clock, &[VIDEO, AUDIO], &mut out), "no time is known");
        clock.arrived(now, 10_000_000);
        let silent = Sender { packets: 0, ..VIDEO };
        assert!(!reports.write(now, &wall, &clock, &[silent], &mut out), "nothing was sent");
        let later = now + Duration::from_millis(500);
        assert!(reports.write(later, &wall, &clock, &[VIDEO, AUDIO], &mut out));
        let ntp = NtpTime(7 << 32 | 1 << 31);
        let info =
            |rtp_timestamp, packets, payload_bytes| SenderInfo { ntp, rtp_timestamp, packets, payload_bytes };
        assert_eq!(read(&out), [(1, info(945_000, 5, 500)), (2, info(504_000, 7, 70))]);
        assert!(packets(&out).any(|packet| matches!(packet, Ok(Rtcp::SourceDescription(_)))));
    }

    #[test]
    fn a_report_is_due_each_second_and_with_news() {
        let now = netsim::Clock::new().now();
        let wall = WallClock { at: now, ntp: NtpTime(7 << 32) };
        let (mut clock, mut reports, mut out) = (StreamClock::new(now), SenderReports::default(), Vec::new());
        clock.arrived(now, 0);
        let silent = Sender { packets: 0, ..AUDIO };
        assert_eq!(reports.next_timeout(), None);
        assert!(reports.write(now, &wall, &clock, &[VIDEO, silent], &mut out));
        assert!(!reports.write(now, &wall, &clock, &[VIDEO, silent], &mut out));
        assert!(reports.write(now, &wall, &clock, &[VIDEO, AUDIO], &mut out), "audio has begun");
        assert_eq!(read(&out).len(), 2);
        assert_eq!(reports.next_timeout(), Some(now + INTERVAL));
        let almost = now + INTERVAL - Duration::from_millis(1);
        assert!(!reports.write(almost, &wall, &clock, &[VIDEO, AUDIO], &mut out));
        assert!(reports.write(now + INTERVAL, &wall, &clock, &[VIDEO, AUDIO], &mut out));
        clock.publisher_started();
        clock.arrived(now + INTERVAL, 99_000_000);
        clock.arrived(now + INTERVAL, 99_000_000);
        assert!(
            reports.write(now + INTERVAL, &wall, &clock, &[VIDEO, AUDIO], &mut out),
            "the clock has stepped"
        );
    }
}
