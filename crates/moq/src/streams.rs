//! Streams that are published, for subscribers that ask which there are.
//!
//! Workers say when a stream begins, and not when it ends: that is looked up.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use worker_api::HomeOf;

/// Names that are looked up again only when there are more of them than that.
const KNOWN_MIN: usize = 256;

/// Streams that were published; some may not be any more.
#[derive(Debug)]
pub(crate) struct Streams {
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Known {
    keys: BTreeSet<Arc<str>>,
    prune_at: usize,
}

impl Streams {
    /// None yet.
    pub(crate) fn new() -> Self {
        let known = Known { keys: BTreeSet::new(), prune_at: KNOWN_MIN };
        Self { known: Mutex::new(known), changes: watch::Sender::new(0) }
    }

    /// A stream begins.
    pub(crate) fn add(&self, key: Arc<str>, home: &HomeOf) {
        let mut known = self.lock();
        if known.keys.len() >= known.prune_at {
            known.keys.retain(|key| home(key).is_some());
            known.prune_at = (2 * known.keys.len()).max(KNOWN_MIN);
        }
        known.keys.insert(key);
        drop(known);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Tells when a stream begins.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Of those that are published now, what `wanted` makes of them, in order, at most `max`.
    pub(crate) fn published<T>(
        &self,
        home: &HomeOf,
        max: usize,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let known = self.lock();
        let published = known.keys.iter().filter(|key| home(key).is_some());
        published.filter_map(|key| wanted(key)).take(max).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // It is whole between any two statements.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_still_published_is_listed_and_the_rest_is_forgotten() {
        let streams = Streams::new();
        let is_even = |key: &str| key.ends_with(['0', '2', '4', '6', '8']).then_some(0);
        let mut changes = streams.changes();
        for number in 0..2 * KNOWN_MIN + 1 {
            streams.add(format!("live/{number:04}").into(), &is_even);
        }
        assert!(changes.has_changed().expect("its sender is there") && *changes.borrow_and_update() > 0);
        assert!(streams.lock().keys.len() < 2 * KNOWN_MIN);
        // What is not wanted does not count.
        let listed = streams.published(&is_even, 3, |key| (key > "live/0003").then(|| key.to_owned()));
        assert_eq!(listed, ["live/0004", "live/0006", "live/0008"]);
    }
}
