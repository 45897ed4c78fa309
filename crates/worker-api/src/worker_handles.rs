//! Asks the workers, with a deadline, and merges what they say.
//!
//! Whoever may use the API gets a fresh answer. What strangers may ask (`/readyz`) is answered from one that
//! is kept for a moment and shared, so that they interrupt a worker a few times a second at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::EndReason;
use crate::command::{Command, Listed, WorkerHandle, WorkerUnavailable};
use crate::hand_over::HandedOver;
use crate::internal::{self, InternalPublish, PublishRequest, Publisher, Refusal};
use crate::relay::{self, RelayCommand, RelayRefusal};
use crate::rtc::{LayerRefusal, LayerRequest, RtcOpen, RtcPatch, RtcRefusal};
use crate::snapshot::{SessionId, WorkerSnapshot};
use crate::streams::Epoch;
use crate::tap::{self, InternalTap, Tap, TapRefusal, TapRequest};

/// The worker that has the relay of packets.
pub const RELAY_WORKER: usize = 0;
/// Time a worker has to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a worker may take for all its sessions.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Loads that differ by less than this, percent of a core, count as equal: then the number of sessions
/// decides.
const LOAD_STEP_PERCENT: f32 = 10.0;
/// How long an answer is shared.
const SHARED_FOR: Duration = Duration::from_millis(250);

/// A worker did not answer in time: it is overloaded, stuck, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAnswer {
    /// Index of the worker.
    pub worker: usize,
    /// It has the command, and may carry it out yet.
    pub is_asked: bool,
}

/// Sends a command to the worker with an index.
type Send = dyn Fn(usize, Command) -> Result<(), WorkerUnavailable> + std::marker::Send + Sync;
type Snapshots = Result<Vec<WorkerSnapshot>, NoAnswer>;

/// Commands to all workers, and their answers.
pub struct WorkerHandles {
    count: usize,
    send: Box<Send>,
    shared: Mutex<Option<(Instant, bool)>>,
}

impl WorkerHandles {
    /// Sends to the workers behind `handles`.
    pub fn new(handles: Vec<WorkerHandle>) -> Self {
        Self::over(handles.len(), Box::new(move |worker, command| handles[worker].send(command)))
    }

    /// Sends to `count` workers that `send` reaches.
    pub fn over(count: usize, send: Box<Send>) -> Self {
        Self { count, send, shared: Mutex::new(None) }
    }

    /// Number of workers.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The present state of all workers, without sessions.
    pub async fn snapshots(&self) -> Snapshots {
        self.ask_all(&Listed::Nothing).await
    }

    /// The worker with the least load; of those that are about as busy, the one with the fewest sessions.
    pub async fn least_busy(&self) -> Result<usize, NoAnswer> {
        let snapshots = self.snapshots().await?;
        Ok(least_busy(&snapshots))
    }

    /// Whether all workers answered, now or a moment ago.
    pub async fn all_answer(&self) -> bool {
        let mut shared = self.shared.lock().await;
        if let Some((asked, answer)) = *shared
            && asked.elapsed() < SHARED_FOR
        {
            return answer;
        }
        let answer = self.ask_all(&Listed::Nothing).await.is_ok();
        *shared = Some((Instant::now(), answer));
        answer
    }

    /// The present state of all workers, with sessions.
    pub async fn snapshots_with_sessions(&self, listed: &Listed) -> Snapshots {
        self.ask_all(listed).await
    }

    /// Ends a session. Answers whether it existed.
    pub async fn kick(&self, session: SessionId) -> Result<bool, NoAnswer> {
        let worker = session.worker();
        if worker >= self.count {
            return Ok(false);
        }
        let (reply, answer) = oneshot::channel();
        self.ask(worker, Command::Kick { session, reply }, answer).await
    }

    /// Has `worker` publish for a source of this process, whose frames have at most `frame_bytes_max` bytes.
    pub async fn publish(
        &self,
        worker: usize,
        request: PublishRequest,
        frame_bytes_max: usize,
    ) -> Result<Result<Publisher, Refusal>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let (mut publisher, frames) = internal::queue(frame_bytes_max);
        let publish = InternalPublish { request, frames, reply };
        let answer = self.ask(worker, Command::Publish(Box::new(publish)), answer).await?;
        Ok(answer.map(|session| {
            publisher.session = session;
            publisher
        }))
    }

    /// Has `worker` play for this process. Best the home of the stream, if that is known.
    pub async fn tap(&self, worker: usize, request: TapRequest) -> Result<Result<Tap, TapRefusal>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let (mut tap, frames) = tap::queue();
        let answer = self.ask(worker, Command::Tap(Box::new(InternalTap { request, frames, reply })), answer);
        Ok(answer.await?.map(|session| {
            tap.session = session;
            tap
        }))
    }

    /// Ends a publication of `worker`, whoever publishes, with a reason for its publisher. Answers whether it
    /// was there; one that has replaced it is left alone.
    pub async fn end_publication(
        &self,
        worker: usize,
        key: &str,
        epoch: Epoch,
        reason: EndReason,
    ) -> Result<bool, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        let key = key.to_owned();
        self.ask(worker, Command::EndPublication { key, epoch, reason, reply }, answer).await
    }

    /// Tells the relay of packets, which is on the first worker.
    pub fn relay(&self, command: RelayCommand) -> Result<(), NoAnswer> {
        (self.send)(RELAY_WORKER, Command::Relay(Box::new(command)))
            .map_err(|WorkerUnavailable| NoAnswer { worker: RELAY_WORKER, is_asked: false })
    }

    /// Asks the relay of packets; `command` takes where the answer goes.
    pub async fn ask_relay<T>(
        &self,
        command: impl FnOnce(relay::Reply<T>) -> RelayCommand,
    ) -> Result<Result<T, RelayRefusal>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.ask(RELAY_WORKER, Command::Relay(Box::new(command(reply))), answer).await
    }

    /// Has `worker` open a WebRTC session; `answer` is the other end of the reply in `open`.
    pub async fn rtc_open(
        &self,
        worker: usize,
        open: RtcOpen,
        answer: oneshot::Receiver<Result<SessionId, RtcRefusal>>,
    ) -> Result<Result<SessionId, RtcRefusal>, NoAnswer> {
        self.ask(worker, Command::RtcOpen(Box::new(open)), answer).await
    }

    /// Changes a WebRTC session. Answers whether it existed.
    pub async fn rtc_patch(&self, session: SessionId, patch: RtcPatch) -> Result<bool, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.ask(session.worker(), Command::RtcPatch { session, patch, reply }, answer).await
    }

    /// Gives a player another layer.
    pub async fn rtc_layer(
        &self,
        session: SessionId,
        request: LayerRequest,
    ) -> Result<Result<(), LayerRefusal>, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.ask(session.worker(), Command::RtcLayer { session, request, reply }, answer).await
    }

    /// Ends a WebRTC session. Answers whether it existed.
    pub async fn rtc_close(&self, session: SessionId) -> Result<bool, NoAnswer> {
        let (reply, answer) = oneshot::channel();
        self.ask(session.worker(), Command::RtcClose { session, reply }, answer).await
    }

    /// Has all workers accept nobody for a while, or read no datagrams either. Answers how many connections
    /// are about to say what they want.
    pub async fn hold(&self, period: Duration, with_datagrams: bool) -> Result<usize, NoAnswer> {
        let hold = |_, reply| Command::Hold { period, with_datagrams, reply };
        self.ask_each(ANSWER_TIMEOUT, hold).await.into_iter().sum()
    }

    /// Has all workers say what another process needs of their sessions and TCP connections, and send nothing
    /// more until they are let go.
    pub async fn hand_over(&self) -> HandedOver {
        let hand_over = |_, reply| Command::HandOver { reply };
        let mut handed = HandedOver::default();
        for of_worker in self.ask_each(HAND_OVER_TIMEOUT, hand_over).await {
            match of_worker {
                Ok(of_worker) => handed.extend(of_worker),
                Err(NoAnswer { worker, .. }) => {
                    tracing::warn!(worker, "a worker does not say what its sessions are: they end");
                }
            }
        }
        handed
    }

    /// Tells all workers which sessions another process has, in ascending order; the others go on. Answers
    /// with those that were ended since they were said.
    pub async fn let_go(&self, sessions: Arc<[SessionId]>) -> Vec<SessionId> {
        let let_go = |_, reply| Command::LetGo { sessions: Arc::clone(&sessions), reply };
        let mut ended = Vec::new();
        for of_worker in self.ask_each(HAND_OVER_TIMEOUT, let_go).await {
            match of_worker {
                Ok(of_worker) => ended.extend(of_worker),
                Err(NoAnswer { worker, .. }) => {
                    tracing::warn!(worker, "a worker does not say which of its sessions have ended");
                }
            }
        }
        ended
    }

    /// Has workers take sessions of another process. Which they have, or may have: of those nobody else may
    /// say a word.
    pub async fn resume(&self, handed: HandedOver) -> Vec<SessionId> {
        let mut of_workers: Vec<_> = (0..self.count).map(|_| HandedOver::default()).collect();
        let lost = |session: SessionId| tracing::warn!(%session, "session lost: there are fewer workers");
        for session in handed.sessions {
            match of_workers.get_mut(session.id.worker()) {
                Some(of_worker) => of_worker.sessions.push(session),
                None => lost(session.id),
            }
        }
        for one in handed.ice_tcp {
            // If its worker is gone, so is its session.
            if let Some(of_worker) = of_workers.get_mut(one.connection.session.worker()) {
                of_worker.ice_tcp.push(one);
            }
        }
        for connection in handed.connections {
            let id = connection.connection.id;
            match of_workers.get_mut(id.worker()) {
                Some(of_worker) => of_worker.connections.push(connection),
                None => lost(id),
            }
        }
        for stream in handed.streams {
            if let Some(of_worker) = of_workers.get_mut(stream.worker) {
                of_worker.streams.push(stream);
            }
        }
        for bridge in handed.bridges {
            if let Some(of_worker) = of_workers.get_mut(bridge.worker) {
                of_worker.bridges.push(bridge);
            }
        }
        let asked: Vec<Vec<SessionId>> = of_workers.iter().map(|of| of.ids().collect()).collect();
        let resume = |worker: usize, reply| Command::Resume {
            sessions: std::mem::take(&mut of_workers[worker]),
            reply,
        };
        let taken = self.ask_each(HAND_OVER_TIMEOUT, resume).await;
        let taken = taken.into_iter().zip(asked).map(|(taken, asked)| {
            taken.unwrap_or_else(|NoAnswer { worker, is_asked }| {
                tracing::error!(worker, is_asked, "a worker does not say whether it goes on with sessions");
                if is_asked { asked } else { Vec::new() }
            })
        });
        taken.flatten().collect()
    }

    /// Has all workers go on with the sessions that they have taken, but for those that have `ended`.
    pub async fn go_on(&self, ended: Arc<[SessionId]>) {
        let go_on = |_, reply| Command::GoOn { ended: Arc::clone(&ended), reply };
        for of_worker in self.ask_each(HAND_OVER_TIMEOUT, go_on).await {
            if let Err(NoAnswer { worker, .. }) = of_worker {
                tracing::error!(worker, "a worker does not say that it goes on with sessions");
            }
        }
    }

    /// Tells all workers to stop. A worker that cannot be told has ended already, or ends with the process.
    pub fn drain(&self, deadline: Duration) {
        for worker in 0..self.count {
            if (self.send)(worker, Command::Drain { deadline }).is_err() {
                tracing::warn!(worker, "worker could not be told to stop");
            }
        }
    }

    async fn ask_all(&self, listed: &Listed) -> Snapshots {
        let snapshot = |_, reply| Command::Snapshot { sessions: listed.clone(), reply };
        self.ask_each(ANSWER_TIMEOUT, snapshot).await.into_iter().collect()
    }

    /// Asks all workers, before any answer is awaited: what they say belongs together as closely as may be.
    async fn ask_each<T>(
        &self,
        time: Duration,
        mut command: impl FnMut(usize, oneshot::Sender<T>) -> Command,
    ) -> Vec<Result<T, NoAnswer>> {
        let mut ask = |worker| {
            let (reply, answer) = oneshot::channel();
            (worker, (self.send)(worker, command(worker, reply)), answer)
        };
        let asked: Vec<_> = (0..self.count).map(&mut ask).collect();
        let deadline = Instant::now() + time;
        let mut answers = Vec::with_capacity(asked.len());
        for (worker, sent, answer) in asked {
            answers.push(match (sent, timeout_at(deadline, answer).await) {
                (Ok(()), Ok(Ok(answer))) => Ok(answer),
                (Ok(()), _) => Err(NoAnswer { worker, is_asked: true }),
                (Err(WorkerUnavailable), _) => Err(NoAnswer { worker, is_asked: false }),
            });
        }
        answers
    }

    async fn ask<T>(
        &self,
        worker: usize,
        command: Command,
        answer: oneshot::Receiver<T>,
    ) -> Result<T, NoAnswer> {
        (self.send)(worker, command).map_err(|WorkerUnavailable| NoAnswer { worker, is_asked: false })?;
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            _ => Err(NoAnswer { worker, is_asked: true }),
        }
    }
}

/// Index of the least busy one; 0 if there are none.
fn least_busy(snapshots: &[WorkerSnapshot]) -> usize {
    let busy = |worker: &&WorkerSnapshot| {
        let step = (worker.load_percent.max(0.0) / LOAD_STEP_PERCENT) as u32;
        (step, worker.counters.sessions + worker.counters.rtc.connected, worker.index)
    };
    snapshots.iter().min_by_key(busy).map_or(0, |worker| worker.index)
}

impl std::fmt::Debug for WorkerHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "handles of {} workers", self.count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Locked;

    use super::*;
    use crate::hand_over::tests::session;
    use crate::snapshot::WorkerCounters;

    #[tokio::test(start_paused = true)]
    async fn a_late_worker_may_have_sessions_and_one_that_was_not_asked_has_none() {
        let late = Locked::new(Vec::new());
        let send = move |worker, command| match (worker, command) {
            (0, Command::Resume { sessions, reply }) => {
                let _ = reply.send(sessions.ids().collect());
                Ok(())
            }
            (1, command) => {
                late.lock().expect("no panic").push(command);
                Ok(())
            }
            // Its queue is full.
            _ => Err(WorkerUnavailable),
        };
        let handles = WorkerHandles::over(3, Box::new(send));
        let ids = [0, 1, 2].map(|worker| SessionId::new(worker, 9));
        let sessions = ids.map(|id| {
            let mut session = session();
            session.id = id;
            Box::new(session)
        });
        let handed = HandedOver { sessions: sessions.into(), ..HandedOver::default() };
        assert_eq!(handles.resume(handed).await, ids[..2]);
    }

    #[test]
    fn load_decides_and_sessions_decide_between_equals() {
        let worker = |index, load_percent, sessions| WorkerSnapshot {
            index,
            load_percent,
            counters: WorkerCounters { sessions, ..WorkerCounters::default() },
            ..WorkerSnapshot::default()
        };
        let cases = [
            (vec![worker(0, 50.0, 1), worker(1, 3.0, 900)], 1),
            (vec![worker(0, 4.0, 9), worker(1, 6.0, 8)], 1), // about as busy
            (vec![worker(0, 0.0, 0), worker(1, 0.0, 0)], 0),
            (vec![worker(0, f32::NAN, 0), worker(1, 99.0, 0)], 0),
        ];
        for (workers, expected) in cases {
            assert_eq!(least_busy(&workers), expected);
        }
    }
}
