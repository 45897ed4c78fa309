//! What all tasks of this crate share, and the tasks that begin others: for streams, for nodes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cluster::{Directory, Event, Events, LostBecause, NodeName, StreamName};
use node_link::{Goodbye, Node};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::{debug, error, info};
use worker_api::WorkerHandles;

use crate::clock::Clock;
use crate::links::{self, Links, Warnings};
use crate::local::Local;
use crate::settings::Settings;
use crate::stream::{self, Lost, Slot};
use crate::task;
use crate::tls::Tls;

/// How often a node that drains looks whether others still fetch from it.
const CHILDREN_EVERY: Duration = Duration::from_millis(5);

pub(crate) struct Center {
    pub(crate) settings: Settings,
    /// This node, as it introduces itself.
    pub(crate) me: Node,
    pub(crate) name: NodeName,
    pub(crate) clock: Clock,
    pub(crate) tls: Tls,
    pub(crate) directory: Arc<Directory>,
    pub(crate) workers: WorkerHandles,
    /// Where datagrams for this node go, if its workers have a relay of packets; and its socket.
    pub(crate) relay_address: Option<String>,
    pub(crate) relay_socket: Option<SocketAddr>,
    pub(crate) local: Arc<Local>,
    pub(crate) links: Links,
    pub(crate) warnings: Warnings,
    /// Streams that are published or wanted here.
    streams: Mutex<HashMap<StreamName, Arc<Slot>>>,
    /// Parents that were left because no datagram of them came.
    pub(crate) silent_parents: AtomicU64,
    is_draining: AtomicBool,
    is_leaving: AtomicBool,
    /// Another node has this one's name.
    is_nameless: AtomicBool,
}

impl Center {
    pub(crate) fn new(
        settings: Settings,
        clock: Clock,
        tls: Tls,
        directory: Arc<Directory>,
        (workers, relay_socket): (WorkerHandles, Option<SocketAddr>),
        local: Arc<Local>,
    ) -> Self {
        let announced = &settings.directory.addresses.relay_udp;
        let relay_address = relay_socket.map(|socket| match announced.strip_suffix(":0") {
            Some(host) => format!("{host}:{}", socket.port()),
            None => announced.clone(),
        });
        let name = settings.directory.name.clone();
        let me = Node {
            name: name.to_string(),
            instance: directory.instance().0,
            software: settings.directory.software.clone(),
        };
        Self {
            settings,
            me,
            name,
            clock,
            tls,
            directory,
            workers,
            relay_address,
            relay_socket,
            local,
            links: Links::new(),
            warnings: Warnings::default(),
            streams: Mutex::default(),
            silent_parents: AtomicU64::new(0),
            is_draining: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            is_nameless: AtomicBool::new(false),
        }
    }

    /// The stream, if it is published or wanted here.
    pub(crate) fn slot(&self, stream: &StreamName) -> Option<Arc<Slot>> {
        self.streams().get(stream).cloned()
    }

    pub(crate) fn streams(&self) -> MutexGuard<'_, HashMap<StreamName, Arc<Slot>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the tasks of all streams look how things are.
    pub(crate) fn wake_streams(&self) {
        self.streams().values().for_each(|slot| slot.wake());
    }

    /// The others take no stream from this node any more.
    pub(crate) fn drain(&self) {
        if !self.is_draining.swap(true, Ordering::Relaxed) {
            self.directory.set_draining(true);
        }
    }

    /// Whether another node does, as the directory says.
    pub(crate) fn is_other_draining(&self, name: &NodeName) -> bool {
        self.directory.nodes().iter().any(|node| node.name == *name && node.draining)
    }

    /// Waits until no other node fetches here what this one fetches itself: they all have another parent, or
    /// there is none.
    pub(crate) async fn until_left_by_children(&self) {
        while self.streams().values().any(|slot| slot.is_fetched() && slot.has_children()) {
            sleep(CHILDREN_EVERY).await;
        }
    }

    /// Whether this node serves no further node.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Whether this node links to no further node.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Whether this node has lost its name.
    pub(crate) fn is_nameless(&self) -> bool {
        self.is_nameless.load(Ordering::Relaxed)
    }

    /// Closes all links, and opens none.
    pub(crate) fn close_links(&self, why: Goodbye) {
        self.is_leaving.store(true, Ordering::Relaxed);
        for link in self.links.all() {
            link.driven.with(|machine, _| machine.say_goodbye(why));
        }
    }
}

/// Begins a task for each stream that has something to do with this node, until the task is ended.
pub(crate) async fn follow_workers(center: Arc<Center>) {
    loop {
        for key in center.local.changes().await {
            let Some(stream) = StreamName::new(&key) else {
                debug!(key, "the cluster has no such names");
                continue;
            };
            let mut streams = center.streams();
            if let Some(slot) = streams.get(&stream) {
                slot.wake();
                continue;
            }
            let now = center.local.stream(&key);
            if now.wanted || now.own.is_some() {
                let slot = Arc::new(Slot::new(stream.clone()));
                streams.insert(stream, Arc::clone(&slot));
                task::spawn(stream::run(Arc::clone(&center), slot));
            }
        }
    }
}

/// Passes on what changes in the cluster, until the task is ended.
pub(crate) async fn follow_directory(center: Arc<Center>, mut events: Events) {
    let mut nodes = HashMap::new();
    for node in center.directory.nodes() {
        keep_link(&center, &mut nodes, Arc::new(node));
    }
    loop {
        match events.next().await {
            Ok(Event::NodeUp(node) | Event::NodeChanged(node)) => {
                keep_link(&center, &mut nodes, node);
                center.wake_streams();
            }
            Ok(Event::NodeGone(name, _)) => {
                if let Some((_, task)) = nodes.remove(&name) {
                    task.abort();
                }
                center.wake_streams();
            }
            Ok(Event::StreamUp(stream, _) | Event::StreamGone(stream) | Event::FeedsChanged(stream)) => {
                if let Some(slot) = center.slot(&stream) {
                    slot.wake();
                }
            }
            Ok(Event::Lost { stream, epoch, to, because }) => {
                if let Some(slot) = center.slot(&stream) {
                    slot.lose(Lost { epoch, to, because });
                }
            }
            Ok(Event::Heard) => info!("the directory is heard"),
            Ok(Event::NotHeard) => info!("the directory is not heard; what is known stays"),
            Ok(Event::NameTaken { by }) => {
                error!(
                    name = %center.name,
                    instance = by.0,
                    "another node has this node's name (`cluster.node_name`): this one is out of the cluster"
                );
                center.is_nameless.store(true, Ordering::Relaxed);
                center.close_links(Goodbye::NameLost);
                center.wake_streams();
            }
            Err(missed) => {
                debug!(missed, "events of the directory were missed");
                let living = center.directory.nodes();
                nodes.retain(|name, (_, task): &mut (_, AbortHandle)| {
                    let lives = living.iter().any(|node| node.name == *name);
                    if !lives {
                        task.abort();
                    }
                    lives
                });
                living.into_iter().for_each(|node| keep_link(&center, &mut nodes, Arc::new(node)));
                center.wake_streams();
            }
        }
    }
}

fn keep_link(
    center: &Arc<Center>,
    nodes: &mut HashMap<NodeName, (Arc<cluster::Node>, AbortHandle)>,
    node: Arc<cluster::Node>,
) {
    if node.name == center.name {
        return;
    }
    let is_same =
        |known: &cluster::Node| (known.instance, &known.addresses) == (node.instance, &node.addresses);
    match nodes.get(&node.name) {
        Some((known, _)) if is_same(known) => {}
        before => {
            if let Some((_, task)) = before {
                task.abort();
            }
            let task = task::spawn(links::keep(Arc::clone(center), Arc::clone(&node)));
            nodes.insert(node.name.clone(), (node, task));
        }
    }
}

/// Wakes streams when links come and go, until the task is ended.
pub(crate) async fn follow_links(center: Arc<Center>) {
    let mut changes = center.links.changes();
    while changes.changed().await.is_ok() {
        center.wake_streams();
    }
}

impl Lost {
    /// For the log.
    pub(crate) fn reason(&self) -> &'static str {
        match self.because {
            LostBecause::TakenOver => "another publisher took over",
            LostBecause::NotHeard => "this node was not heard, and another publisher began meanwhile",
            LostBecause::Split => "the nodes were apart, and another publisher of the name stays",
        }
    }
}
