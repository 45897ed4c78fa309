//! What hooks have cost, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use worker_api::hooks::HookEvent;

/// What has come of a request, or of a question in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// Somebody is let in, or an event is delivered.
    Ok,
    /// Somebody is refused.
    Denied,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Connection,
    /// A status that is no answer: a redirect, an error.
    Status,
    /// The answer is not what was asked for.
    Invalid,
    /// The answer is too long.
    TooLong,
    /// Too much waits: it was not sent.
    Overflow,
}

impl CallResult {
    /// All, for the metrics.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::Denied,
        Self::Timeout,
        Self::Connection,
        Self::Status,
        Self::Invalid,
        Self::TooLong,
        Self::Overflow,
    ];

    /// Label in the metrics and the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Status => "status",
            Self::Invalid => "invalid",
            Self::TooLong => "too_long",
            Self::Overflow => "overflow",
        }
    }
}

/// Counters, shared by all that asks and tells.
#[derive(Debug, Default)]
pub struct HookStatus {
    results: [[AtomicU64; CallResult::ALL.len()]; HookEvent::ALL.len()],
    micros: [AtomicU64; HookEvent::ALL.len()],
    dropped: [AtomicU64; HookEvent::ALL.len()],
    /// Gauge: questions and requests that have no answer yet.
    pub(crate) open: AtomicU64,
    /// Gauge: events that wait to be delivered.
    pub(crate) queued: AtomicU64,
    /// Gauge: viewers of segments who are let in.
    pub(crate) viewers: AtomicU64,
}

impl HookStatus {
    /// Counts one call and the time it took.
    pub(crate) fn count(&self, event: HookEvent, result: CallResult, took: Duration) {
        if let Some(at) = CallResult::ALL.iter().position(|other| *other == result) {
            self.results[event as usize][at].fetch_add(1, Ordering::Relaxed);
        }
        self.micros[event as usize].fetch_add(took.as_micros() as u64, Ordering::Relaxed);
    }

    /// Counts an event that was never delivered.
    pub(crate) fn count_dropped(&self, event: HookEvent) -> u64 {
        self.dropped[event as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Calls by event and result.
    pub fn calls(&self) -> impl Iterator<Item = (HookEvent, CallResult, u64)> + '_ {
        let load = |event: HookEvent, at: usize| self.results[event as usize][at].load(Ordering::Relaxed);
        HookEvent::ALL.into_iter().flat_map(move |event| {
            let results = CallResult::ALL.into_iter().enumerate();
            results.map(move |(at, result)| (event, result, load(event, at)))
        })
    }

    /// Time that calls of an event have taken.
    pub fn time(&self, event: HookEvent) -> Duration {
        Duration::from_micros(self.micros[event as usize].load(Ordering::Relaxed))
    }

    /// Events that were dropped: too much waited, or they were not taken in time.
    pub fn dropped(&self, event: HookEvent) -> u64 {
        self.dropped[event as usize].load(Ordering::Relaxed)
    }

    /// Questions and requests that have no answer yet.
    pub fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Events that wait to be delivered.
    pub fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Viewers of segments who are let in at present.
    pub fn viewers(&self) -> u64 {
        self.viewers.load(Ordering::Relaxed)
    }
}
