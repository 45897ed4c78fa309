//! History of the last two minutes of streams and sessions, for the curves of the selected row.
//!
//! Kept for all of them, so that a row has a history when it is selected. What is missing in a
//! message is forgotten.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use stats::message::StatsMessage;

/// Samples of a curve: two minutes at one a second.
pub(crate) const SAMPLES: usize = 120;
/// Maximum sessions, and as many streams, with a history; further ones have none until others have
/// left. 20,000 take 41 MB.
const CURVES_MAX: usize = 20_000;

/// The last [`SAMPLES`] values of some figures, the newest last.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    /// A ring; `next` is where the oldest is overwritten.
    samples: Vec<[f32; FIGURES]>,
    next: usize,
    /// Number of the last message it was in.
    seen: u64,
}

/// Figures with curves. Session: bits per second, percent lost, round trip and queue in ms. Stream:
/// bits per second out and in, players, unused.
pub(crate) const FIGURES: usize = 4;

/// All curves.
#[derive(Debug, Default)]
pub(crate) struct History {
    sessions: HashMap<(u16, u64), Curves>,
    streams: HashMap<String, Curves>,
    messages: u64,
}

impl History {
    /// Adds a message to every curve.
    pub(crate) fn add(&mut self, message: &StatsMessage) {
        self.messages += 1;
        let (seen, sessions, streams) = (self.messages, &message.sessions, &message.streams);
        for row in 0..sessions.serial.len() {
            let key = (sessions.worker[row], sessions.serial[row]);
            let rate = sessions.bits_per_second[row] as f32;
            let queue = sessions.queue_ms[row] as f32;
            let sample = [rate, sessions.loss_percent[row], sessions.rtt_ms[row], queue];
            add(&mut self.sessions, key, sample, seen);
        }
        for row in 0..streams.name.len() {
            let rates = [streams.bits_out_per_second[row] as f32, streams.bits_in_per_second[row] as f32];
            let sample = [rates[0], rates[1], streams.players[row] as f32, f32::NAN];
            add(&mut self.streams, streams.name[row].clone(), sample, seen);
        }
        self.sessions.retain(|_, curves| curves.seen == seen);
        self.streams.retain(|_, curves| curves.seen == seen);
    }

    /// Curves of a session.
    pub(crate) fn session(&self, worker: u16, serial: u64) -> Option<&Curves> {
        self.sessions.get(&(worker, serial))
    }

    /// Curves of a stream.
    pub(crate) fn stream(&self, name: &str) -> Option<&Curves> {
        self.streams.get(name)
    }
}

fn add<K: Eq + std::hash::Hash>(all: &mut HashMap<K, Curves>, key: K, sample: [f32; FIGURES], seen: u64) {
    let full = all.len() >= CURVES_MAX;
    match all.entry(key) {
        Entry::Occupied(mut entry) => entry.get_mut().push(sample, seen),
        Entry::Vacant(_) if full => {}
        Entry::Vacant(entry) => {
            entry.insert(Curves { samples: vec![sample], next: 0, seen });
        }
    }
}

impl Curves {
    fn push(&mut self, sample: [f32; FIGURES], seen: u64) {
        self.seen = seen;
        if self.samples.len() < SAMPLES {
            self.samples.push(sample);
        } else {
            self.samples[self.next] = sample;
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    /// The newest `count` values of figure `of`, oldest first; unknown ones are NaN.
    pub(crate) fn last(&self, of: usize, count: usize) -> Vec<f32> {
        let (newer, older) = self.samples.split_at(self.next);
        let skipped = self.samples.len().saturating_sub(count);
        older.iter().chain(newer).skip(skipped).map(|sample| sample[of]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn curves_hold_the_newest_values_in_order() {
        let mut history = History::default();
        let mut message = sample::message(1, 1, 2);
        for round in 0..SAMPLES as u64 * 2 + 7 {
            message.sessions.bits_per_second[1] = round;
            message.streams.players[0] = round as u32;
            history.add(&message);
            let expected: Vec<f32> = (round.saturating_sub(4)..=round).map(|value| value as f32).collect();
            assert_eq!(history.session(0, 1).expect("known").last(0, 5), expected, "after {round}");
            assert_eq!(history.stream("live/cam000").expect("known").last(2, 5), expected, "after {round}");
        }
        assert_eq!(history.session(0, 1).expect("known").last(0, 500).len(), SAMPLES);
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let mut history = History::default();
        history.add(&sample::message(1, 2, 3));
        assert!(history.session(0, 2).is_some() && history.stream("live/cam001").is_some());
        history.add(&sample::message(1, 1, 2));
        assert!(history.session(0, 2).is_none() && history.stream("live/cam001").is_none());
        assert_eq!(history.session(0, 1).expect("still there").last(0, 9).len(), 2);
    }

    #[test]
    fn a_server_with_more_sessions_than_curves_costs_no_more_memory() {
        let mut history = History::default();
        history.add(&sample::message(1, 1, CURVES_MAX as u32 + 5));
        assert_eq!(history.sessions.len(), CURVES_MAX);
        history.add(&sample::message(1, 1, 3));
        assert_eq!(history.sessions.len(), 3);
    }
}
