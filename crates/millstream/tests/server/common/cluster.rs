//! A nats-server, and servers that are the nodes of one cluster.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use cluster::{Directory, Policy};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use super::http::{self, Streaming};
use super::rtmp::RtmpClient;
use super::server::{ScratchDir, Server};
use super::{eventually, flv};

#[path = "../../../../cluster/tests/cluster/server.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod nats;
#[path = "../../../../cluster/tests/cluster/overheard.rs"]
mod overheard;

/// What the nodes of a cluster share.
pub(crate) struct Cluster {
    runtime: Runtime,
    nats: nats::Server,
    secret_file: PathBuf,
    /// Where the secrets are.
    dir: ScratchDir,
}

impl Cluster {
    /// Starts a nats-server, or says that there is none.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same where it is reached by every address of the host.
    pub(crate) fn start_everywhere() -> Option<Self> {
        Self::start_with(&["-a", "0.0.0.0"])
    }

    fn start_with(options: &[&str]) -> Option<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let nats = runtime.block_on(nats::Server::start_with(options))?;
        let dir = ScratchDir::new();
        let secret_file = dir.path().join("secret");
        fs::write(&secret_file, "the secret of this cluster\n").expect("write the secret");
        Some(Self { runtime, nats, secret_file, dir })
    }

    /// Configuration of a node, with `more` of `[cluster]` and whatever follows.
    pub(crate) fn config(&self, name: &str, more: &str) -> String {
        self.config_by(self.nats(), name, &format!("relay_listen = [\"127.0.0.1:0\"]\n{more}"))
    }

    /// The same of a node that reaches NATS by another address; `more` says where it listens.
    pub(crate) fn config_by(&self, nats: SocketAddr, name: &str, more: &str) -> String {
        let secret_file = self.secret_file.display().to_string();
        format!(
            "[cluster]\nnats = [\"nats://{nats}\"]\nnode_name = \"{name}\"\nsecret_file = {secret_file:?}\n\
             {more}\n",
        )
    }

    /// Where NATS listens.
    pub(crate) fn nats(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.nats.port).into()
    }

    /// Listens in on all that goes through NATS.
    pub(crate) fn listen_in(&self) -> overheard::Overheard {
        overheard::Overheard::at(self.nats.port)
    }

    /// Starts a node within this process, with two workers.
    pub(crate) fn node(&self, name: &str) -> Server {
        Server::start_workers(2, &self.config(name, "linger_ms = 300"))
    }

    /// The same in a process of its own.
    pub(crate) fn spawn(&self, name: &str) -> Server {
        Server::spawn(&self.config(name, "linger_ms = 300"))
    }

    /// A node that has another secret.
    pub(crate) fn stranger(&self, name: &str) -> Server {
        let other = self.dir.path().join("other-secret");
        fs::write(&other, "the secret of another cluster\n").expect("write the secret");
        let file = |path: &PathBuf| format!("secret_file = {:?}", path.display().to_string());
        let config = self.config(name, "").replace(&file(&self.secret_file), &file(&other));
        Server::start(&config)
    }

    /// NATS is gone, or back with nothing in memory.
    pub(crate) fn set_nats(&mut self, runs: bool) {
        if runs { self.runtime.block_on(self.nats.run()) } else { self.nats.kill() }
    }

    /// NATS stands still, or goes on.
    pub(crate) fn freeze_nats(&self, is_frozen: bool) {
        self.runtime.block_on(self.nats.freeze(is_frozen));
    }

    /// A node that is known by the directory alone: it publishes `live/0` and so on, and is to be found at
    /// `relay_tcp`.
    pub(crate) fn enter(&self, name: &str, relay_tcp: &str, streams: usize) -> Entered {
        let mut settings = self.nats.settings(name);
        relay_tcp.clone_into(&mut settings.addresses.relay_tcp);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (leave, left) = oneshot::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let directory = Directory::connect(settings).await.expect("the name is free");
                let claims: Vec<_> = (0..streams)
                    .map(|number| nats::stream(&format!("live/{number}")))
                    .map(|stream| directory.claim(&stream, nats::described(&[]), Policy::Refuse))
                    .collect();
                for claim in claims {
                    claim.await.expect("the name is free");
                }
                ready.send(()).expect("the test waits");
                let _ = left.await;
                directory.leave().await;
            });
        });
        is_ready.recv().expect("it enters");
        Entered { leave: Some(leave), thread: Some(thread) }
    }
}

/// A node that is known by the directory alone, until it is dropped.
pub(crate) struct Entered {
    leave: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(self.leave.take());
        let _ = self.thread.take().expect("it ends once").join();
    }
}

/// FLV of `live/mill`, once the other node's publication is known.
pub(crate) fn play(server: &Server) -> flv::TagReader<Streaming> {
    eventually("the stream is known", || {
        let response = http::open(server.http, "GET", "/live/mill.flv", &[]).expect("play");
        (response.status == 200).then(|| flv::TagReader::new(response))
    })
}

/// Publishes `live/mill`, once the name is free.
pub(crate) fn publish_when_free(server: &Server) -> RtmpClient {
    eventually("the name is free", || {
        let mut publisher = RtmpClient::begin_publish(server.rtmp, "live/mill");
        publisher.wait_started().ok().map(|()| publisher)
    })
}

/// Waits until a server has this line in its log, so many times.
pub(crate) fn wait_for_lines(server: &Server, line: &str, count: usize) {
    eventually(&format!("{count} lines of the log with: {line}"), || {
        (server.log().matches(line).count() >= count).then_some(())
    });
}

/// Waits until a node hears the directory, or does not.
pub(crate) fn wait_for_directory(server: &Server, is_heard: bool) {
    eventually(&format!("the directory is heard: {is_heard}"), || {
        (server.api("/api/v1/cluster")["directory"]["heard"] == is_heard).then_some(())
    });
}
