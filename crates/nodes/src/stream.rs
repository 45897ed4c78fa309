//! One stream on this node, from its first publisher or player here to the last: the claim of its name while
//! it is published here, and the fetch of it (`fetch.rs`) while it is wanted here.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Description, Epoch, Granted, LostBecause, NodeName, Policy, Refusal, StreamName};
use node_link::{Lane, Publication};
use tokio::sync::{broadcast, watch};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use worker_api::EndReason;
use worker_api::streams::Published;

use crate::center::Center;
use crate::describe;
use crate::fetch;
use crate::local::Own;
use crate::packets::{self, KeyChanges, KeyHolders, News};

/// A worker that did not answer is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// A stream, as the tasks that have to do with it share it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) stream: StreamName,
    /// Something that concerns it may have changed.
    changed: watch::Sender<()>,
    /// Whether other nodes can get it here.
    serving: watch::Sender<Serving>,
    lost: Mutex<Option<Lost>>,
    /// The node that it is fetched from, as the directory was told.
    feed: Mutex<Option<NodeName>>,
    /// What tasks of a stream of packets have to know.
    pub(crate) news: broadcast::Sender<News>,
    pub(crate) key_holders: KeyHolders,
    /// Nodes that are fed, and by how many subscriptions: one that asks again may do so before the end of
    /// the first was noticed.
    children: Mutex<HashMap<NodeName, usize>>,
}

/// Whether other nodes can get a stream here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Serving {
    /// No.
    Nothing,
    /// It is asked of another node.
    Fetching {
        /// This one.
        parent: NodeName,
    },
    /// Yes.
    Here {
        /// What it is.
        publication: Publication,
        /// Worker that has it.
        worker: usize,
        /// Number of it on this node, if it is no fetched one.
        local: Option<worker_api::streams::Epoch>,
        /// The node that it comes from.
        parent: Option<NodeName>,
    },
}

/// A publication of this node lost its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) epoch: Epoch,
    pub(crate) to: NodeName,
    pub(crate) because: LostBecause,
}

impl Slot {
    pub(crate) fn new(stream: StreamName) -> Self {
        Self {
            stream,
            changed: watch::Sender::new(()),
            serving: watch::Sender::new(Serving::Nothing),
            lost: Mutex::default(),
            feed: Mutex::default(),
            news: packets::news(),
            key_holders: KeyHolders::default(),
            children: Mutex::default(),
        }
    }

    /// Its application, and its name there.
    pub(crate) fn app_and_name(&self) -> (String, String) {
        let (app, name) = self.stream.as_str().rsplit_once('/').expect("names of streams have a slash");
        (app.to_owned(), name.to_owned())
    }

    /// Has its tasks look how things are.
    pub(crate) fn wake(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(crate) fn serving(&self) -> watch::Receiver<Serving> {
        self.serving.subscribe()
    }

    pub(crate) fn set_serving(&self, serving: Serving) {
        self.serving.send_if_modified(|before| {
            let is_other = *before != serving;
            *before = serving;
            is_other
        });
    }

    /// Tells the directory from whom the stream is fetched.
    pub(crate) fn set_feed(&self, center: &Center, parent: Option<&NodeName>) {
        let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
        if feed.as_ref() != parent {
            *feed = parent.cloned();
            center.directory.set_feed(&self.stream, parent.cloned());
        }
    }

    /// Whether another node feeds this one with it.
    pub(crate) fn is_fetched(&self) -> bool {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    pub(crate) fn lose(&self, lost: Lost) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(lost);
        self.wake();
    }

    fn take_lost(&self, epoch: Epoch) -> Option<Lost> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.take_if(|lost| lost.epoch == epoch)
    }

    /// Makes room for one more node, if there are fewer than `max`. Those that go soon do not count.
    pub(crate) fn add_child(
        self: &Arc<Self>,
        node: &NodeName,
        max: usize,
        goes: impl Fn(&NodeName) -> bool,
    ) -> Option<Child> {
        let mut children = self.children();
        if children.keys().filter(|other| *other != node && !goes(other)).count() >= max {
            return None;
        }
        *children.entry(node.clone()).or_default() += 1;
        drop(children);
        self.wake();
        Some(Child { slot: Arc::clone(self), node: node.clone() })
    }

    /// Whether it is served to other nodes.
    pub(crate) fn has_children(&self) -> bool {
        !self.children().is_empty()
    }

    /// Nodes that are fed from here, whatever they say of themselves.
    pub(crate) fn child_names(&self) -> Vec<NodeName> {
        self.children().keys().cloned().collect()
    }

    fn children(&self) -> MutexGuard<'_, HashMap<NodeName, usize>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node that is fed.
#[derive(Debug)]
pub(crate) struct Child {
    slot: Arc<Slot>,
    node: NodeName,
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut children = self.slot.children();
        if let Some(count) = children.get_mut(&self.node) {
            *count -= 1;
            if *count == 0 {
                children.remove(&self.node);
            }
        }
        drop(children);
        // The key that it had is to be changed, and the stream may be wanted by nobody now.
        self.slot.wake();
    }
}

/// Does what a stream needs, until it has neither publisher nor player here.
pub(crate) async fn run(center: Arc<Center>, slot: Arc<Slot>) {
    let key = slot.stream.as_str();
    loop {
        let now = center.local.stream(key);
        if let Some(own) = now.own {
            publish(&center, &slot, own).await;
        } else if now.wanted {
            let fetch = pin!(fetch::run(&center, &slot));
            tokio::select! {
                never = fetch => match never {},
                () = until_unwanted(&center, &slot) => {}
            }
        } else {
            let mut streams = center.streams();
            // It may have come back since.
            let now = center.local.stream(key);
            if now.own.is_none() && !now.wanted {
                streams.remove(&slot.stream);
                return;
            }
        }
        slot.set_serving(Serving::Nothing);
        slot.set_feed(&center, None);
    }
}

/// Waits until the stream is published here, or is not wanted and was not for a while. Nodes that are fed want
/// it as players do: of packets the workers know nothing of them.
async fn until_unwanted(center: &Center, slot: &Slot) {
    let mut changes = slot.changes();
    loop {
        let now = || center.local.stream(slot.stream.as_str());
        let is_wanted = || now().wanted || slot.has_children();
        let wait = match (now().own, is_wanted()) {
            (Some(_), _) => return,
            (None, true) => None,
            (None, false) => Some(center.settings.linger),
        };
        let is_wanted_again = async {
            loop {
                let _ = changes.changed().await;
                if now().own.is_some() || wait.is_none() || is_wanted() {
                    return;
                }
            }
        };
        match wait {
            None => is_wanted_again.await,
            Some(wait) => {
                if timeout(wait, is_wanted_again).await.is_err() {
                    debug!(stream = %slot.stream, "stream released: nobody has asked for it for a while");
                    return;
                }
            }
        }
    }
}

/// Claims the name of a stream that is published here, and holds it until it has ended.
async fn publish(center: &Arc<Center>, slot: &Arc<Slot>, mut own: Own) {
    let mut changes = slot.changes();
    let mut keys: Option<KeyChanges> = None;
    let mut granted: Option<(Granted, Arc<Description>)> = None;
    'publications: loop {
        let described = Arc::new(describe::describe(&own.published, &own.codecs));
        // One of this node that has the name already was replaced here.
        let policy = if own.takes_over || granted.is_some() { Policy::TakeOver } else { Policy::Refuse };
        let claim = center.directory.claim(&slot.stream, Arc::clone(&described), policy);
        match claim.await {
            Ok(given) => {
                info!(
                    stream = %slot.stream,
                    epoch = given.epoch.0,
                    provisional = given.provisional,
                    replaced = given.replaced.as_ref().map(NodeName::as_str),
                    "published in the cluster"
                );
                slot.set_serving(here(center, &own, &given));
                granted = Some((given, described));
            }
            Err(refusal) => {
                slot.set_serving(Serving::Nothing);
                let reason = refused(center, slot, &refusal);
                granted = None;
                end(center, slot, &own, reason).await;
            }
        }
        loop {
            changes.borrow_and_update();
            let now = center.local.stream(slot.stream.as_str()).own;
            match (now, &mut granted) {
                (None, granted) => {
                    if let Some((given, _)) = granted {
                        center.directory.release(&slot.stream, given.epoch);
                    }
                    return;
                }
                (Some(now), _) if now.epoch != own.epoch => {
                    // The next claim says which publication it is.
                    slot.set_serving(Serving::Nothing);
                    own = now;
                    continue 'publications;
                }
                (Some(now), Some((given, described))) => {
                    if let Some(lost) = slot.take_lost(given.epoch) {
                        warn!(
                            stream = %slot.stream,
                            to = %lost.to,
                            "the publisher here is ended, the stream is published on another node: {}",
                            lost.reason()
                        );
                        slot.set_serving(Serving::Nothing);
                        granted = None;
                        end(center, slot, &own, EndReason::PublishedElsewhere).await;
                        continue;
                    }
                    if center.is_nameless() {
                        slot.set_serving(Serving::Nothing);
                        granted = None;
                        end(center, slot, &own, NAMELESS).await;
                        continue;
                    }
                    let published = describe::describe(&now.published, &now.codecs);
                    if published != **described {
                        *described = Arc::new(published);
                        center.directory.update(&slot.stream, given.epoch, Arc::clone(described));
                    }
                }
                (Some(_), None) => {}
            }
            let has_keys = granted.is_some() && matches!(own.published, Published::Packets(_));
            if has_keys != keys.is_some() {
                keys = has_keys.then(|| KeyChanges::start(center, slot));
            }
            let _ = changes.changed().await;
        }
    }
}

const NAMELESS: EndReason = EndReason::Refused("this node's name belongs to another node of the cluster");

fn here(center: &Center, own: &Own, granted: &Granted) -> Serving {
    let lane = match own.published {
        Published::Packets(_) => Lane::Packets,
        _ => Lane::Frames,
    };
    let (instance, epoch) = (center.directory.instance().0, granted.epoch.0);
    let publication = Publication { lane, instance, epoch, tracks: Vec::new() };
    Serving::Here { publication, worker: own.worker, local: Some(own.epoch), parent: None }
}

/// Says why a publication may not be, and returns the reason for its publisher.
fn refused(center: &Center, slot: &Slot, refusal: &Refusal) -> EndReason {
    let stream = &slot.stream;
    match refusal {
        Refusal::TakenBy(node) => {
            warn!(%stream, %node, "the publisher here is ended: the stream is published on another node");
            EndReason::PublishedElsewhere
        }
        Refusal::TooMuch => {
            warn!(%stream, "the publisher here is ended: this node has as many streams as a cluster takes");
            EndReason::Refused("this node publishes as many streams as the cluster takes")
        }
        Refusal::Leaving if center.is_nameless() => NAMELESS,
        Refusal::Leaving => EndReason::Draining,
    }
}

/// Ends a publication of this node.
async fn end(center: &Center, slot: &Slot, own: &Own, reason: EndReason) {
    let key = slot.stream.as_str();
    loop {
        match center.workers.end_publication(own.worker, key, own.epoch, reason).await {
            Ok(_) => return,
            Err(error) => {
                warn!(stream = %slot.stream, worker = error.worker, "a worker does not answer");
                sleep(ASK_AGAIN).await;
            }
        }
        let now = center.local.stream(key).own;
        if now.is_none_or(|now| now.epoch != own.epoch) {
            return;
        }
    }
}
