//! One direction of the relay: what is under way, and when it arrives.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::Write;

use netsim::bottleneck::{Fate, Path, Trace, Us};
use netsim::bulk_tcp::{self, Tcp};

use super::ledger::{Ledger, Outcome};

/// Datagrams under way in one direction.
pub(crate) struct Line {
    /// `None`: nothing but the delay.
    limit: Option<Limit>,
    delay: Us,
    /// By arrival, then by the order in which they were sent.
    due: BinaryHeap<Reverse<(Us, u64)>>,
    under_way: BTreeMap<u64, Item>,
    next: u64,
    /// Datagrams for which there was no room.
    pub(crate) refused: u64,
}

struct Limit {
    path: Path,
    ledger: Ledger,
    bulk: Option<Bulk>,
    log: Option<Box<dyn Write>>,
}

/// The TCP flow beside.
struct Bulk {
    from: Us,
    tcp: Tcp,
}

enum Item {
    Datagram {
        flow: usize,
        bytes: Box<[u8]>,
    },
    /// A packet of the bulk flow on its way, and its acknowledgement on the way back.
    Bulk(u64),
    BulkAck(u64),
}

impl Line {
    /// A line without a bottleneck.
    pub(crate) fn plain(delay: Us) -> Line {
        Line { limit: None, delay, due: BinaryHeap::new(), under_way: BTreeMap::new(), next: 0, refused: 0 }
    }

    /// A line with one, and with a bulk flow from `bulk_from` on.
    pub(crate) fn limited(
        path: Path,
        ledger: Ledger,
        bulk_from: Option<Us>,
        log: Option<Box<dyn Write>>,
    ) -> Line {
        let bulk = bulk_from.map(|from| Bulk { from, tcp: Tcp::new() });
        let delay = path.config.delay;
        Line { limit: Some(Limit { path, ledger, bulk, log }), ..Line::plain(delay) }
    }

    /// Takes a datagram that came at `now`. `is_measured` is false before there is media: it does
    /// not meet the bottleneck then.
    pub(crate) fn send(&mut self, now: Us, flow: usize, bytes: &[u8], is_measured: bool) {
        if self.under_way.len() >= UNDER_WAY_MAX {
            self.refused += 1;
            return;
        }
        let at = match self.limit.as_mut().filter(|_| is_measured) {
            Some(limit) => limit.send(now, Some(flow), bytes.len() + IP_UDP_BYTES),
            None => Some(now + self.delay),
        };
        if let Some(at) = at {
            self.push(at, Item::Datagram { flow, bytes: bytes.into() });
        }
    }

    /// The next datagram that has arrived by `now`, and its flow.
    pub(crate) fn poll(&mut self, now: Us) -> Option<(usize, Box<[u8]>)> {
        while let Some(&Reverse((at, number))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            match self.under_way.remove(&number)? {
                Item::Datagram { flow, bytes } => return Some((flow, bytes)),
                Item::Bulk(packet) => self.push(at + self.delay, Item::BulkAck(packet)),
                Item::BulkAck(packet) => {
                    if let Some(bulk) = self.limit.as_mut().and_then(|limit| limit.bulk.as_mut()) {
                        bulk.tcp.acknowledged(packet, at);
                    }
                    self.send_bulk(at);
                }
            }
        }
        None
    }

    /// Sends what the bulk flow may send; call it every few milliseconds.
    pub(crate) fn send_bulk(&mut self, now: Us) {
        let Some(limit) = &mut self.limit else { return };
        let Some(Bulk { from, tcp }) = limit.bulk.as_mut().filter(|bulk| bulk.from <= now) else { return };
        if tcp.last_ack == 0 {
            tcp.last_ack = *from;
        }
        tcp.timed_out(now);
        while let Some(limit) = &mut self.limit
            && let Some(bulk) = &mut limit.bulk
            && let Some(packet) = bulk.tcp.poll(now)
        {
            if let Some(at) = limit.send(now, None, bulk_tcp::BYTES) {
                self.push(at, Item::Bulk(packet));
            }
        }
    }

    /// When the next one arrives.
    pub(crate) fn next_due(&self) -> Option<Us> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// What was measured, and bytes of the bulk flow that arrived; `None` without a bottleneck.
    pub(crate) fn report(&mut self, now: Us) -> Option<serde_json::Value> {
        let limit = self.limit.as_mut()?;
        let trace: &Trace = &limit.path.config.trace;
        let mut report = limit.ledger.report(trace, now);
        report["bulk_bytes"] = limit.bulk.as_ref().map_or(0, |bulk| bulk.tcp.acked_bytes).into();
        report["refused"] = self.refused.into();
        Some(report)
    }

    fn push(&mut self, at: Us, item: Item) {
        self.next += 1;
        self.due.push(Reverse((at, self.next)));
        self.under_way.insert(self.next, item);
    }
}

impl Limit {
    /// When a packet arrives, if it does. Without a flow it is one of the bulk flow.
    fn send(&mut self, now: Us, flow: Option<usize>, bytes: usize) -> Option<Us> {
        let (outcome, at) = match self.path.send(now, bytes) {
            Fate::Arrives { at, waited, .. } => {
                (Outcome::Passed { waited, at: at - self.path.config.delay }, Some(at))
            }
            Fate::Overflow => (Outcome::Overflow, None),
            Fate::Lost => (Outcome::Lost, None),
        };
        let Some(flow) = flow else { return at };
        self.ledger.note(now, flow, bytes, outcome);
        if let Some(log) = &mut self.log {
            let (waited, fate) = match outcome {
                Outcome::Passed { waited, .. } => (waited, "passed"),
                Outcome::Overflow => (0, "overflow"),
                Outcome::Lost => (0, "lost"),
            };
            // A log that cannot be written is short, and no reason to hold packets up.
            let _ = writeln!(log, "{now},{flow},{bytes},{waited},{fate}");
        }
        at
    }
}

/// Of IPv4 (RFC 791) and UDP (RFC 768).
const IP_UDP_BYTES: usize = 28;
/// More than a queue of 300 ms at 100 Mbit/s.
const UNDER_WAY_MAX: usize = 16_384;

#[cfg(test)]
mod tests {
    use netsim::bottleneck::{MS, PathConfig, SECOND};

    use super::*;

    fn limited(kbit: f64, bulk_from: Option<Us>) -> Line {
        let config = PathConfig::plain(Trace::constant(kbit * 1e3), 10 * MS, 100 * MS);
        Line::limited(Path::new(config, 1), Ledger::new(0, 60 * SECOND), bulk_from, None)
    }

    #[test]
    fn datagrams_come_out_at_the_rate_in_order_and_to_their_flows() {
        let mut line = limited(1000.0, None);
        // With 28 bytes each: 8 ms.
        line.send(0, 3, &[1; 972], true);
        line.send(0, 5, &[2; 972], true);
        assert_eq!(line.next_due(), Some(18 * MS));
        assert!(line.poll(18 * MS - 1).is_none());
        assert_eq!(line.poll(26 * MS).map(|(flow, bytes)| (flow, bytes[0])), Some((3, 1)));
        assert_eq!(line.poll(26 * MS).map(|(flow, bytes)| (flow, bytes[0])), Some((5, 2)));
        let report = line.report(SECOND).expect("it is limited");
        assert_eq!(report["wait_ms_max"], 8.0);
    }

    #[test]
    fn what_is_not_measured_meets_only_the_delay() {
        let mut line = limited(1.0, None);
        for _ in 0..100 {
            line.send(0, 0, &[0; 1000], false);
        }
        let arrived = std::iter::from_fn(|| line.poll(10 * MS)).count();
        assert_eq!(
            (arrived, &line.report(SECOND).expect("it is limited")["flows"]),
            (100, &serde_json::json!([]))
        );
    }

    #[test]
    fn a_full_line_refuses_what_comes() {
        let mut line = Line::plain(SECOND);
        for _ in 0..UNDER_WAY_MAX + 3 {
            line.send(0, 0, b"x", true);
        }
        assert_eq!(line.refused, 3);
    }

    #[test]
    fn a_bulk_flow_fills_what_is_left() {
        let mut line = limited(2000.0, Some(SECOND));
        let mut now = 0;
        while now < 21 * SECOND {
            while line.poll(now).is_some() {}
            line.send_bulk(now);
            now += MS;
        }
        let bytes = line.report(now).expect("it is limited")["bulk_bytes"].as_u64();
        // 20 s at 2 Mbit/s are 5 MB.
        assert!((4_300_000..=5_000_000).contains(&bytes.expect("a number")), "{bytes:?}");
    }
}
