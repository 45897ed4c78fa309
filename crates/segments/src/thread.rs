//! The thread, and which streams are cut on it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, mpsc as std_mpsc};
use std::time::Duration;

use hls::SegmentId;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use worker_api::segments::{SegmentsState, SegmentsUpdate, SegmentsWanted, UpdateSender, Want};
use worker_api::settings::SegmentsSettings;
use worker_api::time::since_1970;
use worker_api::{HomeOf, WorkerHandles};

use crate::cut::{self, Change, Known};
use crate::store::{DISK_THREADS, Store, StoreStatus};

/// Requests of the control side that may wait.
const ASKS_MAX: usize = 256;
/// How long the end of the thread waits for the disk.
const LAST_WRITES: Duration = Duration::from_secs(1);
/// Segments on disk that a stream may be asked for at once; further ones are asked for again.
const RECALLS_MAX: usize = 256;
/// Changes of who wants a stream that may wait for it.
const CHANGES_MAX: usize = 64;

/// What the thread needs.
pub struct SegmentsInput {
    /// How streams are cut.
    pub settings: SegmentsSettings,
    /// Where frames come from.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<HomeOf>,
    /// What workers want.
    pub wanted: Receiver<SegmentsWanted>,
    /// To each worker.
    pub updates: Vec<UpdateSender>,
}

/// Owns the thread, which ends when this is dropped.
#[derive(Debug)]
pub struct SegmentsThread {
    segments: Segments,
    /// The thread ends when this is gone, and then drops its end of the other.
    running: Option<oneshot::Sender<()>>,
    has_ended: std_mpsc::Receiver<()>,
}

impl Drop for SegmentsThread {
    fn drop(&mut self) {
        self.running.take();
        if self.segments.store.is_some() {
            // For what is on disk to be removed. If that takes longer, the next start does it.
            let _ = self.has_ended.recv_timeout(2 * LAST_WRITES);
        }
    }
}

/// Streams as segments, for the control side.
#[derive(Debug, Clone)]
pub struct Segments {
    asks: Sender<Ask>,
    store: Option<Arc<Store>>,
    known: Arc<Known>,
}

/// What the control side asks for.
enum Ask {
    /// To see a stream.
    Watch { key: Arc<str>, app_bytes: usize, reply: oneshot::Sender<watch::Receiver<SegmentsUpdate>> },
    /// That a segment is read from disk.
    Recall(Arc<str>, SegmentId),
}

impl SegmentsThread {
    /// Starts the thread. Fails when the system gives no thread or event queue, or the directory of segments
    /// cannot be used.
    pub fn start(input: SegmentsInput) -> io::Result<Self> {
        let store = match &input.settings.directory {
            None => None,
            Some(directory) => {
                let named = |error| io::Error::other(format!("{}: {error}", directory.display()));
                Some(Arc::new(Store::open(directory).map_err(named)?))
            }
        };
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(DISK_THREADS).build()?;
        let (running, ended) = oneshot::channel::<()>();
        let (asks, asked) = mpsc::channel(ASKS_MAX);
        let segments = Segments { asks, store: store.clone(), known: Arc::default() };
        let known = Arc::clone(&segments.known);
        let (ends, has_ended) = std_mpsc::channel::<()>();
        worker_api::thread::spawn("segments", move || {
            let directory = store.clone();
            runtime.block_on(async move {
                tokio::select! {
                    () = run(input, asked, store, known) => {}
                    // Whether it is sent or dropped does not matter.
                    _ = ended => {}
                }
            });
            // A disk that hangs does not keep the process.
            runtime.shutdown_timeout(LAST_WRITES);
            let cleared = directory.map_or(Ok(()), |store| store.clear());
            if let Err(error) = cleared {
                tracing::warn!(%error, "segments are left on disk until the next start");
            }
            drop(ends);
        })?;
        Ok(Self { segments, running: Some(running), has_ended })
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
        let watch = Ask::Watch { key: format!("{app}/{name}").into(), app_bytes: app.len(), reply };
        self.asks.try_send(watch).ok()?;
        answer.await.ok()
    }

    /// What can still be requested of a stream whose publisher has left. It is not cut for those who look.
    pub fn left(&self, app: &str, name: &str) -> Option<watch::Receiver<SegmentsUpdate>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&*format!("{app}/{name}")).map(watch::Sender::subscribe)
    }

    /// Has a segment of `app/name` read from disk; it comes with an update, or is asked for again.
    pub fn recall(&self, app: &str, name: &str, id: SegmentId) {
        // Without room it is asked for again.
        let _ = self.asks.try_send(Ask::Recall(format!("{app}/{name}").into(), id));
    }

    /// How many viewers play `app/name` as segments.
    pub fn viewers(&self, app: &str, name: &str) -> u64 {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let update = known.get(&*format!("{app}/{name}")).map(|stream| stream.borrow().state.clone());
        drop(known);
        match update {
            Some(SegmentsState::Objects(view)) => view.viewers(since_1970()),
            _ => 0,
        }
    }

    /// What is on disk, if windows may be there.
    pub fn store(&self) -> Option<StoreStatus> {
        self.store.as_ref().map(|store| store.status())
    }
}

/// One stream that is cut.
struct Cutting {
    changes: Sender<Change>,
    recalls: Sender<SegmentId>,
}

async fn run(
    mut input: SegmentsInput,
    mut asked: Receiver<Ask>,
    store: Option<Arc<Store>>,
    known: Arc<Known>,
) {
    let shared = Arc::new(cut::Shared {
        settings: input.settings,
        workers: input.workers,
        home: input.home,
        updates: input.updates,
        store,
        known,
    });
    let mut streams: HashMap<Arc<str>, Cutting> = HashMap::new();
    let mut tasks: JoinSet<Arc<str>> = JoinSet::new();
    loop {
        let (key, app_bytes, change) = tokio::select! {
            wanted = input.wanted.recv() => {
                // The workers have ended.
                let Some(SegmentsWanted { key, app_bytes, worker, want }) = wanted else { return };
                match want {
                    Want::Updates => (key, app_bytes, Change::Wants(worker)),
                    Want::Nothing => (key, app_bytes, Change::Leaves(worker)),
                    Want::Recall(id) => {
                        recall(&streams, &key, id);
                        continue;
                    }
                }
            }
            Some(ask) = asked.recv() => match ask {
                Ask::Watch { key, app_bytes, reply } => (key, app_bytes, Change::Watches(reply)),
                Ask::Recall(key, id) => {
                    recall(&streams, &key, id);
                    continue;
                }
            },
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
                let (recalls, recalled) = mpsc::channel(RECALLS_MAX);
                streams.insert(Arc::clone(&key), Cutting { changes, recalls });
                tasks.spawn(cut::run(Arc::clone(&shared), key, app_bytes, change, changed, recalled));
            }
        }
    }
}

fn recall(streams: &HashMap<Arc<str>, Cutting>, key: &str, id: SegmentId) {
    // Without room, or where another publication has begun, players ask again.
    let _ = streams.get(key).map(|cutting| cutting.recalls.try_send(id));
}
