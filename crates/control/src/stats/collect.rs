//! Snapshots of workers become messages, one a second.
//!
//! A round ends when every worker has sent a snapshot since the last message, or when one has sent
//! two: then another is stuck, and the others are not held up by it; what it said last stays in. So
//! the workers' own seconds set the pace, and nothing here waits for a clock. Buffers of snapshots
//! go back to their workers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use super::{SUBSCRIBERS_MAX, merge};
use ::stats::message::StatsMessage;
use worker_api::columns::StatsSnapshot;
use worker_api::time::thread_cpu_time;

/// How long a reader waits for the first message after the start of the server.
const FIRST_MESSAGE: Duration = Duration::from_secs(3);

/// What messages have cost so far. Times are CPU time, nanoseconds.
#[derive(Debug, Default)]
pub struct Cost {
    /// Messages.
    pub messages: AtomicU64,
    /// Putting them together.
    pub merge_ns: AtomicU64,
    /// Messages that somebody wanted as MessagePack; each was encoded once.
    pub encodes: AtomicU64,
    /// Encoding them.
    pub encode_ns: AtomicU64,
    /// Bytes of the last one.
    pub message_bytes: AtomicU64,
}

/// A message and its forms, made when they are first wanted.
#[derive(Debug)]
pub struct Report {
    message: StatsMessage,
    messagepack: OnceLock<Bytes>,
    json: OnceLock<Bytes>,
    cost: Arc<Cost>,
}

impl Report {
    /// As MessagePack.
    pub fn messagepack(&self) -> Bytes {
        let encode = || {
            let bytes = measured(&self.cost.encode_ns, || Bytes::from(self.message.to_messagepack()));
            self.cost.encodes.fetch_add(1, Relaxed);
            self.cost.message_bytes.store(bytes.len() as u64, Relaxed);
            bytes
        };
        self.messagepack.get_or_init(encode).clone()
    }

    /// As JSON.
    pub fn json(&self) -> Bytes {
        self.json.get_or_init(|| self.message.to_json().into()).clone()
    }
}

/// Does something and adds the CPU time it took.
fn measured<T>(sum_ns: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let begun = thread_cpu_time();
    let result = work();
    let took = thread_cpu_time().saturating_sub(begun);
    sum_ns.fetch_add(took.as_nanos() as u64, Relaxed);
    result
}

/// The newest message, if there is one.
pub(super) type Newest = watch::Receiver<Option<Arc<Report>>>;

/// Collects what workers send. `used` takes snapshots back, one per worker; the other end of the
/// result is for readers.
pub fn collect(used: Vec<SyncSender<Box<StatsSnapshot>>>) -> (Collector, StatsControl) {
    let (publish, newest) = watch::channel(None);
    let latest = used.iter().map(|_| None).collect();
    let (fresh, cost) = (vec![false; used.len()], Arc::new(Cost::default()));
    let control =
        StatsControl { newest, slots: Arc::new(Semaphore::new(SUBSCRIBERS_MAX)), cost: Arc::clone(&cost) };
    let collector = Collector { fresh, latest, used, sequence: 0, publish, cost };
    (collector, control)
}

/// Asks the workers for snapshots while somebody reads the live statistics, and merges them into messages.
#[derive(Debug)]
pub struct Collector {
    /// The last snapshot of each worker.
    latest: Vec<Option<Box<StatsSnapshot>>>,
    /// Which of them are in no message yet.
    fresh: Vec<bool>,
    used: Vec<SyncSender<Box<StatsSnapshot>>>,
    sequence: u64,
    publish: watch::Sender<Option<Arc<Report>>>,
    cost: Arc<Cost>,
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
        let snapshots = self.latest.iter().flatten();
        let message = measured(&self.cost.merge_ns, || merge::message(snapshots, self.sequence, time_ms));
        self.cost.messages.fetch_add(1, Relaxed);
        let (messagepack, json, cost) = (OnceLock::new(), OnceLock::new(), Arc::clone(&self.cost));
        self.publish.send_replace(Some(Arc::new(Report { message, messagepack, json, cost })));
    }
}

/// The readers' side.
#[derive(Debug)]
pub struct StatsControl {
    newest: Newest,
    slots: Arc<Semaphore>,
    cost: Arc<Cost>,
}

/// A reader's slot; free again when it is dropped.
pub(super) type SubscriberSlot = OwnedSemaphorePermit;

impl StatsControl {
    /// The newest message; waits for the first. `None` when none comes in time.
    pub async fn newest(&self) -> Option<Arc<Report>> {
        let mut newest = self.newest.clone();
        let first = tokio::time::timeout(FIRST_MESSAGE, newest.wait_for(Option::is_some));
        first.await.ok()?.ok()?.clone()
    }

    /// A slot for one more reader of the stream, and what it is to read. `None` when all slots are taken.
    pub fn subscribe(&self) -> Option<(SubscriberSlot, Newest)> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some((slot, self.newest.clone()))
    }

    /// What messages have cost.
    pub fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Readers of the stream at present.
    pub fn subscribers(&self) -> usize {
        SUBSCRIBERS_MAX - self.slots.available_permits()
    }

    /// Waits until no reader is left; the stream must have ended.
    pub async fn all_closed(&self) {
        let _ = self.slots.acquire_many(SUBSCRIBERS_MAX as u32).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn snapshot(worker: usize, now_ms: u64) -> Box<StatsSnapshot> {
        Box::new(StatsSnapshot { worker, now_ms, ..StatsSnapshot::default() })
    }

    fn moment(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn sequence(stats: &StatsControl) -> u64 {
        stats.newest.borrow().as_ref().map_or(0, |report| report.message.sequence)
    }

    #[test]
    fn a_message_is_made_when_all_workers_or_one_of_them_twice_have_spoken() {
        let (used, _returned): (Vec<_>, Vec<_>) = (0..3).map(|_| sync_channel(1)).unzip();
        let (mut collector, stats) = collect(used);
        // Worker 2 gets stuck after its first snapshot and is there again later.
        for (worker, expected) in
            [(0, 0), (1, 0), (2, 1), (1, 1), (0, 1), (1, 2), (0, 2), (1, 3), (2, 3), (0, 4), (7, 4)]
        {
            collector.take(snapshot(worker, expected), moment(expected));
            assert_eq!(sequence(&stats), expected, "after worker {worker}");
        }
        let report = stats.newest.borrow().clone().expect("a message");
        assert_eq!(report.message.workers.index, [0, 1, 2], "a worker that is stuck stays in");
        assert_eq!(report.message.time_ms, 4000);
    }

    #[test]
    fn buffers_go_back_to_the_worker_they_came_from() {
        let (give_back, returned) = sync_channel(1);
        let (mut collector, _stats) = collect(vec![give_back]);
        for now_ms in 1..=4 {
            collector.take(snapshot(0, now_ms), moment(1));
        }
        assert_eq!(returned.try_recv().expect("one").now_ms, 1);
        assert!(returned.try_recv().is_err(), "what the worker has no room for is dropped");
        collector.take(snapshot(0, 5), moment(1));
        assert_eq!(returned.try_recv().expect("one").now_ms, 4);
    }

    #[test]
    fn a_message_is_encoded_once_for_all_readers_and_not_at_all_for_none() {
        let (mut collector, stats) = collect(vec![sync_channel(1).0]);
        collector.take(snapshot(0, 1), moment(1));
        collector.take(snapshot(0, 2), moment(2));
        assert_eq!((stats.cost().messages.load(Relaxed), stats.cost().encodes.load(Relaxed)), (2, 0));
        let report = stats.newest.borrow().clone().expect("a message");
        let (first, second) = (report.messagepack(), report.messagepack());
        assert_eq!(first.as_ptr(), second.as_ptr(), "the same memory");
        assert_eq!(stats.cost().encodes.load(Relaxed), 1);
        assert_eq!(stats.cost().message_bytes.load(Relaxed), first.len() as u64);
        assert_eq!(StatsMessage::from_messagepack(&first).expect("a message").sequence, 2);
    }

    #[test]
    fn places_are_limited_and_come_back() {
        let (_collector, stats) = collect(Vec::new());
        let mut slots: Vec<_> = (0..SUBSCRIBERS_MAX).map(|_| stats.subscribe().expect("a slot")).collect();
        assert!(stats.subscribe().is_none());
        assert_eq!(stats.subscribers(), SUBSCRIBERS_MAX);
        slots.pop();
        assert!(stats.subscribe().is_some());
    }
}
