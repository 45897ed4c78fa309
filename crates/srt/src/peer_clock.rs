//! The sender's clock as the receiver knows it: when a packet is to be played (draft-sharabayko-srt-01
//! section 4.5).
//!
//! A timestamp of the handshake that came at a known moment ties the two clocks together; the delay of
//! that packet is part of it from then on. Slow drift is followed by the timestamps of ACKACKs. A clock
//! that jumps is tied again: it must neither stop a stream nor make it wait.

use std::time::{Duration, Instant};

/// Samples of one look at the drift (section 4.7).
const DRIFT_SAMPLES: u32 = 1000;
/// Times that are further off than this besides the latency are of a clock that has jumped.
const JUMP: Duration = Duration::from_secs(1);

/// Ties timestamps of 32 bits to moments here.
#[derive(Debug)]
pub(crate) struct PeerClock {
    /// The moment of timestamp `last`.
    anchor: Instant,
    last: u32,
    drift_us: i64,
    samples: u32,
}

impl PeerClock {
    pub(crate) fn new(now: Instant, timestamp: u32) -> Self {
        Self { anchor: now, last: timestamp, drift_us: 0, samples: 0 }
    }

    /// Another packet, before any is played: of several, the one that was under way for the shortest time
    /// ties the clocks.
    pub(crate) fn came_sooner(&mut self, at: Instant, timestamp: u32) {
        if at < self.moment(timestamp) {
            (self.anchor, self.last) = (at, timestamp);
        }
    }

    /// When a packet of this timestamp is to be played. `is_newest`: it is the newest packet, whose
    /// timestamp is the one that others are near to.
    pub(crate) fn play_at(
        &mut self,
        now: Instant,
        timestamp: u32,
        latency: Duration,
        is_newest: bool,
    ) -> Instant {
        let sent_at = self.moment(timestamp);
        let is_far = |early: Duration, late: Duration| early > JUMP || late > latency + JUMP;
        let (early, late) = (sent_at.saturating_duration_since(now), now.saturating_duration_since(sent_at));
        if early > JUMP || (is_newest && is_far(early, late)) {
            // One packet alone may say anything; all behind it are measured by what it said.
            (self.anchor, self.last) = (now, timestamp);
            (self.drift_us, self.samples) = (0, 0);
            return now + latency;
        }
        if is_newest {
            (self.anchor, self.last) = (sent_at, timestamp);
        }
        sent_at + latency
    }

    /// A packet that came at once, one way, with this timestamp.
    pub(crate) fn sample(&mut self, now: Instant, timestamp: u32) {
        let expected = self.moment(timestamp);
        let late = now.saturating_duration_since(expected).as_micros() as i64;
        let early = expected.saturating_duration_since(now).as_micros() as i64;
        // Anything further off is a jump, and not drift.
        if late.max(early) > JUMP.as_micros() as i64 {
            return;
        }
        self.drift_us += late - early;
        self.samples += 1;
        if self.samples == DRIFT_SAMPLES {
            let mean = self.drift_us / i64::from(DRIFT_SAMPLES);
            self.anchor = shifted(self.anchor, mean);
            (self.drift_us, self.samples) = (0, 0);
        }
    }

    fn moment(&self, timestamp: u32) -> Instant {
        shifted(self.anchor, i64::from(timestamp.wrapping_sub(self.last) as i32))
    }
}

fn shifted(moment: Instant, microseconds: i64) -> Instant {
    let by = Duration::from_micros(microseconds.unsigned_abs());
    match microseconds < 0 {
        // A moment before the clock's own beginning cannot be named; it is over in any case.
        true => moment.checked_sub(by).unwrap_or(moment),
        false => moment + by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[expect(clippy::disallowed_methods, reason = "any moment does")]
    fn start() -> Instant {
        Instant::now() + Duration::from_secs(10_000)
    }

    const LATENCY: Duration = Duration::from_millis(120);

    #[test]
    fn packets_play_at_even_times_around_the_end_of_32_bits() {
        let (start, mut timestamp) = (start(), u32::MAX - 50_000);
        let mut clock = PeerClock::new(start, timestamp);
        for count in 0..100_000u32 {
            let now = start + Duration::from_millis(100) * count;
            assert_eq!(clock.play_at(now, timestamp, LATENCY, true), now + LATENCY);
            timestamp = timestamp.wrapping_add(100_000);
        }
    }

    #[test]
    fn a_clock_that_jumps_is_tied_again() {
        let start = start();
        let mut clock = PeerClock::new(start, 0);
        let now = start + Duration::from_millis(10);
        for jump in [2_000_000, 2_000_000_000, 4_200_000_000] {
            assert_eq!(clock.play_at(now, jump, LATENCY, true), now + LATENCY, "{jump}");
            assert_eq!(clock.play_at(now, jump + 1000, LATENCY, true), now + LATENCY + ms(1));
        }
        // What is sent again is late, and no jump.
        let late = clock.play_at(now, 4_200_001_000 - 900_000, LATENCY, false);
        assert_eq!(late, now + ms(1) - ms(900) + LATENCY);
    }

    #[test]
    fn drift_is_followed() {
        let start = start();
        let mut clock = PeerClock::new(start, 0);
        // A clock that is slow by 100 millionths, for an hour.
        for tick in 1..=360_000u32 {
            let now = start + Duration::from_micros(u64::from(tick) * 10_001);
            clock.sample(now, tick.wrapping_mul(10_000));
            if tick % 1000 == 0 {
                let expected = now + LATENCY;
                let found = clock.play_at(now, tick.wrapping_mul(10_000), LATENCY, true);
                let off =
                    expected.saturating_duration_since(found).max(found.saturating_duration_since(expected));
                assert!(off < ms(3), "{tick}: {off:?}");
            }
        }
    }

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }
}
