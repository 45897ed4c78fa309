//! How a source publishes: on the least busy worker, in a session like that of any client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::names::{Claim, Claimant, Names, SourceKind};
use crate::thread::{IngestThread, Spawner};
use worker_api::internal::{PublishRequest, Publisher, Refusal};
use worker_api::{EndReason, WorkerHandles};

/// After this long a stream that was taken is asked for again, once: the session of a publisher
/// that has just ended may still be there.
const TAKEN_AGAIN: Duration = Duration::from_millis(250);
/// A source's request to publish.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// Application.
    pub app: &'a str,
    /// Name of the stream.
    pub name: &'a str,
    /// What publishes.
    pub kind: SourceKind,
    /// Where the media comes from, as sessions show it; without it, a loopback address.
    pub address: Option<SocketAddr>,
    /// What sessions show as user agent; nothing secret. At most 128 characters are kept.
    pub detail: &'a str,
}

/// Why a source may not publish now. All but `Draining` may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The stream has a publisher. A source of this server never takes a stream over.
    Taken,
    /// It has one on another node of the cluster.
    TakenElsewhere,
    /// The worker has as many sessions as it may have.
    Full,
    /// The server is shutting down.
    Draining,
    /// A worker does not answer.
    NoAnswer,
}

impl Refused {
    /// One sentence for the log and the API.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Taken => "the stream is already being published",
            Self::TakenElsewhere => "the stream is already being published on another node",
            Self::Full => "the worker has as many sessions as it may have",
            Self::Draining => "the server is shutting down",
            Self::NoAnswer => "a worker does not answer",
        }
    }
}

/// Lets sources publish. Clones share everything.
#[derive(Debug, Clone)]
pub struct Ingest(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    workers: WorkerHandles,
    thread: Spawner,
    message_bytes_max: AtomicU32,
    names: Names,
    /// One at a time is dealt to a worker, so that many that start at once do not all see the same
    /// worker as the idle one.
    dealing: Mutex<()>,
}

impl Ingest {
    /// Sends to `workers`. `message_bytes_max` is what they take as the largest message.
    pub fn new(workers: WorkerHandles, thread: &IngestThread, message_bytes_max: u32) -> Self {
        let thread = thread.spawner();
        let (names, dealing) = (Names::default(), Mutex::new(()));
        let message_bytes_max = AtomicU32::new(message_bytes_max);
        Self(Arc::new(Shared { workers, thread, message_bytes_max, names, dealing }))
    }

    /// Workers take other messages as the largest, for publications from now on.
    pub fn set_message_bytes_max(&self, message_bytes_max: u32) {
        self.0.message_bytes_max.store(message_bytes_max, Ordering::Relaxed);
    }

    /// Claims a stream among the sources of this server, or says which kind of source has claimed
    /// it already.
    pub(crate) fn claim(
        &self,
        app: &str,
        name: &str,
        kind: SourceKind,
        claimant: Claimant,
    ) -> Result<Claim, SourceKind> {
        self.0.names.claim(app, name, kind, claimant)
    }

    /// Runs a task on the thread of sources. It must end by itself once
    /// [`stopping`](Self::stopping) says so.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) -> JoinHandle<()> {
        self.0.thread.spawn(task)
    }

    /// Becomes true when the server stops.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.thread.stopping()
    }

    /// Begins a publication.
    ///
    /// The session exists when this returns, and players of the stream no longer wait for a
    /// publisher: call it when there is media to send.
    pub async fn publish(&self, request: Request<'_>) -> Result<Publisher, Refused> {
        match self.publish_once(&request).await {
            Err(Refused::Taken | Refused::TakenElsewhere) => {
                sleep(TAKEN_AGAIN).await;
                self.publish_once(&request).await
            }
            outcome => outcome,
        }
    }

    async fn publish_once(&self, request: &Request<'_>) -> Result<Publisher, Refused> {
        let publish = PublishRequest {
            app: request.app.to_owned(),
            name: request.name.to_owned(),
            protocol: request.kind.protocol(),
            address: request.address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()),
            detail: request.detail.to_owned(),
        };
        let Shared { workers, dealing, message_bytes_max, .. } = &*self.0;
        let _turn = dealing.lock().await;
        let worker = workers.least_busy().await.map_err(|_| Refused::NoAnswer)?;
        let answer =
            workers.publish(worker, publish, message_bytes_max.load(Ordering::Relaxed) as usize).await;
        answer.map_err(|_| Refused::NoAnswer)?.map_err(|refusal| match refusal {
            Refusal::Taken => Refused::Taken,
            Refusal::TakenElsewhere => Refused::TakenElsewhere,
            Refusal::Full => Refused::Full,
            Refusal::Draining => Refused::Draining,
        })
    }
}

/// The end of a publication; never, while there is none.
pub(super) async fn ended(publisher: &mut Option<Publisher>) -> EndReason {
    match publisher {
        Some(publisher) => publisher.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use super::*;
    use worker_api::command::Command;
    use worker_api::snapshot::{SessionId, WorkerSnapshot};

    /// Two workers of which the first is busy, that answer what `answers` gives, the last of it
    /// first; and which workers were asked.
    fn workers(answers: Vec<Result<SessionId, Refusal>>) -> (Ingest, Arc<StdMutex<Vec<usize>>>) {
        let answers = StdMutex::new(answers);
        let asked = Arc::new(StdMutex::new(Vec::new()));
        let record = Arc::clone(&asked);
        let send = move |worker: usize, command| {
            match command {
                Command::Snapshot { reply, .. } => {
                    let load_percent = if worker == 0 { 90.0 } else { 1.0 };
                    let _ = reply.send(WorkerSnapshot { index: worker, load_percent, ..Default::default() });
                }
                Command::Publish(publish) => {
                    record.lock().expect("no panic").push(worker);
                    let answer = answers.lock().expect("no panic").pop().expect("no more is asked");
                    let _ = publish.reply.send(answer);
                }
                other => panic!("{other:?} was not to be asked"),
            }
            Ok(())
        };
        let thread = IngestThread::start().expect("a thread");
        (Ingest::new(WorkerHandles::over(2, Box::new(send)), &thread, 1 << 20), asked)
    }

    const REQUEST: Request<'_> =
        Request { app: "live", name: "cam", kind: SourceKind::Pull, address: None, detail: "" };

    #[tokio::test]
    async fn a_stream_that_was_just_left_is_asked_for_again() {
        let (ingest, asked) = workers(vec![Ok(SessionId::new(1, 7)), Err(Refusal::Taken)]);
        let publisher = ingest.publish(REQUEST).await.expect("the second time it is free");
        assert_eq!(publisher.session(), SessionId::new(1, 7));
        assert_eq!(*asked.lock().expect("no panic"), [1, 1], "the worker that is not busy");
    }

    #[tokio::test]
    async fn refusals_are_told() {
        for (answers, expected) in [
            (vec![Err(Refusal::Taken), Err(Refusal::Taken)], Refused::Taken),
            (vec![Err(Refusal::Full)], Refused::Full),
            (vec![Err(Refusal::Draining)], Refused::Draining),
        ] {
            let (ingest, asked) = workers(answers.clone());
            assert_eq!(ingest.publish(REQUEST).await.err(), Some(expected));
            assert_eq!(asked.lock().expect("no panic").len(), answers.len());
        }
    }
}
