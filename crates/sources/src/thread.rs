//! The thread of sources: one event loop for all channels, pulls and the demo.
//!
//! Not the control side's: media of many sources would hold the API up, and a large answer there
//! would hold up frames that leave at their time. One thread suffices, because it only moves bytes;
//! what computes or blocks has threads of its own.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Owns the thread; dropping it ends all sources at once.
#[derive(Debug)]
pub struct IngestThread {
    spawner: Spawner,
    stop: watch::Sender<bool>,
    /// The thread ends when this is dropped.
    _running: oneshot::Sender<()>,
}

/// Puts tasks on the thread.
#[derive(Debug, Clone)]
pub(super) struct Spawner {
    runtime: Handle,
    stopping: watch::Receiver<bool>,
    /// Number of tasks that have not ended.
    tasks: watch::Sender<usize>,
}

impl IngestThread {
    /// Starts the thread. Fails when the system gives no thread or event queue.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopping) = watch::channel(false);
        let (running, ended) = oneshot::channel::<()>();
        let spawner = Spawner { runtime: runtime.handle().clone(), stopping, tasks: watch::Sender::new(0) };
        worker_api::thread::spawn("ingest", move || {
            // Whether it is sent or dropped does not matter.
            let _ = runtime.block_on(ended);
            // Not by dropping it: that would wait for a name that is being resolved.
            runtime.shutdown_background();
        })?;
        Ok(Self { spawner, stop, _running: running })
    }

    pub(super) fn spawner(&self) -> Spawner {
        self.spawner.clone()
    }

    /// Tells all sources to end, and waits until they have, at most `limit`.
    pub async fn stop(&self, limit: Duration) {
        let _ = self.stop.send(true);
        let mut tasks = self.spawner.tasks.subscribe();
        let _ = timeout(limit, tasks.wait_for(|tasks| *tasks == 0)).await;
    }
}

impl Spawner {
    pub(super) fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) -> JoinHandle<()> {
        let counted = Counted::new(self.tasks.clone());
        self.runtime.spawn(async move {
            task.await;
            drop(counted);
        })
    }

    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }
}

/// Counts one task for as long as it exists, however it ends.
struct Counted(watch::Sender<usize>);

impl Counted {
    fn new(tasks: watch::Sender<usize>) -> Self {
        tasks.send_modify(|tasks| *tasks += 1);
        Self(tasks)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|tasks| *tasks -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_and_waited_for() {
        let thread = IngestThread::start().expect("a thread");
        let spawner = thread.spawner();
        let mut stopping = spawner.stopping();
        let (ended, end) = std::sync::mpsc::channel();
        spawner.spawn(async move {
            let name = std::thread::current().name().map(str::to_owned);
            let _ = stopping.wait_for(|stop| *stop).await;
            ended.send(name).expect("the test waits");
        });
        spawner.spawn(async { panic!("a defect of a source") });
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(thread.stop(Duration::from_secs(20)));
        assert_eq!(end.try_recv().expect("it has ended before stop returns").as_deref(), Some("ingest"));
        assert_eq!(*spawner.tasks.borrow(), 0, "the one that panicked is not counted any more");
    }
}
