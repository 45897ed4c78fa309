//! Readers of events: how many there are, and what the workers said last.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

use worker_api::snapshot::{RtcLayerSnapshot, RtcPathLayer, SessionId};

/// Who reads events, and what the workers said last.
#[derive(Default)]
pub(super) struct Listeners {
    pub(super) counts: Mutex<Counts>,
    pub(super) seen: tokio::sync::Mutex<Option<(Instant, Arc<Seen>)>>,
}

/// How many readers there are.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) all: usize,
    pub(super) of_sessions: HashMap<SessionId, usize>,
    pub(super) of_addresses: HashMap<IpAddr, usize>,
}

impl Listeners {
    pub(super) fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the workers say of sessions with readers, and of their streams.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sessions: HashMap<SessionId, Option<RtcPathLayer>>,
    pub(super) streams: HashMap<String, SeenStream>,
}

#[derive(Debug)]
pub(super) struct SeenStream {
    pub(super) is_live: bool,
    pub(super) players: u64,
    /// Of each video track.
    pub(super) layers: Vec<Vec<RtcLayerSnapshot>>,
}

/// Events by their names.
pub(super) const NAMES: [&str; 4] = ["active", "inactive", "layers", "viewercount"];
