//! The operator's hooks: POST requests that ask whether a client may publish or play, and notify of events.
//!
//! ```text
//! questions --> ask.rs: turn, POST, answer ----------------> worker, task
//! news -------> queue.rs: a queue per stream, sent again --> POST
//! ```
//!
//! Tasks on the control side's runtime; the workers' side is `worker_api::hooks`. Only the client that is
//! asked about waits for a hook: every wait has a limit, and every queue.

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
use tokio::task::{JoinHandle, JoinSet};
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
        let mut asks = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                Some(news) = end.news.recv() => self.tell(news),
                Some(question) = end.questions.recv() => {
                    let Some(open) = self.asking.take_up(question) else { continue };
                    if !self.asking.is_batched(&open) {
                        asks.spawn(Arc::clone(&self.asking).ask(vec![open], false));
                        continue;
                    }
                    if batch.is_empty() {
                        batch_due = Instant::now() + self.settings.play_batch;
                    }
                    batch.push(open);
                    if batch.len() >= BATCH_MAX {
                        asks.spawn(Arc::clone(&self.asking).ask(std::mem::take(&mut batch), true));
                    }
                }
                () = sleep_until(batch_due), if !batch.is_empty() => {
                    asks.spawn(Arc::clone(&self.asking).ask(std::mem::take(&mut batch), true));
                }
                Some(_) = asks.join_next() => {}
                _ = viewers.tick() => self.asking.sweep_viewers(false),
                _ = &mut stopped => break,
            }
        }
        if !batch.is_empty() {
            asks.spawn(Arc::clone(&self.asking).ask(batch, true));
        }
        // Questions that come now have failed.
        end.questions.close();
        while let Ok(question) = end.questions.try_recv() {
            if let Some(open) = self.asking.take_up(question) {
                asks.spawn(Arc::clone(&self.asking).ask(vec![open], false));
            }
        }
        if timeout(FLUSH, self.flush(end.news, asks)).await.is_err() {
            tracing::warn!("the server stops, and events for hooks are left");
        }
    }

    /// Waits until open questions are answered and events are delivered.
    async fn flush(&self, mut news: mpsc::Receiver<News>, mut asks: JoinSet<()>) {
        self.asking.sweep_viewers(true);
        loop {
            tokio::select! {
                biased;
                Some(news) = news.recv() => self.tell(news),
                answered = asks.join_next() => if answered.is_none() { break },
            }
        }
        // Who has been let in meanwhile leaves, too.
        self.asking.sweep_viewers(true);
        while let Ok(news) = news.try_recv() {
            self.tell(news);
        }
        self.queues.emptied().await;
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use bytes::Bytes;
    use http::StatusCode;
    use tokio::time::sleep;
    use worker_api::hooks::{Asker, Question, Reply};
    use worker_api::snapshot::Protocol;

    use super::*;
    use crate::status::CallResult;

    /// Answers after a second, and notes what it has heard.
    #[derive(Default)]
    struct Slow(Mutex<Vec<HookEvent>>);

    impl Post for Slow {
        async fn post(&self, event: HookEvent, body: Bytes) -> Result<(StatusCode, Bytes), CallResult> {
            sleep(Duration::from_secs(1)).await;
            self.0.lock().expect("whole").push(event);
            assert!(!body.is_empty());
            Ok((StatusCode::NO_CONTENT, Bytes::new()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_let_in_while_the_server_stops_has_an_end() {
        let settings = Arc::new(HookSettings {
            urls: HookEvent::ALL.map(|_| Some(http::Uri::from_static("http://hook/"))),
            secret: b"mill".to_vec(),
            timeout: Duration::from_secs(2),
            allows_on_error: false,
            concurrency: 8,
            play_batch: Duration::from_secs(60),
            queue_max: 8,
            retry_for: Duration::from_secs(2),
            extra_roots_pem: Vec::new(),
        });
        let (hooks, end) = Hooks::new(|_| true, settings.on_error());
        let (post, status) = (Arc::new(Slow::default()), Arc::<HookStatus>::default());
        let asking =
            Asking::new(Arc::clone(&post), Arc::clone(&settings), hooks.clone(), Arc::clone(&status));
        let limits = QueueLimits { events_max: 8, retry_for: settings.retry_for, timeout: settings.timeout };
        let queues = Queues::new(Arc::clone(&post), limits, Arc::clone(&status));
        let (record, _recorded) = mpsc::channel(1);
        let running = Running { asking, queues, settings, hooks: hooks.clone(), record };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(running.run(end, stopped));
        let ask = |action, viewer| {
            let (key, address) = ("live/mill".into(), ([127, 0, 0, 1], 9).into());
            let asker =
                Asker { action, key, session: None, protocol: Protocol::Hls, address, user_agent: None };
            // Nobody waits for the answer any more.
            hooks.ask(Question { asker, viewer, reply: Reply::Task(oneshot::channel().0) });
        };
        ask(Action::Publish, None);
        ask(Action::Play, Some(7));
        sleep(Duration::from_millis(100)).await;
        stop.send(()).expect("it runs");
        task.await.expect("no panic");
        let mut heard = post.0.lock().expect("whole").clone();
        heard.sort();
        assert_eq!(heard, [HookEvent::Publish, HookEvent::PublishEnd, HookEvent::Play, HookEvent::PlayEnd]);
        assert_eq!((status.open(), status.queued()), (0, 0));
    }
}
