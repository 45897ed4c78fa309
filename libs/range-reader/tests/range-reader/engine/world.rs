//! A server that exists in virtual time: a link with a round trip, a rate, slow start, and a server
//! that may misbehave.
//!
//! Used under tokio's paused clock, so minutes of transfer take milliseconds and every run is the
//! same. It counts what is open, so that a test sees what has leaked.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use range_reader::error::SourceError;
use range_reader::ranges::ByteRange;
use range_reader::source::{Body, BodyEvent, Pinned, RangeRequest, Response, Source, SourceState, Validator};
use tokio::time::{Instant, Sleep, sleep_until};

/// Bytes of a segment on the link.
const SEGMENT_BYTES: usize = 1460;
/// Segments a connection may send before the first acknowledgement (RFC 6928).
const INITIAL_WINDOW_BYTES: u64 = 10 * SEGMENT_BYTES as u64;
/// What a client reads from the kernel at once.
const CLIENT_READ_BYTES: usize = 200 << 10;
/// What a receiver's kernel holds of one response.
const RECEIVE_BUFFER_BYTES: usize = 256 << 10;

/// Requests after which a reader is taken to go in circles.
const REQUESTS_MAX: u64 = 20_000;

/// The path to the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// There and back.
    pub(crate) round_trip: Duration,
    /// Of all connections together.
    pub(crate) bytes_per_second: f64,
}

impl Link {
    /// 50 ms, 20 Mbit/s.
    pub(crate) const COUNTRY: Self = Self { round_trip: Duration::from_millis(50), bytes_per_second: 2.5e6 };
    /// 2 ms, 1 Gbit/s.
    pub(crate) const NEAR: Self = Self { round_trip: Duration::from_millis(2), bytes_per_second: 125e6 };
    /// 200 ms, 5 Mbit/s.
    pub(crate) const FAR: Self = Self { round_trip: Duration::from_millis(200), bytes_per_second: 0.625e6 };
}

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Habits {
    /// Responses 200 with the whole file, whatever is asked.
    pub(crate) no_ranges: bool,
    /// Responses 200 with the whole file when several ranges are asked.
    pub(crate) refuses_several: bool,
    /// Responses several ranges by one that covers them all.
    pub(crate) collapses_several: bool,
    /// Responses several ranges by the first of them.
    pub(crate) first_of_several: bool,
    /// Sends the parts of a response in reverse.
    pub(crate) reverses_several: bool,
    /// Does not say how long the file is.
    pub(crate) hides_length: bool,
    /// Sends at most so many bytes of a range, as if that were all.
    pub(crate) shortens_to: Option<u64>,
    /// Each answer breaks off after about so many bytes.
    pub(crate) breaks_after: Option<u64>,
    /// Every n-th request fails before its head.
    pub(crate) fails_every: Option<u64>,
    /// Takes requests and never answers.
    pub(crate) is_silent: bool,
    /// Several streams on one connection.
    pub(crate) http2: bool,
}

/// The server and the link to it.
#[derive(Debug, Clone)]
pub(crate) struct World(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    file: Bytes,
    version: u64,
    link: Link,
    habits: Habits,
    is_down: bool,
    /// Times that it has gone down; what was in flight then is broken.
    downs: u64,
    sources: u64,
    free_at: Instant,
    idle: Vec<u64>,
    opened: u64,
    requests: u64,
    connections_open: u64,
    /// The most that were open at a time.
    open_most: u64,
    answers_open: u64,
    futures_open: u64,
    several_sent: bool,
    log: Vec<Vec<ByteRange>>,
}

impl World {
    /// A server with `file`, reached over `link`.
    pub(crate) fn new(file: impl Into<Bytes>, link: Link, habits: Habits) -> Self {
        Self(Arc::new(Mutex::new(State {
            file: file.into(),
            version: 1,
            link,
            habits,
            is_down: false,
            downs: 0,
            sources: 0,
            free_at: Instant::now(),
            idle: Vec::new(),
            opened: 0,
            requests: 0,
            connections_open: 0,
            open_most: 0,
            answers_open: 0,
            futures_open: 0,
            several_sent: false,
            log: Vec::new(),
        })))
    }

    /// Also after a test has failed, so that what it leaves can be dropped.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source of its own.
    pub(crate) fn source(&self) -> SimSource {
        self.lock().sources += 1;
        SimSource { world: self.clone(), requests: 0, opened: 0 }
    }

    /// The file becomes another.
    pub(crate) fn replace(&self, file: impl Into<Bytes>) {
        let mut state = self.lock();
        state.file = file.into();
        state.version += 1;
    }

    /// The path to the server becomes another. What has been sent arrives when it would have; what
    /// follows comes later by half of what the round trip has grown.
    pub(crate) fn set_link(&self, link: Link) {
        let mut state = self.lock();
        let later = link.round_trip.saturating_sub(state.link.round_trip) / 2;
        state.free_at = state.free_at.max(Instant::now()) + later;
        state.link = link;
    }

    /// Kills the server, or brings it back: responses in flight break, requests are refused.
    pub(crate) fn set_down(&self, is_down: bool) {
        let mut state = self.lock();
        state.is_down = is_down;
        if is_down {
            state.downs += 1;
            state.connections_open -= state.idle.len() as u64;
            state.idle.clear();
        }
    }

    /// Requests received.
    pub(crate) fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// What was asked, request by request.
    pub(crate) fn log(&self) -> Vec<Vec<ByteRange>> {
        self.lock().log.clone()
    }

    /// Connections opened so far.
    pub(crate) fn connections(&self) -> u64 {
        self.lock().opened
    }

    /// Connections that were open at a time at most.
    pub(crate) fn open_most(&self) -> u64 {
        self.lock().open_most
    }

    /// Connections, answers and requests that are open.
    pub(crate) fn open(&self) -> (u64, u64, u64) {
        let state = self.lock();
        (state.connections_open, state.answers_open, state.futures_open)
    }
}

/// One client of the world's server. Dropping it closes its idle connections.
#[derive(Debug)]
pub(crate) struct SimSource {
    world: World,
    requests: u64,
    opened: u64,
}

impl Drop for SimSource {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        state.sources -= 1;
        state.connections_open -= state.idle.len() as u64;
        state.idle.clear();
    }
}

/// A connection in use. Dropped: closed, unless it was put back.
#[derive(Debug)]
struct Connection {
    world: World,
    /// Bytes its congestion window has grown by.
    window: u64,
    is_answer: bool,
    is_kept: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        if self.is_answer {
            state.answers_open -= 1;
        } else {
            state.futures_open -= 1;
        }
        if (self.is_kept || state.habits.http2) && !state.is_down && state.sources > 0 {
            state.idle.push(self.window);
        } else {
            state.connections_open -= 1;
        }
    }
}

impl Source for SimSource {
    type Body = SimBody;

    fn open(
        &mut self,
        request: RangeRequest,
    ) -> impl Future<Output = Result<Response<SimBody>, SourceError>> + Send + 'static {
        let mut state = self.world.lock();
        assert!(!request.ranges.is_empty());
        for range in &request.ranges {
            assert!(range.end.is_none_or(|end| range.start < end), "an empty range is asked: {range:?}");
        }
        for pair in request.ranges.windows(2) {
            assert!(pair[0].end.is_some_and(|end| end < pair[1].start), "not ascending: {pair:?}");
        }
        self.requests += 1;
        state.requests += 1;
        assert!(
            state.requests < REQUESTS_MAX,
            "the reader asks without end: {:?}",
            state.log.last_chunk::<4>()
        );
        state.log.push(request.ranges.clone());
        state.futures_open += 1;
        let reused = state.idle.pop();
        if reused.is_none() {
            state.opened += 1;
            state.connections_open += 1;
            state.open_most = state.open_most.max(state.connections_open);
            self.opened += 1;
        }
        let fails = state.is_down
            || state.habits.fails_every.is_some_and(|every| state.requests.is_multiple_of(every));
        let is_silent = state.habits.is_silent;
        let connect = if reused.is_none() { state.link.round_trip } else { Duration::ZERO };
        let head_at = Instant::now() + connect + state.link.round_trip;
        let connection = Connection {
            world: self.world.clone(),
            window: reused.unwrap_or(INITIAL_WINDOW_BYTES),
            is_answer: false,
            is_kept: false,
        };
        drop(state);
        async move {
            sleep_until(head_at).await;
            if is_silent {
                std::future::pending::<()>().await;
            }
            if fails || connection.world.lock().is_down {
                return Err(SourceError::Transient { reason: "refused".to_owned(), retry_after: None });
            }
            answer(request, connection)
        }
    }

    fn state(&self) -> SourceState {
        let state = self.world.lock();
        SourceState {
            requests_at_once: if state.habits.http2 { 8 } else { 4 },
            can_reset: state.habits.http2,
            takes_ranges: !state.habits.no_ranges,
            takes_several_ranges: state.several_sent.then_some(true),
            requests: self.requests,
            connections: self.opened,
            connections_open: state.connections_open,
            ..SourceState::default()
        }
    }
}

fn answer(request: RangeRequest, mut connection: Connection) -> Result<Response<SimBody>, SourceError> {
    let world = connection.world.clone();
    let mut state = world.lock();
    let habits = state.habits;
    let total = state.file.len() as u64;
    let etag = format!("\"{}\"", state.version);
    if request.pinned.as_ref().is_some_and(|pinned| pinned.validator.etag.as_ref() != Some(&etag)) {
        drop(state);
        return Err(SourceError::Changed);
    }
    let several = request.ranges.len() > 1;
    let is_whole_file = habits.no_ranges || several && habits.refuses_several;
    let mut parts: Vec<(u64, u64)> = if is_whole_file {
        vec![(0, total)]
    } else {
        let clip = |range: &ByteRange| (range.start, range.end.unwrap_or(total).min(total));
        request.ranges.iter().map(clip).filter(|part| part.0 < part.1).collect()
    };
    if parts.is_empty() {
        connection.is_kept = true;
        drop(state);
        let total_bytes = (!habits.hides_length).then_some(total);
        return Err(SourceError::Unsatisfiable { total_bytes });
    }
    if several && habits.collapses_several {
        parts = vec![(parts[0].0, parts[parts.len() - 1].1)];
    }
    if several && habits.first_of_several {
        parts.truncate(1);
    }
    if habits.reverses_several {
        parts.reverse();
    }
    if let Some(bytes) = habits.shortens_to.filter(|_| !is_whole_file) {
        parts.iter_mut().for_each(|part| part.1 = part.1.min(part.0 + bytes));
    }
    state.several_sent |= several && parts.len() > 1;
    state.answers_open += 1;
    state.futures_open -= 1;
    connection.is_answer = true;
    let pinned = Pinned {
        total_bytes: (!habits.hides_length).then_some(total),
        validator: Validator { etag: Some(etag), last_modified: None },
    };
    let body = SimBody {
        file: state.file.clone(),
        downs: state.downs,
        parts: parts.into(),
        queue: VecDeque::new(),
        queued_bytes: 0,
        until_break: habits.breaks_after.map(|bytes| bytes + state.requests * 7919 % bytes.max(1)),
        round: Instant::now(),
        in_round: 0,
        at: 0,
        opened: false,
        ended: false,
        hides_end: habits.hides_length && is_whole_file,
        sleep: None,
        connection,
    };
    Ok(Response { pinned, is_whole_file, body })
}

/// Bytes of a response.
#[derive(Debug)]
pub(crate) struct SimBody {
    file: Bytes,
    downs: u64,
    parts: VecDeque<(u64, u64)>,
    /// What the server has sent, and when it arrives.
    queue: VecDeque<(Instant, BodyEvent)>,
    queued_bytes: usize,
    until_break: Option<u64>,
    /// Begin of the present round of the congestion window, and what was sent in it.
    round: Instant,
    in_round: u64,
    at: u64,
    opened: bool,
    ended: bool,
    hides_end: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    connection: Connection,
}

impl SimBody {
    /// The server sends what the window and the receive buffer let it.
    fn send(&mut self) {
        let world = self.connection.world.clone();
        let mut state = world.lock();
        while self.queued_bytes < RECEIVE_BUFFER_BYTES {
            let Some(&(start, end)) = self.parts.front() else { break };
            if !self.opened {
                (self.opened, self.at) = (true, start);
                let end = (!self.hides_end).then_some(end);
                let at = state.free_at.max(Instant::now());
                self.queue.push_back((at, BodyEvent::Part { range: ByteRange { start, end } }));
            }
            let size = (end - self.at).min(SEGMENT_BYTES as u64);
            let size = self.until_break.map_or(size, |left| size.min(left));
            if size == 0 {
                break;
            }
            if self.in_round + size > self.connection.window {
                self.round += state.link.round_trip;
                self.in_round = 0;
                let path = state.link.bytes_per_second * state.link.round_trip.as_secs_f64() * 2.0;
                self.connection.window =
                    (self.connection.window * 2).min((path as u64).max(INITIAL_WINDOW_BYTES));
            }
            self.in_round += size;
            self.round =
                self.round.max(Instant::now().checked_sub(state.link.round_trip).unwrap_or(self.round));
            let transfer = Duration::from_secs_f64(size as f64 / state.link.bytes_per_second);
            state.free_at = state.free_at.max(self.round) + transfer;
            let data = self.file.slice(self.at as usize..(self.at + size) as usize);
            self.queue.push_back((state.free_at, BodyEvent::Data(data)));
            self.queued_bytes += size as usize;
            self.at += size;
            if let Some(left) = &mut self.until_break {
                *left -= size;
            }
            if self.at == end {
                self.parts.pop_front();
                self.opened = false;
            }
        }
        if self.parts.is_empty() && !self.ended {
            self.ended = true;
            let at = state.free_at.max(Instant::now());
            self.queue.push_back((at, BodyEvent::End));
        }
    }
}

impl SimBody {
    /// `first` and what else of the part has arrived by now, as a client reads it at once.
    fn take_with(&mut self, first: Bytes) -> Bytes {
        let mut data = first.to_vec();
        while data.len() < CLIENT_READ_BYTES {
            match self.queue.front() {
                Some((at, BodyEvent::Data(more))) if *at <= Instant::now() => data.extend_from_slice(more),
                _ => break,
            }
            self.queue.pop_front();
        }
        self.queued_bytes -= data.len();
        data.into()
    }
}

impl Body for SimBody {
    fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Result<BodyEvent, SourceError>> {
        self.send();
        if self.connection.world.lock().downs != self.downs || self.queue.is_empty() {
            let reason = "the connection broke".to_owned();
            return Poll::Ready(Err(SourceError::Transient { reason, retry_after: None }));
        }
        let at = self.queue[0].0;
        if at > Instant::now() {
            let sleep = self.sleep.insert(Box::pin(sleep_until(at)));
            if sleep.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        let (_, event) = self.queue.pop_front().expect("looked at above");
        let event = match event {
            BodyEvent::Data(data) => BodyEvent::Data(self.take_with(data)),
            BodyEvent::End => {
                self.connection.is_kept = true;
                BodyEvent::End
            }
            part @ BodyEvent::Part { .. } => part,
        };
        Poll::Ready(Ok(event))
    }

    fn bytes_buffered(&self) -> u64 {
        let now = Instant::now();
        let here = self.queue.iter().take_while(|(at, _)| *at <= now);
        here.map(|(_, event)| if let BodyEvent::Data(data) = event { data.len() as u64 } else { 0 }).sum()
    }
}

/// Bytes that depend on their position: equal pieces at two positions are unlikely.
pub(crate) fn file_of(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut file = Vec::with_capacity(bytes + 8);
    while file.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.extend_from_slice(&state.to_le_bytes());
    }
    file.truncate(bytes);
    file
}
