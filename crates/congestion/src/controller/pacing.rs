//! What may leave at a moment: runs of packets at a pace, packets of a probe, and little into a
//! full path.

use std::time::Instant;

use super::{Allowance, Controller, PACKET_BITS};

impl Controller {
    /// What may be sent now, of everything but audio.
    pub fn pacing(&mut self, at: Instant) -> Allowance {
        let now = self.micros(at);
        if self.stopped {
            return Allowance { bytes: 0, padding_bytes: 0, next: None };
        }
        self.start_probe(now);
        let target_bits = self.estimate_bits() * self.drain();
        let rate = if self.is_backlogged { target_bits } else { self.pacing_bits() };
        let passed = now.saturating_sub(self.paced_us) as f64 / 1e6;
        self.paced_us = now;
        self.debt_bytes = (self.debt_bytes - passed * rate / 8.0).max(0.0);
        let target = target_bits / 8.0;
        self.long_debt_bytes = (self.long_debt_bytes - passed * target).max(0.0);
        if let Some(probe) = self.probe.as_ref().filter(|probe| !probe.is_sent()) {
            let due = probe.sent_us_at_rate();
            let bytes = probe.packet_bytes();
            return if now >= due {
                let next = self.instant(now + (bytes as f64 * 8e6 / probe.rate) as u64);
                Allowance { bytes: 1, padding_bytes: bytes, next: Some(next) }
            } else {
                Allowance { bytes: 0, padding_bytes: 0, next: Some(self.instant(due)) }
            };
        }
        if self.is_full() && now < self.sent_us + TRICKLE_US {
            return Allowance {
                bytes: 0,
                padding_bytes: 0,
                next: Some(self.instant(self.sent_us + TRICKLE_US)),
            };
        }
        let burst = self.burst_bytes(rate);
        // Pictures may leave faster than the target. What has waited for long may not: it would be
        // faster than the path all the time.
        let long_burst = (target * LONG_BURST_SECONDS).max(4.0 * burst);
        self.long_debt_bytes = self.long_debt_bytes.min(1.5 * long_burst);
        // Beside somebody who fills the queue there is none of ours to keep short.
        if self.competing_since.is_some() {
            self.long_debt_bytes = 0.0;
        }
        self.is_backlogged |= self.long_debt_bytes > long_burst;
        self.is_backlogged &= self.long_debt_bytes > 0.4 * long_burst;
        if self.long_debt_bytes > long_burst {
            let wait = ((self.long_debt_bytes - 0.95 * long_burst) * 1e6 / target).ceil() as u64;
            return Allowance { bytes: 0, padding_bytes: 0, next: Some(self.instant(now + wait.max(500))) };
        }
        // What was sent at a higher rate is paid back by then.
        self.debt_bytes = self.debt_bytes.min(burst + PACKET_BITS / 8.0);
        if self.debt_bytes < burst {
            return Allowance {
                bytes: (burst - self.debt_bytes).ceil() as usize,
                padding_bytes: 0,
                next: None,
            };
        }
        // Until all of it is free again, so that several packets leave together; a short one would
        // lose time to late timers.
        let left = if burst > PACKET_BITS / 8.0 { 0.0 } else { 0.5 * burst };
        let wait = ((self.debt_bytes - left) * 8e6 / rate).ceil() as u64;
        Allowance { bytes: 0, padding_bytes: 0, next: Some(self.instant(now + wait.max(500))) }
    }

    /// Whether packets of a probe are still to be sent: each has its time.
    pub fn is_probing(&self) -> bool {
        self.probe.as_ref().is_some_and(|probe| !probe.is_sent())
    }

    pub(super) fn pacing_bits(&self) -> f64 {
        let target = self.estimate_bits();
        let rate = match self.capacity {
            Some(capacity) => capacity.clamp(1.2 * target, 2.0 * target),
            None => 1.5 * target,
        };
        if self.over_since.is_none() {
            return rate;
        }
        0.85 * target
    }

    /// 12 ms of what the path carries, or two packets where these take at most 25 ms each.
    ///
    /// How fast it is for a moment the packets show that left together: where they arrive together as
    /// well, pictures need not be stretched, however little the estimate knows of the path.
    pub(super) fn burst_bytes(&self, rate: f64) -> f64 {
        if self.marked_us > 0 && self.paced_us < self.marked_us + 10_000_000 {
            // Queues that mark are short: two packets at a time.
            return PACKET_BITS / 8.0;
        }
        let seen = if self.over_since.is_none() { self.hint(self.paced_us) } else { None };
        let burst = rate.max(0.8 * seen.unwrap_or(0.0).min(BURST_BITS_MAX)) / 8.0 * 0.012;
        if rate > PACKET_BITS / 0.025 { burst.max(PACKET_BITS / 8.0 + 1.0) } else { burst }
    }

    /// While a queue is to go away: whether it is still there, by how many bytes are under way.
    /// They say it earlier than reports do.
    pub(super) fn is_full(&self) -> bool {
        let round_trip =
            (self.round_trip_least_us.min(300_000) + self.report_interval_us + 10_000) as f64 / 1e6;
        self.over_since.is_some()
            && self.history.bytes_under_way as f64 > self.estimate_bits() / 8.0 * round_trip
    }

    /// Part of the rate that is sent while a queue is to go away.
    pub(super) fn drain(&self) -> f64 {
        if self.over_since.is_none() {
            return 1.0;
        }
        let excess = (self.queue_us - self.threshold_us() / 2) as f64;
        (1.0 - excess / 150_000.0).clamp(0.2, 1.0)
    }
}

/// How much may be sent ahead of the target, everything included.
const LONG_BURST_SECONDS: f64 = 0.1;
/// Most that is believed of packets that left together: a key frame of 150 kB leaves at once.
const BURST_BITS_MAX: f64 = 125e6;
/// Between packets that go into a full path, so that its reports go on.
const TRICKLE_US: u64 = 150_000;
