//! Reports of packets: what each says, and what follows from all of one call.

use std::time::Instant;

use super::{Batch, Controller, Ecn, LastArrival, PACKET_BITS, PacketReport};
use crate::ecn::EcnCounts;
use crate::history::{AGAIN, Fate, PACKETS_MAX};
use crate::loss::Period;

impl Controller {
    /// Takes a report of the receiver, in the order of numbers.
    pub fn feedback(&mut self, reports: impl IntoIterator<Item = PacketReport>, at: Instant) {
        let now = self.micros(at);
        let mut batch = Batch::default();
        // A smaller packet takes less time on the slowest link: taken to be as late as one of usual
        // size.
        let serial_us = 8e6 / self.serial_rate;
        let busy_us = BUSY_US + self.unrest_us();
        // In a queue a packet waits at most one packet's time longer than the one before it.
        let packet_us = PACKET_BITS * 1e6 / self.capacity.unwrap_or(self.rate);
        // There are no more of which anything is known; and who says it again at once is not listened to.
        if now - self.looked_us > LOOKED_FOR_US {
            (self.looked_us, self.looked_at) = (now, 0);
        }
        for report in reports.into_iter().take(PACKETS_MAX - self.looked_at) {
            self.looked_at += 1;
            // One that speaks of what was never sent has nothing more to say.
            if self.ignored_in_a_row > IGNORED_MAX {
                self.ignored_in_a_row = 0;
                break;
            }
            let Some(found) = self.history.find(report.number, now) else {
                self.ignored += 1;
                self.ignored_in_a_row += 1;
                continue;
            };
            self.ignored_in_a_row = 0;
            let Some(arrival_us) = report.arrival_us else {
                if found.packet.fate == Fate::UnderWay {
                    self.history.settle(&found, Fate::Missing);
                    self.missing_run += 1;
                    if found.packet.cluster != 0
                        && let Some(probe) = &mut self.probe
                    {
                        probe.reported += u32::from(probe.cluster == found.packet.cluster);
                    }
                }
                continue;
            };
            match found.packet.fate {
                Fate::Received => {
                    self.ignored += 1;
                    continue;
                }
                // What was sent again was lost, though the number arrives.
                Fate::Missing => batch.lost -= i32::from(found.packet.cluster != AGAIN),
                Fate::UnderWay | Fate::Unused => {}
            }
            self.history.settle(&found, Fate::Received);
            // It arrived, but how long it took is not known.
            if found.packet.cluster == AGAIN {
                batch.received += 1;
                let arrival_us = self.unwrap_arrival(arrival_us);
                self.delivered.add(arrival_us, u32::from(found.packet.bytes));
                continue;
            }
            // So many in a row are an outage, which says nothing of the rate.
            if self.missing_run < OUTAGE_PACKETS {
                batch.lost += self.missing_run as i32;
            }
            self.missing_run = 0;
            batch.received += 1;
            match report.ecn {
                Ecn::Marked => batch.marked += 1,
                Ecn::Capable => batch.capable += 1,
                Ecn::None => batch.plain += 1,
            }
            if batch.newest.is_none_or(|(number, _)| found.number > number) {
                batch.newest = Some((found.number, found.sent_us));
            }
            let arrival_us = self.unwrap_arrival(arrival_us);
            let bytes = found.packet.bytes;
            let one_way_us = arrival_us - found.sent_us as i64;
            // Audio is compared with audio: how fast the link is, by which the time of such a packet
            // differs from that of a large one, is known too late.
            let is_small = bytes < SMALL_BYTES;
            let serial = if is_small { 0.0 } else { (PACKET_BITS / 8.0 - f64::from(bytes)) * serial_us };
            let delay = if is_small { &mut self.delay_of_small } else { &mut self.delay };
            let Some(wait) =
                delay.waited(one_way_us + serial.max(0.0) as i64, now, self.competing_since.is_some())
            else {
                self.ignored += 1;
                continue;
            };
            // What is least of them in a queue that others fill is no empty path: large ones may know better.
            let wait = match self.delay.base() {
                Some(base) if is_small => wait.max(one_way_us - base),
                _ => wait,
            };
            self.delivered.add(arrival_us, u32::from(bytes));
            if found.packet.cluster == 0 {
                batch.least_wait = Some(batch.least_wait.map_or(wait, |least| least.min(wait)));
                batch.last_waits = [batch.last_waits[1], batch.last_waits[2], wait];
            } else if let Some(probe) =
                self.probe.as_mut().filter(|probe| probe.cluster == found.packet.cluster)
            {
                probe.reported += 1;
                probe.left.add(found.sent_us as i64, bytes);
                probe.arrived.add(arrival_us, bytes);
            }
            if let Some(last) = self.last
                && found.number > last.number
            {
                let gap = arrival_us - last.arrival_us;
                let jump = ((wait - last.wait_us) as f64 - packet_us).max(0.0);
                self.jitter_us += (jump - self.jitter_us) / 32.0;
                if (0..500_000).contains(&gap) {
                    if wait > busy_us {
                        if now - self.busy.at_us() > 500_000 {
                            self.busy.clear();
                        }
                        self.busy.add(bytes, gap, now, 100_000.0);
                    }
                    if found.sent_us.saturating_sub(last.sent_us) <= TRAIN_GAP_US
                        && found.number == last.number + 1
                    {
                        self.trains.add(bytes, gap, now, 60_000.0);
                    }
                }
            }
            if self.last.is_none_or(|last| found.number > last.number) {
                self.last = Some(LastArrival {
                    number: found.number,
                    sent_us: found.sent_us,
                    arrival_us,
                    wait_us: wait,
                });
            }
        }
        // That nothing arrives is no sign of life: silence goes on.
        if batch.received == 0 {
            self.ecn.report(EcnCounts::default(), false, self.missing_run);
            return;
        }
        self.after_feedback(now, &batch);
        let Batch { capable, marked, plain, .. } = batch;
        // The least wait that was measured, before others' queues are taken off.
        let waits = batch.least_wait.is_none_or(|wait| wait > UNFELT_WAIT_US);
        self.ecn.report(EcnCounts { capable, marked, plain }, waits, self.missing_run);
    }

    pub(super) fn after_feedback(&mut self, now: u64, batch: &Batch) {
        if let Some((number, sent_us)) = batch.newest {
            self.round_trip_us = now.saturating_sub(sent_us);
            self.round_trip_least_us = self.round_trip_least_us.min(self.round_trip_us.max(1000));
            self.history.give_up_below(number.saturating_sub(REORDERED_MAX));
        }
        let interval = now.saturating_sub(self.report_us).min(300_000);
        self.report_interval_us = (3 * self.report_interval_us + interval) / 4;
        self.report_us = now;
        self.end_silence(now);

        let sent_rate = self.sent.rate(now as i64, 500_000).unwrap_or(0.0);
        let delivered = self.delivered_rate(300_000);
        if let Some(delivered) = delivered {
            // No faster than it was sent, whatever the receiver says, and whatever was held up on
            // the way.
            let most = self
                .sent
                .rate(now as i64, 300_000)
                .unwrap_or(0.0)
                .max(self.sent.rate(now as i64, 800_000).unwrap_or(0.0));
            self.note_best(now, delivered.min(most));
        }
        self.probe_reported(now, batch);
        if let Some(wait) = batch.least_wait {
            self.queue_us = wait.max(0);
        }
        let threshold = self.threshold_us();
        let waits_long = batch.least_wait.is_some() && self.queue_us > threshold;
        self.over_reports = if waits_long { self.over_reports + 1 } else { 0 };
        // A rate that falls fills the queue within a report: its end tells it before its least wait
        // does.
        let last = batch.last_waits.into_iter().min().unwrap_or(0);
        let far = 2 * threshold - self.unrest_us();
        let sudden = last > far;
        if sudden {
            self.queue_us = self.queue_us.max(last);
        }
        if let Some(since) = self.competing_since {
            self.loss.forget(now);
            return self.compete(now, since, batch);
        }
        let over = sudden || waits_long && (self.over_reports >= 2 || self.queue_us > far);
        if over {
            self.over_us = now;
            self.cut(now, sent_rate, delivered);
        } else if batch.least_wait.is_some()
            && (self.queue_us <= threshold / 2 || self.queue_us <= threshold && now - self.over_us > 300_000)
        {
            self.over_since = None;
        }
        self.loss.count(batch.received, batch.lost);
        self.loss.review(&Period {
            now_us: now,
            round_trip_us: self.round_trip_us,
            sent_rate,
            delivered_rate: delivered.unwrap_or(sent_rate),
            target: self.estimate_bits(),
            queue: self.over_since.is_some(),
        });
        self.react_to_marks(now, batch);
        if self.over_since.is_none() && self.queue_us <= threshold / 2 {
            self.grow(now, sent_rate, delivered);
        } else {
            self.grown_us = now;
        }
    }

    pub(super) fn delivered_rate(&self, window_us: i64) -> Option<f64> {
        self.delivered.rate(self.last?.arrival_us, window_us)
    }

    pub(super) fn react_to_marks(&mut self, now: u64, batch: &Batch) {
        let all = batch.marked + batch.capable;
        if all == 0 {
            return;
        }
        let share = f64::from(batch.marked) / f64::from(all);
        self.marked_share += (share - self.marked_share) / 8.0;
        if batch.marked > 0 && now - self.marked_us > self.round_trip_us {
            self.marked_us = now;
            self.rate = (self.rate * (1.0 - self.marked_share / 2.0)).max(self.config.floor as f64);
        }
    }

    pub(super) fn note_best(&mut self, now: u64, rate: f64) {
        let period = now / 5_000_000;
        if period > self.best_period {
            self.best[1] = if period == self.best_period + 1 { self.best[0] } else { 0.0 };
            self.best[0] = 0.0;
            self.best_period = period;
        }
        self.best[0] = self.best[0].max(rate);
    }

    /// Where packets are not reported: what the rate may be raised to, 1.5 times of what receiver reports
    /// lately show to have arrived. It need not be lowered to that: little may have been there to be sent.
    pub(super) fn most_shown(&self, now: u64) -> f64 {
        let best = match (now / 5_000_000).saturating_sub(self.best_period) {
            0 => self.best[0].max(self.best[1]),
            1 => self.best[0],
            _ => 0.0,
        };
        self.rate.max(1.5 * best)
    }

    pub(super) fn unwrap_arrival(&self, arrival_us: i64) -> i64 {
        let wrapped = arrival_us.rem_euclid(WRAP_US);
        let Some(last) = self.last else { return wrapped };
        let difference = (wrapped - last.arrival_us).rem_euclid(WRAP_US);
        last.arrival_us + if difference >= WRAP_US / 2 { difference - WRAP_US } else { difference }
    }
}

/// Numbers of packets that were never sent, or long ago, that one report is looked through for.
const IGNORED_MAX: u32 = 64;
/// Audio, and packets of padding.
const SMALL_BYTES: u16 = 400;
/// Packets that waited so long left the bottleneck right behind others.
const BUSY_US: i64 = 4_000;
const TRAIN_GAP_US: u64 = 1_000;
/// A queue that is shorter has no reason to mark everything (RFC 9332 marks from 1 ms on).
const UNFELT_WAIT_US: i64 = 500;
const OUTAGE_PACKETS: u32 = 8;
/// In so long no more numbers of reports are looked at than packets are known.
const LOOKED_FOR_US: u64 = 10_000;
const REORDERED_MAX: u64 = 200;
/// Arrival times of transport-wide feedback wrap (24 bits of 64 ms).
const WRAP_US: i64 = (1 << 24) * 64_000;
