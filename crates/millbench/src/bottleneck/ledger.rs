//! What happened at the bottleneck: of each flow and all together.

use netsim::bottleneck::{MS, SECOND, Trace, Us};
use serde_json::{Value, json};

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passed after this wait.
    Passed {
        /// In the queue, without its own transmission.
        waited: Us,
        /// When it came out.
        at: Us,
    },
    /// The queue was full.
    Overflow,
    /// Lost at random or in an outage.
    Lost,
}

/// Counts between two moments, and bits of every 100 ms.
#[derive(Debug)]
pub(crate) struct Ledger {
    from: Us,
    until: Us,
    /// Of those that passed.
    waits: Vec<u32>,
    flows: Vec<Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    packets: u64,
    overflowed: u64,
    lost: u64,
    /// Bits that came in and out, by 100 ms.
    sent: Vec<u64>,
    passed: Vec<u64>,
}

impl Ledger {
    /// Counts what comes in from `from` until before `until`; bits of all times.
    pub(crate) fn new(from: Us, until: Us) -> Ledger {
        Ledger { from, until, waits: Vec::new(), flows: Vec::new() }
    }

    /// Notes a packet of so many bytes that came in at `now`.
    pub(crate) fn note(&mut self, now: Us, flow: usize, bytes: usize, outcome: Outcome) {
        if self.flows.len() <= flow {
            self.flows.resize_with(flow + 1, Flow::default);
        }
        let is_counted = (self.from..self.until).contains(&now);
        let flow = &mut self.flows[flow];
        add(&mut flow.sent, now, bytes);
        flow.packets += u64::from(is_counted);
        match outcome {
            Outcome::Passed { waited, at } => {
                add(&mut flow.passed, at, bytes);
                if is_counted && self.waits.len() < WAITS_MAX {
                    self.waits.push(u32::try_from(waited).unwrap_or(u32::MAX));
                }
            }
            Outcome::Overflow => flow.overflowed += u64::from(is_counted),
            Outcome::Lost => flow.lost += u64::from(is_counted),
        }
    }

    /// For a program to read. `trace` is what could pass, `now` how far it got.
    pub(crate) fn report(&mut self, trace: &Trace, now: Us) -> Value {
        self.waits.sort_unstable();
        let wait = |part: f64| {
            let at = (self.waits.len() as f64 * part) as usize;
            self.waits.get(at).or(self.waits.last()).map(|us| f64::from(*us) / 1e3)
        };
        let bins = now.min(BINS_MAX as Us * BIN) / BIN;
        let carried: Vec<f64> = (0..bins).map(|bin| trace.bits(bin * BIN, (bin + 1) * BIN).round()).collect();
        let flow = |flow: &Flow| {
            let Flow { packets, overflowed, lost, sent, passed } = flow;
            json!({
                "packets": packets, "overflowed": overflowed, "lost": lost, "sent_bits": sent,
                "passed_bits": passed,
            })
        };
        json!({
            "seconds": now as f64 / SECOND as f64,
            "wait_ms_p50": wait(0.5), "wait_ms_p95": wait(0.95), "wait_ms_max": wait(1.0),
            "carried_bits": carried,
            "flows": self.flows.iter().map(flow).collect::<Vec<Value>>(),
        })
    }
}

fn add(bins: &mut Vec<u64>, at: Us, bytes: usize) {
    let bin = (at / BIN) as usize;
    if bin >= BINS_MAX {
        return;
    }
    if bins.len() <= bin {
        bins.resize(bin + 1, 0);
    }
    bins[bin] += bytes as u64 * 8;
}

const BIN: Us = 100 * MS;
/// An hour; what is later is not kept.
const BINS_MAX: usize = 36_000;
/// Waits that are kept, 40 MB; later ones do not count.
const WAITS_MAX: usize = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_window_and_bits_of_all_times() {
        let mut ledger = Ledger::new(SECOND, 2 * SECOND);
        let passed = |waited, at| Outcome::Passed { waited, at };
        ledger.note(0, 0, 100, passed(9 * MS, 50 * MS));
        ledger.note(SECOND, 0, 200, passed(4 * MS, SECOND + 120 * MS));
        ledger.note(SECOND, 1, 300, Outcome::Overflow);
        ledger.note(SECOND + MS, 1, 300, Outcome::Lost);
        ledger.note(2 * SECOND, 1, 300, Outcome::Overflow);
        let report = ledger.report(&Trace::constant(1e6), 1200 * MS);
        assert_eq!((&report["wait_ms_p50"], &report["wait_ms_p95"]), (&json!(4.0), &json!(4.0)));
        let flow = |at: usize, key: &str| report["flows"][at][key].clone();
        assert_eq!((flow(0, "packets"), flow(1, "packets")), (json!(1), json!(2)));
        assert_eq!((flow(1, "overflowed"), flow(1, "lost")), (json!(1), json!(1)));
        assert_eq!(
            (&report["flows"][0]["passed_bits"][0], &report["flows"][0]["passed_bits"][11]),
            (&json!(800), &json!(1600))
        );
        assert_eq!(report["carried_bits"].as_array().map(Vec::len), Some(12));
        assert_eq!(report["carried_bits"][3], json!(100_000.0));
    }
}
