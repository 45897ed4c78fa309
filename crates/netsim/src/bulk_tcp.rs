//! A bulk TCP flow as a neighbour: CUBIC (RFC 9438) without HyStart, fast retransmit after three
//! packets behind, a timeout. Its data never end.

use std::collections::BTreeMap;

use crate::bottleneck::{MS, Us};

/// Bytes of each of its packets.
pub const BYTES: usize = 1500;

/// The sender of the flow, and what it knows of its receiver.
#[derive(Clone, Debug)]
pub struct Tcp {
    window: f64,
    threshold: f64,
    next: u64,
    /// When each packet that is not acknowledged was sent.
    flying: BTreeMap<u64, Us>,
    recover: u64,
    window_max: f64,
    epoch: Option<Us>,
    round_trip: f64,
    /// When something was last acknowledged.
    pub last_ack: Us,
    /// Bytes that were.
    pub acked_bytes: u64,
}

impl Default for Tcp {
    fn default() -> Self {
        Self::new()
    }
}

impl Tcp {
    /// A flow that has not begun.
    pub fn new() -> Self {
        Self {
            window: 10.0,
            threshold: f64::INFINITY,
            next: 0,
            flying: BTreeMap::new(),
            recover: 0,
            window_max: 0.0,
            epoch: None,
            round_trip: 0.1,
            last_ack: 0,
            acked_bytes: 0,
        }
    }

    /// The next packet to send, if the window has room.
    pub fn poll(&mut self, now: Us) -> Option<u64> {
        if self.flying.len() as f64 >= self.window {
            return None;
        }
        self.next += 1;
        self.flying.insert(self.next, now);
        Some(self.next)
    }

    /// A packet has arrived, and this side learns of it.
    pub fn acknowledged(&mut self, number: u64, now: Us) {
        let Some(sent) = self.flying.remove(&number) else { return };
        self.last_ack = now;
        self.acked_bytes += BYTES as u64;
        self.round_trip = 0.875 * self.round_trip + 0.125 * (now - sent) as f64 / 1e6;
        // Three later ones arrived: lost. What was lost is sent again under a new number.
        let lost: Vec<u64> =
            self.flying.range(..number.saturating_sub(2)).map(|(number, _)| *number).collect();
        for old in &lost {
            self.flying.remove(old);
        }
        if lost.last().is_some_and(|last| *last > self.recover) {
            self.recover = self.next;
            self.window_max = self.window;
            self.window = (0.7 * self.window).max(2.0);
            self.threshold = self.window;
            self.epoch = None;
        } else if self.window < self.threshold {
            self.window += 1.0;
        } else {
            let epoch = *self.epoch.get_or_insert(now);
            let t = (now - epoch) as f64 / 1e6;
            let k = (self.window_max.max(self.window) * 0.3 / 0.4).cbrt();
            let cubic = 0.4 * (t + self.round_trip - k).powi(3) + self.window_max.max(self.window);
            let reno = 0.7 * self.window_max + 0.529 * t / self.round_trip;
            let aim = cubic.max(reno).clamp(self.window, 1.5 * self.window);
            self.window += (aim - self.window) / self.window;
        }
    }

    /// Nothing was acknowledged for longer than a timeout.
    pub fn timed_out(&mut self, now: Us) {
        if now - self.last_ack > ((self.round_trip * 2e6) as Us).max(300 * MS) {
            self.flying.clear();
            self.threshold = (0.5 * self.window).max(2.0);
            self.window = 1.0;
            self.epoch = None;
            self.last_ack = now;
        }
    }
}
