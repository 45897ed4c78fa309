//! How packets of one source arrive, for receiver reports (RFC 3550 sections 6.4 and A.3, A.8).

use std::time::{Duration, Instant};

use rtp::rtcp::{NtpMiddle, ReceiverReport, ReportBlock, SourceDescription};
use rtp::sequence::SequenceUnwrapper;

/// Time between two receiver reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// SSRC of our reports to publishers. It need not differ between sessions: each has its own RTP session.
const REPORT_SSRC: u32 = 1;
/// CNAME of the server (RFC 7022 section 4.2 wants it to say nothing of the host): the same for all tracks, or
/// players do not play them in sync.
pub(crate) const CNAME: &str = "millstream";
/// Numbers that a late packet may be behind the newest one.
const LATE_MAX: u64 = 1_000;

/// What has come of one source.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reception {
    pub(crate) ssrc: u32,
    numbers: SequenceUnwrapper,
    first: Option<u64>,
    pub(crate) received: u64,
    expected_before: u64,
    received_before: u64,
    transit: Option<i64>,
    /// In sixteenths of a unit.
    jitter: i64,
    /// The last sender report, and when it came.
    report: Option<(NtpMiddle, Instant)>,
}

impl Reception {
    pub(crate) fn new(ssrc: u32) -> Self {
        Self { ssrc, ..Self::default() }
    }

    /// A packet has come. Its number without wraps.
    pub(crate) fn packet(&mut self, sequence: u16, timestamp: u32, arrival_units: i64) -> u64 {
        let number = self.numbers.unwrap(sequence);
        let first = self.first.get_or_insert(number);
        *first = (*first).min(number);
        self.received += 1;
        let transit = arrival_units.wrapping_sub(i64::from(timestamp));
        if let Some(before) = self.transit.replace(transit) {
            let distance = (transit.wrapping_sub(before) as i32).unsigned_abs();
            self.jitter += i64::from(distance.min(1 << 24)) - ((self.jitter + 8) >> 4);
        }
        number
    }

    /// Whether a packet is so far behind that its source may have begun again: two that follow each other are
    /// no late ones (RFC 3550 section A.1).
    pub(crate) fn is_far_behind(&self, sequence: u16) -> bool {
        self.numbers.highest().is_some_and(|highest| self.numbers.peek(sequence) + LATE_MAX < highest)
    }

    /// A sender report has come.
    pub(crate) fn reported(&mut self, middle: NtpMiddle, now: Instant) {
        self.report = Some((middle, now));
    }

    /// The highest number so far, without wraps.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.numbers.highest()
    }

    /// Packets that should have come.
    pub(crate) fn expected(&self) -> u64 {
        let (Some(first), Some(highest)) = (self.first, self.numbers.highest()) else { return 0 };
        highest - first + 1
    }

    /// Jitter in units of the clock.
    pub(crate) fn jitter(&self) -> u32 {
        (self.jitter >> 4).clamp(0, i64::from(u32::MAX)) as u32
    }

    /// What the next receiver report says of it.
    pub(crate) fn block(&mut self, now: Instant) -> ReportBlock {
        let expected = self.expected();
        let in_interval = expected - self.expected_before;
        let received = self.received - self.received_before;
        let lost = in_interval.saturating_sub(received);
        (self.expected_before, self.received_before) = (expected, self.received);
        let (last_report, delay) = self.report.map_or((NtpMiddle(0), NtpMiddle(0)), |(middle, at)| {
            (middle, NtpMiddle::from_duration(now.saturating_duration_since(at)))
        });
        ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: (lost * 256).checked_div(in_interval).unwrap_or(0).min(255) as u8,
            cumulative_lost: (expected as i64 - self.received as i64).clamp(-0x80_0000, 0x7f_ffff) as i32,
            highest_sequence_number: self.numbers.highest().unwrap_or_default().wrapping_sub(1 << 16) as u32,
            jitter_rtp_units: self.jitter(),
            last_report,
            delay_since_last_report: delay,
        }
    }
}

/// How a publisher's packets arrive, summed over its tracks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReceptionStats {
    /// Packets that should have come.
    pub expected: u64,
    /// Packets that came.
    pub received: u64,
    /// The greatest jitter of a track.
    pub jitter: Duration,
}

impl ReceptionStats {
    /// Of tracks that have sent something, with the units of their clocks in a second.
    pub(crate) fn of<'a>(tracks: impl Iterator<Item = (&'a Reception, u32)>) -> Self {
        let mut stats = Self::default();
        for (reception, clock_rate) in tracks {
            stats.expected += reception.expected();
            stats.received += reception.received;
            let jitter = f64::from(reception.jitter()) / f64::from(clock_rate.max(1));
            stats.jitter = stats.jitter.max(Duration::from_secs_f64(jitter));
        }
        stats
    }
}

/// When packets of a publisher come, and when it is sent receiver reports.
#[derive(Debug)]
pub(crate) struct Reports {
    began: Instant,
    reported: Instant,
}

impl Reports {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, reported: now }
    }

    /// The time in units of a track's clock, for [`Reception::packet`].
    pub(crate) fn arrival_units(&self, now: Instant, clock_rate: u32) -> i64 {
        let elapsed = now.saturating_duration_since(self.began);
        (elapsed.as_nanos() * u128::from(clock_rate) / 1_000_000_000) as i64
    }

    /// A report of each track that has sent something, if they are due, each handed to `send` with its track.
    pub(crate) fn write<'a>(
        &mut self,
        now: Instant,
        receptions: impl Iterator<Item = Option<&'a mut Reception>>,
        mut send: impl FnMut(usize, &[u8]),
    ) {
        if now.saturating_duration_since(self.reported) < REPORT_INTERVAL {
            return;
        }
        self.reported = now;
        let mut out = Vec::new();
        for (at, reception) in receptions.enumerate() {
            let Some(reception) = reception else { continue };
            out.clear();
            ReceiverReport::write(&mut out, REPORT_SSRC, &[reception.block(now)]);
            SourceDescription::write_cname(&mut out, REPORT_SSRC, CNAME);
            send(at, &out);
        }
    }
}
