//! The round trip of a link, by pings. Only the times of this node's own clock are compared, so the
//! clock of the other may show anything.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::PINGS_MAX;

#[derive(Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    least: Option<Duration>,
    /// Pings without an answer.
    pings: VecDeque<(u32, Instant)>,
    next_id: u32,
}

impl RoundTrip {
    /// The id of a ping that leaves now.
    pub(crate) fn ping(&mut self, now: Instant) -> u32 {
        if self.pings.len() == PINGS_MAX {
            self.pings.pop_front();
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.pings.push_back((id, now));
        id
    }

    /// An answer has come.
    pub(crate) fn pong(&mut self, now: Instant, id: u32) {
        let Some(at) = self.pings.iter().position(|(ping, _)| *ping == id) else { return };
        let Some((_, sent_at)) = self.pings.remove(at) else { return };
        let sample = now.saturating_duration_since(sent_at);
        // RFC 6298 section 2.3.
        self.smoothed = Some(self.smoothed.map_or(sample, |smoothed| smoothed * 7 / 8 + sample / 8));
        // What is least changes when a route does: it rises again, by a sixteenth of the difference.
        self.least =
            Some(
                self.least.map_or(sample, |least| {
                    if sample < least { sample } else { least + (sample - least) / 16 }
                }),
            );
    }

    /// The usual one.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// What an answer takes at least.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_once_and_in_any_order() {
        let now = netsim::Clock::new().now();
        let ms = Duration::from_millis;
        let mut round_trip = RoundTrip::default();
        let ids: Vec<u32> = (0..6).map(|second| round_trip.ping(now + ms(1_000 * second))).collect();
        round_trip.pong(now + ms(5_080), ids[5]);
        assert_eq!(round_trip.smoothed(), Some(ms(80)));
        round_trip.pong(now + ms(9_000), ids[5]);
        round_trip.pong(now + ms(9_000), ids[0]);
        assert_eq!(round_trip.smoothed(), Some(ms(80)), "one again, and one that is forgotten");
        round_trip.pong(now + ms(4_240), ids[4]);
        assert_eq!((round_trip.smoothed(), round_trip.least()), (Some(ms(100)), Some(ms(90))));
    }
}
