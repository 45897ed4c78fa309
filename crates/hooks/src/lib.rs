//! The operator's hooks: POST requests that ask whether somebody may publish or play, and tell what happens.
//!
//! ```text
//! questions --> ask.rs: turn, POST, answer ----------------> worker, task
//! news -------> queue.rs: a queue per stream, sent again --> POST
//! ```
//!
//! Tasks on the control side's runtime; what a worker says and hears of it is in `worker_api::hooks`. Nothing
//! waits for a hook but who asks: every wait has a limit, and every queue.

mod ask;
mod client;
mod event;
mod queue;
mod resolver;
pub mod settings;
pub mod status;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep_until, timeout};
use worker_api::auth::Action;
use worker_api::hooks::{HookEvent, Hooks, HooksEnd, News};
use worker_api::time::since_1970;

use crate::ask::{Asking, BATCH_MAX, Open};
use crate::client::{HttpPost, Post};
use crate::event::{End, Event, Recording, StreamState};
use crate::queue::{QueueLimits, Queues};
use crate::settings::HookSettings;
use crate::status::HookStatus;
pub use crate::streams::StreamStates;

/// How often viewers of segments that have left are looked for.
const VIEWERS_EVERY: Duration = Duration::from_secs(5);
/// Time that events have to be delivered when the server stops.
const FLUSH: Duration = Duration::from_secs(3);

/// Hooks that run.
#[derive(Debug)]
pub struct HooksTask {
    hooks: Hooks,
    status: Arc<HookStatus>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl HooksTask {
    /// Starts them on the present runtime. Streams that are to be recorded, because a hook has said so, go
    /// to `record` when they begin.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub fn start(settings: HookSettings, record: mpsc::Sender<Arc<str>>) -> Result<Self, String> {
        let settings = Arc::new(settings);
        let (hooks, end) = Hooks::new(|event| settings.url(event).is_some(), settings.on_error());
        let status = Arc::<HookStatus>::default();
        let post = Arc::new(HttpPost::new(Arc::clone(&settings))?);
        let asking =
            Asking::new(Arc::clone(&post), Arc::clone(&settings), hooks.clone(), Arc::clone(&status));
        let limits = QueueLimits {
            events_max: settings.queue_max,
            retry_for: settings.retry_for,
            timeout: settings.timeout,
        };
        let queues = Queues::new(post, limits, Arc::clone(&status));
        let (stop, stopped) = oneshot::channel();
        let running = Running { asking, queues, settings, hooks: hooks.clone(), record };
        let task = tokio::spawn(running.run(end, stopped));
        Ok(Self { hooks, status, stop, task })
    }

    /// Who asks and reports needs this.
    pub fn hooks(&self) -> Hooks {
        self.hooks.clone()
    }

    /// What they have cost.
    pub fn status(&self) -> Arc<HookStatus> {
        Arc::clone(&self.status)
    }

    /// Ends them: what is still to be told has a few seconds.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

struct Running<P> {
    asking: Arc<Asking<P>>,
    queues: Arc<Queues<P>>,
    settings: Arc<HookSettings>,
    hooks: Hooks,
    record: mpsc::Sender<Arc<str>>,
}

impl<P: Post> Running<P> {
    async fn run(self, mut end: HooksEnd, mut stopped: oneshot::Receiver<()>) {
        let mut viewers = interval(VIEWERS_EVERY);
        let mut batch: Vec<Open> = Vec::new();
        let mut batch_due = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some(news) = end.news.recv() => self.tell(news),
                Some(question) = end.questions.recv() => {
                    let Some(open) = self.asking.take_up(question) else { continue };
                    if !self.asking.is_batched(&open) {
                        tokio::spawn(Arc::clone(&self.asking).ask(vec![open], false));
                        continue;
                    }
                    if batch.is_empty() {
                        batch_due = Instant::now() + self.settings.play_batch;
                    }
                    batch.push(open);
                    if batch.len() >= BATCH_MAX {
                        tokio::spawn(Arc::clone(&self.asking).ask(std::mem::take(&mut batch), true));
                    }
                }
                () = sleep_until(batch_due), if !batch.is_empty() => {
                    tokio::spawn(Arc::clone(&self.asking).ask(std::mem::take(&mut batch), true));
                }
                _ = viewers.tick() => self.asking.sweep_viewers(false),
                _ = &mut stopped => break,
            }
        }
        self.asking.sweep_viewers(true);
        while let Ok(news) = end.news.try_recv() {
            self.tell(news);
        }
        if timeout(FLUSH, self.queues.emptied()).await.is_err() {
            tracing::warn!("the server stops, and events for hooks are left");
        }
    }

    /// Puts into its queue what is to be told.
    fn tell(&self, news: News) {
        let (id, now) = (self.hooks.next_id(), since_1970());
        let (key, event, body) = match &news {
            News::Ended(ended) => {
                let is_publisher = ended.asker.action == Action::Publish;
                let event = if is_publisher { HookEvent::PublishEnd } else { HookEvent::PlayEnd };
                (
                    &ended.asker.key,
                    event,
                    Event::new(event, &id, now, &ended.asker.key, End::of(ended, now)).to_json(),
                )
            }
            News::Live { key, epoch } | News::Over { key, epoch } => {
                let is_live = matches!(news, News::Live { .. });
                let state = if is_live { "live" } else { "ended" };
                let details = StreamState { state, publication: *epoch };
                let event = HookEvent::StreamState;
                (key, event, Event::new(event, &id, now, key, details).to_json())
            }
            News::ToRecord { key } => {
                if self.record.try_send(Arc::clone(key)).is_err() {
                    tracing::warn!(stream = %key, "not recorded as a hook says: too many begin at once");
                }
                return;
            }
            News::Recording { key, file, directory, state } => {
                let event = HookEvent::Record;
                let details = Recording { state, directory, file };
                (key, event, Event::new(event, &id, now, key, details).to_json())
            }
        };
        if self.settings.url(event).is_some() {
            self.queues.push(key, event, body);
        }
    }
}
