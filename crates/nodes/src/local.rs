//! What the workers say of this node: streams that are wanted here, and streams that are published here.
//!
//! Workers call from the middle of their work, so nothing waits here. Kept is how things are, not what
//! happened: however many changes a stream has before they are looked at, it is one entry.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cluster::{Directory, Home, Node, StreamName};
use media::Codec;
use tokio::sync::Notify;
use worker_api::cluster::{Elsewhere, Publication};
use worker_api::streams::{Epoch, Published};

use crate::describe;
use crate::settings::Redirect;

/// What workers and this crate share.
#[derive(Debug)]
pub(crate) struct Local {
    redirect: Redirect,
    /// Absent until it is connected.
    directory: OnceLock<Arc<Directory>>,
    inner: Mutex<Inner>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    streams: HashMap<String, Stream>,
    /// Streams that were not looked at since they changed.
    changed: HashSet<String>,
}

/// How things are with one stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream {
    /// There are players, and no publisher but maybe a fetched one.
    pub(crate) wanted: bool,
    /// What is published here.
    pub(crate) own: Option<Own>,
}

/// A publication of this node.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) epoch: Epoch,
    pub(crate) worker: usize,
    pub(crate) published: Published,
    /// Codecs it was published with; empty until known, and for packets.
    pub(crate) codecs: Vec<Codec>,
    pub(crate) takes_over: bool,
}

impl Local {
    /// Nothing is known yet.
    pub(crate) fn new(redirect: Redirect) -> Self {
        Self { redirect, directory: OnceLock::new(), inner: Mutex::default(), changed: Notify::new() }
    }

    /// From now on other nodes' streams are known.
    pub(crate) fn set_directory(&self, directory: Arc<Directory>) {
        // It is set once.
        let _ = self.directory.set(directory);
    }

    /// How things are with a stream now.
    pub(crate) fn stream(&self, key: &str) -> Stream {
        self.lock().streams.get(key).cloned().unwrap_or_default()
    }

    /// Waits for streams that changed, and names them.
    pub(crate) async fn changes(&self) -> HashSet<String> {
        loop {
            let changed = std::mem::take(&mut self.lock().changed);
            if !changed.is_empty() {
                return changed;
            }
            self.changed.notified().await;
        }
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Stream)) {
        let mut inner = self.lock();
        let stream = inner.streams.entry(key.to_owned()).or_default();
        change(stream);
        if !stream.wanted && stream.own.is_none() {
            inner.streams.remove(key);
        }
        inner.changed.insert(key.to_owned());
        drop(inner);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elsewhere for Local {
    fn published(&self, key: &str) -> Option<Published> {
        let directory = self.directory.get()?;
        let home = directory.find(&StreamName::new(key)?)?;
        (home.instance != directory.instance()).then(|| describe::published(&home.description))
    }

    fn redirect(&self, key: &str, is_full: bool) -> Option<String> {
        let directory = self.directory.get()?;
        if self.redirect == Redirect::Never {
            return None;
        }
        let home = directory.find(&StreamName::new(key)?)?;
        let mut nodes = directory.nodes();
        let at = nodes.iter().position(|node| node.instance == directory.instance());
        let me = at.map(|at| nodes.swap_remove(at))?;
        choose_other(self.redirect, &me, &home, nodes, is_full).map(|node| node.addresses.http)
    }

    fn wanted(&self, key: &str) {
        self.change(key, |stream| stream.wanted = true);
    }

    fn unwanted(&self, key: &str) {
        self.change(key, |stream| stream.wanted = false);
    }

    fn started(&self, publication: &Publication<'_>) {
        let Publication { key, epoch, worker, published, takes_over } = *publication;
        let own = Own { epoch, worker, published: published.clone(), codecs: Vec::new(), takes_over };
        self.change(key, |stream| stream.own = Some(own));
    }

    fn changed(&self, key: &str, epoch: Epoch, published: &Published) {
        self.change(key, |stream| {
            if let Some(own) = stream.own.as_mut().filter(|own| own.epoch == epoch) {
                own.published = published.clone();
            }
        });
    }

    fn codecs(&self, key: &str, epoch: Epoch, codecs: &[Codec]) {
        self.change(key, |stream| {
            if let Some(own) = stream.own.as_mut().filter(|own| own.epoch == epoch) {
                own.codecs = codecs.to_vec();
            }
        });
    }

    fn ended(&self, key: &str, epoch: Epoch) {
        self.change(key, |stream| {
            stream.own.take_if(|own| own.epoch == epoch);
        });
    }
}

/// The node that a player is to go to instead of `me`.
fn choose_other(
    redirect: Redirect,
    me: &Node,
    home: &Home,
    others: Vec<Node>,
    is_full: bool,
) -> Option<Node> {
    let has_room = |node: &Node| !node.draining && !node.addresses.http.is_empty() && !node.load.is_busy();
    let mut others = others.into_iter().filter(has_room);
    match redirect {
        Redirect::Always if home.instance != me.instance => {
            others.find(|node| node.instance == home.instance)
        }
        Redirect::WhenFull if is_full || me.load.is_busy() => {
            others.min_by_key(|node| node.load.cpu_permille)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use worker_api::streams::WebrtcAvailability;

    use super::*;

    #[tokio::test]
    async fn many_changes_are_one_and_what_has_passed_leaves_nothing() {
        let local = Local::new(Redirect::Never);
        let published = Published::Frames(WebrtcAvailability::Unknown);
        let begin = |epoch| {
            let (epoch, published) = (Epoch(epoch), &published);
            local.started(&Publication { key: "live/a", epoch, worker: 1, published, takes_over: false });
        };
        local.wanted("live/a");
        local.unwanted("live/a");
        begin(1);
        begin(2);
        local.ended("live/a", Epoch(1));
        local.wanted("live/b");
        let changes = local.changes().await;
        assert_eq!(changes, HashSet::from(["live/a".to_owned(), "live/b".to_owned()]));
        let stream = local.stream("live/a");
        assert_eq!((stream.wanted, stream.own.map(|own| own.epoch)), (false, Some(Epoch(2))));
        local.changed("live/a", Epoch(1), &Published::Packets([].into()));
        assert_eq!(local.stream("live/a").own.unwrap().published, published, "of one that was replaced");
        local.ended("live/a", Epoch(2));
        local.unwanted("live/b");
        assert!(local.lock().streams.is_empty());
        assert_eq!(local.changes().await.len(), 2);
        assert_eq!(local.published("live/a"), None, "nothing is known before the directory is connected");
    }
}
