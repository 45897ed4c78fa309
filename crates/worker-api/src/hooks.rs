//! Questions to the operator's own server, by HTTP, whether a client may publish or play; and notifications.
//!
//! A worker asks with [`Hooks::ask`] and goes on; the answer comes back through its own queue, and a waker.
//! The requests are made by the crate `hooks`, on the control side. What is let in holds an [`Admission`]
//! for as long as it lasts. Whatever happens to it, dropping that reports its end, once.
//!
//! ```text
//! worker, control --ask--> questions (bounded) --> hooks: POST --> Answer --> worker's queue, or a task
//! Admission dropped, streams --> news (bounded) --> hooks: a queue per stream --> POST
//! ```

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use jwt::Action;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::denied::Denied;
use crate::snapshot::{Protocol, SessionId};

/// Questions that may wait to be taken up; further ones are answered at once, as those that fail.
pub const QUESTIONS_MAX: usize = 8_192;
/// News that may wait to be sorted into the queues of their streams; further ones are dropped and counted.
pub const NEWS_MAX: usize = 16_384;

/// Notifications for hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HookEvent {
    /// Somebody wants to publish.
    Publish,
    /// A publisher has left.
    PublishEnd,
    /// Somebody wants to play.
    Play,
    /// A player has left.
    PlayEnd,
    /// A recording begins, or is complete.
    Record,
    /// A stream begins, or ends.
    StreamState,
}

impl HookEvent {
    /// All, in the order of the configuration.
    pub const ALL: [Self; 6] =
        [Self::Publish, Self::PublishEnd, Self::Play, Self::PlayEnd, Self::Record, Self::StreamState];

    /// Name in the configuration, in requests and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "on_publish",
            Self::PublishEnd => "on_publish_end",
            Self::Play => "on_play",
            Self::PlayEnd => "on_play_end",
            Self::Record => "on_record",
            Self::StreamState => "on_stream_state",
        }
    }
}

/// Who asks for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// To publish or to play.
    pub action: Action,
    /// `app/name`.
    pub key: Arc<str>,
    /// Its session, where it has one before it is let in.
    pub session: Option<SessionId>,
    /// How it asks.
    pub protocol: Protocol,
    /// Where it is.
    pub address: SocketAddr,
    /// What it calls itself.
    pub user_agent: Option<Box<str>>,
}

/// What a hook asks for of a session that it lets in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// When the session is to end, since 1970.
    pub until: Option<Duration>,
    /// Most bits per second of a viewer by WebRTC.
    pub bits_per_second_max: Option<u64>,
    /// Highest pictures of a viewer by WebRTC, where there are layers to choose from.
    pub height_max: Option<u16>,
}

/// Of one who is let in.
#[derive(Debug)]
pub struct Admitted {
    /// Reports the end. `None` for viewers of segments, which have no session: `hooks` keeps it for them.
    pub admission: Option<Box<Admission>>,
    /// What the session is limited to.
    pub limits: Limits,
}

/// What comes of a question.
pub type Answer = Result<Admitted, Denied>;

/// An answer on its way to a worker, with the number that the worker gave the question.
pub type WorkerAnswer = (u64, Answer);

/// Where an answer goes.
pub enum Reply {
    /// To a worker.
    Worker {
        /// Its queue. As many answers are in it as it has questions open.
        answers: std::sync::mpsc::Sender<WorkerAnswer>,
        /// Wakes it.
        waker: Waker,
        /// The number of the question.
        ticket: u64,
    },
    /// To a task.
    Task(oneshot::Sender<Answer>),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Worker { .. } => "to a worker",
            Self::Task(_) => "to a task",
        })
    }
}

impl Reply {
    /// Hands the answer over. If nobody waits for it any more, its admission ends with it.
    pub fn send(self, answer: Answer) {
        match self {
            Self::Worker { answers, waker, ticket } => {
                if answers.send((ticket, answer)).is_ok() {
                    waker.wake();
                }
            }
            Self::Task(reply) => drop(reply.send(answer)),
        }
    }
}

/// A question.
#[derive(Debug)]
pub struct Question {
    /// Who asks.
    pub asker: Asker,
    /// Identifies a viewer of segments, who makes many requests.
    pub viewer: Option<u64>,
    /// Where the answer goes.
    pub reply: Reply,
}

/// What is reported and not asked.
#[derive(Debug)]
pub enum News {
    /// A session that was let in has ended, or never began.
    Ended(Ended),
    /// A publication begins, another one perhaps behind it.
    Live {
        /// `app/name`.
        key: Arc<str>,
        /// Number of the publication.
        epoch: u64,
    },
    /// The publication has ended, and no other has replaced it.
    Over {
        /// `app/name`.
        key: Arc<str>,
        /// Number of the publication.
        epoch: u64,
    },
    /// A publication has begun that is to be recorded, because the answer about its publisher says so.
    ToRecord {
        /// `app/name`.
        key: Arc<str>,
    },
    /// A recording.
    Recording {
        /// `app/name`.
        key: Arc<str>,
        /// The file, below its directory.
        file: String,
        /// The directory.
        directory: String,
        /// `begun` or `complete`.
        state: &'static str,
    },
}

/// How a session that was let in has ended.
#[derive(Debug)]
pub struct Ended {
    /// Who it was.
    pub asker: Asker,
    /// Id of the event that asked for it.
    pub id: String,
    /// When it was let in, since 1970.
    pub since: Duration,
    /// Whether it published or played.
    pub has_begun: bool,
    /// Why it ended.
    pub reason: &'static str,
    /// Bytes received from a publisher, or sent to a player.
    pub bytes: u64,
}

/// What a process needs to report the end of a session that another one has let in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedAdmission {
    /// Id of the event that asked for it.
    pub id: String,
    /// When it was let in, since 1970.
    pub since: Duration,
    /// What it publishes is to be recorded.
    #[serde(default)]
    pub is_recorded: bool,
}

/// Somebody who has been let in. Dropping it reports the end.
pub struct Admission {
    ended: Option<Ended>,
    /// What it publishes is to be recorded.
    is_recorded: bool,
    has_published: bool,
    hooks: Hooks,
}

impl Admission {
    /// Of `asker`, whose question had the id `id`, at `since` 1970.
    pub fn new(hooks: Hooks, asker: Asker, id: String, since: Duration) -> Self {
        let reason = "not begun";
        let ended = Some(Ended { asker, id, since, has_begun: false, reason, bytes: 0 });
        Self { ended, is_recorded: false, has_published: false, hooks }
    }

    /// What it publishes is to be recorded, once it does.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.is_recorded = true;
        self
    }

    /// Call it when its publication has begun.
    pub fn note_published(&mut self) {
        if !std::mem::replace(&mut self.has_published, true)
            && self.is_recorded
            && let Some(ended) = &self.ended
        {
            self.hooks.report(News::ToRecord { key: Arc::clone(&ended.asker.key) });
        }
    }

    /// Whether it is to do this with this stream.
    pub fn is_for(&self, action: Action, key: &str) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.asker.action == action && &*ended.asker.key == key)
    }

    /// Notes how it ends, before it is dropped; whether it has published or played by then.
    pub fn note_end(&mut self, session: SessionId, has_begun: bool, reason: &'static str, bytes: u64) {
        if let Some(ended) = &mut self.ended {
            ended.asker.session = Some(session);
            (ended.has_begun, ended.reason, ended.bytes) = (has_begun, reason, bytes);
        }
    }

    /// What another process needs to report the end.
    pub fn handed(&self) -> Option<HandedAdmission> {
        let Ended { id, since, .. } = self.ended.as_ref()?;
        Some(HandedAdmission { id: id.clone(), since: *since, is_recorded: self.is_recorded })
    }

    /// Another process reports the end.
    pub fn forget(&mut self) {
        self.ended = None;
    }

    /// Notes that a viewer of segments has made its last request.
    pub fn note_viewer_left(&mut self) {
        if let Some(ended) = &mut self.ended {
            (ended.has_begun, ended.reason) = (true, "no more requests");
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            self.hooks.report(News::Ended(ended));
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.ended).finish()
    }
}

/// Asks and reports. Clones are the same hooks.
#[derive(Debug, Clone)]
pub struct Hooks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Which events somebody wants, in the order of [`HookEvent::ALL`].
    wanted: [bool; HookEvent::ALL.len()],
    questions: mpsc::Sender<Question>,
    news: mpsc::Sender<News>,
    /// What a question becomes that finds no room.
    on_overflow: Result<(), Denied>,
    overflowed: AtomicU64,
    news_dropped: AtomicU64,
    /// Tells viewers of segments apart, on all workers alike.
    hasher: RandomState,
    /// Begins the ids of this run of the server.
    run: u64,
    last_id: AtomicU64,
}

/// The other end of [`Hooks`].
#[derive(Debug)]
pub struct HooksEnd {
    /// Questions.
    pub questions: mpsc::Receiver<Question>,
    /// News.
    pub news: mpsc::Receiver<News>,
}

impl Hooks {
    /// Hooks for the events that are `wanted`, and their other end. `on_overflow`: what a question becomes
    /// that finds no room.
    pub fn new(wanted: impl Fn(HookEvent) -> bool, on_overflow: Result<(), Denied>) -> (Self, HooksEnd) {
        let (questions, asked) = mpsc::channel(QUESTIONS_MAX);
        let (news, reported) = mpsc::channel(NEWS_MAX);
        let hasher = RandomState::new();
        let inner = Inner {
            wanted: HookEvent::ALL.map(wanted),
            questions,
            news,
            on_overflow,
            overflowed: AtomicU64::new(0),
            news_dropped: AtomicU64::new(0),
            run: hasher.hash_one(()),
            hasher,
            last_id: AtomicU64::new(0),
        };
        (Self(Arc::new(inner)), HooksEnd { questions: asked, news: reported })
    }

    /// Whether somebody wants this event.
    pub fn wants(&self, event: HookEvent) -> bool {
        HookEvent::ALL.iter().zip(self.0.wanted).any(|(other, is_wanted)| *other == event && is_wanted)
    }

    /// Whether those who want to do this need an [`Admission`]: they are asked about, or their end is
    /// reported.
    pub fn admits(&self, action: Action) -> bool {
        match action {
            Action::Publish => self.wants(HookEvent::Publish) || self.wants(HookEvent::PublishEnd),
            Action::Play => self.wants(HookEvent::Play) || self.wants(HookEvent::PlayEnd),
            Action::Manage | Action::Record => false,
        }
    }

    /// Asks. Never waits: where there is no room for the question, it has failed.
    pub fn ask(&self, question: Question) {
        if let Err(error) = self.0.questions.try_send(question) {
            self.0.overflowed.fetch_add(1, Ordering::Relaxed);
            let (mpsc::error::TrySendError::Full(question) | mpsc::error::TrySendError::Closed(question)) =
                error;
            let Question { asker, viewer, reply } = question;
            let answer = self.0.on_overflow.map(|()| {
                let admit = || Admission::new(self.clone(), asker, self.next_id(), crate::time::since_1970());
                // Nobody would know when a viewer of segments leaves.
                let admission = viewer.is_none().then(|| Box::new(admit()));
                Admitted { admission, limits: Limits::default() }
            });
            reply.send(answer);
        }
    }

    /// Asks and waits for the answer.
    pub async fn ask_and_wait(&self, asker: Asker, viewer: Option<u64>) -> Answer {
        let (reply, answer) = oneshot::channel();
        self.ask(Question { asker, viewer, reply: Reply::Task(reply) });
        // Nobody answers any more: the server stops.
        answer.await.unwrap_or(Err(Denied::HookFailed))
    }

    /// Reports something that somebody wants to know.
    pub fn report(&self, news: News) {
        let event = match &news {
            News::Ended(ended) if ended.asker.action == Action::Publish => HookEvent::PublishEnd,
            News::Ended(_) => HookEvent::PlayEnd,
            News::Live { .. } | News::Over { .. } => HookEvent::StreamState,
            News::Recording { .. } | News::ToRecord { .. } => HookEvent::Record,
        };
        // What is to be recorded is for this server.
        let is_wanted = self.wants(event) || matches!(news, News::ToRecord { .. });
        if is_wanted && self.0.news.try_send(news).is_err() {
            let dropped = self.0.news_dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(event = event.name(), dropped, "a hook is not told: too much waits");
            }
        }
    }

    /// Names an event: unlike all others, of this run of the server and of earlier ones.
    pub fn next_id(&self) -> String {
        format!("{:016x}-{}", self.0.run, self.0.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// What tells a viewer of segments from others.
    pub fn viewer(&self, key: &str, viewer: &crate::viewers::Viewer<'_>) -> u64 {
        let mut hasher = self.0.hasher.build_hasher();
        (key, viewer).hash(&mut hasher);
        std::hash::Hasher::finish(&hasher)
    }

    /// Questions that found no room so far, and news that were dropped for that.
    pub fn overflows(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.0.overflowed), load(&self.0.news_dropped))
    }
}
