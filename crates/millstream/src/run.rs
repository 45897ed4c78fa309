//! Serves as a process does: with a log on standard error, and until a signal.
//!
//! SIGTERM or SIGINT drains the server; a second one ends the process at once. SIGHUP reloads the
//! configuration, SIGUSR2 has another process take over.

use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::util::SubscriberInitExt;

use crate::banner;
use crate::loader::Loader;
use crate::logging::{self, Logging};
use crate::server::{Running, block_on};
use crate::supervisor;
use crate::upgrade::{Predecessor, Program, Successor};
use config::Config;
use config::resolve::Resolved;
use control::upgrade::{self, Upgraded};
use worker_api::ListenAddresses;
use worker_api::settings::WorkerSettings;
use worker_api::snapshot::SessionId;

/// How long the sessions of this server have to end. They find their streams at the new one.
const HANDED_OVER_DRAIN: Duration = Duration::from_secs(2);
/// How long nobody is accepted, unless the new server fails: longer than this one goes on.
const HOLD: Duration = Duration::from_secs(3600);
/// How often connections are looked at that are about to say what they want.
const SETTLE_ROUND: Duration = Duration::from_millis(10);
/// How long those are waited for.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(250);
/// Exit code after a second signal.
const EXIT_INTERRUPTED: i32 = 130;

/// Runs until a signal ends it. The error says what to do about it.
pub(crate) fn run(config: Config, resolved: Resolved, loader: Loader) -> Result<(), String> {
    let (logging, subscriber) = logging::start(&config.log, io::stderr(), io::stderr().is_terminal());
    subscriber.init();
    let result = Predecessor::of_environment()
        .and_then(|predecessor| block_on(serve(config, resolved, &logging, loader, predecessor)));
    drop(logging);
    result
}

async fn serve(
    config: Config,
    resolved: Resolved,
    logging: &Logging,
    loader: Loader,
    mut predecessor: Option<Predecessor>,
) -> Result<(), String> {
    let failed = |error| format!("signals cannot be received: {error}");
    let mut signals = Signals::listen().map_err(failed)?;
    // From now on they do not end the process; those that come during the start are answered after it.
    let mut others = OtherSignals::listen().map_err(failed)?;
    raise_descriptor_limit(&resolved.worker);
    let ports_file = config.server.ports_file.clone();
    let has_taken_over = predecessor.is_some();
    let started = Running::start(config, resolved, logging, Some(loader), &mut predecessor).await;
    if let (Err(reason), Some(predecessor)) = (&started, &mut predecessor) {
        predecessor.failed(reason);
    }
    let mut running = started?;
    print_banner(running.context());
    match write_ports_file(&ports_file, running.addresses()) {
        // There is no server to go back to.
        Err(reason) if has_taken_over => tracing::error!(reason),
        written => written?,
    }
    supervisor::ready();

    let context = Arc::clone(running.context());
    let answer_others = others.serve(&context);
    tokio::pin!(answer_others);
    let signal = loop {
        let waiting = tokio::select! {
            signal = signals.next() => break signal,
            waiting = running.next_upgrades() => waiting,
            never = &mut answer_others => match never {},
        };
        tracing::info!("another server is started, to take over");
        let started = tokio::select! {
            // The new one notices that this one says nothing more, and ends.
            signal = signals.next() => break signal,
            started = running.start_successor(Program::own()) => started,
            never = &mut answer_others => match never {},
        };
        // From now on it is decided soon which of the two has the sessions; a signal is for that one.
        let (decided, signal) = {
            let decided = async { hand_over(&running, started?).await };
            tokio::pin!(decided);
            let mut signal = None;
            loop {
                tokio::select! {
                    decided = &mut decided => break (decided, signal),
                    first = signals.next(), if signal.is_none() => signal = Some(first),
                    never = &mut answer_others => match never {},
                }
            }
        };
        match decided {
            Ok(successor) => {
                let (pid, release) = (successor.pid(), successor.release().to_owned());
                tracing::info!(pid, release, "another server has taken over; this one ends");
                supervisor::replaced_by(pid);
                if let Some(signal) = signal {
                    tracing::info!(signal, pid, "the signal is passed on");
                    successor.terminate();
                }
                let upgraded = Upgraded { pid, release };
                answer(waiting, &Ok(upgraded));
                let deadline = running.drain().min(HANDED_OVER_DRAIN);
                stop(running.stop(deadline, Some(successor)), &mut signals).await;
                return Ok(());
            }
            Err(reason) => {
                tracing::error!(reason, "no other server has taken over; this one serves as before");
                answer(waiting, &Err(reason));
                if let Some(signal) = signal {
                    break signal;
                }
            }
        }
    };
    let deadline = running.drain();
    supervisor::stopping();
    tracing::info!(signal, seconds = deadline.as_secs(), "stopping: sessions are notified and drained");
    stop(running.stop(deadline, None), &mut signals).await;
    Ok(())
}

/// Has another server that is prepared take over. The error says why it does not; this one goes on then.
async fn hand_over(running: &Running, mut successor: Successor) -> Result<Successor, String> {
    // Clients that have connected here are answered here; others wait in the kernel.
    let workers = &running.context().workers;
    let settled = async {
        while workers.hold(HOLD, false).await.is_ok_and(|undecided| undecided > 0) {
            tokio::time::sleep(SETTLE_ROUND).await;
        }
    };
    let _ = tokio::time::timeout(SETTLE_TIMEOUT, settled).await;
    let urls = running.context().rtc.hand_over();
    // Datagrams only now: media waits, too.
    let _ = workers.hold(HOLD, true).await;
    for _ in 0..3 {
        // What a worker has for another one has arrived after two turns; the one before takes the last
        // transcoded audio.
        let _ = workers.hold(HOLD, true).await;
    }
    let mut sessions = workers.hand_over().await;
    if !successor.takes_ice_tcp() {
        sessions.drop_sessions_by_tcp();
    }
    sessions.drop_players_without_bridge();
    let begun = tokio::task::spawn_blocking(move || {
        let taken = successor.go(&sessions, &urls)?;
        Ok((successor, taken))
    });
    let begun = match begun.await.unwrap_or_else(|error| Err(error.to_string())) {
        Ok((mut successor, taken)) => {
            // Those that the other one has end here without a word, the others as at a stop.
            let ended = workers.let_go(taken.into()).await;
            successor.let_go(ended).map(|()| successor)
        }
        Err(reason) => Err(reason),
    };
    if begun.is_err() {
        let nothing: [SessionId; 0] = [];
        workers.let_go(nothing.into()).await;
        // It ends by itself if a worker does not answer.
        let _ = workers.hold(Duration::ZERO, false).await;
    }
    begun
}

/// Answers those who have asked and are still there.
fn answer(waiting: Vec<upgrade::Request>, answer: &upgrade::Answer) {
    for request in waiting {
        let _ = request.send(answer.clone());
    }
}

/// Waits for the end of the server, unless a signal says not to.
async fn stop(stopped: impl Future<Output = ()>, signals: &mut Signals) {
    tokio::select! {
        () = stopped => tracing::info!("stopped"),
        signal = signals.next() => {
            tracing::warn!(signal, "second signal: ending at once");
            // The log's thread writes what it has; there is no order left to keep.
            std::thread::sleep(Duration::from_millis(50));
            std::process::exit(EXIT_INTERRUPTED);
        }
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

/// SIGHUP and SIGUSR2.
struct OtherSignals {
    hang_up: Signal,
    user: Signal,
}

impl OtherSignals {
    fn listen() -> io::Result<Self> {
        Ok(Self { hang_up: signal(SignalKind::hangup())?, user: signal(SignalKind::user_defined2())? })
    }

    /// Does what they ask for. Any number of SIGHUP that come during a reload are one more.
    async fn serve(&mut self, context: &Arc<control::Context>) -> Infallible {
        loop {
            tokio::select! {
                _ = self.hang_up.recv() => {
                    tracing::info!(signal = "SIGHUP", "reloading the configuration");
                    // What comes of it is logged where it is done.
                    if let Err(reason) = context.reload.ask().await {
                        tracing::warn!(?reason, "configuration not reloaded");
                    }
                }
                _ = self.user.recv() => {
                    let context = Arc::clone(context);
                    // Not here: a reload may be asked for meanwhile. What comes of it is logged where it is done.
                    tokio::spawn(async move {
                        if let Err(reason) = context.upgrade.ask().await {
                            tracing::warn!(?reason, "no upgrade");
                        }
                    });
                }
            }
        }
    }
}

/// Raises the limit of open files as far as allowed: each session takes one, and each idle HTTP connection.
fn raise_descriptor_limit(settings: &WorkerSettings) {
    let wanted = (settings.sessions_max * settings.workers + settings.keep_alive.connections_max) as u64;
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
        "srt": texts(&addresses.srt),
        "rtsp": texts(&addresses.rtsp),
        "rtsps": texts(&addresses.rtsps),
        "rtsp_udp": texts(&addresses.rtsp_udp),
        "moq": texts(&addresses.moq),
        "nodes": texts(&addresses.nodes),
    });
    let temporary = format!("{path}.{}", std::process::id());
    let written = std::fs::write(&temporary, format!("{json}\n"))
        .and_then(|()| std::fs::rename(&temporary, Path::new(path)));
    written.map_err(|error| format!("`server.ports_file` {path} cannot be written: {error}"))
}

fn print_banner(context: &control::Context) {
    let control::Context { addresses, workers, demo_stream, segments, vod, moq, .. } = context;
    let serves = control::Serves { segments: segments.is_some(), on_demand: vod.is_some() };
    let mut text =
        banner::text(addresses, workers.count(), demo_stream.as_deref(), &context.policy(), serves);
    let hash = moq.as_ref().and_then(|moq| moq.certificate_hash());
    text.push_str(&banner::moq(&addresses.moq, hash.as_deref()));
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
