//! One HTTP/2 connection, driven by all tasks that wait for it.
//!
//! hyper gives the tasks of such a connection to an executor; the one here only collects them, and
//! they are polled by the task that polls a response. Since a task remembers only the waker of its
//! last poll, that waker wakes all tasks that have polled since: each looks for its own bytes and
//! continues to wait.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::Response;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;

use super::connection::{GetRequest, OpenCount, RequestError};
use super::link::{Link, Metered};

/// Bytes that the server may send ahead of the reader, for each stream and for all of them.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// Bytes that come, and are of no body that is read, while the head of a response is waited for:
/// bodies that are not being read fill the window, and those of cancelled responses are still in
/// flight. More are responses that are none (1xx), which hyper does not count here.
const UNREAD_BYTES_MAX: u64 = 2 * CONNECTION_WINDOW_BYTES as u64;
/// Longest head of a response, in bytes as HTTP/2 counts them.
const HEAD_LIST_BYTES_MAX: u32 = 64 << 10;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An HTTP/2 connection.
pub(crate) struct Shared {
    sender: http2::SendRequest<Empty<Bytes>>,
    driver: Mutex<Driver>,
    /// Tasks that hyper wants run. The executors inside the tasks hold it weakly: it would never be
    /// freed else.
    spawned: Arc<Mutex<Vec<Task>>>,
    waiting: Arc<Waiting>,
    /// Responses whose bodies are still held.
    answers: AtomicUsize,
    link: Link,
    /// Until it takes no more requests.
    open: Mutex<Option<OpenCount>>,
}

/// What moves bytes.
struct Driver {
    connection: Option<http2::Connection<TokioIo<Metered>, Empty<Bytes>, Collect>>,
    tasks: Vec<Task>,
}

impl Shared {
    pub(crate) async fn new(io: Metered, link: Link, open: OpenCount) -> hyper::Result<Self> {
        let spawned = Arc::new(Mutex::new(Vec::new()));
        let (sender, connection) = http2::Builder::new(Collect(Arc::downgrade(&spawned)))
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_LIST_BYTES_MAX)
            .handshake(TokioIo::new(io))
            .await?;
        let driver = Mutex::new(Driver { connection: Some(connection), tasks: Vec::new() });
        Ok(Self {
            sender,
            driver,
            spawned,
            waiting: Arc::default(),
            answers: AtomicUsize::new(0),
            link,
            open: Mutex::new(Some(open)),
        })
    }

    /// Sends a request on a stream of its own and waits for the head of its response.
    pub(crate) async fn send(&self, request: GetRequest) -> Result<Response<Incoming>, RequestError> {
        let mut sender = self.sender.clone();
        let unread_before = self.link.unread_bytes();
        let mut answer = pin!(sender.send_request(request));
        std::future::poll_fn(|context| {
            if let Poll::Ready(result) = answer.as_mut().poll(context) {
                return Poll::Ready(result.map_err(RequestError::from));
            }
            self.poll_drive(context);
            if self.link.unread_bytes().saturating_sub(unread_before) > UNREAD_BYTES_MAX {
                return Poll::Ready(Err(RequestError::Flood));
            }
            answer.as_mut().poll(context).map_err(RequestError::from)
        })
        .await
    }

    /// Moves bytes of all streams. `true`: the connection has ended.
    pub(crate) fn poll_drive(&self, context: &mut Context<'_>) -> bool {
        self.waiting.add(context.waker());
        let waker = Waker::from(Arc::clone(&self.waiting));
        let mut context = Context::from_waker(&waker);
        let mut driver = lock(&self.driver);
        // Tasks wake each other while they run; one more round each time, and the wakers see to the
        // rest.
        loop {
            let has_ended = driver.poll(&mut context);
            let mut spawned = lock(&self.spawned);
            if spawned.is_empty() {
                return has_ended;
            }
            driver.tasks.append(&mut spawned);
        }
    }

    /// The body of a response is still held.
    pub(crate) fn begin_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// And does not any more.
    pub(crate) fn end_answer(&self) {
        if self.answers.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.link.settle();
        }
    }

    /// Whether it takes no more requests.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// It takes no more requests: another one may be opened instead, while its responses finish.
    pub(crate) fn retire(&self) {
        drop(lock(&self.open).take());
    }

    /// Streams that the server allows at a time.
    pub(crate) fn streams_max(&self) -> usize {
        lock(&self.driver).connection.as_ref().map_or(1, http2::Connection::current_max_send_streams)
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }
}

impl Driver {
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
        self.tasks.retain_mut(|task| task.as_mut().poll(context).is_pending());
        self.connection.is_none()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("link", &self.link).finish_non_exhaustive()
    }
}

/// An executor that only collects.
#[derive(Clone)]
struct Collect(Weak<Mutex<Vec<Task>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Collect {
    fn execute(&self, future: F) {
        if let Some(spawned) = self.0.upgrade() {
            lock(&spawned).push(Box::pin(future));
        }
    }
}

/// All tasks that have polled since the last wake-up; as many as there are responses in flight.
#[derive(Debug, Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Waiting {
    fn add(&self, waker: &Waker) {
        let mut wakers = lock(&self.0);
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }
}

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *lock(&self.0));
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Nothing that is locked here is left half done by a panic.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
