//! Reports that stop, and receivers that never report packets: RFC 8083, and losses of receiver
//! reports.

use std::time::{Duration, Instant};

use super::{Controller, PACKET_BITS};

impl Controller {
    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn next_timeout(&self) -> Option<Instant> {
        let since = self.waiting_since.filter(|_| !self.stopped)?;
        let silence =
            if self.config.packet_reports { SILENCE_US * u64::from(self.halved + 1) } else { STOP_US };
        Some(self.instant(since + silence))
    }

    /// Lowers the rate when nothing is heard of what was sent, and stops after 10 s: RFC 8083
    /// section 4.2 has three reporting intervals, which are 15 s by default.
    pub fn handle_timeout(&mut self, at: Instant) {
        let now = self.micros(at);
        let Some(since) = self.waiting_since else { return };
        if now - self.sent_us > SILENCE_US / 2 && self.config.packet_reports && !self.stopped {
            // Nobody speaks of packets that were the last ones, and lost. What was waited for counts when
            // there is something to report on again.
            return self.pause_waiting(SILENCE_US / 2);
        }
        self.stopped |= now >= since + STOP_US;
        if !self.config.packet_reports {
            return;
        }
        while !self.stopped && now >= since + SILENCE_US * u64::from(self.halved + 1) {
            self.ecn.silence();
            if self.halved == 0 {
                self.rate = self.estimate_bits();
                self.rate_before_silence = self.rate;
            }
            self.rate /= 2.0;
            self.halved += 1;
        }
    }

    /// Nothing has been sent for so long: until there is something to report on, nobody is silent.
    pub(super) fn pause_waiting(&mut self, paused_us: u64) {
        if let Some(since) = self.waiting_since.take() {
            self.waited_us = (self.sent_us + paused_us).saturating_sub(since);
        }
    }

    /// Takes a receiver report: its losses in units of 1/256, and its round trip if it had one.
    ///
    /// Where packets are reported this only says that the receiver is alive. Otherwise it is the
    /// rule of draft-ietf-rmcat-gcc-02 section 6, and the congestion breaker of RFC 8083 section
    /// 4.3.
    pub fn receiver_report(&mut self, fraction_lost: u8, round_trip: Option<Duration>, at: Instant) {
        let now = self.micros(at);
        if self.config.packet_reports {
            if self.stopped {
                self.begin_again(now);
            }
            return;
        }
        if self.breaches >= BREACHES_MAX {
            if now < self.breached_us + BREACH_ENDS_US {
                return;
            }
            // People would begin again (RFC 8083 section 5); players do not.
            self.breaches = 0;
            self.rate = self.config.floor as f64;
        }
        self.heard(now);
        let Some(sent) = self.sent.rate(now as i64, 800_000) else { return };
        let lost = f64::from(fraction_lost) / 256.0;
        self.note_best(now, sent * (1.0 - lost));
        if self.remb.is_none() {
            if lost > 0.10 {
                // Of what was sent: nothing may be known of the path beyond.
                self.rate = self.rate.min(sent) * (1.0 - 0.5 * lost);
            } else if lost < 0.02
                && (sent > 0.5 * self.rate || self.rate < self.demand)
                && now - self.grown_us > 900_000
            {
                // Also while little is sent, or what was thinned for the path would never come back: only
                // sending it shows whether there is room. So this is bounded by its pace alone.
                self.rate *= 1.0 + GROWTH;
                self.grown_us = now;
            }
            self.rate = self.rate.clamp(self.config.floor as f64, self.config.ceiling as f64);
        }
        if let Some(round_trip) = round_trip {
            // RFC 5348 section 3.1 with b = 1 and a timeout of four round trips, simplified as RFC
            // 8083 has it.
            let root = (2.0 * lost / 3.0).sqrt();
            let tcp = PACKET_BITS / (round_trip.as_secs_f64().max(0.001) * root);
            self.breaches = if lost > 0.0 && sent > 10.0 * tcp { self.breaches + 1 } else { 0 };
            if self.breaches >= BREACHES_MAX {
                (self.stopped, self.breached_us) = (true, now);
            }
        }
    }

    /// Any RTCP came: a sign of life. Who is sent nothing has no packets to report.
    pub fn heard_from(&mut self, at: Instant) {
        let now = self.micros(at);
        if !self.config.packet_reports {
            self.heard(now);
        } else if self.stopped {
            self.begin_again(now);
        }
    }

    fn begin_again(&mut self, now: u64) {
        self.stopped = false;
        self.halved = 1;
        self.rate = self.config.floor as f64;
        (self.waiting_since, self.waited_us) = (Some(now), 0);
    }

    /// Something came where packets are not reported.
    pub(super) fn heard(&mut self, now: u64) {
        if self.halved > 0 || self.stopped && self.breaches < BREACHES_MAX {
            (self.halved, self.stopped) = (0, false);
        }
        (self.waiting_since, self.waited_us) = (Some(now), 0);
    }

    pub(super) fn end_silence(&mut self, now: u64) {
        if self.halved > 0 {
            self.rate = self.rate.max(0.5 * self.rate_before_silence);
            self.halved = 0;
            self.stopped = false;
            self.next_probe_us = now;
        }
        (self.waiting_since, self.waited_us) = ((self.history.bytes_under_way > 0).then_some(now), 0);
    }
}

const SILENCE_US: u64 = 500_000;
/// A second, without losses. The draft has 5 %, the sender of libwebrtc 8 %.
const GROWTH: f64 = 0.08;
const BREACHES_MAX: u32 = 3;
/// After a breach nothing is sent for so long.
const BREACH_ENDS_US: u64 = 10_000_000;
const STOP_US: u64 = 10_000_000;
