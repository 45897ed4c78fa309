//! The thread, and which streams are cut on it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use worker_api::WorkerHandles;
use worker_api::segments::{SegmentsUpdate, SegmentsWanted, UpdateSender};
use worker_api::settings::SegmentsSettings;

use crate::cut::{self, Change};

/// Requests of the control side that may wait.
const WATCHES_MAX: usize = 256;
/// Changes of who wants a stream that may wait for it.
const CHANGES_MAX: usize = 64;

/// Looks up on which worker a stream is published.
pub type Home = dyn Fn(&str) -> Option<usize> + Send + Sync;

/// What the thread needs.
pub struct SegmentsInput {
    /// How streams are cut.
    pub settings: SegmentsSettings,
    /// Where frames come from.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<Home>,
    /// What workers want.
    pub wanted: Receiver<SegmentsWanted>,
    /// To each worker.
    pub updates: Vec<UpdateSender>,
}

/// Owns the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SegmentsThread {
    segments: Segments,
    _running: oneshot::Sender<()>,
}

/// Streams as segments, for the control side.
#[derive(Debug, Clone)]
pub struct Segments {
    watches: Sender<Watch>,
}

/// The control side wants to see a stream.
struct Watch {
    key: Arc<str>,
    app_bytes: usize,
    reply: oneshot::Sender<watch::Receiver<SegmentsUpdate>>,
}

impl SegmentsThread {
    /// Starts the thread. Fails when the system gives no thread or event queue.
    pub fn start(input: SegmentsInput) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (running, ended) = oneshot::channel::<()>();
        let (watches, watched) = mpsc::channel(WATCHES_MAX);
        worker_api::thread::spawn("segments", move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = run(input, watched) => {}
                    // Whether it is sent or dropped does not matter.
                    _ = ended => {}
                }
            });
        })?;
        Ok(Self { segments: Segments { watches }, _running: running })
    }

    /// For the control side.
    pub fn segments(&self) -> Segments {
        self.segments.clone()
    }
}

impl Segments {
    /// What can be requested of `app/name`, as it changes; the stream is cut until the receiver is dropped.
    /// `None` if the thread has too much to do.
    pub async fn watch(&self, app: &str, name: &str) -> Option<watch::Receiver<SegmentsUpdate>> {
        let (reply, answer) = oneshot::channel();
        let watch = Watch { key: format!("{app}/{name}").into(), app_bytes: app.len(), reply };
        self.watches.try_send(watch).ok()?;
        answer.await.ok()
    }
}

/// One stream that is cut.
struct Cutting {
    changes: Sender<Change>,
}

async fn run(mut input: SegmentsInput, mut watched: Receiver<Watch>) {
    let shared = Arc::new(cut::Shared {
        settings: input.settings,
        workers: input.workers,
        home: input.home,
        updates: input.updates,
    });
    let mut streams: HashMap<Arc<str>, Cutting> = HashMap::new();
    let mut tasks: JoinSet<Arc<str>> = JoinSet::new();
    loop {
        let (key, app_bytes, change) = tokio::select! {
            wanted = input.wanted.recv() => {
                // The workers have ended.
                let Some(SegmentsWanted { key, app_bytes, worker, is_wanted }) = wanted else { return };
                (key, app_bytes, if is_wanted { Change::Wants(worker) } else { Change::Leaves(worker) })
            }
            Some(Watch { key, app_bytes, reply }) = watched.recv() => {
                (key, app_bytes, Change::Watches(reply))
            }
            Some(ended) = tasks.join_next() => {
                // A stream that has ended may have begun again by now.
                let is_over = |key| streams.get(key).is_some_and(|cutting| cutting.changes.is_closed());
                if let Ok(key) = ended && is_over(&key) {
                    streams.remove(&key);
                }
                continue;
            }
        };
        // One that has ended by now takes no changes.
        let unsent = match streams.get(&key) {
            Some(cutting) => match cutting.changes.try_send(change) {
                Ok(()) => continue,
                Err(mpsc::error::TrySendError::Closed(change)) => change,
                Err(mpsc::error::TrySendError::Full(change)) => {
                    change.refuse(&key, &shared);
                    continue;
                }
            },
            None => change,
        };
        match unsent {
            Change::Leaves(_) => {}
            change if streams.len() >= shared.settings.streams_max => {
                tracing::warn!(stream = %key, "not cut into segments: `hls.streams_max` is reached");
                change.refuse(&key, &shared);
            }
            change => {
                let (changes, changed) = mpsc::channel(CHANGES_MAX);
                streams.insert(Arc::clone(&key), Cutting { changes });
                tasks.spawn(cut::run(Arc::clone(&shared), key, app_bytes, change, changed));
            }
        }
    }
}
