//! Which worker is the home of which stream, and which others have players of it.
//!
//! The one thing workers share, behind a lock, and therefore never touched for a frame: only when a publisher
//! begins or ends and when a worker's first player of a stream comes or its last one goes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of a stream, the same on all workers; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// Number of a publication; a later one of the same stream is larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(pub(crate) u64);

/// Where a stream is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) worker: usize,
    pub(crate) epoch: Epoch,
}

/// A publisher may begin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: StreamId,
    pub(crate) epoch: Epoch,
    /// Other workers with players.
    pub(crate) subscribers: Vec<usize>,
    /// The publication this one replaces.
    pub(crate) replaced: Option<Home>,
}

/// The stream has a publisher already.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<String, Listing>,
    last_id: u64,
    last_epoch: u64,
}

#[derive(Debug)]
struct Listing {
    id: StreamId,
    home: Option<Home>,
    subscribers: Vec<usize>,
}

impl Directory {
    /// `worker` has a publisher for stream `key`.
    pub(crate) fn claim(&self, key: &str, worker: usize, take_over: bool) -> Result<Claim, Taken> {
        let mut inner = self.lock();
        if !take_over && inner.streams.get(key).is_some_and(|listing| listing.home.is_some()) {
            return Err(Taken);
        }
        inner.last_epoch += 1;
        let epoch = Epoch(inner.last_epoch);
        let listing = inner.listing(key);
        let replaced = listing.home.replace(Home { worker, epoch });
        let subscribers = listing.subscribers.iter().copied().filter(|&other| other != worker).collect();
        Ok(Claim { id: listing.id, epoch, subscribers, replaced })
    }

    /// The publication has ended. A newer one of the stream stays.
    pub(crate) fn release(&self, key: &str, epoch: Epoch) {
        let mut inner = self.lock();
        if let Some(listing) = inner.streams.get_mut(key) {
            listing.home = listing.home.filter(|home| home.epoch != epoch);
        }
        inner.forget_unused(key);
    }

    /// `worker` has a first player of the stream; says where the stream comes from.
    pub(crate) fn subscribe(&self, key: &str, worker: usize) -> (StreamId, Option<Home>) {
        let mut inner = self.lock();
        let listing = inner.listing(key);
        if !listing.subscribers.contains(&worker) {
            listing.subscribers.push(worker);
        }
        (listing.id, listing.home)
    }

    /// The last player of the stream on `worker` is gone; says where the stream came from.
    pub(crate) fn unsubscribe(&self, key: &str, worker: usize) -> Option<Home> {
        let mut inner = self.lock();
        let listing = inner.streams.get_mut(key)?;
        listing.subscribers.retain(|&other| other != worker);
        let home = listing.home;
        inner.forget_unused(key);
        home
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn listing(&mut self, key: &str) -> &mut Listing {
        if !self.streams.contains_key(key) {
            self.last_id += 1;
            let listing = Listing { id: StreamId(self.last_id), home: None, subscribers: Vec::new() };
            self.streams.insert(key.to_owned(), listing);
        }
        self.streams.get_mut(key).expect("it was there or has just been inserted")
    }

    fn forget_unused(&mut self, key: &str) {
        let unused = |listing: &Listing| listing.home.is_none() && listing.subscribers.is_empty();
        if self.streams.get(key).is_some_and(unused) {
            self.streams.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_publisher_is_refused_or_takes_over() {
        let directory = Directory::default();
        let first = directory.claim("live/a", 0, false).unwrap();
        assert_eq!(directory.claim("live/a", 1, false), Err(Taken));
        let second = directory.claim("live/a", 1, true).unwrap();
        assert_eq!(second.replaced, Some(Home { worker: 0, epoch: first.epoch }));
        directory.release("live/a", first.epoch);
        assert_eq!(directory.claim("live/a", 0, false), Err(Taken), "the late release is of the old one");
        directory.release("live/a", second.epoch);
        assert!(directory.claim("live/a", 0, false).is_ok());
    }

    #[test]
    fn publisher_learns_of_waiting_workers_and_players_of_the_home() {
        let directory = Directory::default();
        let (id, home) = directory.subscribe("live/a", 2);
        assert_eq!(home, None);
        directory.subscribe("live/a", 0);
        let claim = directory.claim("live/a", 0, false).unwrap();
        assert_eq!((claim.id, claim.subscribers), (id, vec![2]));
        assert_eq!(directory.subscribe("live/a", 1).1, Some(Home { worker: 0, epoch: claim.epoch }));
    }

    #[test]
    fn unused_streams_are_forgotten() {
        let directory = Directory::default();
        let claim = directory.claim("live/a", 0, false).unwrap();
        directory.subscribe("live/a", 0);
        directory.release("live/a", claim.epoch);
        directory.unsubscribe("live/a", 0);
        assert!(directory.lock().streams.is_empty());
    }
}
