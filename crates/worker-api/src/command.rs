//! What the rest of the server asks of a worker, and the bounded queue for that.
//!
//! Who asks queues a command and wakes the worker, which answers through the reply channel in the command.
//! Neither side ever waits for the other while holding media up.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::Waker;
use std::time::Duration;

use tokio::sync::oneshot;

use super::EndReason;
use super::hand_over::HandedOver;
use super::internal::InternalPublish;
use super::relay::RelayCommand;
use super::rtc::{LayerRefusal, LayerRequest, RtcOpen, RtcPatch};
use super::snapshot::{SessionId, WorkerSnapshot};
use super::streams::Epoch;
use super::tap::InternalTap;

/// Commands a worker's queue holds; a full queue answers the caller with an error.
pub const COMMANDS_MAX: usize = 256;

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

/// What is asked of a worker.
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
    /// Publish for a source of this process. The answer goes where the request says.
    Publish(Box<InternalPublish>),
    /// Play for this process. The answer goes where the request says.
    Tap(Box<InternalTap>),
    /// End a publication whose home this worker is; answers whether it was there.
    EndPublication {
        /// `app/name`.
        key: String,
        /// Which publication: one that has replaced it is left alone.
        epoch: Epoch,
        /// Why, for its publisher.
        reason: EndReason,
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
    /// Give a player another layer.
    RtcLayer {
        /// Which.
        session: SessionId,
        /// What it asks for.
        request: LayerRequest,
        /// Where the answer goes.
        reply: oneshot::Sender<Result<(), LayerRefusal>>,
    },
    /// End a WebRTC session; answers whether it existed.
    RtcClose {
        /// Which.
        session: SessionId,
        /// Where the answer goes.
        reply: oneshot::Sender<bool>,
    },
    /// Packets between nodes. The answer, if there is one, goes where the request says.
    Relay(Box<RelayCommand>),
    /// Accept nobody for a while, since another process may be about to serve; answers, at the end of the
    /// turn, how many connections are about to say what they want.
    Hold {
        /// How long.
        period: Duration,
        /// Leave datagrams to wait as well, what comes by ICE-TCP, and what clients send whose connections
        /// another process could have.
        with_datagrams: bool,
        /// Where the answer goes.
        reply: oneshot::Sender<usize>,
    },
    /// Say what another process needs to go on with the sessions that it can have, and send nothing more,
    /// until [`Command::LetGo`]. Nothing is read of them already ([`Command::Hold`]).
    HandOver {
        /// Where the answer goes.
        reply: oneshot::Sender<HandedOver>,
    },
    /// Another process has these sessions now, which end here without a word; the others go on.
    LetGo {
        /// Which, in ascending order; none if that process has failed.
        sessions: Arc<[SessionId]>,
        /// Where the answer goes: those of this worker that were ended since they were said.
        reply: oneshot::Sender<Vec<SessionId>>,
    },
    /// Take sessions of another process, but send nothing until [`Command::GoOn`]; answers with those that
    /// are taken.
    Resume {
        /// Them, publishers first.
        sessions: HandedOver,
        /// Where the answer goes.
        reply: oneshot::Sender<Vec<SessionId>>,
    },
    /// The other process sends nothing to the sessions that were taken: go on with them.
    GoOn {
        /// Those that were ended there since they were said, which end here.
        ended: Arc<[SessionId]>,
        /// Where the answer goes.
        reply: oneshot::Sender<()>,
    },
    /// Stop accepting, tell every session, and end the thread when all are gone or after `deadline`.
    Drain {
        /// Most time to spend.
        deadline: Duration,
    },
}

/// Sends commands to one worker.
#[derive(Debug, Clone)]
pub struct WorkerHandle {
    commands: SyncSender<Command>,
    waker: Waker,
}

/// The worker's command queue is full or the worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerUnavailable;

impl WorkerHandle {
    /// A handle that queues in `commands` and wakes by `waker`.
    pub fn new(commands: SyncSender<Command>, waker: Waker) -> Self {
        Self { commands, waker }
    }

    /// Queues a command and wakes the worker.
    pub fn send(&self, command: Command) -> Result<(), WorkerUnavailable> {
        self.commands.try_send(command).map_err(|_| WorkerUnavailable)?;
        self.waker.wake_by_ref();
        Ok(())
    }
}
