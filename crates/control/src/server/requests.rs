//! Which requests of a connection are being answered, and since when.
//!
//! `hyper` drives a connection and shows nothing of its state. What is needed to know when one is idle, or
//! hangs, is noted here: by the service when a request comes, and by the body of its answer when that is
//! gone.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::time::Instant;

/// The requests of one connection; clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Requests(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Number and start of each, in the order in which they came.
    running: VecDeque<(u64, Instant)>,
    begun: u64,
    /// When the last one ended, or the connection came.
    ended_at: Instant,
}

impl Requests {
    /// None so far.
    pub(super) fn new() -> Self {
        let state = State { running: VecDeque::new(), begun: 0, ended_at: Instant::now() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// One begins; it ends when the result is dropped.
    pub(super) fn begin(&self) -> Running {
        let mut state = self.state();
        state.begun += 1;
        let number = state.begun;
        state.running.push_back((number, Instant::now()));
        Running { number, requests: self.clone() }
    }

    /// How many have begun.
    pub(super) fn begun(&self) -> u64 {
        self.state().begun
    }

    /// When the oldest of those that run began, or, of one without end, was able to go on.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.state().running.iter().map(|(_, begun_at)| *begun_at).min()
    }

    /// When the last one ended, or the connection came.
    pub(super) fn ended_at(&self) -> Instant {
        self.state().ended_at
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Running {
    number: u64,
    requests: Requests,
}

impl Running {
    /// Binds it to the body of its answer: it ends when that has been sent, or given up.
    pub(super) fn until_sent(self, response: Response<Body>) -> Response<TrackedBody> {
        let is_endless = response.extensions().get::<Endless>().is_some();
        response.map(|body| TrackedBody { body, running: self, is_endless })
    }

    /// It begins again, as far as time limits are concerned.
    fn goes_on(&self) {
        let mut state = self.requests.state();
        if let Some((_, at)) = state.running.iter_mut().find(|(number, _)| *number == self.number) {
            *at = Instant::now();
        }
    }
}

/// Marks an answer without an end (an extension of its response): the time limit of a request is that of
/// each of its frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.requests.state();
        state.running.retain(|(number, _)| *number != self.number);
        state.ended_at = Instant::now();
    }
}

/// The body of an answer.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Body,
    running: Running,
    is_endless: bool,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_endless {
            self.running.goes_on();
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
