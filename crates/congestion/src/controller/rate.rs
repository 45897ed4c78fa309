//! The rate: down to what the bottleneck shows when packets wait, and up again when they do not.

use super::{Batch, Controller, HINT_PAUSE_US, PACKET_BITS, PROBE_PAUSE_US, Standing};

impl Controller {
    pub(super) fn cut(&mut self, now: u64, sent_rate: f64, delivered: Option<f64>) {
        let since = match self.over_since {
            Some(since) => since,
            None => {
                self.over_since = Some(now);
                self.least_while_over = self.queue_us;
                if let (Some(known), Some(shown)) = (self.capacity, self.busy.rate(4.0, now, 300_000)) {
                    let apart = (shown / known - 1.0).abs().min(0.5);
                    self.unsteady += 0.3 * (apart - self.unsteady);
                }
                let capacity = self.busy.rate(4.0, now, 300_000).or(self.capacity).unwrap_or(self.rate);
                // Beside others it has shown lately what its part is.
                let part = if now < self.competed_until_us { self.mean_beside_others } else { 0.0 };
                let rate = self.estimate_bits().max(part);
                self.standing = Standing { rate, capacity: capacity.max(part), ..Standing::default() };
                now
            }
        };
        if self.is_of_others(now, since, sent_rate) {
            return self.begin_to_compete(now);
        }
        if now - since < 1_000_000 {
            (self.least_while_over, self.most_while_over) = (self.queue_us, self.queue_us);
        }
        self.least_while_over = self.least_while_over.min(self.queue_us);
        self.most_while_over = self.most_while_over.max(self.queue_us);
        // What arrives is what the bottleneck carries, where more than that is sent.
        let full = sent_rate > 0.75 * self.rate;
        let shown = self.busy.rate(4.0, now, 300_000).or(delivered.filter(|_| full));
        let lower = match shown {
            // Others' packets are between ours, which are too few to fill the path: all of them
            // arrive.
            // Ever less is sent for the queue to go, and arrives: that is no reason to send even less.
            Some(shown) if !full && shown > 0.9 * sent_rate => {
                (0.92 * shown).max(sent_rate).max(0.5 * self.standing.capacity)
            }
            Some(shown) => {
                self.note_capacity(now, shown);
                (0.92 - 0.3 * self.unsteady).max(0.8) * self.capacity.unwrap_or(shown)
            }
            None => self.rate,
        };
        let before = self.rate;
        if lower < self.rate {
            self.rate = lower;
            self.cut_us = now;
        } else if now - since > 400_000 && now - self.cut_us > 200_000 {
            // The path seems to carry it, and yet the queue stays.
            self.rate *= 0.95;
            self.cut_us = now;
        }
        self.rate = self.rate.max(self.config.floor as f64);
        if self.raised.is_some_and(|(_, raised)| self.rate < 0.85 * raised) {
            // The path carried it for some milliseconds, between packets of others.
            self.raised = None;
            self.probe_failed(now);
        } else if self.rate < 0.8 * before {
            // Much less than before: it may come back soon.
            self.probe_pause_us = PROBE_PAUSE_US;
            self.hint_pause_us = HINT_PAUSE_US;
            self.next_probe_us = now + PROBE_PAUSE_US;
            self.probe_factor = 1.5;
            self.trains.clear();
        }
        if now - since > 2_000_000 {
            self.over_since = None;
            if self.queue_us < DEEP_QUEUE_US && self.most_while_over - self.least_while_over < 15_000 {
                // It does not change, whatever we send: the route has become longer.
                self.accept_route();
            } else if sent_rate > 0.7 * self.least_capacity() {
                // What cannot be sent less, audio, takes most of the path: it goes slowly.
                self.over_since = Some(now);
            } else {
                // Somebody else fills it.
                self.begin_to_compete(now);
            }
        }
    }

    /// Whether the queue does not go away although much less is sent than the bottleneck carries. One of
    /// ours would fall by the difference, at once.
    fn is_of_others(&mut self, now: u64, since: u64, sent_rate: f64) -> bool {
        // What was sent before waits in it.
        if now - since < self.round_trip_us || self.queue_us < DEEP_QUEUE_US {
            self.standing.looked = None;
            return false;
        }
        let (at, before) = *self.standing.looked.get_or_insert((now, self.queue_us));
        let passed = now - at;
        if passed < STANDING_US {
            return false;
        }
        self.standing.looked = Some((now, self.queue_us));
        let share = 1.0 - sent_rate / self.least_capacity();
        let should = (share * passed as f64).min(before as f64);
        let is_standing = share > 0.3 && ((before - self.queue_us) as f64) < 0.3 * should;
        self.standing.times = if is_standing { self.standing.times + 1 } else { 0 };
        self.standing.times >= if now < self.competed_until_us { 1 } else { STANDING_TIMES }
    }

    /// What the bottleneck carries since the queue was seen: it may have fallen far below what it was.
    fn least_capacity(&self) -> f64 {
        let before = self.standing.capacity;
        self.capacity.map_or(before, |now| now.min(before)).max(1.0)
    }

    /// What waited least is the path without a queue.
    fn accept_route(&mut self) {
        self.delay.accept_queue(self.least_while_over);
        self.delay_of_small.accept_queue(self.least_while_over);
        (self.queue_us, self.round_trip_least_us) = (0, self.round_trip_us);
    }

    /// Others fill the queue, or the route is much longer. What was sent less for it to go away did not help.
    fn begin_to_compete(&mut self, now: u64) {
        let again = now < self.competed_until_us;
        self.compete_us = if again { (2 * self.compete_us).min(COMPETE_MAX_US) } else { COMPETE_MIN_US };
        self.competing_since = Some(now);
        self.rate = self.rate.max(0.5 * self.standing.rate);
        (self.over_since, self.cut_us, self.grown_us) = (None, now, now);
        (self.least_while_over, self.most_while_over) = (self.queue_us, self.queue_us);
        self.is_contested = again;
        self.mean_beside_others = self.estimate_bits();
        (self.next_probe_us, self.probe_factor) = (now, 1.5);
    }

    /// Beside a flow that fills the queue until packets are lost, do as it does (RFC 5681): a queue
    /// that is kept long by others says nothing to us.
    pub(super) fn compete(&mut self, now: u64, since: u64, batch: &Batch) {
        if batch.least_wait.is_some() && self.queue_us < 2 * self.threshold_us()
            || now - since > self.compete_us
        {
            (self.competing_since, self.competed_until_us) = (None, now + COMPETED_US);
            self.capacity = None;
            return;
        }
        if now - since > LEFT_ALONE_US && self.has_all_of_the_path(now) {
            // They have left, and the queue is ours now.
            (self.competing_since, self.competed_until_us, self.capacity) = (None, now, None);
            return;
        }
        if batch.least_wait.is_some() {
            self.least_while_over = self.least_while_over.min(self.queue_us);
            self.most_while_over = self.most_while_over.max(self.queue_us);
        }
        self.is_contested |= batch.lost > 0 || self.most_while_over - self.least_while_over > MOVES_US;
        if !self.is_contested && now - since > UNCONTESTED_US {
            (self.competing_since, self.capacity) = (None, None);
            return self.accept_route();
        }
        if batch.lost > 0 {
            if now - self.cut_us > self.round_trip_us {
                self.rate = (COMPETE_CUT * self.rate).max(self.config.floor as f64);
                self.cut_us = now;
            }
        } else if self.rate < self.demand && self.is_contested {
            // CUBIC (RFC 9438) grows by time where round trips are long, not by their number.
            let round_trip = self.round_trip_us.clamp(20_000, 350_000) as f64 / 1e6;
            let seconds = now.saturating_sub(self.grown_us).min(200_000) as f64 / 1e6;
            self.rate += COMPETE_PACKETS * PACKET_BITS / (round_trip * round_trip) * seconds;
            // Layers come in steps: it grows beyond what is sent as far as probes were seen to arrive.
            let shown = 1.5 * self.best[0].max(self.best[1]);
            self.rate = self.rate.min(shown.max(self.config.floor as f64));
        }
        let passed = now.saturating_sub(self.grown_us).min(1_000_000) as f64;
        self.mean_beside_others +=
            (self.estimate_bits() - self.mean_beside_others) * passed / COMPETE_MEAN_US;
        self.grown_us = now;
    }

    /// Whether as much of ours arrives as the bottleneck hands on of packets that left together.
    fn has_all_of_the_path(&self, now: u64) -> bool {
        let all = self.hint(now).zip(self.delivered_rate(DELIVERED_US));
        all.is_some_and(|(path, ours)| ours > 0.9 * path)
    }

    pub(super) fn grow(&mut self, now: u64, sent_rate: f64, delivered: Option<f64>) {
        let seconds = (now.saturating_sub(self.grown_us).min(200_000)) as f64 / 1e6;
        self.grown_us = now;
        if self.raised.is_some_and(|(at, _)| now - at > 1_500_000) {
            self.raised = None;
            self.probe_pause_us = PROBE_PAUSE_US;
            self.hint_pause_us = HINT_PAUSE_US;
        }
        if self.halved > 0 || sent_rate < 0.85 * self.rate || now - self.marked_us < 300_000 {
            return;
        }
        if now - self.capacity_us > 15_000_000 {
            self.capacity = None;
        }
        let hint = self.hint(now);
        let near = self.capacity.is_some_and(|capacity| self.rate > 0.85 * capacity);
        let faster = hint.is_some_and(|hint| hint > 1.2 * self.rate);
        let step = match (near, faster) {
            (true, false) => (15_000.0 + 0.025 * self.rate).min(0.04 * self.rate).min(60_000.0),
            (_, true) => 0.4 * self.rate,
            (false, false) => 0.12 * self.rate,
        };
        self.rate += step * seconds;
        if self.capacity.is_some_and(|capacity| self.rate > 1.1 * capacity) {
            self.capacity = None;
            self.serial_rate = self.serial_rate.max(self.rate);
        }
        if let Some(delivered) = delivered {
            // What arrives is shown; a bit more of what is sent may be tried.
            self.loss.shown(delivered);
        }
        self.rate = self.rate.min(self.config.ceiling as f64);
    }

    pub(super) fn note_capacity(&mut self, now: u64, shown: f64) {
        let shown = shown.max(self.config.floor as f64);
        self.capacity_is_confirmed = self.capacity.is_some_and(|known| (shown / known - 1.0).abs() < 0.06);
        let capacity = match self.capacity {
            Some(known) if (shown / known - 1.0).abs() < 0.15 => known + 0.3 * (shown - known),
            _ => shown,
        };
        self.capacity = Some(capacity);
        self.serial_rate = capacity;
        self.capacity_us = now;
    }

    /// What waits go up and down by themselves, on paths that hold packets up now and then or hand
    /// them on in batches.
    pub(super) fn unrest_us(&self) -> i64 {
        (7.0 * self.jitter_us).min(30_000.0) as i64
    }

    /// Longest wait that is no queue of ours: 8 ms and most of a packet's own time. So of two
    /// viewers of one bottleneck the slower one yields later.
    pub(super) fn threshold_us(&self) -> i64 {
        (8_000.0 + 0.55 * PACKET_BITS * 1e6 / self.rate).min(60_000.0) as i64 + self.unrest_us()
    }
}

/// Shorter queues go by themselves, or are no hindrance.
const DEEP_QUEUE_US: i64 = 60_000;
/// For how long a queue is looked at whether it goes away, and how many times.
const STANDING_US: u64 = 300_000;
const STANDING_TIMES: u32 = 2;
/// A queue of others moves by more than this within so long.
const MOVES_US: i64 = 20_000;
const UNCONTESTED_US: u64 = 5_000_000;
/// After so long it is looked again whether it is others that fill the queue; twice as long each time.
const COMPETE_MIN_US: u64 = 8_000_000;
const COMPETE_MAX_US: u64 = 60_000_000;
/// For how long others that filled the queue are likely to do so again.
const COMPETED_US: u64 = 60_000_000;
/// Others were there for at least so long before it is looked at whether they have left.
const LEFT_ALONE_US: u64 = 2_000_000;
const DELIVERED_US: i64 = 700_000;
/// Part of the rate that is left after losses, and packets by which it grows in a round trip.
const COMPETE_CUT: f64 = 0.85;
const COMPETE_PACKETS: f64 = 2.0;
/// For how long a mean of the rate is taken.
const COMPETE_MEAN_US: f64 = 6_000_000.0;
