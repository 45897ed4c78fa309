//! The link as arithmetic: a bottleneck that all connections share, and the window of each sender.
//!
//! Times are nanoseconds since the link began, and the caller says what time it is. Bytes are those
//! that TCP carries: heads and bodies of HTTP, without headers of TCP and IP, and the rate is for
//! the same bytes.

/// Payload of a segment: an Ethernet of 1500 bytes, IPv4, no options.
pub(crate) const SEGMENT_BYTES: u64 = 1460;
/// Initial window, in segments (RFC 6928, 2).
pub(crate) const INITIAL_WINDOW: u64 = 10 * SEGMENT_BYTES;
/// Shortest retransmission time-out of Linux. A sender idle for longer starts over (RFC 5681, 4.1).
const TIMEOUT_MIN: u64 = 200_000_000;

/// What is emulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Time there and back, without what a queue adds.
    pub(crate) round_trip: u64,
    /// Bytes a second, of all connections together, each way.
    pub(crate) bytes_per_second: u64,
}

impl Shape {
    /// Bytes that fill the link for a round trip.
    pub(crate) fn bandwidth_delay(&self) -> u64 {
        u64::try_from(u128::from(self.bytes_per_second) * u128::from(self.round_trip) / 1_000_000_000)
            .unwrap_or(u64::MAX)
    }

    /// Largest window of a sender: what fills the link, and as much again that waits before it,
    /// which is the usual size of a queue. Nothing is ever lost, so nothing else would end slow
    /// start.
    pub(crate) fn window_max(&self) -> u64 {
        (2 * self.bandwidth_delay()).max(INITIAL_WINDOW)
    }

    /// Bytes handled at once: a millisecond's worth or a twentieth of a round trip, but whole
    /// segments.
    pub(crate) fn piece(&self) -> u64 {
        let time = (self.round_trip / 20).min(1_000_000);
        let bytes = u128::from(self.bytes_per_second) * u128::from(time) / 1_000_000_000;
        (u64::try_from(bytes).unwrap_or(0) / SEGMENT_BYTES).max(1) * SEGMENT_BYTES
    }

    /// How long a sender may be idle and keep its window.
    fn timeout(&self) -> u64 {
        TIMEOUT_MIN.max(self.round_trip + TIMEOUT_MIN)
    }
}

/// One direction: first come, first served.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    shape: Shape,
    free_at: u64,
    /// Bytes that have been given to it.
    pub(crate) bytes: u64,
}

impl Bottleneck {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, free_at: 0, bytes: 0 }
    }

    /// Takes `bytes` at `now` and says when the last of them arrives.
    pub(crate) fn send(&mut self, now: u64, bytes: u64) -> u64 {
        let time = u128::from(bytes) * 1_000_000_000 / u128::from(self.shape.bytes_per_second);
        self.free_at = self.free_at.max(now) + u64::try_from(time).unwrap_or(u64::MAX / 4);
        self.bytes += bytes;
        self.free_at + self.shape.round_trip / 2
    }
}

/// Bytes one sender may have in flight: slow start, doubling with each round trip, up to a limit.
#[derive(Debug)]
pub(crate) struct Window {
    shape: Shape,
    size: u64,
    in_flight: u64,
    sent_at: u64,
}

impl Window {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, size: INITIAL_WINDOW, in_flight: 0, sent_at: 0 }
    }

    /// Bytes of the `waiting` ones that may be sent at once now; 0: wait for what is in flight.
    pub(crate) fn may_send(&mut self, now: u64, waiting: u64) -> u64 {
        if self.in_flight == 0 && now.saturating_sub(self.sent_at) > self.shape.timeout() {
            self.size = INITIAL_WINDOW;
        }
        let free = self.size.saturating_sub(self.in_flight);
        let bytes = waiting.min(free).min(self.shape.piece());
        // No sender sends half a segment when more is waiting.
        if bytes < waiting { bytes / SEGMENT_BYTES * SEGMENT_BYTES } else { bytes }
    }

    /// `bytes` are in flight.
    pub(crate) fn sent(&mut self, now: u64, bytes: u64) {
        self.in_flight += bytes;
        self.sent_at = now;
    }

    /// `bytes` have been acknowledged. A window that was not used does not grow (RFC 7661).
    pub(crate) fn acknowledged(&mut self, bytes: u64) {
        if self.in_flight * 2 >= self.size {
            self.size = (self.size + bytes).min(self.shape.window_max());
        }
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const SHAPE: Shape = Shape { round_trip: 50 * MILLISECOND, bytes_per_second: 2_500_000 };

    /// Sends `total` bytes through model time, all of them waiting at 0; when the last of them
    /// arrives.
    fn transfer(shape: Shape, total: u64) -> u64 {
        let (mut link, mut window) = (Bottleneck::new(shape), Window::new(shape));
        let mut acknowledgements = std::collections::VecDeque::new();
        let (mut now, mut sent, mut arrived) = (0, 0, 0);
        loop {
            loop {
                let bytes = window.may_send(now, total - sent);
                if bytes == 0 {
                    break;
                }
                window.sent(now, bytes);
                arrived = link.send(now, bytes);
                acknowledgements.push_back((arrived + shape.round_trip / 2, bytes));
                sent += bytes;
            }
            if sent == total {
                return arrived;
            }
            let (at, bytes) = acknowledgements.pop_front().expect("something is in flight");
            now = at;
            window.acknowledged(bytes);
        }
    }

    #[test]
    fn the_first_round_trip_brings_ten_segments_and_the_next_twice_as_many() {
        let one_way = SHAPE.round_trip / 2;
        let serial = |bytes: u64| bytes * 1_000_000_000 / SHAPE.bytes_per_second;
        assert_eq!(transfer(SHAPE, 14_600), one_way + serial(14_600));
        // The second round begins when the first segment's acknowledgement is back.
        let second = transfer(SHAPE, 3 * 14_600);
        let first_back = SHAPE.round_trip + serial(SHAPE.piece());
        assert!((first_back + one_way..first_back + one_way + serial(40_000)).contains(&second), "{second}");
    }

    #[test]
    fn a_long_transfer_runs_at_the_rate_of_the_link() {
        for (round_trip, bytes_per_second) in [(50, 2_500_000), (2, 125_000_000), (200, 625_000)] {
            let shape = Shape { round_trip: round_trip * MILLISECOND, bytes_per_second };
            let bytes = 25_000_000;
            let ideal = bytes * 1_000_000_000 / bytes_per_second + shape.round_trip / 2;
            let took = transfer(shape, bytes);
            // Slow start takes as many round trips as doublings fill the link, less what passes
            // meanwhile.
            let doublings = u64::from((shape.bandwidth_delay() / INITIAL_WINDOW).max(1).ilog2() + 1);
            assert!((ideal..ideal + doublings * shape.round_trip).contains(&took), "{took} for {ideal}");
        }
    }

    #[test]
    fn two_senders_share_the_link() {
        let mut link = Bottleneck::new(SHAPE);
        let first = link.send(0, 100_000);
        assert_eq!(link.send(0, 100_000) - first, 40 * MILLISECOND);
        assert_eq!(link.bytes, 200_000);
    }

    #[test]
    fn a_sender_begins_anew_after_a_pause() {
        let mut window = Window::new(SHAPE);
        for doubled in 1..=4 {
            let all = window.size;
            window.sent(0, all);
            window.acknowledged(all);
            assert_eq!(window.size, INITIAL_WINDOW << doubled);
        }
        let grown = window.size;
        assert!(window.may_send(100 * MILLISECOND, 1 << 20) > 0);
        assert_eq!(window.size, grown, "a short pause changes nothing");
        assert!(window.may_send(1000 * MILLISECOND, 1 << 20) > 0);
        assert_eq!(window.size, INITIAL_WINDOW);
    }
}
