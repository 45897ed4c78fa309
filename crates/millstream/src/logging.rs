//! Log lines: text or JSON on standard error, written by a thread of their own.
//!
//! A worker never waits for the log. Lines go through a bounded queue; when it is full they are dropped and counted
//! (`millstream_log_lines_dropped_total`). Messages on the media path go through `RateLimited` first, so that one
//! bad peer cannot fill the queue either. Lines of a session carry the field `session`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::value::LogFormat;

/// Lines the queue holds.
const QUEUE_LINES: usize = 16_384;

/// Keeps the log thread alive; dropping it writes what is queued.
#[derive(Debug)]
pub struct Logging {
    /// Counts lines that were dropped because the queue was full.
    pub dropped: ErrorCounter,
    _guard: WorkerGuard,
}

/// Starts logging for the whole process. Call once; `level` was checked with the configuration.
pub fn start(format: LogFormat, level: &str) -> Logging {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(QUEUE_LINES)
        .thread_name("log")
        .finish(std::io::stderr());
    let dropped = writer.error_counter();
    let filter: Targets = level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => registry.with(layer.with_ansi(std::io::stderr().is_terminal())).init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).init(),
    }
    Logging { dropped, _guard: guard }
}

/// Lets at most `per_second` messages of one call site through in each second.
///
/// Kept by the caller next to what it reports on, so that it needs no lock. **Call `admit` before formatting.**
#[derive(Debug)]
pub struct RateLimited {
    per_second: u32,
    window_start: Option<Instant>,
    admitted: u32,
    suppressed: u64,
}

impl RateLimited {
    /// At most `per_second` messages a second.
    pub const fn new(per_second: u32) -> Self {
        Self { per_second, window_start: None, admitted: 0, suppressed: 0 }
    }

    /// `Some(n)`: write the message, and say that `n` like it were left out since the last one. `None`: leave it out.
    pub fn admit(&mut self, now: Instant) -> Option<u64> {
        let expired = self
            .window_start
            .is_none_or(|start| now.saturating_duration_since(start) >= Duration::from_secs(1));
        if expired {
            self.window_start = Some(now);
            self.admitted = 0;
        }
        if self.admitted == self.per_second {
            self.suppressed += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressed_messages_are_counted_and_reported_once() {
        #[expect(clippy::disallowed_methods, reason = "an arbitrary point in time to count from")]
        let start = Instant::now();
        let mut limit = RateLimited::new(2);
        let at = |ms| start + Duration::from_millis(ms);
        let cases = [
            (0, Some(0)),
            (1, Some(0)),
            (2, None),
            (999, None),
            (1000, Some(2)), // a new second tells what was left out
            (1001, Some(0)),
            (1002, None),
            (9000, Some(1)),
        ];
        for (ms, expected) in cases {
            assert_eq!(limit.admit(at(ms)), expected, "at {ms} ms");
        }
    }
}
