//! A plain reading of draft-ietf-rmcat-gcc-02 as a contender: packet groups, an arrival-time
//! filter, an adaptive threshold, AIMD, the loss rule, the less of both. The filter is the trend
//! line that its authors use today (Carlucci et al., "Congestion Control for Web Real-Time
//! Communication", 2017) in place of the draft's Kalman filter. No probes; a pacer of 2.5 times the
//! target.

use std::collections::VecDeque;

use congestion::{Allowance, PacketReport};

use crate::path::{MS, Us};
use crate::sender::Epoch;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Usage {
    Normal,
    Over,
    Under,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

#[derive(Clone, Copy)]
struct Group {
    first_sent: Us,
    sent: Us,
    arrived: i64,
}

pub(crate) struct Gcc {
    sent: VecDeque<(u16, Us, usize)>,
    group: Option<Group>,
    before: Option<Group>,
    /// Arrival and smoothed accumulated delay, in ms.
    points: VecDeque<(f64, f64)>,
    accumulated: f64,
    smoothed: f64,
    groups: u32,
    threshold: f64,
    threshold_at: Us,
    over_since: Option<Us>,
    trend_before: f64,
    usage: Usage,
    state: State,
    arrived: VecDeque<(i64, usize)>,
    delay_rate: f64,
    loss_rate: f64,
    /// Average of the incoming rate at decreases, and its relative variance.
    link: Option<(f64, f64)>,
    changed_at: Us,
    decreased_at: Us,
    round_trip: Us,
    loss_from: Us,
    counted: (u32, u32),
    debt: f64,
    paced_at: Us,
}

impl Gcc {
    pub(crate) fn new(now: Us) -> Self {
        Self {
            sent: VecDeque::new(),
            group: None,
            before: None,
            points: VecDeque::new(),
            accumulated: 0.0,
            smoothed: 0.0,
            groups: 0,
            threshold: 12.5,
            threshold_at: now,
            over_since: None,
            trend_before: 0.0,
            usage: Usage::Normal,
            state: State::Increase,
            arrived: VecDeque::new(),
            delay_rate: 300e3,
            loss_rate: 300e3,
            link: None,
            changed_at: now,
            decreased_at: 0,
            round_trip: 100 * MS,
            loss_from: now,
            counted: (0, 0),
            debt: 0.0,
            paced_at: now,
        }
    }

    pub(crate) fn target(&self) -> f64 {
        self.delay_rate.min(self.loss_rate).max(50e3)
    }

    pub(crate) fn sent(&mut self, number: u16, bytes: usize, at: Us) {
        self.sent.push_back((number, at, bytes));
        if self.sent.len() > 8000 {
            self.sent.pop_front();
        }
        self.debt += bytes as f64;
    }

    pub(crate) fn pacing(&mut self, at: Us, epoch: Epoch) -> Allowance {
        let rate = 2.5 * self.target() / 8.0;
        self.debt = (self.debt - (at - self.paced_at) as f64 / 1e6 * rate).max(0.0);
        self.paced_at = at;
        let burst = rate * 0.005;
        if self.debt <= burst {
            return Allowance { bytes: 1 + burst as usize, padding_bytes: 0, next: None };
        }
        let wait = (self.debt / rate * 1e6) as Us;
        Allowance { bytes: 0, padding_bytes: 0, next: Some(epoch.instant(at + wait.max(500))) }
    }

    pub(crate) fn feedback(&mut self, reports: &[PacketReport], now: Us) {
        for report in reports {
            let Some(at) = self.sent.iter().position(|(number, ..)| *number == report.number) else {
                continue;
            };
            let (_, sent, bytes) = self.sent[at];
            // Said once each, in order.
            self.sent.drain(..=at);
            self.counted.0 += 1;
            let Some(arrived) = report.arrival_us else {
                self.counted.1 += 1;
                continue;
            };
            self.round_trip = now - sent;
            self.arrived.push_back((arrived, bytes));
            self.arrival(sent, arrived, now);
        }
        while self.arrived.len() > 2 && self.arrived.back().unwrap().0 - self.arrived[0].0 > 500_000 {
            self.arrived.pop_front();
        }
        self.control(now);
        if now - self.loss_from > 500 * MS && self.counted.0 >= 20 {
            let share = f64::from(self.counted.1) / f64::from(self.counted.0);
            if share > 0.10 {
                self.loss_rate = self.target() * (1.0 - 0.5 * share);
            } else if share < 0.02 {
                self.loss_rate = (self.target() * 1.05).max(self.loss_rate.min(1.5 * self.target()));
            }
            (self.loss_from, self.counted) = (now, (0, 0));
        }
    }

    fn arrival(&mut self, sent: Us, arrived: i64, now: Us) {
        let Some(group) = &mut self.group else {
            self.group = Some(Group { first_sent: sent, sent, arrived });
            return;
        };
        // Groups: what is sent within 5 ms, and what arrives in a burst.
        let burst = (arrived - group.arrived) - (sent - group.sent) as i64;
        let same = sent - group.first_sent <= 5 * MS || (burst < 0 && arrived - group.arrived <= 5000);
        if same {
            group.sent = group.sent.max(sent);
            group.arrived = group.arrived.max(arrived);
            return;
        }
        let ended = *group;
        self.group = Some(Group { first_sent: sent, sent, arrived });
        if let Some(before) = self.before {
            let change = ((ended.arrived - before.arrived) - (ended.sent - before.sent) as i64) as f64 / 1e3;
            self.trend(change, ended.arrived as f64 / 1e3, (ended.sent - before.sent) as f64 / 1e3, now);
        }
        self.before = Some(ended);
    }

    fn trend(&mut self, change: f64, arrived: f64, sent_gap: f64, now: Us) {
        self.groups = (self.groups + 1).min(60);
        self.accumulated += change;
        self.smoothed = 0.9 * self.smoothed + 0.1 * self.accumulated;
        self.points.push_back((arrived, self.smoothed));
        if self.points.len() > 20 {
            self.points.pop_front();
        }
        let slope = if self.points.len() == 20 { slope(&self.points) } else { 0.0 };
        let trend = f64::from(self.groups) * slope * 4.0;
        if trend > self.threshold {
            let since = *self.over_since.get_or_insert(now.saturating_sub((sent_gap * 500.0) as Us));
            if now - since > 10 * MS && trend >= self.trend_before {
                self.usage = Usage::Over;
            }
        } else {
            self.over_since = None;
            self.usage = if trend < -self.threshold { Usage::Under } else { Usage::Normal };
        }
        self.trend_before = trend;
        let distance = trend.abs() - self.threshold;
        if distance <= 15.0 {
            let gain = if distance < 0.0 { 0.039 } else { 0.0087 };
            let passed = ((now - self.threshold_at) as f64 / 1e3).min(100.0);
            self.threshold = (self.threshold + gain * distance * passed).clamp(6.0, 600.0);
        }
        self.threshold_at = now;
    }

    fn incoming(&self) -> Option<f64> {
        let (first, last) = (self.arrived.front()?, self.arrived.back()?);
        let bytes: usize = self.arrived.iter().skip(1).map(|(_, bytes)| bytes).sum();
        (last.0 - first.0 > 100_000).then(|| bytes as f64 * 8e6 / (last.0 - first.0) as f64)
    }

    fn control(&mut self, now: Us) {
        self.state = match (self.usage, self.state) {
            (Usage::Over, _) => State::Decrease,
            (Usage::Under, _) => State::Hold,
            (Usage::Normal, State::Hold) => State::Increase,
            (Usage::Normal, State::Decrease) => State::Hold,
            (Usage::Normal, State::Increase) => State::Increase,
        };
        let Some(incoming) = self.incoming() else { return };
        let seconds = ((now - self.changed_at) as f64 / 1e6).min(1.0);
        match self.state {
            State::Increase => {
                if self.link.is_some_and(|(mean, variance)| incoming > mean + 3.0 * (variance * mean).sqrt())
                {
                    self.link = None;
                }
                let response = (100 * MS + self.round_trip) as f64 / 1e6;
                let step = match self.link {
                    Some(_) => (9600.0 / response).max(4000.0) * seconds,
                    None => self.delay_rate * (1.08f64.powf(seconds) - 1.0),
                };
                let most = 1.5 * incoming + 10e3;
                self.delay_rate = (self.delay_rate + step).min(most.max(self.delay_rate));
            }
            State::Decrease if now - self.decreased_at > self.round_trip.min(300 * MS) => {
                let lower = 0.85 * incoming;
                let (mean, variance) = self.link.unwrap_or((incoming, 0.4));
                if incoming < mean - 3.0 * (variance * mean).sqrt() {
                    self.link = None;
                }
                let (mean, variance) = self.link.unwrap_or((incoming, 0.4e3));
                let moved = 0.95 * mean + 0.05 * incoming;
                let error = (mean - incoming).powi(2) / mean.max(1.0);
                self.link = Some((moved, (0.95 * variance + 0.05 * error).clamp(400.0, 2500.0)));
                self.delay_rate = self.delay_rate.min(lower);
                self.decreased_at = now;
            }
            _ => {}
        }
        self.changed_at = now;
    }
}

/// Of a straight line through the points (least squares).
fn slope(points: &VecDeque<(f64, f64)>) -> f64 {
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let over: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let under: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    if under == 0.0 { 0.0 } else { over / under }
}
