//! Measurements of the path to the server.
//!
//! Time counts only while the reader waits: bytes that accumulated while the caller did something
//! else say nothing about the link. `plan.rs` interprets the figures.

use std::time::Duration;

use tokio::time::Instant;

use crate::plan::LinkEstimate;
use crate::source::SourceState;

/// Half-life of the throughput average.
const AVERAGED_OVER: Duration = Duration::from_millis(400);
/// Round trips in which the highest throughput is forgotten.
const PEAK_FADES_OVER_ROUND_TRIPS: f64 = 100.0;
/// After so many consecutive responses that took so much longer, the shortest time to a first byte
/// is discarded. At most three round trips' bytes are in flight.
const LONGER_FACTOR: u32 = 4;
const LONGER_IN_A_ROW: u32 = 4;
/// Before anything is measured: a road across a country.
const UNKNOWN_ROUND_TRIP: Duration = Duration::from_millis(50);
/// Before anything is measured: 10 Mbit/s.
const UNKNOWN_BYTES_PER_SECOND: f64 = 1.25e6;

/// Measurements so far.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// From a request to its head, on a connection that was open.
    kept: Option<Duration>,
    /// The same with the opening of a connection in it.
    fresh: Option<Duration>,
    bytes: f64,
    seconds: f64,
    /// The shortest that was measured on a connection that was open.
    least: Option<Duration>,
    /// How many in a row were far longer, and the shortest of these.
    longer: (u32, Duration),
    /// The most that has been measured, in bytes a second; fades where less comes.
    peak: f64,
    /// When the reader began to wait for bytes of a response that has begun.
    waiting_since: Option<Instant>,
}

impl Link {
    /// A response's head arrived after `elapsed`; a connection was opened for it or not.
    pub(super) fn head(&mut self, elapsed: Duration, is_fresh: bool) {
        if !is_fresh {
            self.note_least(elapsed);
        }
        let average = if is_fresh { &mut self.fresh } else { &mut self.kept };
        *average = Some(match *average {
            None => elapsed,
            Some(smooth) => (smooth * 3 + elapsed) / 4,
        });
    }

    /// What is asked while several responses share the link comes later than it could, but not so
    /// much: then the path to the server has changed.
    fn note_least(&mut self, elapsed: Duration) {
        let least = self.least.unwrap_or(elapsed);
        let (count, shortest) = self.longer;
        self.longer = match elapsed > least * LONGER_FACTOR {
            true => (count + 1, if count == 0 { elapsed } else { shortest.min(elapsed) }),
            false => (0, elapsed),
        };
        let has_changed = self.longer.0 >= LONGER_IN_A_ROW;
        self.least = Some(if has_changed { self.longer.1 } else { least.min(elapsed) });
    }

    /// The reader waits for more of a response.
    pub(super) fn wait(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The reader continues: with `bytes` after waiting, or with none because it no longer waits.
    pub(super) fn resume(&mut self, now: Instant, bytes: u64) {
        let Some(since) = self.waiting_since.take() else { return };
        if bytes == 0 {
            return;
        }
        let waited = (now - since).as_secs_f64();
        self.bytes += bytes as f64;
        self.seconds += waited;
        while self.seconds > 2.0 * AVERAGED_OVER.as_secs_f64() {
            self.bytes /= 2.0;
            self.seconds /= 2.0;
        }
        let present = self.bytes_per_second().unwrap_or(0.0);
        let round_trip = self.least.unwrap_or(UNKNOWN_ROUND_TRIP).as_secs_f64();
        let fading = (waited / (round_trip * PEAK_FADES_OVER_ROUND_TRIPS)).min(1.0);
        self.peak = present.max(self.peak + (present - self.peak) * fading);
    }

    /// What the link brings between a request and its response, while nothing else is in flight and
    /// it is not idle: how much has to be in flight so that it never is. (What is measured while
    /// several responses share the link, or while it idles because too little was asked, is longer
    /// and slower.)
    pub(super) fn path_bytes(&self) -> f64 {
        let first_byte = self.least.unwrap_or_else(|| self.time_to_first_byte());
        first_byte.as_secs_f64() * self.peak_bytes_per_second()
    }

    /// The best recent rate.
    pub(super) fn peak_bytes_per_second(&self) -> f64 {
        self.peak.max(self.bytes_per_second().unwrap_or(UNKNOWN_BYTES_PER_SECOND))
    }

    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        (self.seconds > 0.001).then(|| (self.bytes / self.seconds).max(1.0))
    }

    /// From a request on an open connection to the head of its response.
    ///
    /// Not the kernel's round trip: behind a proxy that is the proxy's.
    pub(super) fn time_to_first_byte(&self) -> Duration {
        self.kept.or(self.fresh.map(|fresh| fresh / 2)).unwrap_or(UNKNOWN_ROUND_TRIP)
    }

    /// The additional cost of a new connection; behind a proxy, the time to connect to the proxy
    /// says nothing about it.
    fn time_to_connect(&self, opened_in: Option<Duration>) -> Duration {
        let first_byte = self.time_to_first_byte();
        let more = self.fresh.map(|fresh| fresh.saturating_sub(first_byte));
        more.unwrap_or(first_byte).max(opened_in.unwrap_or_default())
    }

    /// Estimate for a response with `buffered` bytes in the client and `left` to its end, if it has
    /// one.
    pub(super) fn estimate(&self, state: &SourceState, buffered: u64, left: Option<u64>) -> LinkEstimate {
        let time_to_first_byte = self.time_to_first_byte();
        let bytes_per_second = self.bytes_per_second().unwrap_or(UNKNOWN_BYTES_PER_SECOND);
        let in_flight = bytes_per_second * time_to_first_byte.as_secs_f64();
        LinkEstimate {
            time_to_first_byte,
            time_to_connect: self.time_to_connect(state.time_to_connect),
            bytes_per_second,
            bytes_buffered: buffered,
            bytes_in_flight: left
                .map_or(in_flight as u64, |left| left.saturating_sub(buffered).min(in_flight as u64)),
            answer_bytes_left: left,
            cancels_cheaply: state.can_reset,
        }
    }
}
