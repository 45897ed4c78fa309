//! Snapshots of workers become messages, one a second.
//!
//! A round ends when every worker has sent a snapshot since the last message, or when one has sent two: then another is stuck, and
//! the others are not held up by it; what it said last stays in. So the workers' own seconds set the pace, and nothing here
//! waits for a clock. Buffers of snapshots go back to their workers.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::{SUBSCRIBERS_MAX, merge};
use crate::stats::message::StatsMessage;
use crate::worker::columns::StatsSnapshot;

/// How long a reader waits for the first message after the start of the server.
const FIRST_MESSAGE: Duration = Duration::from_secs(3);

/// A message and its forms, made when they are first wanted.
#[derive(Debug)]
pub struct Report {
    message: StatsMessage,
    messagepack: OnceLock<Bytes>,
    json: OnceLock<Bytes>,
}

impl Report {
    /// The message, to be encoded later.
    pub fn new(message: StatsMessage) -> Self {
        Self { message, messagepack: OnceLock::new(), json: OnceLock::new() }
    }

    /// As MessagePack.
    pub fn messagepack(&self) -> Bytes {
        self.messagepack.get_or_init(|| self.message.to_messagepack().into()).clone()
    }

    /// As JSON.
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| self.message.to_json().into()).clone()
    }
}

/// The newest message, if there is one.
pub type Newest = watch::Receiver<Option<Arc<Report>>>;

/// Collects what workers send. `used` takes snapshots back, one per worker; the other end of the result is for readers.
pub fn collect(used: Vec<SyncSender<Box<StatsSnapshot>>>) -> (Collector, StatsControl) {
    let (publish, newest) = watch::channel(None);
    let latest = used.iter().map(|_| None).collect();
    let collector = Collector { fresh: vec![false; used.len()], latest, used, sequence: 0, publish };
    let control = StatsControl { newest, places: Arc::new(Semaphore::new(SUBSCRIBERS_MAX)) };
    (collector, control)
}

/// See the module.
#[derive(Debug)]
pub struct Collector {
    /// The last snapshot of each worker.
    latest: Vec<Option<Box<StatsSnapshot>>>,
    /// Which of them are in no message yet.
    fresh: Vec<bool>,
    used: Vec<SyncSender<Box<StatsSnapshot>>>,
    sequence: u64,
    publish: watch::Sender<Option<Arc<Report>>>,
}

impl Collector {
    /// Runs until the workers have ended; then readers see the end of the stream.
    pub async fn run(mut self, mut snapshots: mpsc::Receiver<Box<StatsSnapshot>>) {
        while let Some(snapshot) = snapshots.recv().await {
            #[expect(clippy::disallowed_methods, reason = "messages carry the time of day")]
            let now = SystemTime::now();
            self.take(snapshot, now);
        }
    }

    /// Takes one snapshot in, and publishes a message when a round is complete.
    pub fn take(&mut self, snapshot: Box<StatsSnapshot>, now: SystemTime) {
        let worker = snapshot.worker;
        if worker >= self.latest.len() {
            return;
        }
        if self.fresh[worker] {
            self.publish(now);
        }
        let before = self.latest[worker].replace(snapshot);
        if let Some(before) = before {
            // A worker that has enough buffers, or has ended, does not want it.
            let _ = self.used[worker].try_send(before);
        }
        self.fresh[worker] = true;
        if self.fresh.iter().all(|fresh| *fresh) {
            self.publish(now);
        }
    }

    fn publish(&mut self, now: SystemTime) {
        self.fresh.fill(false);
        self.sequence += 1;
        let time_ms = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let message = merge::message(self.latest.iter().flatten(), self.sequence, time_ms);
        self.publish.send_replace(Some(Arc::new(Report::new(message))));
    }
}

/// The readers' side.
#[derive(Debug)]
pub struct StatsControl {
    newest: Newest,
    places: Arc<Semaphore>,
}

/// A reader's place; free again when it is dropped.
pub type Place = OwnedSemaphorePermit;

impl StatsControl {
    /// The newest message; waits for the first. `None` when none comes in time.
    pub async fn newest(&self) -> Option<Arc<Report>> {
        let mut newest = self.newest.clone();
        let first = tokio::time::timeout(FIRST_MESSAGE, newest.wait_for(Option::is_some));
        first.await.ok()?.ok()?.clone()
    }

    /// A place for one more reader of the stream, and what it is to read. `None` when all places are taken.
    pub fn subscribe(&self) -> Option<(Place, Newest)> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some((place, self.newest.clone()))
    }

    /// Readers of the stream at present.
    pub fn subscribers(&self) -> usize {
        SUBSCRIBERS_MAX - self.places.available_permits()
    }

    /// Waits until no reader is left; the stream must have ended.
    pub async fn all_closed(&self) {
        let _ = self.places.acquire_many(SUBSCRIBERS_MAX as u32).await;
    }
}
