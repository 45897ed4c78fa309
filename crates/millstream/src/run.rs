//! Starts the server, and stops it on a signal.
//!
//! Start: log, descriptor limit, listeners and workers, control side, sources. Stop, on SIGTERM or SIGINT: not ready
//! any more, sources end, workers tell their sessions and drain with a deadline. A second signal ends at once.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rtc::dtls::Certificate;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::{banner, logging};
use config::Config;
use config::resolve::Resolved;
use control::rtc::{RtcControl, RtcParts};
use control::{self, stats};
use sources::channels::Channels;
use sources::demo;
use sources::pull::Pulls;
use sources::settings::AddedBy;
use sources::{Ingest, IngestThread};
use worker::Workers;
use worker_api::ListenAddresses;
use worker_api::WorkersLink;
use worker_api::columns::SNAPSHOTS_MAX;
use worker_api::link::HANDOFFS_MAX;
use worker_api::settings::WorkerSettings;
use worker_api::settings::settings_for;

/// Exit code after a second signal.
const EXIT_INTERRUPTED: i32 = 130;
/// What workers may take beyond their deadline before the process ends without them.
const JOIN_GRACE: Duration = Duration::from_secs(2);
/// Time sources have to say goodbye before workers end what is left.
const SOURCES_GRACE: Duration = Duration::from_millis(200);

/// Runs until a signal ends it. The error says what to do about it.
pub(crate) fn run(config: &Config, resolved: Resolved) -> Result<(), String> {
    let logging = logging::start(&config.log);
    // One thread: what is not media is little, and one thread cannot take more than one core from the workers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the control runtime could not start: {error}"))?;
    let result = runtime.block_on(serve(config, resolved, &logging));
    // Not by dropping it: that would wait for a worker that does not end.
    runtime.shutdown_background();
    drop(logging);
    result
}

async fn serve(config: &Config, resolved: Resolved, logging: &logging::Logging) -> Result<(), String> {
    let mut signals = Signals::listen().map_err(|error| format!("signals cannot be received: {error}"))?;
    let Resolved { worker: settings, policy, demo, sources, pulls, channels } = resolved;
    raise_descriptor_limit(&settings);
    let (policy, sources) = (Arc::new(policy), Arc::new(sources));

    let (sender, handoffs) = mpsc::channel(HANDOFFS_MAX);
    let (notices, noticed) = mpsc::unbounded_channel();
    let (stats, snapshots) = mpsc::channel(SNAPSHOTS_MAX * settings.workers);
    let workers = Workers::start(settings.clone(), Arc::clone(&policy), sender, notices, stats)
        .map_err(|error| explain_start(&settings, &error))?;
    let addresses = workers.addresses().clone();
    let rtc = rtc_control(&settings, &workers)?;
    let sources_thread =
        IngestThread::start().map_err(|error| format!("the thread of sources could not start: {error}"))?;
    let link = WorkersLink::new(workers.handles().to_vec());
    let ingest = Ingest::new(link, &sources_thread, settings.message_bytes_max);
    let (collector, stats) = stats::collect(workers.used_stats());
    tokio::spawn(collector.run(snapshots));
    #[expect(clippy::disallowed_methods, reason = "the start of the server, read once")]
    let (started, started_at) = (Instant::now(), SystemTime::now());
    let context = Arc::new(control::Context {
        workers: WorkersLink::new(workers.handles().to_vec()),
        policy: Arc::clone(&policy),
        addresses: addresses.clone(),
        started,
        started_at,
        demo_stream: demo.as_ref().map(|(app, stream)| format!("{app}/{stream}")),
        draining: AtomicBool::new(false),
        metrics_streams_max: usize::try_from(config.metrics.streams_max).unwrap_or(0),
        log_lines_dropped: Some(logging.dropped.clone()),
        rtc,
        stats,
        pulls: Pulls::new(ingest.clone(), Arc::clone(&sources)),
        channels: Channels::new(ingest.clone(), Arc::clone(&sources)),
    });
    let of_notices = Arc::clone(&context);
    tokio::spawn(async move { of_notices.rtc.take_notices(noticed).await });
    let control = tokio::spawn(control::serve(Arc::clone(&context), handoffs));
    if !context.workers.all_answer().await {
        return Err("a worker does not answer after its start".to_owned());
    }
    tracing::info!(workers = settings.workers, version = env!("CARGO_PKG_VERSION"), "started");
    print_banner(&addresses, &context, &policy);
    write_ports_file(&config.server.ports_file, &addresses)?;

    for spec in pulls {
        // Each stream once, and not too many: the configuration was checked.
        let _ = context.pulls.add(spec, AddedBy::Configuration);
    }
    for spec in channels {
        let _ = context.channels.add(spec, AddedBy::Configuration);
    }
    if let Some((app, stream)) = demo {
        ingest.spawn(demo::run(ingest.clone(), app, stream));
    }

    let name = signals.next().await;
    let deadline = Duration::from_secs(u64::try_from(config.shutdown.drain_seconds).unwrap_or(0));
    tracing::info!(
        signal = name,
        seconds = deadline.as_secs(),
        "stopping: sessions are notified and drained"
    );
    context.draining.store(true, Ordering::Relaxed);
    let drained = drain(&context, workers, &sources_thread, deadline);
    tokio::select! {
        () = drained => {}
        name = signals.next() => {
            tracing::warn!(signal = name, "second signal: ending at once");
            // The log's thread writes what it has; there is no order left to keep.
            std::thread::sleep(Duration::from_millis(50));
            std::process::exit(EXIT_INTERRUPTED);
        }
    }
    let _ = tokio::time::timeout(JOIN_GRACE, control).await;
    tracing::info!("stopped");
    Ok(())
}

/// The control side of WebRTC. Its certificate is generated at each start: clients learn it from each answer.
fn rtc_control(settings: &WorkerSettings, workers: &Workers) -> Result<RtcControl, String> {
    let certificate = Certificate::generate();
    let certificate =
        certificate.map_err(|error| format!("no certificate for WebRTC can be made: {error}"))?;
    let applications = settings.applications.clone();
    let parts = RtcParts {
        settings: settings.rtc.clone(),
        endpoints: workers.rtc_endpoints().to_vec(),
        certificate: Arc::new(certificate),
        published: Box::new(workers.published()),
        bridged: Box::new(move |app| settings_for(&applications, app).bridge.enabled),
        allow_origin: settings.cors_allow_origin.clone(),
    };
    RtcControl::new(parts).ok_or_else(|| "the system gives no random bytes".to_owned())
}

/// Lets sources say goodbye, then drains the workers and waits for their threads.
async fn drain(context: &control::Context, workers: Workers, sources: &IngestThread, deadline: Duration) {
    sources.stop(SOURCES_GRACE).await;
    context.workers.drain(deadline);
    let joined = tokio::task::spawn_blocking(move || workers.join());
    if tokio::time::timeout(deadline + JOIN_GRACE, joined).await.is_err() {
        tracing::warn!("a worker did not end by the deadline; ending without it");
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Raises the limit of open files as far as allowed: each session takes one.
fn raise_descriptor_limit(settings: &WorkerSettings) {
    let wanted = (settings.sessions_max * settings.workers) as u64;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let limit = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    if limit < wanted {
        tracing::warn!(
            limit,
            sessions = wanted,
            "fewer open files are allowed than sessions (see ulimit -n)"
        );
    } else {
        tracing::info!(limit, "limit of open files");
    }
}

/// Names the key whose address could not be used, and what to do.
fn explain_start(settings: &WorkerSettings, error: &io::Error) -> String {
    let text = error.to_string();
    let lists = [
        ("rtmp.listen", &settings.rtmp),
        ("rtmps.listen", &settings.rtmps),
        ("http.listen", &settings.http),
        ("https.listen", &settings.https),
        ("rtc.udp_listen", &settings.rtc.udp),
        ("rtc.tcp_listen", &settings.rtc.tcp),
    ];
    // With WebRTC the address that was tried follows the configured one, in parentheses.
    let named = |address: &SocketAddr| {
        text.contains(&format!("{address}:")) || text.contains(&format!("{address} ("))
    };
    let Some((key, _)) = lists.into_iter().find(|(_, addresses)| addresses.iter().any(named)) else {
        return format!("the workers could not start: {text}");
    };
    let flag = key.replace(['.', '_'], "-");
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another program uses it; end that, or choose another with --{flag}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need a privilege; choose another with --{flag}")
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address".to_owned(),
        _ => format!("choose another with --{flag}"),
    };
    format!("`{key}` cannot listen on {text}: {hint}")
}

/// Writes the listening addresses as JSON, all at once, so that a reader never sees half of it.
fn write_ports_file(path: &str, addresses: &ListenAddresses) -> Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    let texts = |list: &[SocketAddr]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let json = serde_json::json!({
        "pid": std::process::id(),
        "rtmp": texts(&addresses.rtmp),
        "rtmps": texts(&addresses.rtmps),
        "http": texts(&addresses.http),
        "https": texts(&addresses.https),
        "rtc_udp": texts(&addresses.rtc_udp),
        "rtc_tcp": texts(&addresses.rtc_tcp),
    });
    let temporary = format!("{path}.{}", std::process::id());
    let written = std::fs::write(&temporary, format!("{json}\n"))
        .and_then(|()| std::fs::rename(&temporary, Path::new(path)));
    written.map_err(|error| format!("`server.ports_file` {path} cannot be written: {error}"))
}

fn print_banner(addresses: &ListenAddresses, context: &control::Context, policy: &worker_api::auth::Policy) {
    use std::io::Write;
    let text = banner::text(addresses, context.workers.count(), context.demo_stream.as_deref(), policy);
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use worker_api::settings::RtcSettings;

    #[test]
    fn start_errors_name_the_key_and_the_remedy() {
        let at = |text: &str| vec![text.parse().expect("an address")];
        let rtc = RtcSettings { udp: at("[::]:8189"), ..RtcSettings::default() };
        let settings = WorkerSettings {
            rtmp: at("[::]:1935"),
            http: at("127.0.0.1:80"),
            rtc,
            ..WorkerSettings::default()
        };
        let cases = [
            (
                io::ErrorKind::AddrInUse,
                "[::]:1935: in use",
                "`rtmp.listen` cannot listen on [::]:1935: in use: another program",
            ),
            (io::ErrorKind::PermissionDenied, "127.0.0.1:80: denied", "--http-listen"),
            (
                io::ErrorKind::AddrInUse,
                "[::]:8189 (192.0.2.1:8190): in use",
                "`rtc.udp_listen` cannot listen on [::]:8189 (192.0.2.1:8190): in use: another program uses it; end \
                 that, or choose another with --rtc-udp-listen",
            ),
            (io::ErrorKind::Other, "no epoll", "the workers could not start: no epoll"),
        ];
        for (kind, text, expected) in cases {
            let explained = explain_start(&settings, &io::Error::new(kind, text));
            assert!(explained.contains(expected), "{explained}");
        }
    }
}
