//! Log lines: text or JSON on standard error, written by a thread of their own.
//!
//! A worker never waits for the log. Each place in the code may write so many lines a second from one thread,
//! so that one bad peer cannot drown the rest; what was left out is said with the next line. Admitted lines
//! go through a bounded queue; when that is full they are dropped and counted. Lines of a session carry the
//! field `session`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt};

use config::keys::Log;
use config::value::LogFormat;
use worker_api::time::rfc3339;

/// Lines the queue holds.
const QUEUE_LINES: usize = 16_384;
/// The libraries of MoQ (feature `moq`), which warn of each client that leaves; what operators want to
/// know of it is logged by `moq` itself.
const CHATTY: [&str; 2] = ["moq_net", "web_transport_quinn"];

/// Keeps the log thread alive; dropping it writes what is queued.
#[derive(Debug)]
pub(crate) struct Logging {
    /// Counts lines that were dropped because the queue was full.
    pub dropped: ErrorCounter,
    _guard: WorkerGuard,
}

/// Starts the thread that writes lines to `output`, for which the returned subscriber collects them. The
/// level was checked with the configuration.
pub(crate) fn start(
    config: &Log,
    output: impl Write + Send + 'static,
    with_colour: bool,
) -> (Logging, impl Subscriber + Send + Sync) {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(QUEUE_LINES)
        .thread_name("log")
        .finish(output);
    let dropped = writer.error_counter();
    let mut filter: Targets =
        config.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let is_usual = filter.default_level() == Some(LevelFilter::INFO);
    for library in CHATTY {
        if is_usual && !filter.iter().any(|(target, _)| target.starts_with(library)) {
            filter = filter.with_target(library, LevelFilter::ERROR);
        }
    }
    let limit = PerCallSite {
        per_second: u32::try_from(config.lines_per_second).unwrap_or(0),
        format: config.format,
        writer: writer.clone(),
    };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer: Box<dyn Layer<_> + Send + Sync> = match config.format {
        LogFormat::Text => layer.with_ansi(with_colour).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(limit).with(layer);
    (Logging { dropped, _guard: guard }, subscriber)
}

/// Limits the lines of each call site, per thread: threads share nothing.
struct PerCallSite {
    /// 0 sets no limit.
    per_second: u32,
    format: LogFormat,
    writer: NonBlocking,
}

thread_local! {
    static LIMITS: RefCell<HashMap<Identifier, RateLimited>> = RefCell::default();
}

impl<S: Subscriber> Layer<S> for PerCallSite {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if self.per_second == 0 {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "a log line has a time of its own")]
        let (now, wall) = (Instant::now(), SystemTime::now());
        let admitted = LIMITS.with_borrow_mut(|limits| {
            let new = || RateLimited::new(self.per_second);
            limits.entry(event.metadata().callsite()).or_insert_with(new).admit(now)
        });
        if let Some(suppressed @ 1..) = admitted {
            let line = suppressed_line(self.format, wall, event.metadata(), suppressed);
            let _ = self.writer.clone().write_all(line.as_bytes());
        }
        admitted.is_some()
    }
}

/// Says how many lines were left out before the next one.
fn suppressed_line(format: LogFormat, now: SystemTime, of: &tracing::Metadata<'_>, count: u64) -> String {
    let (timestamp, target, line) = (rfc3339(now), of.target(), of.line().unwrap_or(0));
    match format {
        LogFormat::Text => {
            format!("{timestamp} {:>5} {target}: lines left out suppressed={count} line={line}\n", of.level())
        }
        LogFormat::Json => {
            let fields = serde_json::json!({
                "timestamp": timestamp, "level": of.level().as_str(), "target": target,
                "message": "lines left out", "suppressed": count, "line": line,
            });
            format!("{fields}\n")
        }
    }
}

/// Lets at most so many messages through in each second.
#[derive(Debug)]
struct RateLimited {
    per_second: u32,
    window_start: Option<Instant>,
    admitted: u32,
    suppressed: u64,
}

impl RateLimited {
    fn new(per_second: u32) -> Self {
        Self { per_second, window_start: None, admitted: 0, suppressed: 0 }
    }

    /// `Some(n)`: write the message, and say that `n` before it were left out. `None`: leave it out.
    fn admit(&mut self, now: Instant) -> Option<u64> {
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
    use std::io;
    use std::sync::{Arc, Mutex};

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

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_place_cannot_drown_another() {
        let lines = Lines::default();
        let (writer, guard) = tracing_appender::non_blocking(lines.clone());
        let limit = PerCallSite { per_second: 3, format: LogFormat::Json, writer: writer.clone() };
        let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(writer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(limit).with(layer), || {
            for session in 0..100 {
                tracing::warn!(session, "flood");
            }
            tracing::warn!(session = 7, "rare");
        });
        drop(guard);
        let bytes = lines.0.lock().expect("not poisoned").clone();
        let parsed: Vec<serde_json::Value> = String::from_utf8(bytes)
            .expect("text")
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let count = |message: &str| parsed.iter().filter(|line| line["message"] == message).count();
        // A second may have begun in between; then a second handful was let through.
        assert!((3..=6).contains(&count("flood")), "{}", count("flood"));
        assert_eq!(count("rare"), 1);
    }

    #[test]
    fn what_was_left_out_is_said_in_both_formats() {
        let now = SystemTime::UNIX_EPOCH;
        let span =
            tracing::subscriber::with_default(tracing_subscriber::registry(), || tracing::warn_span!("a"));
        let metadata = span.metadata().expect("an enabled span");
        let text = suppressed_line(LogFormat::Text, now, metadata, 9);
        assert!(text.starts_with("1970-01-01T00:00:00Z  WARN") && text.contains("suppressed=9"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&suppressed_line(LogFormat::Json, now, metadata, 9)).expect("JSON");
        assert_eq!((&json["suppressed"], &json["level"]), (&9.into(), &"WARN".into()));
    }
}
