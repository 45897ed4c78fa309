//! The bounded queues between the control side and the workers.
//!
//! Control sends commands and wakes the worker; a worker answers through the reply channel in the command and
//! hands over HTTP connections that are not media. Neither side ever waits for the other while holding media up.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::sync::oneshot;

use super::rtc::control::{RtcOpen, RtcPatch};
use super::snapshot::{SessionId, WorkerSnapshot};

/// Commands a worker's queue holds; a full queue answers the caller with an error.
pub const COMMANDS_MAX: usize = 256;
/// Connections waiting for the control side; further ones are answered 503 by the worker.
pub const HANDOFFS_MAX: usize = 256;

/// Which sessions a snapshot lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// None.
    Nothing,
    /// All of them.
    All,
    /// These, in ascending order; what is not there is left out.
    Only(Arc<[SessionId]>),
}

/// What control asks of a worker.
#[derive(Debug)]
pub enum Command {
    /// Say how things are.
    Snapshot {
        /// Which sessions to list.
        sessions: Listed,
        /// Where the answer goes.
        reply: oneshot::Sender<WorkerSnapshot>,
    },
    /// End a session; answers whether it existed.
    Kick {
        /// Which.
        session: SessionId,
        /// Where the answer goes.
        reply: oneshot::Sender<bool>,
    },
    /// Open a WebRTC session. The answer goes where the request says.
    RtcOpen(Box<RtcOpen>),
    /// Change a WebRTC session; answers whether it existed.
    RtcPatch {
        /// Which.
        session: SessionId,
        /// What to change.
        patch: RtcPatch,
        /// Where the answer goes.
        reply: oneshot::Sender<bool>,
    },
    /// End a WebRTC session; answers whether it existed.
    RtcClose {
        /// Which.
        session: SessionId,
        /// Where the answer goes.
        reply: oneshot::Sender<bool>,
    },
    /// Stop accepting, tell every session, and end the thread when all are gone or after `deadline`.
    Drain {
        /// Most time to spend.
        deadline: Duration,
    },
}

/// An HTTP connection that is not media: the worker read the request head and gives all of it away.
#[derive(Debug)]
pub struct Handoff {
    /// The connection, non-blocking.
    pub stream: TcpStream,
    /// TLS state when it came in by HTTPS.
    pub tls: Option<Box<rustls::ServerConnection>>,
    /// Plaintext bytes already read, the request head first.
    pub buffered: Vec<u8>,
    /// Peer address.
    pub peer: SocketAddr,
}

/// Sends commands to one worker.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    pub(super) commands: SyncSender<Command>,
    pub(super) waker: Arc<mio::Waker>,
}

/// The worker's command queue is full or the worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerUnavailable;

impl WorkerHandle {
    /// Queues a command and wakes the worker.
    pub fn send(&self, command: Command) -> Result<(), WorkerUnavailable> {
        self.commands.try_send(command).map_err(|_| WorkerUnavailable)?;
        self.waker.wake().map_err(|_| WorkerUnavailable)
    }
}
