//! This node among the others of its cluster.
//!
//! A thread of its own with one event loop: the directory (`cluster`), a link to each other node
//! (`node_link` over TLS, `links.rs` and `connection.rs`), and a task for each stream that is published or
//! wanted here (`stream.rs`). Workers report by [`Elsewhere`] what they have and want (`local.rs`), and are
//! asked by commands: to publish what is fetched (`fetch.rs`), to play what is served (`serve.rs`), to end
//! what another node has the name of.
//!
//! ```text
//!              node A: home of live/a                        node B
//! publisher -> worker --tap--> serve.rs --- link, TLS ---> fetch.rs --publish--> worker -> players
//!                 |                                           ^                     |
//!              started                                    StreamUp               wanted
//!                 v                                           |                     v
//!              stream.rs --claim--> directory, NATS ----> directory <-- find -- stream.rs
//! ```
//!
//! Frames cross this thread by reference; encrypting them for the other nodes is the work it does. Packets
//! of WebRTC streams do not cross it: they go from worker to worker by UDP, and what that needs is arranged
//! here (`packets.rs`). If this thread stands still, players of this node's own streams notice nothing.

mod center;
mod clock;
mod connection;
mod describe;
mod fetch;
mod links;
mod local;
mod packets;
mod serve;
mod settings;
mod socket;
mod splice;
mod status;
mod strangers;
mod stream;
mod task;
mod tls;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cluster::Directory;
use control::cluster::ClusterSource;
use node_link::Goodbye;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tracing::warn;
use worker_api::WorkerHandles;
use worker_api::cluster::Elsewhere;

use crate::center::Center;
use crate::clock::Clock;
use crate::local::Local;
use crate::status::View;
use crate::tls::Tls;

pub use settings::{Redirect, Settings};

/// Time for nodes that fetch from this one to find another, when it drains.
const CHILDREN_WITHIN: Duration = Duration::from_secs(1);
/// Time for the goodbyes on all links.
const GOODBYE_WITHIN: Duration = Duration::from_millis(600);

/// This node's part in its cluster. Dropping it ends that at once, without a word to the others.
#[derive(Debug)]
pub struct ClusterMembership {
    local: Arc<Local>,
    view: Arc<View>,
    addresses: Vec<SocketAddr>,
    commands: mpsc::Sender<Command>,
}

#[derive(Debug)]
enum Command {
    Serve(WorkerHandles, Option<SocketAddr>),
    Drain(oneshot::Sender<()>),
    Leave(oneshot::Sender<()>),
}

/// Commands that wait; there are a few in a node's life.
const COMMANDS_MAX: usize = 16;

impl ClusterMembership {
    /// Binds the addresses for other nodes, and connects to the directory: a name that another living node
    /// has is an error. Without NATS it goes on after two seconds.
    pub async fn start(settings: Settings) -> Result<Self, String> {
        if let Some(file) = &settings.exposed_secret_file {
            warn!(
                file = %file.display(),
                "others than its owner can read the cluster's secret (`cluster.secret_file`), and whoever has \
                 it is a node: chmod 600"
            );
        }
        let local = Arc::new(Local::new(settings.redirect));
        let view = Arc::new(View::new(settings.directory.name.to_string()));
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let (started, start) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the thread of nodes could not start: {error}"))?;
        let of_thread = (Arc::clone(&local), Arc::clone(&view));
        let run = move || {
            // As in its tasks.
            let running = AssertUnwindSafe(|| runtime.block_on(run(settings, of_thread, received, started)));
            if std::panic::catch_unwind(running).is_err() {
                std::process::exit(task::EXIT_PANIC);
            }
            // Not by dropping it: that would wait for a name that is being resolved.
            runtime.shutdown_background();
        };
        worker_api::thread::spawn("nodes", run)
            .map_err(|error| format!("the thread of nodes could not start: {error}"))?;
        let addresses = start.await.map_err(|_| "the thread of nodes has ended".to_owned())??;
        Ok(Self { local, view, addresses, commands })
    }

    /// What workers report to, and ask what other nodes publish.
    pub fn elsewhere(&self) -> Arc<dyn Elsewhere> {
        Arc::clone(&self.local) as Arc<dyn Elsewhere>
    }

    /// The cluster as this node sees it.
    pub fn view(&self) -> Arc<dyn ClusterSource> {
        Arc::clone(&self.view) as Arc<dyn ClusterSource>
    }

    /// Where other nodes reach this one.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The workers are there, and the first has the relay of packets at `relay`, if it has one: from now on
    /// streams are fetched and served.
    pub async fn serve(&self, workers: WorkerHandles, relay: Option<SocketAddr>) {
        self.send(Command::Serve(workers, relay)).await;
    }

    /// Other nodes take no further stream from this one. Those that have one of another node from here get
    /// another parent first, while the stream goes on.
    pub async fn drain(&self) {
        let (drained, drains) = oneshot::channel();
        self.send(Command::Drain(drained)).await;
        let _ = drains.await;
    }

    /// Leaves the cluster: the others forget this node at once.
    pub async fn leave(self) {
        let (left, leaves) = oneshot::channel();
        self.send(Command::Leave(left)).await;
        // It has ended already if this is dropped.
        let _ = leaves.await;
    }

    async fn send(&self, command: Command) {
        // It takes none any more only after a defect, which was logged.
        let _ = self.commands.send(command).await;
    }
}

/// The thread of nodes.
async fn run(
    mut settings: Settings,
    (local, view): (Arc<Local>, Arc<View>),
    mut commands: mpsc::Receiver<Command>,
    started: oneshot::Sender<Result<Vec<SocketAddr>, String>>,
) {
    let begun = async {
        let tls = Tls::new()?;
        let (listeners, addresses) = listen(&mut settings).await?;
        let directory = Directory::connect(settings.directory.clone()).await;
        let directory = directory.map_err(|error| format!("the cluster cannot be joined: {error}"))?;
        Ok::<_, String>((tls, listeners, addresses, Arc::new(directory)))
    };
    let (tls, listeners, addresses, directory) = match begun.await {
        Ok(begun) => begun,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    // Before anything is looked up, so that nothing is missed.
    let events = directory.events();
    local.set_directory(Arc::clone(&directory));
    let _ = started.send(Ok(addresses));
    let workers = loop {
        match commands.recv().await {
            Some(Command::Serve(workers, relay)) => break (workers, relay),
            Some(Command::Leave(left)) => {
                directory.leave().await;
                let _ = left.send(());
                return;
            }
            Some(Command::Drain(drained)) => _ = drained.send(()),
            None => return,
        }
    };
    let center = Center::new(settings, Clock::start(), tls, directory, workers, local);
    let center = Arc::new(center);
    view.set_center(&center);
    for listener in listeners {
        task::spawn(links::listen(Arc::clone(&center), listener));
    }
    task::spawn(center::follow_directory(Arc::clone(&center), events));
    task::spawn(center::follow_links(Arc::clone(&center)));
    task::spawn(center::follow_workers(Arc::clone(&center)));
    task::spawn(packets::follow_relay(Arc::clone(&center)));
    task::spawn(status::announce_load(Arc::clone(&center)));
    task::spawn(status::measure_links(Arc::clone(&center)));
    loop {
        match commands.recv().await {
            Some(Command::Drain(drained)) => {
                center.drain();
                let _ = timeout(CHILDREN_WITHIN, center.until_left_by_children()).await;
                let _ = drained.send(());
            }
            Some(Command::Leave(left)) => {
                center.close_links(Goodbye::Leaving);
                center.directory.leave().await;
                // Links say goodbye by tasks of their own.
                let closed = async {
                    while !center.links.all().is_empty() {
                        sleep(Duration::from_millis(5)).await;
                    }
                };
                let _ = timeout(GOODBYE_WITHIN, closed).await;
                let _ = left.send(());
                return;
            }
            Some(Command::Serve(..)) => {}
            None => return,
        }
    }
}

/// Binds the addresses for other nodes, and completes what is announced of them.
async fn listen(settings: &mut Settings) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), String> {
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    for address in &settings.listen {
        let fail = |error| format!("`cluster.relay_listen` cannot listen on {address}: {error}");
        let listener = TcpListener::bind(address).await.map_err(fail)?;
        addresses.push(listener.local_addr().map_err(fail)?);
        listeners.push(listener);
    }
    let announced = &mut settings.directory.addresses.relay_tcp;
    if let Some(bound) = addresses.first() {
        if announced.is_empty() && !bound.ip().is_unspecified() {
            *announced = bound.to_string();
        } else if let Some(host) = announced.strip_suffix(":0") {
            *announced = format!("{host}:{}", bound.port());
        }
    }
    Ok((listeners, addresses))
}
