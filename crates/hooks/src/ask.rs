//! Questions: whether somebody may publish or play.
//!
//! Each has a time from when it was taken up, whatever it waits for: a batch, its turn, a connection, the
//! answer. So a hook server that hangs costs each join that time and no more, and `on_error` decides.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use worker_api::auth::{Action, Denied};
use worker_api::hooks::{Admission, Admitted, Answer, Asker, HookEvent, Hooks, Limits, Question, Reply};
use worker_api::time::since_1970;

use crate::client::Post;
use crate::event::{Allowed, Batch, Event, Who, read_batch, read_one};
use crate::settings::HookSettings;
use crate::status::{CallResult, HookStatus};

/// Questions of a kind without an answer, at most: further ones fail at once.
const OPEN_MAX: u64 = 32_768;
/// Plays in one request, at most.
pub(crate) const BATCH_MAX: usize = 100;
/// A viewer of segments has left when nothing was asked for it for this long: workers ask again after 5 s.
const VIEWER_LEFT: Duration = Duration::from_secs(30);
/// Viewers of segments that are let in at a time; further ones fail.
const VIEWERS_MAX: usize = 262_144;

/// A question that has been taken up.
#[derive(Debug)]
pub(crate) struct Open {
    asker: Asker,
    viewer: Option<u64>,
    reply: Option<Reply>,
    /// Of its event.
    id: String,
    at: Instant,
    /// When it happened, since 1970.
    time: Duration,
}

/// Answers questions.
pub(crate) struct Asking<P> {
    post: Arc<P>,
    settings: Arc<HookSettings>,
    hooks: Hooks,
    status: Arc<HookStatus>,
    publishes: Lane,
    plays: Lane,
    viewers: Mutex<HashMap<u64, Viewing>>,
}

/// Questions of one kind. Each kind has its own, so that a hook for players that hangs refuses no publisher.
struct Lane {
    /// Requests at a time.
    requests: Semaphore,
    /// Questions without an answer.
    open: AtomicU64,
}

impl Lane {
    fn new(requests: usize) -> Self {
        Self { requests: Semaphore::new(requests), open: AtomicU64::new(0) }
    }
}

/// A viewer of segments.
enum Viewing {
    /// Its hook is being asked; for all of its requests at once.
    Asked(Vec<Reply>),
    /// It is let in. The end is reported when this is dropped.
    In { admission: Box<Admission>, limits: Limits, seen: Instant },
}

impl<P: Post> Asking<P> {
    /// Asks by `post`.
    pub(crate) fn new(
        post: Arc<P>,
        settings: Arc<HookSettings>,
        hooks: Hooks,
        status: Arc<HookStatus>,
    ) -> Arc<Self> {
        let lane = || Lane::new(settings.concurrency);
        let (publishes, plays) = (lane(), lane());
        Arc::new(Self { post, settings, hooks, status, publishes, plays, viewers: Mutex::default() })
    }

    /// Takes up a question. Gives it back if a hook has to be asked.
    pub(crate) fn take_up(&self, question: Question) -> Option<Open> {
        let Question { asker, viewer, mut reply } = question;
        if let Some(viewer) = viewer {
            reply = self.find_viewer(viewer, reply)?;
        }
        let event = event_of(asker.action);
        let (id, at, time) = (self.hooks.next_id(), Instant::now(), since_1970());
        let open = Open { asker, viewer, reply: Some(reply), id, at, time };
        if self.settings.url(event).is_none() {
            // Only its end is wanted.
            self.answer(open, Ok(Allowed::default()));
            return None;
        }
        let lane = self.lane(event);
        if lane.open.load(Ordering::Relaxed) >= OPEN_MAX {
            self.status.count(event, CallResult::Overflow, Duration::ZERO);
            let answer = self.on_error();
            self.answer(open, answer);
            return None;
        }
        lane.open.fetch_add(1, Ordering::Relaxed);
        self.status.open.fetch_add(1, Ordering::Relaxed);
        Some(open)
    }

    fn lane(&self, event: HookEvent) -> &Lane {
        if event == HookEvent::Publish { &self.publishes } else { &self.plays }
    }

    /// Whether plays are collected.
    pub(crate) fn is_batched(&self, open: &Open) -> bool {
        open.asker.action == Action::Play && !self.settings.play_batch.is_zero()
    }

    /// Asks a hook, by one request for all of `questions`, and answers.
    pub(crate) async fn ask(self: Arc<Self>, questions: Vec<Open>, is_batch: bool) {
        let Some(first) = questions.first() else { return };
        let event = event_of(first.asker.action);
        let answers =
            timeout_at(first.at + self.settings.timeout, self.request(event, &questions, is_batch)).await;
        let answers =
            answers.unwrap_or_else(|_| questions.iter().map(|_| Err((CallResult::Timeout, None))).collect());
        for (open, answer) in questions.into_iter().zip(answers) {
            self.lane(event).open.fetch_sub(1, Ordering::Relaxed);
            self.status.open.fetch_sub(1, Ordering::Relaxed);
            let result = answer.as_ref().map_or_else(|(result, _)| *result, |_| CallResult::Ok);
            self.status.count(event, result, open.at.elapsed());
            let answer = answer.or_else(|(result, reason)| {
                let (stream, address) = (&*open.asker.key, open.asker.address);
                let (event, result) = (event.name(), result.name());
                if result == CallResult::Denied.name() {
                    let reason = reason.as_deref().unwrap_or("-");
                    tracing::info!(stream, %address, event, reason, "refused by the hook");
                    return Err(Denied::Hook);
                }
                let allowed = self.settings.allows_on_error;
                tracing::warn!(stream, %address, event, result, allowed, "no usable answer of the hook");
                self.on_error()
            });
            self.answer(open, answer);
        }
    }

    async fn request(
        &self,
        event: HookEvent,
        questions: &[Open],
        is_batch: bool,
    ) -> Vec<Result<Allowed, (CallResult, Option<String>)>> {
        let events = questions
            .iter()
            .map(|open| Event::new(event, &open.id, open.time, &open.asker.key, Who::of(&open.asker)));
        let mut events: Vec<_> = events.collect();
        let body = match (is_batch, events.len()) {
            (false, 1) => events.remove(0).to_json(),
            _ => serde_json::to_vec(&Batch { events }).unwrap_or_default().into(),
        };
        // Never closed.
        let _request = self.lane(event).requests.acquire().await;
        if questions.iter().all(|open| open.at.elapsed() >= self.settings.timeout) {
            // Its turn comes because others have given up, at the same moment.
            return questions.iter().map(|_| Err((CallResult::Timeout, None))).collect();
        }
        match (self.post.post(event, body).await, questions) {
            (Err(result), _) => questions.iter().map(|_| Err((result, None))).collect(),
            (Ok((status, body)), [open]) if !is_batch => {
                vec![read_one(&open.id, status, &body, since_1970())]
            }
            (Ok((status, body)), _) => {
                let ids: Vec<&str> = questions.iter().map(|open| &*open.id).collect();
                read_batch(&ids, status, &body, since_1970())
            }
        }
    }

    fn on_error(&self) -> Result<Allowed, Denied> {
        self.settings.on_error().map(|()| Allowed::default())
    }

    fn answer(&self, mut open: Open, answer: Result<Allowed, Denied>) {
        let Some(reply) = open.reply.take() else { return };
        let is_publisher = open.asker.action == Action::Publish;
        let admitted = answer.map(|allowed| {
            let admission = Admission::new(self.hooks.clone(), open.asker, open.id, since_1970());
            let is_recorded = is_publisher && allowed.is_recorded;
            (Box::new(if is_recorded { admission.recorded() } else { admission }), allowed)
        });
        if let Some(viewer) = open.viewer {
            return self.answer_viewer(
                viewer,
                reply,
                admitted.map(|(admission, allowed)| (admission, allowed.limits)),
            );
        }
        reply.send(
            admitted
                .map(|(admission, allowed)| Admitted { admission: Some(admission), limits: allowed.limits }),
        );
    }

    /// A viewer is let in or waits already, or else its question is given back.
    fn find_viewer(&self, viewer: u64, reply: Reply) -> Option<Reply> {
        let mut viewers = self.viewers();
        if viewers.len() >= VIEWERS_MAX && !viewers.contains_key(&viewer) {
            drop(viewers);
            reply.send(
                self.settings.on_error().map(|()| Admitted { admission: None, limits: Limits::default() }),
            );
            return None;
        }
        match viewers.get_mut(&viewer) {
            Some(Viewing::Asked(others)) => others.push(reply),
            Some(Viewing::In { limits, seen, .. }) => {
                *seen = Instant::now();
                let limits = *limits;
                drop(viewers);
                reply.send(Ok(Admitted { admission: None, limits }));
            }
            None => {
                viewers.insert(viewer, Viewing::Asked(Vec::new()));
                return Some(reply);
            }
        }
        None
    }

    fn answer_viewer(&self, viewer: u64, first: Reply, answer: Result<(Box<Admission>, Limits), Denied>) {
        let others = match self.viewers().remove(&viewer) {
            Some(Viewing::Asked(others)) => others,
            _ => Vec::new(),
        };
        let answer = answer.map(|(admission, limits)| {
            let seen = Instant::now();
            self.viewers().insert(viewer, Viewing::In { admission, limits, seen });
            limits
        });
        self.status.viewers.store(self.viewers().len() as u64, Ordering::Relaxed);
        for reply in std::iter::once(first).chain(others) {
            let answer: Answer = answer.map(|limits| Admitted { admission: None, limits });
            reply.send(answer);
        }
    }

    /// Reports viewers of segments that have left; all of them if the server stops.
    pub(crate) fn sweep_viewers(&self, is_stopping: bool) {
        let mut left = Vec::new();
        self.viewers().retain(|_, viewing| match viewing {
            Viewing::In { seen, .. } if !is_stopping && seen.elapsed() < VIEWER_LEFT => true,
            Viewing::In { admission, .. } => {
                admission.note_viewer_left();
                left.push(std::mem::replace(viewing, Viewing::Asked(Vec::new())));
                false
            }
            Viewing::Asked(_) => true,
        });
        self.status.viewers.store(self.viewers().len() as u64, Ordering::Relaxed);
    }

    fn viewers(&self) -> MutexGuard<'_, HashMap<u64, Viewing>> {
        // They are whole between any two statements.
        self.viewers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn event_of(action: Action) -> HookEvent {
    if action == Action::Publish { HookEvent::Publish } else { HookEvent::Play }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use bytes::Bytes;
    use http::StatusCode;
    use tokio::sync::oneshot;
    use tokio::time::sleep;
    use worker_api::hooks::{HooksEnd, News};
    use worker_api::snapshot::Protocol;

    use super::*;

    /// A hook that answers after a time, and notes how many requests were open at once.
    struct Hook {
        takes: Duration,
        body: &'static str,
        open: AtomicUsize,
        most: AtomicUsize,
        requests: AtomicUsize,
    }

    impl Hook {
        fn new(takes: Duration, body: &'static str) -> Arc<Self> {
            let zero = || AtomicUsize::new(0);
            Arc::new(Self { takes, body, open: zero(), most: zero(), requests: zero() })
        }
    }

    impl Post for Hook {
        async fn post(&self, _: HookEvent, _: Bytes) -> Result<(StatusCode, Bytes), CallResult> {
            self.requests.fetch_add(1, Ordering::Relaxed);
            let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(open, Ordering::Relaxed);
            sleep(self.takes).await;
            self.open.fetch_sub(1, Ordering::Relaxed);
            Ok((StatusCode::OK, Bytes::from_static(self.body.as_bytes())))
        }
    }

    const ALLOW: &str = r#"{"allow":true}"#;
    const TIMEOUT: Duration = Duration::from_secs(2);

    fn asking<P: Post>(hook: &Arc<P>, allows_on_error: bool) -> (Arc<Asking<P>>, HooksEnd) {
        let url = |event| matches!(event, HookEvent::Publish | HookEvent::Play | HookEvent::PlayEnd);
        let settings = Arc::new(HookSettings {
            urls: HookEvent::ALL.map(|event| url(event).then(|| http::Uri::from_static("http://hook/"))),
            secret: b"mill".to_vec(),
            timeout: TIMEOUT,
            allows_on_error,
            concurrency: 64,
            play_batch: Duration::ZERO,
            queue_max: 100,
            retry_for: TIMEOUT,
            extra_roots_pem: Vec::new(),
        });
        let (hooks, end) = Hooks::new(url, settings.on_error());
        (Asking::new(Arc::clone(hook), settings, hooks, Arc::default()), end)
    }

    fn question(action: Action, viewer: Option<u64>) -> (Question, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        let address = ([127, 0, 0, 1], 9).into();
        let (key, protocol) = ("live/mill".into(), Protocol::HttpFlv);
        let asker = Asker { action, key, session: None, protocol, address, user_agent: None };
        (Question { asker, viewer, reply: Reply::Task(reply) }, answer)
    }

    fn ask<P: Post>(asking: &Arc<Asking<P>>, viewer: Option<u64>) -> oneshot::Receiver<Answer> {
        ask_to(asking, Action::Play, viewer)
    }

    fn ask_to<P: Post>(
        asking: &Arc<Asking<P>>,
        action: Action,
        viewer: Option<u64>,
    ) -> oneshot::Receiver<Answer> {
        let (question, answer) = question(action, viewer);
        if let Some(open) = asking.take_up(question) {
            tokio::spawn(Arc::clone(asking).ask(vec![open], false));
        }
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn a_thousand_joins_a_second_wait_for_their_answer_and_nothing_else() {
        let hook = Hook::new(Duration::from_millis(50), ALLOW);
        let (asking, _end) = asking(&hook, false);
        let mut waits = Vec::new();
        for _ in 0..1_000 {
            sleep(Duration::from_millis(1)).await;
            let (asked, answer) = (Instant::now(), ask(&asking, None));
            waits.push(tokio::spawn(async move {
                answer.await.expect("an answer").expect("let in");
                asked.elapsed()
            }));
        }
        for wait in waits {
            let wait = wait.await.expect("no panic");
            assert!(wait <= Duration::from_millis(55), "{wait:?}");
        }
        assert!(hook.most.load(Ordering::Relaxed) <= 64);
        assert_eq!(asking.status.open(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hook_that_hangs_has_its_time_however_many_wait() {
        for allows in [false, true] {
            let hook = Hook::new(Duration::MAX / 4, ALLOW);
            let (asking, _end) = asking(&hook, allows);
            let begun = Instant::now();
            let answers: Vec<_> = (0..1_000).map(|_| ask(&asking, None)).collect();
            for answer in answers {
                let answer = answer.await.expect("an answer");
                assert_eq!(answer.map(|_| ()), if allows { Ok(()) } else { Err(Denied::HookFailed) });
            }
            assert_eq!(begun.elapsed().as_secs(), TIMEOUT.as_secs());
            assert_eq!(hook.requests.load(Ordering::Relaxed), 64, "the others did not get a turn");
            assert_eq!(asking.status.open(), 0);
        }
    }

    /// Hangs when it is asked about players.
    struct PlaysHang;

    impl Post for PlaysHang {
        async fn post(&self, event: HookEvent, _: Bytes) -> Result<(StatusCode, Bytes), CallResult> {
            if event == HookEvent::Play {
                std::future::pending::<()>().await;
            }
            sleep(Duration::from_millis(300)).await;
            Ok((StatusCode::OK, Bytes::from_static(ALLOW.as_bytes())))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn publishers_are_let_in_while_the_hook_for_players_hangs() {
        let (asking, _end) = asking(&Arc::new(PlaysHang), false);
        // As many as may be open, and then a thousand a second.
        let _waiting: Vec<_> = (0..OPEN_MAX).map(|_| ask(&asking, None)).collect();
        let mut publishers = Vec::new();
        for n in 0..4_000 {
            let _player = ask(&asking, None);
            if n % 500 == 0 {
                let (asked, answer) = (Instant::now(), ask_to(&asking, Action::Publish, None));
                publishers.push(tokio::spawn(async move {
                    answer.await.expect("an answer").expect("let in");
                    asked.elapsed()
                }));
            }
            sleep(Duration::from_millis(1)).await;
        }
        for publisher in publishers {
            let waited = publisher.await.expect("let in");
            assert!(waited <= Duration::from_millis(310), "{waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_of_segments_is_asked_about_once_and_leaves() {
        let hook = Hook::new(Duration::from_millis(50), ALLOW);
        let (asking, mut end) = asking(&hook, false);
        // Its player has two connections.
        let (first, second) = (ask(&asking, Some(7)), ask(&asking, Some(7)));
        for answer in [first, second] {
            let admitted = answer.await.expect("an answer").expect("let in");
            assert!(admitted.admission.is_none());
        }
        for _ in 0..20 {
            sleep(Duration::from_secs(5)).await;
            ask(&asking, Some(7)).await.expect("an answer").expect("let in");
            asking.sweep_viewers(false);
        }
        assert_eq!((hook.requests.load(Ordering::Relaxed), asking.status.viewers()), (1, 1));
        sleep(VIEWER_LEFT).await;
        asking.sweep_viewers(false);
        assert_eq!(asking.status.viewers(), 0);
        let Ok(News::Ended(ended)) = end.news.try_recv() else { panic!("an end") };
        assert!(ended.has_begun && ended.asker.action == Action::Play);
        assert!(end.news.try_recv().is_err(), "one end");
        // One who comes back is asked about again.
        ask(&asking, Some(7)).await.expect("an answer").expect("let in");
        assert_eq!(hook.requests.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_who_is_refused_is_asked_about_again() {
        let hook = Hook::new(Duration::from_millis(50), r#"{"allow":false}"#);
        let (asking, mut end) = asking(&hook, true);
        for _ in 0..3 {
            assert_eq!(ask(&asking, Some(7)).await.expect("an answer").map(|_| ()), Err(Denied::Hook));
        }
        assert_eq!((hook.requests.load(Ordering::Relaxed), asking.status.viewers()), (3, 0));
        assert!(end.news.try_recv().is_err(), "it was never there");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_waits_for_ends_what_it_lets_in() {
        let hook = Hook::new(Duration::from_millis(50), ALLOW);
        let (asking, mut end) = asking(&hook, false);
        drop(ask(&asking, None));
        let Some(News::Ended(ended)) = end.news.recv().await else { panic!("an end") };
        assert!(!ended.has_begun);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_publisher_is_let_in_for_is_recorded_once_it_begins() {
        let yes = r#"{"allow":true,"record":true}"#;
        for (action, body, publishes, expected) in [
            (Action::Publish, yes, true, true),
            // The name was taken, or it left while the hook was asked: what others publish is theirs.
            (Action::Publish, yes, false, false),
            (Action::Publish, ALLOW, true, false),
            (Action::Play, yes, true, false),
        ] {
            let hook = Hook::new(Duration::ZERO, body);
            let (asking, mut end) = asking(&hook, false);
            let answer = ask_to(&asking, action, None).await.expect("an answer").expect("let in");
            let mut admission = answer.admission.expect("an end to report");
            if publishes {
                admission.note_published();
                admission.note_published();
                let handed = admission.handed().expect("an end to report");
                assert_eq!(handed.is_recorded, expected, "another process does so too: {body}");
            }
            drop(admission);
            let mut recorded = Vec::new();
            while let Ok(news) = end.news.try_recv() {
                if let News::ToRecord { key } = news {
                    recorded.push(key);
                }
            }
            let expected: &[&str] = if expected { &["live/mill"] } else { &[] };
            assert_eq!(recorded.iter().map(|key| &**key).collect::<Vec<_>>(), expected, "{body}");
        }
    }
}
