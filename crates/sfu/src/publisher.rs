//! What is known of the current publisher, and goes with it.

use std::time::{Duration, Instant};

use super::clock::RemoteClock;
use super::feedback::{Arrivals, Estimate, REPORT_INTERVAL};
use super::inputs::PublisherInput;
use super::ssrc_table::SsrcTable;
use super::stream::StreamStats;

/// What exists only while there is a publisher.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) input: PublisherInput,
    /// It is told what to repair and when to send key frames by RTCP; not one that is another node.
    pub(crate) takes_rtcp: bool,
    /// Tells its packets from those of others before and after.
    pub(crate) epoch: u64,
    /// How long a missing packet is of use.
    pub(crate) repairs: Duration,
    pub(crate) ssrcs: SsrcTable,
    pub(crate) clock: RemoteClock,
    pub(crate) arrivals: Option<Arrivals>,
    started_at: Instant,
    /// Measured by repairs, `None` until the first.
    pub(crate) round_trip: Option<Duration>,
    pub(crate) report_at: Instant,
    /// Which of its encodings the next report begins with.
    pub(crate) report_from: usize,
    pub(crate) remb_at: Instant,
    pub(crate) estimate: Estimate,
    /// Totals of the stream when it began.
    pub(crate) stats_before: StreamStats,
}

impl Publisher {
    pub(crate) fn new(now: Instant, input: PublisherInput, epoch: u64, repairs: Duration) -> Self {
        Self {
            input,
            takes_rtcp: true,
            epoch,
            repairs,
            ssrcs: SsrcTable::new(),
            clock: RemoteClock::default(),
            arrivals: None,
            started_at: now,
            round_trip: None,
            report_at: now + REPORT_INTERVAL,
            report_from: 0,
            remb_at: now,
            estimate: Estimate::default(),
            stats_before: StreamStats::default(),
        }
    }

    /// Transport-wide feedback was negotiated, with this id of the extension.
    pub(crate) fn with_transport_feedback(&mut self, id: Option<u8>) {
        self.arrivals = id.map(|id| Arrivals::new(self.started_at, id));
    }

    pub(crate) fn may_estimate_clock(&self, now: Instant) -> bool {
        !self.clock.is_known() && now.saturating_duration_since(self.started_at) >= ESTIMATE_CLOCK_AFTER
    }

    pub(crate) fn note_round_trip(&mut self, measured: Option<Duration>) {
        if let Some(measured) = measured {
            // As RFC 6298 smooths it.
            let measured = measured.min(ROUND_TRIP_MAX);
            self.round_trip = Some(self.round_trip.map_or(measured, |known| (known * 7 + measured) / 8));
        }
    }

    /// How long an answer to a request takes, as far as can be told.
    pub(crate) fn expected_round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(ROUND_TRIP_UNKNOWN)
    }
}
/// A publisher that has not reported by then is not expected to. Browsers report within the first
/// second.
const ESTIMATE_CLOCK_AFTER: Duration = Duration::from_secs(5);
/// Round trip to a publisher before one is measured.
const ROUND_TRIP_UNKNOWN: Duration = Duration::from_millis(100);
/// Longest that is believed.
const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
