//! Streams of others that this server publishes as its own: HTTP-FLV, HTTPS-FLV, RTMP, RTMPS,
//! SRT, and MPEG-TS by UDP.
//!
//! Each is a task on the thread of sources (`ingest`), tried again for ever with growing pauses.
//! URLs are untrusted: schemes are checked in `spec.rs`, addresses where connections are opened.
//! What is configured stays until the end; what was added through the API can be removed there, and
//! is forgotten at a restart.

mod http_flv;
mod rtmp_play;
mod source;
mod spec;
mod srt;
mod status;
mod task;
mod ts;
mod udp;

pub use crate::srt_url::SrtUrl;
pub use spec::PullSpec;
pub use status::{State, Status};
pub use task::Pull;
pub use udp::UdpUrl;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinHandle;

use crate::ingest::Ingest;
use crate::names::{Claim, SourceKind};
use crate::settings::{AddedBy, SourceSettings};
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
    settings: Arc<SourceSettings>,
    running: Mutex<BTreeMap<(String, String), Running>>,
}

#[derive(Debug)]
struct Running {
    pull: Arc<Pull>,
    task: JoinHandle<()>,
    _claim: Claim,
}

impl Pulls {
    /// None yet.
    pub fn new(ingest: Ingest, settings: Arc<SourceSettings>) -> Self {
        Self { ingest, settings, running: Mutex::default() }
    }

    /// None, and none that is added ever runs.
    pub fn idle(pulls_max: usize) -> Self {
        let thread = IngestThread::start().expect("a thread");
        let workers = worker_api::WorkerHandles::over(0, Box::new(|_, _| Ok(())));
        let settings = SourceSettings { pulls_max, ..SourceSettings::default() };
        Self::new(Ingest::new(workers, &thread, 0), Arc::new(settings))
    }

    /// Starts one. Its success or failure shows in its status.
    pub fn add(&self, spec: PullSpec, added_by: AddedBy) -> Result<Arc<Pull>, NotAdded> {
        spec.origin.check(added_by, &self.settings).map_err(NotAdded::Forbidden)?;
        let mut running = self.locked();
        let key = (spec.app.clone(), spec.name.clone());
        let claim = self.ingest.claim(&key.0, &key.1, SourceKind::Pull).map_err(NotAdded::Exists)?;
        if running.len() >= self.settings.pulls_max {
            return Err(NotAdded::Full);
        }
        let pull = Arc::new(Pull::new(spec, added_by));
        tracing::info!(stream = pull.stream(), url = %pull.spec.origin, "pull added");
        let task = task::run(Arc::clone(&pull), self.ingest.clone(), Arc::clone(&self.settings));
        let task = self.ingest.spawn(task);
        running.insert(key, Running { pull: Arc::clone(&pull), task, _claim: claim });
        Ok(pull)
    }

    /// Ends one, and its publication; answers whether it existed.
    pub fn remove(&self, app: &str, name: &str) -> bool {
        let removed = self.locked().remove(&(app.to_owned(), name.to_owned()));
        let Some(Running { pull, task, .. }) = removed else { return false };
        // Everything it has open is dropped with it.
        task.abort();
        tracing::info!(stream = pull.stream(), "pull removed");
        true
    }

    /// What pulls may do.
    pub fn settings(&self) -> &SourceSettings {
        &self.settings
    }

    /// All, by app and name.
    pub fn list(&self) -> Vec<Arc<Pull>> {
        self.locked().values().map(|running| Arc::clone(&running.pull)).collect()
    }

    /// One.
    pub fn find(&self, app: &str, name: &str) -> Option<Arc<Pull>> {
        self.locked().get(&(app.to_owned(), name.to_owned())).map(|running| Arc::clone(&running.pull))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<(String, String), Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
