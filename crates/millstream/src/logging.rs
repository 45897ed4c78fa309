//! Log lines: text or JSON on standard error, written by a thread of their own.
//!
//! A worker never waits for the log. Each place in the code may write so many lines a second from one thread,
//! so that one bad peer cannot drown the rest; what was left out is said with the next line. Admitted lines
//! go through a bounded queue; when that is full they are dropped and counted. Lines of a session carry the
//! field `session`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tracing::callsite::Identifier;
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry, reload};

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
    /// What a reload of the configuration changes.
    pub live: LiveLogging,
    _guard: WorkerGuard,
}

/// Level and limit of the log, which can be changed.
#[derive(Debug, Clone)]
pub(crate) struct LiveLogging {
    filter: reload::Handle<Targets, Registry>,
    per_second: Arc<AtomicU32>,
}

impl LiveLogging {
    /// Lines from now on are those that `config` wants; their format stays.
    pub(crate) fn apply(&self, config: &Log) {
        self.per_second.store(per_second(config), Ordering::Relaxed);
        // It fails once the log has gone, and then nobody reads it.
        let _ = self.filter.reload(filter(config));
    }
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
    let (filter, handle) = reload::Layer::new(filter(config));
    let per_second = Arc::new(AtomicU32::new(per_second(config)));
    let limit =
        PerCallSite { per_second: Arc::clone(&per_second), format: config.format, writer: writer.clone() };
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    let layer: Box<dyn Layer<_> + Send + Sync> = match config.format {
        LogFormat::Text => layer.with_ansi(with_colour).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(limit).with(layer);
    let live = LiveLogging { filter: handle, per_second };
    (Logging { dropped, live, _guard: guard }, subscriber)
}

fn per_second(config: &Log) -> u32 {
    u32::try_from(config.lines_per_second).unwrap_or(0)
}

fn filter(config: &Log) -> Targets {
    let mut filter: Targets =
        config.level.parse().unwrap_or_else(|_| Targets::new().with_default(tracing::Level::INFO));
    let is_usual = filter.default_level() == Some(LevelFilter::INFO);
    for library in CHATTY {
        if is_usual && !filter.iter().any(|(target, _)| target.starts_with(library)) {
            filter = filter.with_target(library, LevelFilter::ERROR);
        }
    }
    filter
}

/// Limits the lines of each call site, per thread: threads share nothing.
struct PerCallSite {
    /// 0 sets no limit.
    per_second: Arc<AtomicU32>,
    format: LogFormat,
    writer: NonBlocking,
}

thread_local! {
    static LIMITS: RefCell<HashMap<Identifier, RateLimited>> = RefCell::default();
}

impl<S: Subscriber> Layer<S> for PerCallSite {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second == 0 {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "a log line has a time of its own")]
        let (now, wall) = (Instant::now(), SystemTime::now());
        let admitted = LIMITS.with_borrow_mut(|limits| {
            limits.entry(event.metadata().callsite()).or_default().admit(now, per_second)
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
#[derive(Debug, Default)]
struct RateLimited {
    window_start: Option<Instant>,
    admitted: u32,
    suppressed: u64,
}

impl RateLimited {
    /// `Some(n)`: write the message, and say that `n` before it were left out. `None`: leave it out.
    fn admit(&mut self, now: Instant, per_second: u32) -> Option<u64> {
        let expired = self
            .window_start
            .is_none_or(|start| now.saturating_duration_since(start) >= Duration::from_secs(1));
        if expired {
            self.window_start = Some(now);
            self.admitted = 0;
        }
        if self.admitted >= per_second {
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
    use std::sync::Mutex;

    #[test]
    fn suppressed_messages_are_counted_and_reported_once() {
        #[expect(clippy::disallowed_methods, reason = "an arbitrary point in time to count from")]
        let start = Instant::now();
        let mut limit = RateLimited::default();
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
            assert_eq!(limit.admit(at(ms), 2), expected, "at {ms} ms");
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
        let limit =
            PerCallSite { per_second: Arc::new(3.into()), format: LogFormat::Json, writer: writer.clone() };
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
