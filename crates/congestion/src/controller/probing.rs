//! When to probe, how fast, and what a probe's end means.

use super::{Batch, Controller, HINT_PAUSE_US, PROBE_PAUSE_US};
use crate::history::AGAIN;
use crate::probe::{Probe, Shown};

impl Controller {
    pub(super) fn start_probe(&mut self, now: u64) {
        let estimate = self.estimate_bits();
        if now - self.sent_us > 500_000 {
            // Nothing is under way that could say so: there is no queue of ours.
            (self.over_since, self.competing_since, self.queue_us) = (None, None, 0);
        }
        if !self.config.packet_reports
            || self.probe.is_some()
            || self.over_since.is_some()
            || (self.competing_since.is_none() && self.queue_us > self.threshold_us() / 2)
            || self.halved > 0
            || self.demand < 1.05 * estimate
        {
            return;
        }
        let hint = self.hint(now).filter(|hint| *hint > 1.3 * estimate);
        let hinted = hint.is_some() && now > self.probe_ended_us + self.hint_pause_us;
        if now < self.next_probe_us && !hinted {
            return;
        }
        let factor = match hint {
            Some(hint) if hinted => (hint / estimate).clamp(1.5, 3.0),
            _ => self.probe_factor,
        };
        let rate =
            (factor * estimate).min(PROBED_BEYOND_DEMAND * self.demand).min(self.config.ceiling as f64);
        self.probes += 1;
        self.was_hinted = hinted;
        let cluster = (self.probes % u64::from(AGAIN - 1)) as u8 + 1;
        self.probe = Some(Probe::new(cluster, rate, now));
    }

    pub(super) fn probe_reported(&mut self, now: u64, batch: &Batch) {
        let Some(probe) = self.probe else { return };
        let past = batch.newest.is_some_and(|(_, sent_us)| sent_us as i64 > probe.sent.last_us());
        let ended = probe.is_sent() && (probe.reported >= probe.sent.packets || past);
        if !ended {
            if now - probe.began_us > 1_000_000 {
                self.probe = None;
                self.probe_failed(now);
            }
            return;
        }
        self.probe = None;
        self.probe_ended_us = now;
        if 2 * probe.reported < probe.sent.packets {
            // The report of it was lost.
            self.next_probe_us = now + HINT_PAUSE_US;
            return;
        }
        let Some(Shown { rate, is_limit }) = probe.shown() else { return self.probe_failed(now) };
        self.note_best(now, rate);
        if self.competing_since.is_some() {
            // What goes through between others' packets for a moment is no capacity: losses decide.
            self.next_probe_us = now + PROBE_PAUSE_US;
            return;
        }
        let (better, before) = (0.92 * rate, self.estimate_bits());
        let is_better = better > before && self.over_since.is_none();
        if is_better {
            // Also of a rate that losses had bounded.
            self.rate = better;
            self.loss.shown(better);
        }
        if is_limit {
            self.note_capacity(now, rate);
        } else if self.capacity.is_some_and(|capacity| capacity < rate) {
            self.capacity = None;
            self.serial_rate = self.serial_rate.max(rate);
        }
        if is_better && better > 1.15 * before {
            self.raised = Some((now, self.rate));
            self.probe_factor = 2.0;
            self.next_probe_us = if is_limit { now + PROBE_PAUSE_US } else { now };
        } else {
            self.probe_failed(now);
        }
    }

    pub(super) fn probe_failed(&mut self, now: u64) {
        self.probe_factor = 1.5;
        self.next_probe_us = now + self.probe_pause_us;
        self.probe_pause_us = (2 * self.probe_pause_us).min(PROBE_PAUSE_MAX_US);
        // That a path does not carry more says nothing against what will show when it does.
        if self.was_hinted {
            self.hint_pause_us = (2 * self.hint_pause_us).min(PROBE_PAUSE_MAX_US);
        }
        self.probe_ended_us = now;
        // What the trains said was wrong.
        self.trains.clear();
    }

    /// What trains of packets say the bottleneck carries.
    pub(super) fn hint(&self, now: u64) -> Option<f64> {
        self.trains.rate(6.0, now, 500_000)
    }
}

const PROBE_PAUSE_MAX_US: u64 = 2_500_000;
/// How much more is probed for than what could be sent: 92 % of what arrives counts, and a packet may leave
/// late.
const PROBED_BEYOND_DEMAND: f64 = 1.3;
