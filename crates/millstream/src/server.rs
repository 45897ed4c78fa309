//! A server: the workers, the control side and what the server publishes itself, started and stopped in
//! order.
//!
//! Start: the cluster, listeners and workers, control side, sources. Stop: not ready any more, other nodes
//! take no further streams, sources end, workers tell their sessions and drain with a deadline, the
//! cluster is left. `run.rs` does it for a process; [`Server`] for a program that
//! has one within it.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use rtc::dtls::Certificate;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Dispatch;

use ::acme::Acme;
use ::acme::settings::AcmeSettings;

use crate::loader::Loader;
use crate::logging::{self, Logging};
use crate::moq::{Moq, MoqParts};
use crate::reload::{ReloadParts, Reloader};
use crate::supervisor;
use crate::upgrade::{Predecessor, Program, Successor, take_over_sessions};
use config::Config;
use config::error::ConfigError;
use config::resolve::Resolved;
use control::reload::Reload;
use control::rtc::{RtcControl, RtcParts};
use control::stats;
use control::upgrade::{self, Upgrade};
use hooks::settings::HookSettings;
use hooks::{HooksTask, StreamStates};
use nodes::ClusterMembership;
use pushes::{PushSettings, PushesInput, PushesThread};
use recording::names::RecordingName;
use recording::names::encode;
use recording::settings::RecordSettings;
use recording::{Change, Needed, NotStarted, RecordingInput, RecordingThread, Recordings};
use segments::{OnCut, SegmentsInput, SegmentsThread};
use sources::channels::Channels;
use sources::demo;
use sources::key_set;
use sources::pull::{OnDemand, Pulls};
use sources::settings::{AddedBy, LiveSettings};
use sources::{Ingest, IngestThread};
use telemetry::Telemetry;
use uploads::settings::UploadSettings;
use uploads::{UploadInput, Uploads, UploadsThread};
use vod::Library;
use worker::Workers;
use worker_api::auth::Policy;
use worker_api::certificates::CertificateStore;
use worker_api::cluster::Elsewhere;
use worker_api::columns::SNAPSHOTS_MAX;
use worker_api::handoff::HANDOFFS_MAX;
use worker_api::hooks::{Hooks, News};
use worker_api::live::{Current, Live};
use worker_api::publications::{PUBLISHED_MAX, StreamNews, StreamPublished};
use worker_api::settings::{UdpBackend, WorkerSettings};
use worker_api::sockets::BoundSocket;
use worker_api::time::since_1970;
use worker_api::{AddressSlots, ListenAddresses, WorkerHandles};

/// What workers may take beyond their deadline before the process ends without them.
const JOIN_GRACE: Duration = Duration::from_secs(2);
/// Time sources have to say goodbye before workers end what is left.
const SOURCES_GRACE: Duration = Duration::from_millis(200);

/// A server within this process, on threads of its own. Dropping it ends all sessions at once.
///
/// Signals, the limit of open files and standard output stay the program's own. A defect in the server that
/// would leave it half alive ends the process, as it does for the binary.
#[derive(Debug)]
pub struct Server {
    addresses: ListenAddresses,
    /// Takes the time that sessions have to end.
    stop: Option<oneshot::Sender<Duration>>,
    control: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server and returns when it answers; its log goes to `log`. The error says what to do about
    /// it.
    pub fn start(config: Config, log: impl io::Write + Send + 'static) -> Result<Self, String> {
        let resolved = config::resolve::resolve(&config, &|name| std::env::var(name).ok());
        let resolved = resolved
            .map_err(|errors| errors.iter().map(ConfigError::to_string).collect::<Vec<_>>().join("\n"))?;
        let (logging, subscriber) = logging::start(&config.log, log, false);
        let (started, start) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let serve = async move {
            match Running::start(config, resolved, &logging, None, &mut None).await {
                Err(error) => _ = started.send(Err(error)),
                Ok(running) => {
                    // Whoever started it waits for this.
                    let _ = started.send(Ok(running.addresses().clone()));
                    running.stop(stopped.await.unwrap_or_default(), None).await;
                }
            }
            Ok(())
        };
        let control = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let _logging = tracing::dispatcher::set_default(&Dispatch::new(subscriber));
            if let Err(error) = block_on(serve) {
                tracing::error!(error, "not started");
            }
        });
        let control = control.map_err(|error| format!("the control thread could not start: {error}"))?;
        let addresses = start.recv().map_err(|_| "the control runtime could not start".to_owned())??;
        Ok(Self { addresses, stop: Some(stop), control: Some(control) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &ListenAddresses {
        &self.addresses
    }

    /// Ends it as a signal ends the binary; sessions have until `deadline` to end by themselves.
    pub fn stop(mut self, deadline: Duration) {
        self.stop_now(deadline);
    }

    fn stop_now(&mut self, deadline: Duration) {
        if let Some(stop) = self.stop.take() {
            // It has ended already if nobody takes this.
            let _ = stop.send(deadline);
        }
        if let Some(control) = self.control.take() {
            // One that panicked has said so.
            let _ = control.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_now(Duration::ZERO);
    }
}

/// Runs the control side's task to its end.
pub(crate) fn block_on(serve: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    // One thread: what is not media is little, and one thread cannot take more than one core from the
    // workers.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("the control runtime could not start: {error}"))?;
    let result = runtime.block_on(serve);
    // Not by dropping it: that would wait for a worker that does not end.
    runtime.shutdown_background();
    result
}

/// The parts of a server that runs.
pub(crate) struct Running {
    context: Arc<control::Context>,
    workers: Workers,
    sources: IngestThread,
    segments: Option<SegmentsThread>,
    pushes: PushesThread,
    moq: Moq,
    recordings: Option<RecordingThread>,
    uploads: Option<UploadsThread>,
    hooks: Option<HooksTask>,
    telemetry: Option<Telemetry>,
    acme: Option<Acme>,
    membership: Option<ClusterMembership>,
    control: tokio::task::JoinHandle<()>,
    reloader: tokio::task::JoinHandle<()>,
    upgrades: Receiver<upgrade::Request>,
    drain_seconds: Arc<AtomicU64>,
}

impl Running {
    /// Starts everything; the server answers when this returns. `loader` reads the configuration again. What
    /// `predecessor` serves is served by this one then.
    pub(crate) async fn start(
        config: Config,
        resolved: Resolved,
        logging: &Logging,
        loader: Option<Loader>,
        predecessor: &mut Option<Predecessor>,
    ) -> Result<Self, String> {
        let Resolved {
            worker: settings,
            certificates,
            acme,
            policy,
            signed,
            demo,
            sources,
            pulls,
            push_limits,
            pushes,
            channels,
            record,
            upload,
            vod,
            moq,
            hooks,
            telemetry,
            cluster,
        } = resolved;
        // Before the workers, which ask it what other nodes publish.
        let membership = match cluster {
            Some(settings) => Some(ClusterMembership::start(settings).await?),
            None => None,
        };
        let (hooks, recorded_by_hooks) = hooks_task(hooks)?;
        let policy = Policy { hooks: hooks.as_ref().map(HooksTask::hooks), ..policy };
        let asked = policy.hooks.clone();
        // Before anybody connects.
        use_stored(acme.as_ref(), certificates.as_deref());
        let telemetry = telemetry.map(Telemetry::start).transpose();
        let mut telemetry = telemetry.map_err(|error| format!("telemetry: {error}"))?;
        let settings = WorkerSettings { traces: telemetry.as_ref().map(Telemetry::traces), ..settings };
        let current = Current { settings: Arc::new(settings), policy: Arc::new(policy) };
        let settings = Arc::clone(&current.settings);
        let (current, sources) = (Arc::new(Live::new(current)), Arc::new(sources));
        let push_settings = PushSettings { sources: Arc::clone(&sources), ..push_limits };
        let of_keys = Arc::clone(&sources);
        let sources = Arc::new(LiveSettings::new(sources));
        let cluster = membership.as_ref().map(ClusterMembership::elsewhere);
        let on_demand = Arc::new(OnDemand::new(Arc::clone(&sources), cluster));
        let elsewhere: Arc<dyn Elsewhere> = Arc::clone(&on_demand) as _;
        let elsewhere = match &asked {
            Some(hooks) => Arc::new(StreamStates::new(hooks.clone(), elsewhere)),
            None => elsewhere,
        };
        let (sender, handoffs) = mpsc::channel(HANDOFFS_MAX);
        let (notices, noticed) = mpsc::unbounded_channel();
        let (stats, snapshots) = mpsc::channel(SNAPSHOTS_MAX * settings.workers);
        let (total_max, per_address_max) = settings.keep_alive.places();
        let keep_alive = AddressSlots::new(total_max, per_address_max);
        let inherited = match (predecessor.as_mut(), &loader) {
            (Some(predecessor), _) => predecessor.take_sockets(),
            (None, Some(_)) => supervisor::sockets(&settings),
            // Part of a program, whose sockets are its own.
            (None, None) => Vec::new(),
        };
        let live = Arc::clone(&current);
        let starting =
            Workers::prepare(live, &keep_alive, sender, notices, stats, Some(elsewhere), inherited)
                .map_err(|error| explain_start(&settings, &error))?;
        if let Some(predecessor) = predecessor {
            predecessor.take_over()?;
        }
        let threads = |error| format!("the workers could not start: {error}");
        let has_taken_over = predecessor.is_some();
        let starting = match predecessor.as_ref() {
            Some(predecessor) => starting.before_sessions(predecessor.sessions()),
            None => starting,
        };
        let mut workers = starting.serve().map_err(threads)?;
        let mut urls = Vec::new();
        if let Some(old) = predecessor.take() {
            let predecessor;
            (predecessor, urls) = take_over_sessions(workers.handles(), old).await?;
            // Directories of recordings and uploads are its own until then.
            let finished = tokio::task::spawn_blocking(move || predecessor.wait_until_finished());
            let _ = finished.await;
        }
        let rtc = rtc_control(&current, &workers)?;
        rtc.resume(urls);
        control::memory::watch(workers.memory());
        let ([to_recordings, to_pushes], to_moq) = share_news(&mut workers);
        let files = recording_threads(record, upload, &mut workers, to_recordings);
        let (recordings, uploads) = or_without(files, has_taken_over)?;
        if let (Some(hooks), Some(recordings)) = (&asked, &recordings) {
            tokio::spawn(report_recordings(recordings.recordings(), hooks.clone()));
        }
        tokio::spawn(record_for_hooks(
            recorded_by_hooks,
            recordings.as_ref().map(RecordingThread::recordings),
        ));
        let segments = segments_thread(&settings, &mut workers, uploads.as_ref().map(UploadsThread::uploads));
        let segments = or_without(segments, has_taken_over)?;
        let pushes_thread = pushes_thread(push_settings, &workers, to_pushes)?;
        let parts = MoqParts { workers: &workers, settings: &settings, current: &current, news: to_moq };
        let moq = or_without(Moq::start(moq, parts), has_taken_over)?;
        let sources_thread = IngestThread::start()
            .map_err(|error| format!("the thread of sources could not start: {error}"))?;
        let handles = WorkerHandles::new(workers.handles().to_vec());
        let ingest = Ingest::new(handles, &sources_thread, settings.message_bytes_max);
        let (collector, stats) = stats::collect(workers.used_stats());
        tokio::spawn(collector.run(snapshots));
        #[expect(clippy::disallowed_methods, reason = "the start of the server, read once")]
        let (started, started_at) = (Instant::now(), SystemTime::now());
        // Challenges that come before the control side serves wait for it.
        let acme = match (acme, &certificates) {
            (Some(settings), Some(store)) => {
                let started = Acme::start(settings, Arc::clone(store));
                Some(started.map_err(|error| format!("certificates cannot be ordered: {error}"))?)
            }
            _ => None,
        };
        let (reload, requests) = Reload::new(certificates, since_1970().as_secs());
        let (upgrade, upgrades) = match loader {
            Some(_) => Upgrade::new(),
            None => (Upgrade::never(), mpsc::channel(1).1),
        };
        let context = Arc::new(control::Context {
            workers: WorkerHandles::new(workers.handles().to_vec()),
            current,
            names: settings.names.clone(),
            addresses: ListenAddresses {
                moq: moq.addresses(),
                nodes: membership
                    .as_ref()
                    .map(|membership| membership.addresses().to_vec())
                    .unwrap_or_default(),
                ..workers.addresses().clone()
            },
            started,
            started_at,
            demo_stream: demo.as_ref().map(|(app, stream)| format!("{app}/{stream}")),
            draining: watch::Sender::new(false),
            keep_alive,
            http: control::HttpCounters::default(),
            metrics_streams_max: usize::try_from(config.metrics.streams_max).unwrap_or(0).into(),
            log_lines_dropped: Some(logging.dropped.clone()),
            reload,
            upgrade,
            rtc,
            stats,
            pulls: Pulls::new(ingest.clone(), Arc::clone(&sources), on_demand),
            pushes: pushes_thread.pushes(),
            channels: Channels::new(ingest.clone(), Arc::clone(&sources)),
            segments: segments.as_ref().map(SegmentsThread::segments),
            recording_files: control::RecordingFiles::new(),
            recordings: recordings.as_ref().map(RecordingThread::recordings),
            uploads: uploads.as_ref().map(UploadsThread::uploads),
            vod: vod.map(|vod| Library::new(vod, recordings.as_ref().map(RecordingThread::recordings))),
            vod_viewers: Default::default(),
            moq: moq.status(),
            hooks: hooks.as_ref().map(HooksTask::status),
            telemetry: telemetry.as_ref().map(Telemetry::status),
            acme: acme.as_ref().map(Acme::status),
            cluster: membership.as_ref().map(ClusterMembership::view),
        });
        if let Some(telemetry) = &mut telemetry {
            let of_metrics = Arc::clone(&context);
            telemetry.export_metrics(move || {
                let context = Arc::clone(&of_metrics);
                async { control::metrics_text(context).await.ok() }
            });
        }
        let of_notices = Arc::clone(&context);
        tokio::spawn(async move { of_notices.rtc.take_notices(noticed).await });
        let control = tokio::spawn(control::serve(Arc::clone(&context), handoffs));
        if !context.workers.all_answer().await {
            let reason = "a worker does not answer after its start";
            if !has_taken_over {
                return Err(reason.to_owned());
            }
            // It has sessions, which no other server has any more.
            tracing::error!(reason);
        }
        if let Some(membership) = &membership {
            let handles = WorkerHandles::new(workers.handles().to_vec());
            membership.serve(handles, workers.addresses().relay).await;
        }
        tracing::info!(workers = settings.workers, version = env!("CARGO_PKG_VERSION"), "started");
        for spec in pulls {
            // Each stream once, and not too many: the configuration was checked.
            let _ = context.pulls.add(spec, AddedBy::Configuration);
        }
        for spec in pushes {
            let _ = context.pushes.add(spec, AddedBy::Configuration);
        }
        for spec in channels {
            let _ = context.channels.add(spec, AddedBy::Configuration);
        }
        let key_set =
            signed.map(|(verifier, keys)| ingest.spawn(key_set::keep_up_to_date(verifier, keys, of_keys)));
        if let Some((app, stream)) = demo {
            ingest.spawn(demo::run(ingest.clone(), app, stream));
        }
        let drain_seconds = Arc::new(AtomicU64::new(config.shutdown.drain_seconds.unsigned_abs()));
        let parts = ReloadParts {
            loader,
            context: Arc::clone(&context),
            ingest,
            sources,
            logging: logging.live.clone(),
            key_set,
            drain_seconds: Arc::clone(&drain_seconds),
        };
        let reloader = tokio::spawn(Reloader::new(config, parts).run(requests));
        let sources = sources_thread;
        let pushes = pushes_thread;
        Ok(Self {
            context,
            workers,
            sources,
            segments,
            pushes,
            moq,
            recordings,
            uploads,
            hooks,
            telemetry,
            acme,
            membership,
            control,
            reloader,
            upgrades,
            drain_seconds,
        })
    }

    /// All that want another process to take over now; waits for the first.
    pub(crate) async fn next_upgrades(&mut self) -> Vec<upgrade::Request> {
        loop {
            let Some(first) = self.upgrades.recv().await else { return std::future::pending().await };
            let waiting = std::iter::once(first).chain(std::iter::from_fn(|| self.upgrades.try_recv().ok()));
            // A client that has gone wants nothing any more.
            let waiting: Vec<_> = waiting.filter(|request| !request.is_closed()).collect();
            if !waiting.is_empty() {
                return waiting;
            }
        }
    }

    /// Starts the program again and waits until it is prepared to take over. The error says why it is not;
    /// then nothing has changed.
    pub(crate) async fn start_successor(&self, program: Program) -> Result<Successor, String> {
        if self.membership.is_some() {
            return Err(
                "a node of a cluster is upgraded by draining it: stop it, and start it again".to_owned()
            );
        }
        if !self.moq.addresses().is_empty() {
            return Err("MoQ's port cannot be handed over: stop the server, and start it again".to_owned());
        }
        let settings = self.context.current.settings();
        let backends = [settings.rtc.udp_backend, settings.srt.udp_backend, settings.rtsp.udp_backend];
        if backends.contains(&UdpBackend::AfXdp) {
            return Err(
                "AF_XDP's queue cannot be handed over: stop the server, and start it again".to_owned()
            );
        }
        let sockets =
            self.workers.sockets().iter().map(BoundSocket::try_clone).collect::<io::Result<Vec<_>>>();
        let sockets = sockets.map_err(|error| format!("sockets cannot be handed over: {error}"))?;
        let sessions = self.context.rtc.sessions();
        let started = tokio::task::spawn_blocking(move || Successor::start(&program, &sockets, sessions));
        let started = started.await;
        started.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// How long sessions have to end when the server stops, as the configuration says now.
    pub(crate) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.load(Ordering::Relaxed))
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &ListenAddresses {
        &self.context.addresses
    }

    /// What the control side knows.
    pub(crate) fn context(&self) -> &Arc<control::Context> {
        &self.context
    }

    /// Lets sources say goodbye, then drains the workers and waits for their threads. Where another server
    /// serves at the same addresses already, files are closed at the same time: it waits for their
    /// directories.
    pub(crate) async fn stop(self, deadline: Duration, successor: Option<Successor>) {
        let Self {
            context,
            workers,
            sources,
            segments,
            pushes,
            moq,
            recordings,
            uploads,
            hooks,
            telemetry,
            acme,
            membership,
            control,
            reloader,
            upgrades: _,
            drain_seconds: _,
        } = self;
        // Before anything ends: nothing may begin any more.
        reloader.abort();
        if let Some(acme) = acme {
            acme.stop();
        }
        context.draining.send_replace(true);
        if let Some(membership) = &membership {
            membership.drain().await;
        }
        sources.stop(SOURCES_GRACE).await;
        let files = close_files(pushes, moq, recordings, uploads);
        match successor {
            None => {
                drain_workers(&context, workers, deadline).await;
                // With all that was published.
                files.await;
            }
            Some(mut successor) => {
                let files = async {
                    files.await;
                    let finished = tokio::task::spawn_blocking(move || {
                        drop(segments);
                        successor.finished();
                    });
                    // What failed is logged there.
                    let _ = finished.await;
                };
                tokio::join!(files, drain_workers(&context, workers, deadline));
            }
        }
        if let Some(hooks) = hooks {
            // With the ends of all sessions and recordings.
            hooks.stop().await;
        }
        if let Some(telemetry) = telemetry {
            // With the ends of all sessions.
            telemetry.stop().await;
        }
        if let Some(membership) = membership {
            membership.leave().await;
        }
        let _ = tokio::time::timeout(JOIN_GRACE, control).await;
    }
}

/// Ends all sessions, and the workers' threads.
async fn drain_workers(context: &control::Context, mut workers: Workers, deadline: Duration) {
    // Who connects from now on is refused, or is another server's.
    workers.forget_sockets();
    context.workers.drain(deadline);
    let joined = tokio::task::spawn_blocking(move || workers.join());
    if tokio::time::timeout(deadline + JOIN_GRACE, joined).await.is_err() {
        tracing::warn!("a worker did not end by the deadline; ending without it");
    }
}

/// Ends what reads streams; recordings are complete and uploads closed when this returns.
async fn close_files(
    pushes: PushesThread,
    moq: Moq,
    recordings: Option<RecordingThread>,
    uploads: Option<UploadsThread>,
) {
    pushes.stop().await;
    moq.stop().await;
    if let Some(recordings) = recordings {
        recordings.stop().await;
    }
    if let Some(uploads) = uploads {
        // What is on its way goes on at the next start.
        let _ = tokio::task::spawn_blocking(move || uploads.stop()).await;
    }
}

/// A part that cannot start ends the start of a server, but not one that has taken over: there is no other
/// to go back to.
fn or_without<T: Default>(part: Result<T, String>, has_taken_over: bool) -> Result<T, String> {
    match part {
        Err(reason) if has_taken_over => {
            tracing::error!(reason, "a part of the server is not there until it is started again");
            Ok(T::default())
        }
        part => part,
    }
}

/// What earlier orders of certificates have left on disk is used at once.
fn use_stored(acme: Option<&AcmeSettings>, store: Option<&CertificateStore>) {
    let (Some(acme), Some(store)) = (acme, store) else { return };
    let stored = ::acme::stored(acme);
    if stored.len() < acme.orders.len() {
        let used: Vec<_> = store.configured().iter().map(|certificate| certificate.source.clone()).collect();
        tracing::warn!(
            missing = acme.orders.len() - stored.len(),
            ?used,
            "certificates of `acme.domains` are not there yet: clients see others until they are issued"
        );
    }
    store.set_issued(stored);
}

/// The operator's hooks, if there are some, and the streams that are to be recorded as they say.
fn hooks_task(settings: Option<HookSettings>) -> Result<(Option<HooksTask>, Receiver<Arc<str>>), String> {
    let (record, recorded) = mpsc::channel(PUBLISHED_MAX);
    let task = settings.map(|settings| HooksTask::start(settings, record));
    let task = task.transpose().map_err(|error| format!("hooks: {error}"))?;
    Ok((task, recorded))
}

/// Records the streams that hooks say are recorded.
async fn record_for_hooks(mut streams: Receiver<Arc<str>>, recordings: Option<Recordings>) {
    while let Some(key) = streams.recv().await {
        let (app, name) = key.rsplit_once('/').unwrap_or_default();
        let started = match &recordings {
            Some(recordings) => recordings.start(app, name).await,
            None => Err(NotStarted::NoDirectory),
        };
        // By a rule of the configuration, perhaps.
        if let Err(reason) = started.or_else(|reason| match reason {
            NotStarted::Exists => Ok(()),
            other => Err(other),
        }) {
            tracing::warn!(stream = %key, ?reason, "not recorded, though a hook says so");
        }
    }
}

/// Reports recordings that begin and are complete.
async fn report_recordings(recordings: Recordings, hooks: Hooks) {
    let mut events = recordings.subscribe();
    // Not keeping them alive.
    drop(recordings);
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "a hook has missed events of recordings: too many change at once");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        let state = match event.change {
            Change::Begun => "begun",
            Change::Completed => "complete",
            Change::Removed => continue,
        };
        let (app, stream) = event.name.stream_name();
        hooks.report(News::Recording {
            key: format!("{app}/{stream}").into(),
            file: event.name.path().display().to_string(),
            directory: event.directory.display().to_string(),
            state,
        });
    }
}

/// The thread that cuts streams into segments, unless that is off.
fn segments_thread(
    settings: &WorkerSettings,
    workers: &mut Workers,
    uploads: Option<Uploads>,
) -> Result<Option<SegmentsThread>, String> {
    let (Some(segments), Some(end)) = (settings.segments.clone(), workers.take_segments()) else {
        return Ok(None);
    };
    let input = SegmentsInput {
        settings: segments,
        workers: WorkerHandles::new(workers.handles().to_vec()),
        home: Box::new(workers.home()),
        end,
        cut: uploads.map(|uploads| -> Box<OnCut> {
            Box::new(move |app, name, views| {
                let folder = format!("{}/{}", encode(app), encode(name));
                uploads.mirror(app, name, folder, views);
            })
        }),
    };
    let thread = SegmentsThread::start(input);
    thread.map(Some).map_err(|error| format!("the thread of segments could not start: {error}"))
}

/// Streams that begin to be published, for recordings and pushes, and all news of streams, for MoQ.
fn share_news(workers: &mut Workers) -> ([Receiver<StreamPublished>; 2], Receiver<StreamNews>) {
    let (recordings, to_recordings) = mpsc::channel(PUBLISHED_MAX);
    let (pushes, to_pushes) = mpsc::channel(PUBLISHED_MAX);
    let (moq, to_moq) = mpsc::channel(PUBLISHED_MAX);
    if let Some(mut of_workers) = workers.take_news() {
        tokio::spawn(async move {
            while let Some(news) = of_workers.recv().await {
                if let StreamNews::Published(stream) = &news {
                    for (listener, whose) in [(&recordings, "recordings"), (&pushes, "pushes")] {
                        // One that has gone does not want to know.
                        if let Err(TrySendError::Full(stream)) = listener.try_send(stream.clone()) {
                            tracing::warn!(stream = %stream.key, whose, "news of a stream found no room");
                        }
                    }
                }
                if let Err(TrySendError::Full(news)) = moq.try_send(news) {
                    tracing::warn!(stream = %news.key(), whose = "MoQ", "news of a stream found no room");
                }
            }
        });
    }
    ([to_recordings, to_pushes], to_moq)
}

/// The thread that sends streams on to other servers.
fn pushes_thread(
    settings: PushSettings,
    workers: &Workers,
    published: Receiver<StreamPublished>,
) -> Result<PushesThread, String> {
    let addresses = workers.addresses();
    let listeners = [
        &addresses.rtmp,
        &addresses.rtmps,
        &addresses.rtsp,
        &addresses.rtsps,
        &addresses.srt,
        &addresses.http,
        &addresses.https,
    ];
    let listeners = listeners.into_iter().flatten();
    let input = PushesInput {
        settings,
        workers: WorkerHandles::new(workers.handles().to_vec()),
        home: Box::new(workers.home()),
        published,
        own_ports: listeners.map(SocketAddr::port).collect(),
    };
    PushesThread::start(input).map_err(|error| format!("the thread of pushes could not start: {error}"))
}

/// The threads of recordings and of their uploads, unless nothing can be recorded.
fn recording_threads(
    record: Option<RecordSettings>,
    upload: Option<UploadSettings>,
    workers: &mut Workers,
    published: Receiver<StreamPublished>,
) -> Result<(Option<RecordingThread>, Option<UploadsThread>), String> {
    // Uploads come first: no recording is removed for its age before they say what they need.
    let (later, recordings) = watch::channel(None);
    let uploads = upload.map(|upload| uploads_thread(upload, record.as_ref(), recordings));
    let uploads = uploads.transpose()?;
    // Dropped with the news where nothing is recorded.
    let Some(settings) = record else { return Ok((None, uploads)) };
    let needed = uploads.as_ref().map(|thread| {
        let uploads = thread.uploads();
        Needed(Arc::new(move |path| uploads.is_followed(path) && !uploads.is_confirmed(path)))
    });
    let handles = WorkerHandles::new(workers.handles().to_vec());
    let home = Box::new(workers.home());
    let needed = needed.unwrap_or_default();
    let thread =
        RecordingThread::start(RecordingInput { settings, workers: handles, home, published, needed })?;
    if let Some(uploads) = &uploads {
        tokio::spawn(announce(thread.recordings(), uploads.uploads()));
    }
    // Nobody listens where nothing is uploaded.
    let _ = later.send(Some(thread.recordings()));
    Ok((Some(thread), uploads))
}

fn uploads_thread(
    settings: UploadSettings,
    record: Option<&RecordSettings>,
    recordings: watch::Receiver<Option<Recordings>>,
) -> Result<UploadsThread, String> {
    let recorded = record.into_iter().flat_map(|record| record.files());
    let directories: BTreeSet<PathBuf> = recorded.map(|files| files.directory.clone()).collect();
    let runtime = tokio::runtime::Handle::current();
    let remove = Box::new(move |path: &Path| {
        let (mut recordings, path) = (recordings.clone(), path.to_owned());
        runtime.spawn(async move {
            // They start right behind; if they do not, nothing is removed.
            let started = recordings.wait_for(Option::is_some).await;
            let Some(recordings) = started.ok().and_then(|recordings| recordings.clone()) else { return };
            let is_it = |directory: &Path, name: &RecordingName| directory.join(name.path()) == path;
            let found = recordings.list().into_iter().find(|(directory, name, _)| is_it(directory, name));
            if let Some((directory, name, _)) = found {
                recordings.remove(&directory, &name).await;
            }
        });
    });
    UploadsThread::start(UploadInput { settings, directories: directories.into_iter().collect(), remove })
}

/// Says which recordings are complete.
async fn announce(recordings: Recordings, uploads: Uploads) {
    let mut events = recordings.subscribe();
    // Not keeping them alive.
    drop(recordings);
    loop {
        match events.recv().await {
            Ok(event) if event.change == Change::Completed => {
                uploads.completed(&event.directory.join(event.name.path()));
            }
            // The next scan finds what was missed.
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

/// The control side of WebRTC. Its certificate is generated at each start: clients learn it from each answer.
fn rtc_control(current: &Arc<Live<Current>>, workers: &Workers) -> Result<RtcControl, String> {
    let certificate = Certificate::generate();
    let certificate =
        certificate.map_err(|error| format!("no certificate for WebRTC can be made: {error}"))?;
    let parts = RtcParts {
        current: Arc::clone(current),
        endpoints: workers.rtc_endpoints().to_vec(),
        certificate: Arc::new(certificate),
        published: Box::new(workers.published()),
        home: Box::new(workers.home()),
        redirect: Box::new(workers.redirect()),
        overload: Box::new(workers.overload()),
    };
    RtcControl::new(parts).ok_or_else(|| "the system gives no random bytes".to_owned())
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
        ("srt.listen", &settings.srt.listen),
        ("rtsp.listen", &settings.rtsp.listen),
        ("rtsps.listen", &settings.rtsp.tls_listen),
        ("rtsp.udp_listen", &settings.rtsp.udp),
    ];
    // With WebRTC, SRT and RTP the address that was tried follows the configured one, in parentheses.
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
