//! The reader's engine, between the caller and a source.
//!
//! An engine is a state that is polled: it spawns nothing, so dropping it at any moment drops its
//! requests, connections and timers with it. This file answers reads from what is in memory
//! (`store.rs`); `transfer.rs` moves bytes of responses there; `schedule.rs` decides what is
//! requested.

pub(crate) mod asynchronous;
pub(crate) mod blocking;
mod gaps;
mod in_flight;
mod link;
mod read_list;
mod schedule;
mod store;
mod transfer;

use std::fmt;
use std::io::{self, SeekFrom};
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::time::Sleep;

use self::gaps::Gaps;
use self::in_flight::InFlightRequest;
use self::link::Link;
use self::read_list::ReadList;
use self::store::{Predicted, Store};
use crate::config::ReaderConfig;
use crate::counters::{Counters, Progress};
use crate::error::ReadError;
use crate::learn::{LearnLimits, Learner};
use crate::source::{Pinned, Source};

/// Reads answered from memory look after the responses in flight each time so many bytes have been
/// handed out.
const BYTES_BETWEEN_LOOKS: u64 = 64 << 10;

/// A remote file and the reader's position in it.
pub(crate) struct Engine<S: Source> {
    source: S,
    config: ReaderConfig,
    store: Store,
    link: Link,
    read_list: ReadList,
    /// The read list is the caller's; else it is the learner's.
    is_hinted: bool,
    learner: Option<Learner>,
    /// The list is a guess: requested batch by batch, with misses requested separately.
    is_guessing: bool,
    /// Requests that have been refused while others were answered, and how many were then.
    refused_beside: (u32, usize),
    /// The prediction totals last reported to the learner.
    reported: Predicted,
    requests: Vec<InFlightRequest<S::Body>>,
    position: u64,
    length: Length,
    /// Nothing was found here, so the file ends here or before.
    end_at_most: u64,
    /// Properties of the file according to the first response.
    pinned: Option<Arc<Pinned>>,
    /// The server sends nothing but the whole file.
    whole_only: bool,
    /// The server was asked for several ranges and did not send them.
    one_range_only: bool,
    /// Where the present run began: what is read in a row since the last seek.
    run_start: u64,
    gaps: Gaps,
    /// How long the run before it was, and the one before that.
    last_run: u64,
    run_before_last: u64,
    /// No byte has been read since the last seek.
    has_sought: bool,
    /// The plan made for this position holds until it is reached.
    planned_for: Option<u64>,
    /// The responses in flight are allowed to finish before the next request.
    finishing: bool,
    /// A prefetch has failed; it is retried when the reader reaches the missing bytes.
    prefetch_failed: bool,
    /// Consecutive attempts without a new byte.
    tries: u32,
    pause: Option<Pin<Box<Sleep>>>,
    /// Bytes received when a reader began to wait, and when it has waited for long enough.
    silence: Option<(u64, Pin<Box<Sleep>>)>,
    /// Answers cut short so far, `CUT_WORTH_BYTES` each, less the bytes that have come since.
    cut_bytes: u64,
    /// When an answer was cut short last.
    cut_at: Option<tokio::time::Instant>,
    /// An error that fails every further read.
    failed: Option<ReadError>,
    /// Reads answered.
    answered: u64,
    handed_since_look: u64,
    bytes_received: u64,
    retries: u64,
    seeks: u64,
    progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

/// What is known of the file's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// Nothing has been asked.
    Unknown,
    /// The server has answered without saying it.
    NotSaid,
    Bytes(u64),
}

impl<S: Source> Engine<S> {
    pub(crate) fn new(source: S, config: ReaderConfig) -> Self {
        let learner = config.learn.then(|| Learner::new(LearnLimits::default()));
        Self {
            store: Store::new(config.look_back_bytes, config.window_bytes),
            source,
            config,
            link: Link::default(),
            read_list: ReadList::default(),
            is_hinted: false,
            learner,
            is_guessing: false,
            refused_beside: (0, usize::MAX),
            reported: Predicted::default(),
            requests: Vec::new(),
            position: 0,
            length: Length::Unknown,
            end_at_most: u64::MAX,
            pinned: None,
            whole_only: false,
            one_range_only: false,
            run_start: 0,
            gaps: Gaps::default(),
            last_run: 0,
            run_before_last: 0,
            has_sought: false,
            planned_for: None,
            finishing: false,
            prefetch_failed: false,
            tries: 0,
            pause: None,
            silence: None,
            cut_bytes: 0,
            cut_at: None,
            failed: None,
            answered: 0,
            handed_since_look: 0,
            bytes_received: 0,
            retries: 0,
            seeks: 0,
            progress: None,
        }
    }

    /// Reads at the position and advances it. Nothing is lost if the caller stops polling.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buffer.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if !self.store.contains(self.position) {
            let result = ready!(self.poll_bring(context, buffer.len() as u64));
            self.answered += 1;
            result?;
        }
        let count = self.store.read(self.position, buffer);
        self.learn(&buffer[..count]);
        self.position += count as u64;
        (self.has_sought, self.answered) = (false, self.answered + 1);
        self.handed_since_look += count as u64;
        if self.handed_since_look >= BYTES_BETWEEN_LOOKS {
            self.look_after(context);
        }
        self.report();
        Poll::Ready(Ok(count))
    }

    /// Waits until the length is known, or known to be unknown.
    pub(crate) fn poll_length(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<u64>>> {
        if self.length == Length::Unknown {
            ready!(self.poll_head(context))?;
        }
        Poll::Ready(Ok(self.total()))
    }

    /// Moves the position; nothing is asked until the next read. `SeekFrom::End` needs the length:
    /// `poll_length` first.
    pub(crate) fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(offset) => (self.position, offset),
            SeekFrom::End(offset) => (self.total().ok_or_else(length_not_said)?, offset),
        };
        let position = base.checked_add_signed(offset).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a seek to before the start or past 2^64")
        })?;
        if position != self.position {
            let run = self.position.saturating_sub(self.run_start);
            self.gaps.note(self.position, position);
            if run > 0 {
                (self.run_before_last, self.last_run) = (self.last_run, run);
            }
            (self.position, self.run_start) = (position, position);
            self.has_sought = true;
            self.planned_for = None;
            self.finishing = false;
        }
        Ok(position)
    }

    /// Replaces the list of what will be read.
    pub(crate) fn will_need(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) {
        self.read_list.replace(ranges);
        self.store.set_listed(self.read_list.ascending());
        self.is_hinted = !self.read_list.is_empty();
        self.is_guessing = false;
        self.planned_for = None;
    }

    pub(crate) fn on_progress(&mut self, callback: Box<dyn FnMut(Progress) + Send>) {
        self.progress = Some(callback);
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// The length, if it is known.
    pub(crate) fn total(&self) -> Option<u64> {
        match self.length {
            Length::Bytes(total) => Some(total),
            Length::Unknown | Length::NotSaid => None,
        }
    }

    pub(crate) fn needs_length(&self) -> bool {
        self.length == Length::Unknown
    }

    pub(crate) fn counters(&self) -> Counters {
        let state = self.source.state();
        Counters {
            requests: state.requests,
            connections: state.connections,
            retries: self.retries,
            bytes_received: self.bytes_received,
            bytes_used: self.store.used,
            bytes_skipped: self.store.skipped,
            bytes_wasted: self.store.wasted,
            bytes_buffered: self.store.unread(),
            seeks: self.seeks,
            bytes_predicted: self.store.predicted.used + self.store.predicted.wasted,
            bytes_mispredicted: self.store.predicted.wasted,
        }
    }

    /// Reports to the learner the bytes handed out at the position, and the outcome of its
    /// predictions.
    fn learn(&mut self, bytes: &[u8]) {
        let Some(learner) = self.learner.as_mut().filter(|_| !self.is_hinted) else { return };
        learner.note_read(self.position..self.position + bytes.len() as u64);
        if learner.wants_bytes() {
            learner.note_bytes(self.position, bytes);
        }
        let Predicted { used, wasted } = self.store.predicted;
        let (known_used, known_wasted) = (self.reported.used, self.reported.wasted);
        if (used, wasted) != (known_used, known_wasted) {
            learner.note_outcome(used + wasted - known_used - known_wasted, used - known_used);
            self.reported = self.store.predicted;
        }
    }

    fn report(&mut self) {
        let Some(mut callback) = self.progress.take() else { return };
        callback(Progress { position: self.position, total_bytes: self.total(), counters: self.counters() });
        self.progress = Some(callback);
    }

    /// The end of the file, as far as known.
    fn end(&self) -> u64 {
        self.total().unwrap_or(self.end_at_most)
    }

    fn is_at_end(&self) -> bool {
        self.position >= self.end()
    }
}

/// The error of a seek from the end of a file whose length the server does not say.
fn length_not_said() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "the server does not say how long the file is")
}

impl<S: Source> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("position", &self.position)
            .field("length", &self.length)
            .field("requests_on_their_way", &self.requests.len())
            .finish_non_exhaustive()
    }
}
