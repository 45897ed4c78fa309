//! Notifications: one queue per stream, delivered in order, sent again until the hook accepts them.
//!
//! The first event of a queue is being sent; the others wait behind it, so that nobody hears of an end before
//! its beginning. A queue exists, and has a task, only while something is in it. When it is full the oldest
//! event that waits is dropped: the newest says how things are.
//!
//! Each kind of event may go to another server: it has requests and a bound of its own, so that a server that
//! is away holds up no other's events but those behind it in the same stream.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use worker_api::hooks::HookEvent;

use crate::client::Post;
use crate::status::{CallResult, HookStatus};

/// Events of a kind, of all streams, that may wait.
const EVENTS_MAX: usize = 65_536;
/// Requests with events of a kind at a time: questions have others.
const REQUESTS_MAX: usize = 32;
/// How many kinds there are.
const KINDS: usize = HookEvent::ALL.len();
/// First pause after a failure; it doubles each time.
const RETRY_MIN: Duration = Duration::from_millis(500);
/// Longest pause.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What queues keep to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    /// Events of one stream.
    pub(crate) events_max: usize,
    /// For how long an event is sent again.
    pub(crate) retry_for: Duration,
    /// Time for an answer.
    pub(crate) timeout: Duration,
}

/// The queues of all streams.
pub(crate) struct Queues<P> {
    post: Arc<P>,
    limits: QueueLimits,
    status: Arc<HookStatus>,
    requests: [Semaphore; KINDS],
    waiting: Mutex<AllWaiting>,
    /// How many events wait, for who waits for none.
    count: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct AllWaiting {
    /// By stream.
    queues: HashMap<Arc<str>, VecDeque<Waiting>>,
    /// The streams of the events of each kind, by number: oldest first.
    by_age: [BTreeMap<u64, Arc<str>>; KINDS],
    last_number: u64,
}

#[derive(Debug, Clone)]
struct Waiting {
    number: u64,
    event: HookEvent,
    /// A request with it is open.
    is_sent: bool,
    body: Bytes,
    since: Instant,
}

impl<P: Post> Queues<P> {
    /// Empty ones.
    pub(crate) fn new(post: Arc<P>, limits: QueueLimits, status: Arc<HookStatus>) -> Arc<Self> {
        Arc::new(Self {
            post,
            limits,
            status,
            requests: HookEvent::ALL.map(|_| Semaphore::new(REQUESTS_MAX)),
            waiting: Mutex::default(),
            count: watch::Sender::new(0),
        })
    }

    /// Puts an event behind the others of its stream.
    pub(crate) fn push(self: &Arc<Self>, stream: &Arc<str>, event: HookEvent, body: Bytes) {
        let (is_new, of_stream, of_kind) = {
            let mut waiting = self.waiting();
            let of_kind = if waiting.by_age[event as usize].len() >= EVENTS_MAX {
                waiting.drop_oldest(event)
            } else {
                None
            };
            let (is_new, of_stream) = waiting.push(stream, event, body, self.limits.events_max);
            (is_new, of_stream, of_kind)
        };
        let dropped = isize::from(of_stream.is_some()) + isize::from(of_kind.is_some());
        if let Some(event) = of_stream {
            self.note_dropped(stream, event, "too many events of the stream wait");
        }
        if let Some(stream) = of_kind {
            self.note_dropped(&stream, event, "too many events wait");
        }
        self.add_to_count(1 - dropped);
        if is_new {
            let (queues, stream) = (Arc::clone(self), Arc::clone(stream));
            tokio::spawn(async move { queues.deliver(&stream).await });
        }
    }

    /// Waits until nothing waits.
    pub(crate) async fn emptied(&self) {
        // The sender is in `self`.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Sends what is in a queue, until it is empty.
    async fn deliver(&self, stream: &Arc<str>) {
        loop {
            let first = {
                let mut waiting = self.waiting();
                let first = waiting.queues.get(stream).and_then(|queue| queue.front().cloned());
                if first.is_none() {
                    waiting.queues.remove(stream);
                }
                first
            };
            let Some(first) = first else { return };
            self.deliver_one(stream, &first).await;
            if self.waiting().remove_first(stream, first.number) {
                self.add_to_count(-1);
            }
        }
    }

    /// Sends one event until it is taken, or has been sent for long enough, or is dropped meanwhile.
    async fn deliver_one(&self, stream: &str, waiting: &Waiting) {
        let mut pause = RETRY_MIN;
        loop {
            let Ok(_request) = self.requests[waiting.event as usize].acquire().await else { return };
            if !self.waiting().mark_first(stream, waiting.number, true) {
                return;
            }
            let begun = Instant::now();
            let sent =
                timeout(self.limits.timeout, self.post.post(waiting.event, waiting.body.clone())).await;
            let result = match sent {
                Ok(Ok((status, _))) if status.is_success() => CallResult::Ok,
                Ok(Ok(_)) => CallResult::Status,
                Ok(Err(result)) => result,
                Err(_) => CallResult::Timeout,
            };
            self.status.count(waiting.event, result, begun.elapsed());
            if result == CallResult::Ok {
                return;
            }
            let (event, result) = (waiting.event.name(), result.name());
            tracing::debug!(stream, event, result, "a hook has not taken an event");
            if waiting.since.elapsed() + pause > self.limits.retry_for {
                return self.note_dropped(stream, waiting.event, "the hook did not take it in time");
            }
            self.waiting().mark_first(stream, waiting.number, false);
            // Not while others wait for their turn.
            drop(_request);
            sleep(pause).await;
            pause = (2 * pause).min(RETRY_MAX);
        }
    }

    fn note_dropped(&self, stream: &str, event: HookEvent, reason: &str) {
        let dropped = self.status.count_dropped(event);
        // Once is enough for a server that is away, and then less and less often.
        if dropped.is_power_of_two() {
            tracing::warn!(stream, event = event.name(), dropped, reason, "a hook is not told");
        }
    }

    fn add_to_count(&self, change: isize) {
        self.count.send_modify(|count| {
            *count = count.saturating_add_signed(change);
            self.status.queued.store(*count as u64, Ordering::Relaxed);
        });
    }

    fn waiting(&self) -> MutexGuard<'_, AllWaiting> {
        // It is whole between any two statements.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AllWaiting {
    /// Puts an event behind the others of its stream. Says whether the queue is new, and what was dropped.
    fn push(
        &mut self,
        stream: &Arc<str>,
        event: HookEvent,
        body: Bytes,
        events_max: usize,
    ) -> (bool, Option<HookEvent>) {
        self.last_number += 1;
        let number = self.last_number;
        let is_new = !self.queues.contains_key(stream);
        let queue = self.queues.entry(Arc::clone(stream)).or_default();
        queue.push_back(Waiting { number, event, is_sent: false, body, since: Instant::now() });
        // The first is being sent.
        let dropped = if queue.len() > events_max.max(2) { queue.remove(1) } else { None };
        self.by_age[event as usize].insert(number, Arc::clone(stream));
        if let Some(dropped) = &dropped {
            self.by_age[dropped.event as usize].remove(&dropped.number);
        }
        (is_new, dropped.map(|dropped| dropped.event))
    }

    /// Drops the oldest event of a kind that no request is open for; gives its stream.
    fn drop_oldest(&mut self, event: HookEvent) -> Option<Arc<str>> {
        // Requests are few, and so are the events that are passed over.
        for (number, stream) in &self.by_age[event as usize] {
            let Some(queue) = self.queues.get_mut(stream) else { continue };
            let at = queue.iter().position(|waiting| waiting.number == *number && !waiting.is_sent);
            if let Some(at) = at {
                // An empty queue still has its task, which removes it.
                queue.remove(at);
                let (number, stream) = (*number, Arc::clone(stream));
                self.by_age[event as usize].remove(&number);
                return Some(stream);
            }
        }
        None
    }

    /// Removes the first event of a stream, if it is this one.
    fn remove_first(&mut self, stream: &str, number: u64) -> bool {
        let Some(queue) = self.queues.get_mut(stream) else { return false };
        let Some(first) = queue.pop_front_if(|first| first.number == number) else { return false };
        self.by_age[first.event as usize].remove(&number);
        true
    }

    /// Notes whether a request is open for the first event of a stream. False: it has been dropped.
    fn mark_first(&mut self, stream: &str, number: u64, is_sent: bool) -> bool {
        let first = self.queues.get_mut(stream).and_then(VecDeque::front_mut);
        let Some(first) = first.filter(|first| first.number == number) else { return false };
        first.is_sent = is_sent;
        true
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    /// A receiver that records what it gets, and when, and answers as the test says.
    #[derive(Default)]
    struct Receiver {
        asked: Mutex<Vec<(String, Duration)>>,
        begun: Mutex<Option<Instant>>,
        answer: Mutex<Option<Box<Answer>>>,
    }

    type Answer = dyn FnMut(&str) -> Said + Send;

    enum Said {
        Status(u16),
        Nothing,
    }

    impl Receiver {
        fn new(answer: impl FnMut(&str) -> Said + Send + 'static) -> Arc<Self> {
            let receiver = Self::default();
            *receiver.answer.lock().expect("whole") = Some(Box::new(answer));
            *receiver.begun.lock().expect("whole") = Some(Instant::now());
            Arc::new(receiver)
        }

        fn bodies(&self) -> Vec<String> {
            self.asked.lock().expect("whole").iter().map(|(body, _)| body.clone()).collect()
        }
    }

    impl Post for Receiver {
        async fn post(&self, _: HookEvent, body: Bytes) -> Result<(StatusCode, Bytes), CallResult> {
            let body = String::from_utf8(body.to_vec()).expect("text");
            let begun = self.begun.lock().expect("whole").expect("set");
            self.asked.lock().expect("whole").push((body.clone(), begun.elapsed()));
            let said = self.answer.lock().expect("whole").as_mut().expect("set")(&body);
            match said {
                Said::Status(status) => Ok((StatusCode::from_u16(status).expect("a status"), Bytes::new())),
                Said::Nothing => std::future::pending().await,
            }
        }
    }

    const LIMITS: QueueLimits =
        QueueLimits { events_max: 4, retry_for: Duration::from_secs(60), timeout: Duration::from_secs(2) };

    fn queues(receiver: &Arc<Receiver>) -> (Arc<Queues<Receiver>>, Arc<HookStatus>) {
        let status = Arc::<HookStatus>::default();
        (Queues::new(Arc::clone(receiver), LIMITS, Arc::clone(&status)), status)
    }

    fn push(queues: &Arc<Queues<Receiver>>, stream: &str, body: &'static str) {
        queues.push(&stream.into(), HookEvent::PlayEnd, Bytes::from_static(body.as_bytes()));
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_a_stream_stay_in_order_while_they_are_sent_again() {
        let mut failures = 3;
        let receiver = Receiver::new(move |body| {
            let fails = body == "a1" && failures > 0;
            failures -= usize::from(fails);
            Said::Status(if fails { 503 } else { 200 })
        });
        let (queues, status) = queues(&receiver);
        for body in ["a1", "a2", "a3"] {
            push(&queues, "live/a", body);
        }
        push(&queues, "live/b", "b1");
        queues.emptied().await;
        let bodies = receiver.bodies();
        let of_a: Vec<&str> =
            bodies.iter().map(|body| &**body).filter(|body| body.starts_with('a')).collect();
        assert_eq!(of_a, ["a1", "a1", "a1", "a1", "a2", "a3"]);
        assert_eq!(bodies.iter().position(|body| body == "b1"), Some(1), "others do not wait");
        let asked = receiver.asked.lock().expect("whole");
        let times: Vec<u128> =
            asked.iter().filter(|(body, _)| body == "a1").map(|(_, at)| at.as_millis()).collect();
        assert_eq!(times, [0, 500, 1500, 3500], "less and less often");
        assert_eq!(status.queued(), 0);
        let waiting = queues.waiting();
        assert!(waiting.queues.is_empty() && waiting.by_age.iter().all(BTreeMap::is_empty), "nothing stays");
    }

    #[tokio::test(start_paused = true)]
    async fn a_receiver_that_hangs_or_refuses_for_good_loses_events_one_by_one() {
        let receiver = Receiver::new(|body| if body == "hangs" { Said::Nothing } else { Said::Status(404) });
        let (queues, status) = queues(&receiver);
        push(&queues, "live/a", "hangs");
        push(&queues, "live/b", "refused");
        queues.emptied().await;
        assert_eq!(status.dropped(HookEvent::PlayEnd), 2);
        let count = |result| {
            let calls =
                status.calls().find(|(event, other, _)| *event == HookEvent::PlayEnd && *other == result);
            calls.map_or(0, |(_, _, count)| count)
        };
        assert!(count(CallResult::Timeout) >= 3 && count(CallResult::Status) >= 3);
        let last = receiver.asked.lock().expect("whole").last().expect("asked").1;
        assert!(last <= LIMITS.retry_for, "{last:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_drops_the_oldest_that_waits() {
        let open = Arc::new(Mutex::new(false));
        let is_open = Arc::clone(&open);
        let receiver =
            Receiver::new(move |_| Said::Status(if *is_open.lock().expect("whole") { 200 } else { 500 }));
        let (queues, status) = queues(&receiver);
        for body in ["1", "2", "3", "4", "5", "6"] {
            push(&queues, "live/a", body);
        }
        assert_eq!((status.dropped(HookEvent::PlayEnd), status.queued()), (2, 4));
        sleep(Duration::from_millis(100)).await;
        *open.lock().expect("whole") = true;
        queues.emptied().await;
        let mut bodies = receiver.bodies();
        bodies.dedup();
        assert_eq!(bodies, ["1", "4", "5", "6"], "the first was on its way");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_away_holds_up_no_events_of_other_kinds() {
        let receiver = Receiver::new(|body| if body == "end" { Said::Nothing } else { Said::Status(200) });
        let (queues, status) = queues(&receiver);
        for stream in 0..EVENTS_MAX + 600 {
            push(&queues, &format!("live/{stream}"), "end");
        }
        assert_eq!((status.dropped(HookEvent::PlayEnd), status.queued()), (600, EVENTS_MAX as u64));
        sleep(Duration::from_millis(500)).await;
        queues.push(&"live/other".into(), HookEvent::StreamState, Bytes::from_static(b"live"));
        sleep(Duration::from_millis(1)).await;
        let asked = receiver.asked.lock().expect("whole").clone();
        let (ends, others): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(body, _)| body == "end");
        assert_eq!((ends.len(), others.len()), (REQUESTS_MAX, 1));
        assert!(others[0].1 <= Duration::from_millis(501), "{:?}", others[0].1);
        assert_eq!(status.dropped(HookEvent::StreamState), 0);
        // The oldest were dropped, and the newest are still there.
        let waiting = queues.waiting();
        let has = |stream: usize| {
            let queue = waiting.queues.get(&*format!("live/{stream}"));
            queue.is_some_and(|queue| !queue.is_empty())
        };
        assert!(!has(599) && has(600) && has(EVENTS_MAX + 599));
    }
}
