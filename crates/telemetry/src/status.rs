//! How the export goes, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use worker_api::traces::Traces;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metrics.
    Metrics,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Traces, Self::Metrics];

    /// Name in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
        }
    }
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportResult {
    /// The collector has it.
    Ok,
    /// The collector has refused it, by its status.
    Refused,
    /// No connection, or none that was trusted, or it broke.
    Connection,
    /// No answer in time.
    Timeout,
    /// An answer that is too long, or none of OTLP.
    Answer,
}

impl ExportResult {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Refused, Self::Connection, Self::Timeout, Self::Answer];

    /// Name in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Answer => "answer",
        }
    }
}

/// Counters of the export.
#[derive(Debug)]
pub struct TelemetryStatus {
    traces: Traces,
    requests: [[AtomicU64; ExportResult::ALL.len()]; Signal::ALL.len()],
    exported: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
}

impl Default for TelemetryStatus {
    /// Of an export that has nothing to do.
    fn default() -> Self {
        Self::new(Traces::new(0).0)
    }
}

impl TelemetryStatus {
    pub(crate) fn new(traces: Traces) -> Self {
        Self {
            traces,
            requests: Default::default(),
            exported: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, signal: Signal, result: ExportResult) {
        self.requests[signal as usize][result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Spans that the collector has, and those of the same request that it would not have.
    pub(crate) fn count_exported(&self, spans: u64, rejected: u64) {
        self.exported.fetch_add(spans.saturating_sub(rejected), Ordering::Relaxed);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
    }

    pub(crate) fn count_failed(&self, spans: u64) {
        self.failed.fetch_add(spans, Ordering::Relaxed);
    }

    /// Requests by what they were of and what came of them.
    pub fn requests(&self) -> impl Iterator<Item = (Signal, ExportResult, u64)> + '_ {
        Signal::ALL.into_iter().flat_map(|signal| {
            let of_signal = &self.requests[signal as usize];
            ExportResult::ALL
                .into_iter()
                .map(move |result| (signal, result, of_signal[result as usize].load(Ordering::Relaxed)))
        })
    }

    /// Spans that the collector has taken.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans that were dropped, by why.
    pub fn dropped(&self) -> [(&'static str, u64); 3] {
        [
            ("queue_full", self.traces.dropped()),
            ("failed", self.failed.load(Ordering::Relaxed)),
            ("rejected", self.rejected.load(Ordering::Relaxed)),
        ]
    }
}
