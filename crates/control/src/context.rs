//! What the handlers share, and what they know of a request's sender.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Instant, SystemTime};

use rtmp::name::NameRules;
use tokio::sync::watch;
use tracing_appender::non_blocking::ErrorCounter;

use crate::cluster::ClusterSource;
pub use crate::recording_files::RecordingFiles;
use crate::reload::Reload;
use crate::rtc::RtcControl;
use crate::stats::StatsControl;
use crate::upgrade::Upgrade;
use ::acme::status::AcmeStatus;
use ::hooks::status::HookStatus;
use ::pushes::Pushes;
use ::recording::Recordings;
use ::segments::Segments;
use ::telemetry::status::TelemetryStatus;
use ::uploads::Uploads;
use ::vod::Library;
use sources::channels::Channels;
use sources::pull::Pulls;
use worker_api::auth::Policy;
use worker_api::live::{Current, Live};
use worker_api::moq::MoqStatus;
use worker_api::viewers::Viewers;
use worker_api::{AddressSlots, ListenAddresses, WorkerHandles};

/// Largest request body but for offers, which may be `rtc::OFFER_BYTES_MAX`.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 10;

/// What the handlers know.
#[derive(Debug)]
pub struct Context {
    /// Sends commands to the workers.
    pub workers: WorkerHandles,
    /// Settings, and who may do what.
    pub current: Arc<Live<Current>>,
    /// Names that applications and streams may have.
    pub names: NameRules,
    /// Where the server listens.
    pub addresses: ListenAddresses,
    /// When it began to, on the clock that does not jump.
    pub started: Instant,
    /// The same on the wall clock.
    pub started_at: SystemTime,
    /// `app/stream` of the demo channel.
    pub demo_stream: Option<String>,
    /// Set once the server is stopping.
    pub draining: watch::Sender<bool>,
    /// Places of HTTP connections that are kept open after an answer.
    pub keep_alive: AddressSlots,
    /// What HTTP has cost.
    pub http: HttpCounters,
    /// Streams with metrics of their own.
    pub metrics_streams_max: AtomicUsize,
    /// Log lines dropped.
    pub log_lines_dropped: Option<ErrorCounter>,
    /// Reload of the configuration.
    pub reload: Reload,
    /// Upgrades of the program.
    pub upgrade: Upgrade,
    /// WHIP and WHEP.
    pub rtc: RtcControl,
    /// Live statistics.
    pub stats: StatsControl,
    /// Virtual channels.
    pub channels: Channels,
    /// Streams of other servers.
    pub pulls: Pulls,
    /// Streams that are sent on to other servers.
    pub pushes: Pushes,
    /// Streams as segments; `None` where that is off.
    pub segments: Option<Segments>,
    /// Recordings; `None` where nothing can be recorded.
    pub recordings: Option<Recordings>,
    /// Recordings that are played and downloaded.
    pub recording_files: RecordingFiles,
    /// Recordings on their way to a store; `None` where they are not sent.
    pub uploads: Option<Uploads>,
    /// Recordings and files to play; `None` where there are none.
    pub vod: Option<Library>,
    /// Who plays them.
    pub vod_viewers: Viewers,
    /// Media over QUIC; `None` where that is off.
    pub moq: Option<Arc<MoqStatus>>,
    /// What hooks have cost; `None` where there are none.
    pub hooks: Option<Arc<HookStatus>>,
    /// How the export of telemetry goes; `None` where nothing is exported.
    pub telemetry: Option<Arc<TelemetryStatus>>,
    /// How orders of certificates go; `None` where there are none.
    pub acme: Option<Arc<AcmeStatus>>,
    /// The cluster this server is a node of.
    pub cluster: Option<Arc<dyn ClusterSource>>,
}

impl Context {
    /// Who may do what, now.
    pub fn policy(&self) -> Arc<Policy> {
        self.current.policy()
    }

    /// Streams that have metrics of their own, now.
    pub(crate) fn metrics_streams_max(&self) -> usize {
        self.metrics_streams_max.load(Ordering::Relaxed)
    }
}

/// What HTTP has cost so far.
#[derive(Debug, Default)]
pub struct HttpCounters {
    /// Requests of HTTP/1.0 and 1.1 that control answered.
    pub http1_requests: AtomicU64,
    /// Those of them that came on a connection which had carried one before.
    pub reused_requests: AtomicU64,
    /// Requests of HTTP/2.
    pub http2_requests: AtomicU64,
    /// Gauge: connections of HTTP/2.
    pub http2_connections: AtomicU64,
    /// Connections closed because their address, or all together, had too many.
    pub refused: AtomicU64,
}

/// Who sent a request, added to each by the connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it came by TLS.
    pub tls: bool,
}
