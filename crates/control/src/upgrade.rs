//! Upgrades of the program, as the control side sees them: asked for here, done by the program.

use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use utoipa::ToSchema;

/// Requests that may wait; those that wait together are answered by one upgrade.
const REQUESTS_MAX: usize = 64;

/// What an upgrade has come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Upgraded {
    /// The process that serves now.
    #[schema(example = 4711)]
    pub pid: u32,
    /// Its release.
    #[schema(example = "0.2.0")]
    pub release: String,
}

/// The error says why the new server could not take over; this one serves as before.
pub type Answer = Result<Upgraded, String>;

/// Somebody who wants an upgrade.
pub type Request = oneshot::Sender<Answer>;

/// Asks for upgrades.
#[derive(Debug)]
pub struct Upgrade {
    requests: mpsc::Sender<Request>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoUpgrade {
    /// As many wait as may wait.
    Busy,
    /// The server stops, or is a part of another program.
    NotHere,
}

impl Upgrade {
    /// Requests come out of the receiver.
    pub fn new() -> (Self, mpsc::Receiver<Request>) {
        let (requests, received) = mpsc::channel(REQUESTS_MAX);
        (Self { requests }, received)
    }

    /// What asks for one that never comes: a server that is a part of another program cannot hand over.
    pub fn never() -> Self {
        Self { requests: mpsc::channel(1).0 }
    }

    /// Has a new server take over, and waits for what comes of it.
    ///
    /// # Errors
    /// None was begun.
    pub async fn ask(&self) -> Result<Answer, NoUpgrade> {
        let (request, answer) = oneshot::channel();
        self.requests.try_send(request).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NoUpgrade::Busy,
            mpsc::error::TrySendError::Closed(_) => NoUpgrade::NotHere,
        })?;
        answer.await.map_err(|_| NoUpgrade::NotHere)
    }
}
