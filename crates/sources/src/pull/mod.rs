//! Streams of others that this server publishes as its own: HTTP-FLV, HTTPS-FLV, RTMP, RTMPS,
//! RTSP, RTSPS, SRT, HLS, WHEP, and MPEG-TS by UDP.
//!
//! Each is a task on the thread of sources (`ingest`), tried again for ever with growing pauses.
//! URLs are untrusted: schemes are checked in `spec.rs`, addresses where connections are opened.
//! What is configured stays until the end; what was added through the API can be removed there, and
//! is forgotten at a restart.

mod failure;
mod hls;
mod http_flv;
mod http_url;
mod on_demand;
mod rtmp_play;
mod rtsp_play;
mod source;
mod spec;
mod srt;
mod status;
mod task;
mod ts;
mod ts_datagrams;
mod udp;
mod whep;

pub use crate::srt_url::SrtUrl;
pub use hls::HlsUrl;
pub use on_demand::{Demand, OnDemand};
pub use rtsp_play::RtspUrl;
pub use spec::PullSpec;
pub use status::{SRT_EVERY, State, Status};
pub use task::Pull;
pub use ts_datagrams::TsDatagrams;
pub use udp::UdpUrl;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use crate::ingest::Ingest;
use crate::names::{Claim, SourceKind};
use crate::settings::{AddedBy, LiveSettings, SourceSettings};
use crate::thread::IngestThread;

/// Why a pull is not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdded {
    /// The stream has a pull already, or another source of this server.
    Exists(SourceKind),
    /// There are as many as there may be.
    Full,
    /// Its address is not allowed; a sentence.
    Forbidden(String),
}

/// All pulls.
#[derive(Debug)]
pub struct Pulls {
    ingest: Ingest,
    settings: Arc<LiveSettings>,
    running: Mutex<BTreeMap<(String, String), Running>>,
    on_demand: Arc<OnDemand>,
}

#[derive(Debug)]
struct Running {
    pull: Arc<Pull>,
    /// None of a pull that is on demand.
    task: Option<JoinHandle<()>>,
    _claim: Claim,
}

impl Pulls {
    /// None yet. Those on demand are begun by what workers report to `on_demand`.
    pub fn new(ingest: Ingest, settings: Arc<LiveSettings>, on_demand: Arc<OnDemand>) -> Self {
        ingest.spawn(Arc::clone(&on_demand).run(ingest.clone()));
        Self { ingest, settings, running: Mutex::default(), on_demand }
    }

    /// None, and none that is added ever runs.
    pub fn idle(pulls_max: usize) -> Self {
        let thread = IngestThread::start().expect("a thread");
        let workers = worker_api::WorkerHandles::over(0, Box::new(|_, _| Ok(())));
        let settings = SourceSettings { pulls_max, ..SourceSettings::default() };
        let settings = Arc::new(LiveSettings::new(Arc::new(settings)));
        let on_demand = Arc::new(OnDemand::new(Arc::clone(&settings), None));
        Self::new(Ingest::new(workers, &thread, 0), settings, on_demand)
    }

    /// Starts one. Its success or failure shows in its status.
    pub fn add(&self, spec: PullSpec, added_by: AddedBy) -> Result<Arc<Pull>, NotAdded> {
        let settings = self.settings();
        spec.origin.check(added_by, &settings).map_err(NotAdded::Forbidden)?;
        let mut running = self.locked();
        let key = (spec.app.clone(), spec.name.clone());
        if running.len() >= settings.pulls_max && !running.contains_key(&key) {
            return Err(NotAdded::Full);
        }
        let claim = self.ingest.claim(&key.0, &key.1, SourceKind::Pull, added_by.into());
        let claim = claim.map_err(NotAdded::Exists)?;
        self.on_demand.end_begun_by_pattern(&key.0, &key.1);
        let pull = Arc::new(Pull::new(spec, added_by));
        tracing::info!(stream = pull.stream(), url = pull.spec.shown_url(), "pull added");
        let task = if pull.spec.on_demand {
            self.on_demand.add(Arc::clone(&pull));
            None
        } else {
            Some(self.ingest.spawn(task::run(Arc::clone(&pull), self.ingest.clone(), settings)))
        };
        running.insert(key, Running { pull: Arc::clone(&pull), task, _claim: claim });
        Ok(pull)
    }

    /// Ends one, and its publication; answers whether it existed.
    pub fn remove(&self, app: &str, name: &str) -> bool {
        let removed = self.locked().remove(&(app.to_owned(), name.to_owned()));
        let Some(Running { pull, task, .. }) = removed else { return false };
        match task {
            // Everything it has open is dropped with it.
            Some(task) => task.abort(),
            None => self.on_demand.remove(&pull),
        }
        tracing::info!(stream = pull.stream(), "pull removed");
        true
    }

    /// Pulls that were added, with who added them. Not those that were begun by a pattern.
    pub fn added(&self) -> Vec<Arc<Pull>> {
        self.locked().values().map(|running| Arc::clone(&running.pull)).collect()
    }

    /// Ends the pull of `app/name` if a pattern has begun it: something else has claimed the stream.
    pub fn end_begun_by_pattern(&self, app: &str, name: &str) {
        self.on_demand.end_begun_by_pattern(app, name);
    }

    /// Patterns are tried in the order of `specs`, others after them.
    pub fn set_order(&self, specs: &[PullSpec]) {
        self.on_demand.set_order(specs);
    }

    /// What pulls may do.
    pub fn settings(&self) -> Arc<SourceSettings> {
        self.settings.load()
    }

    /// All, by app and name, then those that were begun by a pattern.
    pub fn list(&self) -> Vec<Arc<Pull>> {
        let mut list: Vec<_> = self.locked().values().map(|running| Arc::clone(&running.pull)).collect();
        list.extend(self.on_demand.running());
        list
    }

    /// Wants `app/name` for a client until the result is dropped; `None` if it does not begin on demand.
    pub fn demand(&self, app: &str, name: &str, address: IpAddr) -> Option<Demand> {
        self.on_demand.demand(app, name, address)
    }

    /// One.
    pub fn find(&self, app: &str, name: &str) -> Option<Arc<Pull>> {
        let own =
            self.locked().get(&(app.to_owned(), name.to_owned())).map(|running| Arc::clone(&running.pull));
        let is_it = |pull: &Arc<Pull>| pull.spec.app == app && pull.spec.name == name;
        own.or_else(|| self.on_demand.running().into_iter().find(is_it))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<(String, String), Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
