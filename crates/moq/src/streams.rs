//! Streams that are published, for sessions that announce all of an application, or all.
//!
//! ```text
//! workers: published, ended ─▶ Streams: names in order ─▶ each Listing: what to announce, and to retract
//! ```
//! A session looks through the names once, when it begins, and then hears of each change: without changes it
//! costs nothing, and a change costs it a comparison. It looks through them again when it has missed changes,
//! when permissions change, and when a place becomes free that another stream had no room for.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use worker_api::HomeOf;

/// Changes that a session may be behind; then it looks at all names again.
const CHANGES_MAX: usize = 1_024;

/// Streams that are published.
#[derive(Debug)]
pub(crate) struct Streams {
    known: Mutex<BTreeSet<Arc<str>>>,
    changes: broadcast::Sender<Change>,
}

/// What has changed.
#[derive(Debug, Clone)]
enum Change {
    Published(Arc<str>),
    Ended(Arc<str>),
    /// Who may play what.
    Permissions,
}

/// What one session announces.
#[derive(Debug)]
pub(crate) struct Listing {
    changes: broadcast::Receiver<Change>,
    names: Names,
    max: usize,
    shown: BTreeSet<Arc<str>>,
    /// There are more than `max`.
    has_more: bool,
    must_look: bool,
}

/// Which streams a session may announce.
#[derive(Debug)]
pub(crate) enum Names {
    /// Those below an application, or all if it is empty.
    Below(String),
    /// One, whether it is published or not.
    One(Arc<str>),
}

impl Names {
    fn has(&self, key: &str) -> bool {
        match self {
            Self::Below(app) if app.is_empty() => true,
            Self::Below(app) => key.strip_prefix(app.as_str()).is_some_and(|rest| rest.starts_with('/')),
            Self::One(_) => false,
        }
    }
}

/// What a session has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Update<T> {
    /// Announce a stream, of which `wanted` has made this.
    Announce(Arc<str>, T),
    /// Retract it.
    Retract(Arc<str>),
}

impl Streams {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { known: Mutex::default(), changes: broadcast::Sender::new(CHANGES_MAX) }
    }

    /// A stream begins, or goes on with another publisher, unless it has ended already.
    pub(crate) fn published(&self, key: Arc<str>, home: &HomeOf) {
        if home(&key).is_some() && self.lock().insert(Arc::clone(&key)) {
            self.tell(Change::Published(key));
        }
    }

    /// A stream has ended, unless it is published again already.
    pub(crate) fn ended(&self, key: &str, home: &HomeOf) {
        if home(key).is_none()
            && let Some(key) = self.lock().take(key)
        {
            self.tell(Change::Ended(key));
        }
    }

    /// Looks at all, for news of ends that found no room.
    pub(crate) fn review(&self, home: &HomeOf) {
        let gone: Vec<Arc<str>> = self.lock().iter().filter(|key| home(key).is_none()).cloned().collect();
        gone.iter().for_each(|key| self.ended(key, home));
    }

    /// Who may play what is another matter now.
    pub(crate) fn permissions_changed(&self) {
        self.tell(Change::Permissions);
    }

    /// What a session announces of these streams: at most `max`.
    pub(crate) fn listing(&self, names: Names, max: usize) -> Listing {
        let (changes, shown) = (self.changes.subscribe(), BTreeSet::new());
        Listing { changes, names, max, shown, has_more: false, must_look: true }
    }

    fn tell(&self, change: Change) {
        // Sessions may all have gone.
        let _ = self.changes.send(change);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        // It is whole between any two statements.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listing {
    /// Waits for changes, and says what to do; `wanted` makes something of each stream that the session may
    /// play. `None` when the server ends. Dropped while it waits, it has missed nothing.
    pub(crate) async fn next<T>(
        &mut self,
        streams: &Streams,
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<Update<T>>> {
        loop {
            if std::mem::take(&mut self.must_look) {
                let updates = self.look(streams, &wanted);
                if !updates.is_empty() {
                    return Some(updates);
                }
            }
            match self.changes.recv().await {
                Ok(Change::Published(key)) if self.names.has(&key) && !self.shown.contains(&key) => {
                    let Some(made) = wanted(&key) else { continue };
                    if self.shown.len() >= self.max {
                        self.has_more = true;
                        continue;
                    }
                    self.shown.insert(Arc::clone(&key));
                    return Some(vec![Update::Announce(key, made)]);
                }
                Ok(Change::Ended(key)) if self.names.has(&key) && self.shown.remove(&key) => {
                    self.must_look = self.has_more;
                    return Some(vec![Update::Retract(key)]);
                }
                Ok(Change::Published(_) | Change::Ended(_)) => {}
                Ok(Change::Permissions) | Err(RecvError::Lagged(_)) => self.must_look = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Looks at all names. What is announced and may be stays, whatever comes before it.
    fn look<T>(&mut self, streams: &Streams, wanted: impl Fn(&str) -> Option<T>) -> Vec<Update<T>> {
        let known = streams.lock();
        let is_there = |key: &Arc<str>| matches!(self.names, Names::One(_)) || known.contains(key);
        let stays = |key: &Arc<str>| is_there(key) && wanted(key).is_some();
        let gone: Vec<_> = self.shown.iter().filter(|key| !stays(key)).cloned().collect();
        let mut updates = Vec::new();
        for key in gone {
            self.shown.remove(&key);
            updates.push(Update::Retract(key));
        }
        self.has_more = false;
        let (below, one) = match &self.names {
            Names::Below(app) if app.is_empty() => (String::new(), None),
            Names::Below(app) => (format!("{app}/"), None),
            Names::One(key) => (String::new(), Some(key)),
        };
        let from = (Bound::Included(below.as_str()), Bound::Unbounded);
        let published = known.range::<str, _>(from).take_while(|key| key.starts_with(&below));
        for key in one.into_iter().chain(published.filter(|_| one.is_none())) {
            if self.shown.contains(key) {
                continue;
            }
            let Some(made) = wanted(key) else { continue };
            if self.shown.len() >= self.max {
                self.has_more = true;
                break;
            }
            self.shown.insert(Arc::clone(key));
            updates.push(Update::Announce(Arc::clone(key), made));
        }
        updates
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What a listing has to do now, as words; none if it waits.
    fn updates(
        listing: &mut Listing,
        streams: &Streams,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<Vec<String>> {
        let next = pin!(listing.next(streams, |key| wanted(key).then_some(())));
        let Poll::Ready(updates) = next.poll(&mut Context::from_waker(Waker::noop())) else { return None };
        let words = |update| match update {
            Update::Announce(key, ()) => format!("+{key}"),
            Update::Retract(key) => format!("-{key}"),
        };
        Some(updates.expect("the server runs").into_iter().map(words).collect())
    }

    fn below_live() -> Names {
        Names::Below("live".to_owned())
    }

    fn said(words: &[&str]) -> Option<Vec<String>> {
        Some(words.iter().map(|word| (*word).to_owned()).collect())
    }

    fn published(streams: &Streams, keys: &[&str]) {
        keys.iter().for_each(|key| streams.published((*key).into(), &|_| Some(0)));
    }

    #[test]
    fn a_session_hears_of_what_begins_and_ends_below_its_path() {
        let streams = Streams::new();
        published(&streams, &["live/b", "lively/x", "live/a", "other/c"]);
        let mut all = streams.listing(Names::Below(String::new()), 100);
        let mut live = streams.listing(below_live(), 100);
        assert_eq!(
            updates(&mut all, &streams, |key| key != "live/b"),
            said(&["+live/a", "+lively/x", "+other/c"])
        );
        assert_eq!(updates(&mut live, &streams, |_| true), said(&["+live/a", "+live/b"]));
        assert_eq!(updates(&mut live, &streams, |_| true), None);
        // One that goes on with another publisher is neither new nor gone.
        published(&streams, &["live/a", "other/d", "live/e"]);
        streams.ended("live/a", &|_| Some(0));
        streams.ended("live/b", &|_| None);
        assert_eq!(updates(&mut live, &streams, |_| true), said(&["+live/e"]));
        assert_eq!(updates(&mut live, &streams, |_| true), said(&["-live/b"]));
        assert_eq!(updates(&mut live, &streams, |_| true), None);
        // News of a beginning that come behind those of its end.
        streams.published("live/late".into(), &|_| None);
        assert_eq!(updates(&mut live, &streams, |_| true), None);
        // An end that nobody told of, and other permissions.
        streams.review(&|key| (key != "live/e").then_some(0));
        streams.permissions_changed();
        assert_eq!(updates(&mut live, &streams, |_| false), said(&["-live/e"]));
        assert_eq!(updates(&mut live, &streams, |_| false), said(&["-live/a"]));
        streams.permissions_changed();
        assert_eq!(updates(&mut live, &streams, |_| true), said(&["+live/a"]));
    }

    #[test]
    fn a_path_that_is_a_stream_is_announced_whether_it_is_published_or_not() {
        let streams = Streams::new();
        let mut listing = streams.listing(Names::One("live/a".into()), 2);
        assert_eq!(updates(&mut listing, &streams, |_| true), said(&["+live/a"]));
        published(&streams, &["live/a", "live/b"]);
        streams.ended("live/a", &|_| None);
        assert_eq!(updates(&mut listing, &streams, |_| true), None);
        streams.permissions_changed();
        assert_eq!(updates(&mut listing, &streams, |_| false), said(&["-live/a"]));
    }

    #[test]
    fn what_had_no_room_is_announced_when_there_is_and_nothing_makes_way() {
        let streams = Streams::new();
        published(&streams, &["live/b", "live/c", "live/d"]);
        let mut listing = streams.listing(below_live(), 2);
        assert_eq!(updates(&mut listing, &streams, |_| true), said(&["+live/b", "+live/c"]));
        published(&streams, &["live/a"]);
        assert_eq!(updates(&mut listing, &streams, |_| true), None);
        streams.ended("live/c", &|_| None);
        assert_eq!(updates(&mut listing, &streams, |_| true), said(&["-live/c"]));
        assert_eq!(updates(&mut listing, &streams, |_| true), said(&["+live/a"]));
        assert_eq!(updates(&mut listing, &streams, |_| true), None);
    }

    #[test]
    fn a_session_that_missed_changes_looks_again() {
        let streams = Streams::new();
        published(&streams, &["live/a"]);
        let mut listing = streams.listing(below_live(), 10_000);
        assert_eq!(updates(&mut listing, &streams, |_| true), said(&["+live/a"]));
        streams.ended("live/a", &|_| None);
        (0..2 * CHANGES_MAX)
            .for_each(|number| streams.published(format!("live/{number:05}").into(), &|_| Some(0)));
        let found = updates(&mut listing, &streams, |_| true).expect("much is new");
        assert_eq!((found.len(), &*found[0], &*found[1]), (1 + 2 * CHANGES_MAX, "-live/a", "+live/00000"));
        // What it had not heard of yet, it knows.
        assert_eq!(updates(&mut listing, &streams, |_| true), None);
    }

    #[test]
    fn with_ten_thousand_streams_a_change_costs_one_look_and_none_without() {
        const STREAMS: usize = 10_000;
        let streams = Streams::new();
        let name = |number: usize| format!("live/{number:05}");
        (0..STREAMS).for_each(|number| streams.published(name(number).into(), &|_| Some(0)));
        let looked = Cell::new(0);
        let wanted = |_: &str| {
            looked.set(looked.get() + 1);
            true
        };
        let mut sessions: Vec<_> = (0..100).map(|_| streams.listing(below_live(), 256)).collect();
        for session in &mut sessions {
            assert_eq!(updates(session, &streams, wanted).map(|found| found.len()), Some(256));
        }
        assert_eq!(looked.take(), 100 * 257, "as many as are announced, and one that is not");
        for session in &mut sessions {
            assert_eq!(updates(session, &streams, wanted), None);
        }
        assert_eq!(looked.take(), 0);
        // An end of one that is not announced, a beginning, and an end of one that is.
        streams.ended(&name(9_999), &|_| None);
        streams.published("live/new".into(), &|_| Some(0));
        for session in &mut sessions {
            assert_eq!(updates(session, &streams, wanted), None);
        }
        assert_eq!(looked.take(), 100);
        streams.ended(&name(7), &|_| None);
        for session in &mut sessions {
            assert_eq!(updates(session, &streams, wanted), said(&["-live/00007"]));
            assert_eq!(updates(session, &streams, wanted), said(&["+live/00256"]));
        }
        assert!(looked.take() <= 100 * 258);
    }
}
