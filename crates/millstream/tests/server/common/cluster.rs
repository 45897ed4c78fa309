//! A nats-server, and servers that are the nodes of one cluster.

use std::fs;
use std::path::PathBuf;

use tokio::runtime::{Builder, Runtime};

use super::eventually;
use super::server::{ScratchDir, Server};

#[path = "../../../../cluster/tests/cluster/server.rs"]
#[allow(dead_code, reason = "not all of it is used here")]
mod nats;

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
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let nats = runtime.block_on(nats::Server::start())?;
        let dir = ScratchDir::new();
        let secret_file = dir.path().join("secret");
        fs::write(&secret_file, "the secret of this cluster\n").expect("write the secret");
        Some(Self { runtime, nats, secret_file, dir })
    }

    /// Configuration of a node, with `more` of `[cluster]` and whatever follows.
    pub(crate) fn config(&self, name: &str, more: &str) -> String {
        format!(
            "[cluster]\nnats = [\"nats://127.0.0.1:{}\"]\nnode_name = \"{name}\"\nsecret_file = {:?}\n\
             relay_listen = [\"127.0.0.1:0\"]\n{more}\n",
            self.nats.port,
            self.secret_file.display().to_string(),
        )
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
}

/// Waits until a server has this line in its log, so many times.
pub(crate) fn wait_for_lines(server: &Server, line: &str, count: usize) {
    eventually(&format!("{count} lines of the log with: {line}"), || {
        (server.log().matches(line).count() >= count).then_some(())
    });
}
