//! Reload of the configuration, as the control side sees it: asked for here, done by the program.
//!
//! Whoever asks waits for a reload that begins after the request. Requests that come meanwhile wait for the
//! next one together, so that any number of them costs two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;
use worker_api::certificates::CertificateStore;

/// Requests that may wait for one reload; further ones are refused.
const REQUESTS_MAX: usize = 64;

/// What a reload has done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Reloaded {
    /// Keys and lists of the configuration that have changed and are in effect now; those of files among
    /// them whose content has changed.
    #[schema(example = json!(["auth.publish_token", "pull"]))]
    pub changed: Vec<String>,
    /// Keys and lists that have changed and take effect when the server is started again.
    #[schema(example = json!(["rtmp.listen"]))]
    pub needs_restart: Vec<String>,
    /// How many keys and lists are as they were.
    pub unchanged: usize,
    /// Pulls, pushes and channels that have begun.
    #[schema(example = json!(["pull live/cam"]))]
    pub started: Vec<String>,
    /// Pulls, pushes and channels that have begun again, otherwise.
    pub restarted: Vec<String>,
    /// Pulls, pushes and channels that have ended.
    pub ended: Vec<String>,
    /// Pulls, pushes and channels that should have begun and have not, with the reason: something has come
    /// in between. The next reload begins them.
    #[schema(example = json!([]))]
    pub failed: Vec<String>,
}

/// What a reload came to; the error has every reason for which it changed nothing.
pub type Answer = Result<Reloaded, Vec<String>>;

/// Somebody who wants a reload.
pub type Request = oneshot::Sender<Arc<Answer>>;

/// Asks for reloads.
#[derive(Debug)]
pub struct Reload {
    requests: mpsc::Sender<Request>,
    /// How reloads have gone.
    pub counters: ReloadCounters,
    /// Certificates in use; `None` where TLS is off.
    pub certificates: Option<Arc<CertificateStore>>,
}

/// How reloads have gone since the start.
#[derive(Debug, Default)]
pub struct ReloadCounters {
    /// Reloads that succeeded.
    pub succeeded: AtomicU64,
    /// Reloads that changed nothing because something was wrong.
    pub refused: AtomicU64,
    /// When the configuration in effect was read, seconds since 1970.
    pub last_success: AtomicU64,
    /// Times that changed files of certificates were taken up without a reload.
    pub certificates_taken: AtomicU64,
    /// Times that changed files of certificates could not be used.
    pub certificates_refused: AtomicU64,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoReload {
    /// As many wait as may wait.
    Busy,
    /// The server stops.
    Stopping,
}

impl Reload {
    /// Requests come out of the receiver. The configuration of the start was read at `now`, in seconds
    /// since 1970.
    pub fn new(certificates: Option<Arc<CertificateStore>>, now: u64) -> (Self, mpsc::Receiver<Request>) {
        let (requests, received) = mpsc::channel(REQUESTS_MAX);
        let counters = ReloadCounters { last_success: AtomicU64::new(now), ..ReloadCounters::default() };
        (Self { requests, counters, certificates }, received)
    }

    /// Reloads, and waits for what comes of it.
    ///
    /// # Errors
    /// None was begun.
    pub async fn ask(&self) -> Result<Arc<Answer>, NoReload> {
        let (request, answer) = oneshot::channel();
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NoReload::Busy,
            mpsc::error::TrySendError::Closed(_) => NoReload::Stopping,
        })?;
        answer.await.map_err(|_| NoReload::Stopping)
    }

    /// Counts an answer that is given at `now`, in seconds since 1970.
    pub fn count(&self, answer: &Answer, now: u64) {
        let counters = &self.counters;
        match answer {
            Ok(_) => {
                counters.succeeded.fetch_add(1, Ordering::Relaxed);
                counters.last_success.store(now, Ordering::Relaxed);
            }
            Err(_) => _ = counters.refused.fetch_add(1, Ordering::Relaxed),
        }
    }
}
