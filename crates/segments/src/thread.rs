//! The thread, and which streams are cut on it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, mpsc as std_mpsc};
use std::time::Duration;

use hls::SegmentId;
use tokio::runtime::Builder;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use worker_api::segments::{SegmentsEnd, SegmentsState, SegmentsUpdate, SegmentsWanted, Want, WantedSender};
use worker_api::settings::SegmentsSettings;
use worker_api::time::since_1970;
use worker_api::viewers::Viewer;
use worker_api::{HomeOf, WorkerHandles};

use crate::cut::{self, Known};
use crate::store::{DISK_THREADS, Store, StoreStatus};

/// How long the end of the thread waits for the disk.
const LAST_WRITES: Duration = Duration::from_secs(1);
/// Segments on disk that a stream may be asked for at once; further ones are asked for again.
const RECALLS_MAX: usize = 256;
/// Others that may wait for a stream.
const WANTS_MAX: usize = 64;

/// What the thread needs.
pub struct SegmentsInput {
    /// How streams are cut.
    pub settings: SegmentsSettings,
    /// Where frames come from.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<HomeOf>,
    /// To and from workers.
    pub end: SegmentsEnd,
    /// Gets each stream that is cut from now on: app, name, and what can be requested as it changes. It must
    /// not wait. Who watches so does not keep a stream from ending, unless `hls.mode` is `on_demand`.
    pub cut: Option<Box<OnCut>>,
}

/// Who wants to know of streams that are cut.
pub type OnCut = dyn Fn(&str, &str, watch::Receiver<SegmentsUpdate>) + Send + Sync;

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
    wanted: WantedSender,
    store: Option<Arc<Store>>,
    known: Arc<Known>,
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
        let wanted = input.end.sender.clone();
        let segments = Segments { wanted, store: store.clone(), known: Arc::default() };
        let known = Arc::clone(&segments.known);
        let (ends, has_ended) = std_mpsc::channel::<()>();
        worker_api::thread::spawn("segments", move || {
            let directory = store.clone();
            runtime.block_on(async move {
                tokio::select! {
                    () = run(input, store, known) => {}
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
        self.want(app, name, Want::Watch(reply)).ok()?;
        answer.await.ok()
    }

    fn want(&self, app: &str, name: &str, want: Want) -> Result<(), TrySendError<SegmentsWanted>> {
        let key = format!("{app}/{name}").into();
        self.wanted.try_send(SegmentsWanted { key, app_bytes: app.len(), want })
    }

    /// What can still be requested of a stream whose publisher has left. It is not cut for those who look.
    pub fn left(&self, app: &str, name: &str) -> Option<watch::Receiver<SegmentsUpdate>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&*format!("{app}/{name}")).map(watch::Sender::subscribe)
    }

    /// Has a segment of `app/name` read from disk; it comes with an update, or is asked for again.
    pub fn recall(&self, app: &str, name: &str, id: SegmentId) {
        // Without room it is asked for again.
        let _ = self.want(app, name, Want::Recall(id));
    }

    /// Whether a viewer plays `app/name` as segments already.
    pub fn has_viewer(&self, app: &str, name: &str, viewer: &Viewer<'_>) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let update = known.get(&*format!("{app}/{name}")).map(|stream| stream.borrow().state.clone());
        drop(known);
        matches!(update, Some(SegmentsState::Objects(view)) if view.has_viewer(viewer, since_1970()))
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
    wants: Sender<Want>,
    recalls: Sender<SegmentId>,
}

async fn run(input: SegmentsInput, store: Option<Arc<Store>>, known: Arc<Known>) {
    let SegmentsEnd { mut wanted, updates, .. } = input.end;
    let shared = Arc::new(cut::Shared {
        settings: input.settings,
        workers: input.workers,
        home: input.home,
        updates,
        store,
        known,
        cut: input.cut,
    });
    let mut streams: HashMap<Arc<str>, Cutting> = HashMap::new();
    let mut tasks: JoinSet<Arc<str>> = JoinSet::new();
    loop {
        let SegmentsWanted { key, app_bytes, want } = tokio::select! {
            Some(wanted) = wanted.recv() => wanted,
            Some(ended) = tasks.join_next() => {
                // A stream that has ended may have begun again by now.
                let is_over = |key| streams.get(key).is_some_and(|cutting| cutting.wants.is_closed());
                if let Ok(key) = ended && is_over(&key) {
                    streams.remove(&key);
                }
                continue;
            }
            // Nobody is left who could want anything.
            else => return,
        };
        // One that has ended is not wanted any more, but what there is of it is read for a while.
        let want = match (streams.get(&key), want) {
            (cutting, Want::Recall(id)) => {
                // Without room, or where another publication has begun, players ask again.
                let _ = cutting.map(|cutting| cutting.recalls.try_send(id));
                continue;
            }
            (Some(cutting), want) => match cutting.wants.try_send(want) {
                Ok(()) => continue,
                Err(TrySendError::Closed(want)) => want,
                Err(TrySendError::Full(want)) => {
                    cut::refuse(want, &key, &shared);
                    continue;
                }
            },
            (None, want) => want,
        };
        match want {
            Want::Nothing(_) => {}
            want if streams.len() >= shared.settings.streams_max => {
                tracing::warn!(stream = %key, "not cut into segments: `hls.streams_max` is reached");
                cut::refuse(want, &key, &shared);
            }
            want => {
                let (wants, wanted) = mpsc::channel(WANTS_MAX);
                let (recalls, recalled) = mpsc::channel(RECALLS_MAX);
                streams.insert(Arc::clone(&key), Cutting { wants, recalls });
                tasks.spawn(cut::run(Arc::clone(&shared), key, app_bytes, want, wanted, recalled));
            }
        }
    }
}
