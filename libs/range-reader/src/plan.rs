//! What a seek does, as pure functions of measurements.
//!
//! No constants where a measurement of the link can decide: a gap of 100 kB is read through on a
//! fast path to a far server and left out on a slow path to a near one. The engine measures and
//! carries the plan out.

use std::time::Duration;

/// Measurements of the path to the server, and the state of the current response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEstimate {
    /// From a request on an open connection to the first byte of its response.
    pub time_to_first_byte: Duration,
    /// From nothing to an open connection that can take a request: TCP, TLS, proxy.
    pub time_to_connect: Duration,
    /// Bytes a second while bytes were waited for.
    pub bytes_per_second: f64,
    /// Bytes that are here already: in the reader's buffers and in the socket's receive queue.
    pub bytes_buffered: u64,
    /// Bytes in flight, which will arrive whether they are needed or not.
    pub bytes_in_flight: u64,
    /// Bytes from the reader's position to the end of the current response, those buffered and in
    /// flight included. 0: no answer is open and the connection is idle. `None`: the response has
    /// no end that is worth waiting for.
    pub answer_bytes_left: Option<u64>,
    /// A response can be cancelled without closing its connection (HTTP/2), or another connection
    /// is open and idle.
    pub cancels_cheaply: bool,
}

/// What to do about a seek forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SeekPlan {
    /// Read and drop the gap: it has arrived already, or arrives sooner than the response to a new
    /// request.
    Skip,
    /// Let the current response finish, which is near its end, then request again on the same
    /// connection.
    FinishThenRequest,
    /// Cancel the current response and request again: over a new connection with HTTP/1.1, on a new
    /// stream with HTTP/2.
    CancelAndRequest,
}

/// The plan whose first wanted byte comes soonest; among equals the one that wastes fewer bytes.
///
/// With `gap = target - position`, `rate = bytes_per_second` and `missing(n) = max(0,
/// n - bytes_buffered)`:
///
/// ```text
/// Skip               missing(gap) / rate                 only if the response reaches the target
/// FinishThenRequest  missing(answer_bytes_left) / rate + time_to_first_byte
/// CancelAndRequest   max(time_to_first_byte, bytes_in_flight / rate)      if it cancels cheaply
///                    max(time_to_connect + time_to_first_byte, bytes_in_flight / rate) + slow_start  else
/// ```
///
/// Bytes in flight arrive whatever is decided, and delay what follows on the same link; being in
/// flight, they still arrive no sooner than the rate allows. `slow_start` is what a new connection
/// loses against one at full speed, [`slow_start_loss`]. A target before the position cannot be
/// reached by skipping.
pub fn choose(position: u64, target: u64, link: LinkEstimate) -> SeekPlan {
    let skip = link.skip_seconds(position, target);
    let finish = link.finish_then_request_seconds();
    let cancel = link.cancel_and_request_seconds();
    if skip <= finish.min(cancel) {
        SeekPlan::Skip
    } else if finish <= cancel {
        SeekPlan::FinishThenRequest
    } else {
        SeekPlan::CancelAndRequest
    }
}

/// Seconds that a new connection loses against one at `bytes_per_second`, while its window doubles
/// each round trip from 10 segments (RFC 6928) to the `bytes_per_second * round_trip` that fill the
/// path (RFC 5681, 3.1).
///
/// With `n` doublings to that point it has spent `n` round trips on `initial * (2^n - 1)` bytes.
pub fn slow_start_loss(round_trip: Duration, bytes_per_second: f64) -> f64 {
    let rate = usable_rate(bytes_per_second);
    let path_bytes = rate * round_trip.as_secs_f64();
    let doublings = (path_bytes / INITIAL_WINDOW_BYTES).max(1.0).log2().ceil();
    let sent = INITIAL_WINDOW_BYTES * (doublings.exp2() - 1.0);
    (doublings * round_trip.as_secs_f64() - sent / rate).max(0.0)
}

/// The largest gap between two ranges that is cheaper to receive than to leave out.
///
/// Within one response of several parts leaving it out costs the head of a part; between two
/// responses it costs a round trip, or the `requests_at_once`-th part of one, since so many
/// responses are waited for at a time.
pub fn gap_worth_receiving(link: LinkEstimate, several_ranges: bool, requests_at_once: usize) -> u64 {
    if several_ranges {
        return PART_HEAD_BYTES;
    }
    let waiting = link.time_to_first_byte.as_secs_f64() / requests_at_once.max(1) as f64;
    PART_HEAD_BYTES.max((waiting * usable_rate(link.bytes_per_second)) as u64)
}

/// Bytes left of the current response at which the next request must go out so that its response
/// begins when this one ends.
///
/// `bytes_per_second * (time_to_first_byte + time_to_connect)`; no time to connect when a
/// connection or a stream is free.
pub fn request_ahead_bytes(link: LinkEstimate, must_connect: bool) -> u64 {
    let connect = if must_connect { link.time_to_connect } else { Duration::ZERO };
    ((link.time_to_first_byte + connect).as_secs_f64() * usable_rate(link.bytes_per_second)) as u64
}

/// Bytes that the head of a part costs in `multipart/byteranges`: boundary, `Content-Type`,
/// `Content-Range`, empty lines. nginx sends 106 to 130 for a video, Apache about 100.
pub const PART_HEAD_BYTES: u64 = 128;

/// Ten segments of an Ethernet path (RFC 6928, 2).
const INITIAL_WINDOW_BYTES: f64 = 14_600.0;

impl LinkEstimate {
    fn skip_seconds(&self, position: u64, target: u64) -> f64 {
        let Some(gap) = target.checked_sub(position) else { return f64::INFINITY };
        if self.answer_bytes_left.is_some_and(|left| left <= gap && gap > 0) {
            return f64::INFINITY;
        }
        self.seconds_until_here(gap)
    }

    fn finish_then_request_seconds(&self) -> f64 {
        self.answer_bytes_left.map_or(f64::INFINITY, |left| {
            self.seconds_until_here(left) + self.time_to_first_byte.as_secs_f64()
        })
    }

    fn cancel_and_request_seconds(&self) -> f64 {
        let flight = self.bytes_in_flight as f64 / usable_rate(self.bytes_per_second);
        let first_byte = self.time_to_first_byte.as_secs_f64();
        if self.cancels_cheaply {
            return first_byte.max(flight);
        }
        let slow_start = slow_start_loss(self.time_to_first_byte, self.bytes_per_second);
        (self.time_to_connect.as_secs_f64() + first_byte).max(flight) + slow_start
    }

    fn seconds_until_here(&self, bytes: u64) -> f64 {
        bytes.saturating_sub(self.bytes_buffered) as f64 / usable_rate(self.bytes_per_second)
    }
}

/// A rate that can be divided by: at least one byte a second, also of an estimate that is zero or
/// not a number.
fn usable_rate(bytes_per_second: f64) -> f64 {
    if bytes_per_second.is_finite() { bytes_per_second.max(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50 ms, 20 Mbit/s, a response without end, its pipe full.
    fn far() -> LinkEstimate {
        LinkEstimate {
            time_to_first_byte: Duration::from_millis(50),
            time_to_connect: Duration::from_millis(50),
            bytes_per_second: 2_500_000.0,
            bytes_buffered: 0,
            bytes_in_flight: 125_000,
            answer_bytes_left: None,
            cancels_cheaply: false,
        }
    }

    #[test]
    fn the_plan_is_the_one_whose_first_byte_comes_soonest() {
        let near = LinkEstimate {
            time_to_first_byte: Duration::from_millis(1),
            time_to_connect: Duration::from_millis(1),
            bytes_in_flight: 2_500,
            ..far()
        };
        let bounded = LinkEstimate { answer_bytes_left: Some(20_000), ..far() };
        let idle = LinkEstimate { answer_bytes_left: Some(0), bytes_in_flight: 0, ..far() };
        let stream = LinkEstimate { cancels_cheaply: true, ..far() };
        let cases = [
            (far(), 52_000, SeekPlan::Skip),  // 21 ms against 100 ms and slow start
            (far(), 240_000, SeekPlan::Skip), // 96 ms
            (far(), 1_000_000, SeekPlan::CancelAndRequest), // 400 ms
            (near, 4_000, SeekPlan::Skip),    // 1.6 ms against 2 ms
            (near, 52_000, SeekPlan::CancelAndRequest), // 21 ms against 2 ms
            (bounded, 10_000, SeekPlan::Skip), // 4 ms
            (bounded, 52_000, SeekPlan::FinishThenRequest), // the response does not reach it: 8 + 50 ms
            (idle, 52_000, SeekPlan::FinishThenRequest), // nothing comes unless asked for
            (idle, 10_000_000, SeekPlan::FinishThenRequest),
            (stream, 52_000, SeekPlan::Skip), // 21 ms against 50 ms
            (stream, 200_000, SeekPlan::CancelAndRequest), // 80 ms against 50 ms: no connection is lost
        ];
        for (row, (link, gap, expected)) in cases.into_iter().enumerate() {
            assert_eq!(choose(1 << 20, (1 << 20) + gap, link), expected, "row {row}");
        }
    }

    #[test]
    fn bytes_that_are_here_cost_nothing_to_skip() {
        let link = LinkEstimate { bytes_buffered: 1_000_000, ..far() };
        assert_eq!(choose(0, 1_000_000, link), SeekPlan::Skip);
        assert_eq!(choose(0, 1_200_000, link), SeekPlan::Skip);
        assert_eq!(choose(0, 2_000_000, link), SeekPlan::CancelAndRequest);
    }

    #[test]
    fn a_long_rest_is_given_up_and_a_short_one_is_waited_for() {
        let rest = |left| LinkEstimate { answer_bytes_left: Some(left), ..far() };
        assert_eq!(choose(0, 5_000_000, rest(100_000)), SeekPlan::FinishThenRequest);
        assert_eq!(choose(0, 5_000_000, rest(900_000)), SeekPlan::CancelAndRequest);
    }

    #[test]
    fn seeks_back_are_never_skips() {
        for link in [far(), LinkEstimate { bytes_buffered: 1 << 30, ..far() }] {
            assert_ne!(choose(1000, 999, link), SeekPlan::Skip);
        }
    }

    #[test]
    fn a_seek_to_where_the_reader_is_costs_nothing() {
        assert_eq!(choose(1000, 1000, far()), SeekPlan::Skip);
        assert_eq!(choose(1000, 1000, LinkEstimate { answer_bytes_left: Some(0), ..far() }), SeekPlan::Skip);
    }

    #[test]
    fn estimates_that_say_nothing_are_survived() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let link = LinkEstimate { bytes_per_second: rate, ..far() };
            assert_ne!(choose(0, u64::MAX, link), SeekPlan::Skip);
            assert!(slow_start_loss(Duration::MAX, rate).is_finite());
            assert!(gap_worth_receiving(link, false, 0) >= PART_HEAD_BYTES);
        }
    }

    #[test]
    fn slow_start_loses_the_round_trips_less_what_comes_in_them() {
        let lost = slow_start_loss(Duration::from_millis(50), 2_500_000.0);
        // 125 kB fill the path: four doublings, 200 ms, in which 219 kB come, worth 87.6 ms.
        assert!((lost - 0.1124).abs() < 1e-4, "{lost}");
        assert_eq!(slow_start_loss(Duration::from_millis(1), 2_500_000.0), 0.0);
    }

    #[test]
    fn gaps_are_received_when_asking_around_them_costs_more() {
        assert_eq!(gap_worth_receiving(far(), true, 1), PART_HEAD_BYTES);
        assert_eq!(gap_worth_receiving(far(), false, 1), 125_000); // 50 ms at 2.5 MB/s
        assert_eq!(gap_worth_receiving(far(), false, 10), 12_500); // ten responses are waited for at once
        assert_eq!(gap_worth_receiving(far(), false, 1_000_000), PART_HEAD_BYTES);
    }

    #[test]
    fn the_next_request_goes_out_a_round_trip_before_the_answer_ends() {
        assert_eq!(request_ahead_bytes(far(), false), 125_000);
        assert_eq!(request_ahead_bytes(far(), true), 250_000);
    }
}
