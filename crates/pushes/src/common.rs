//! What all pushes have in common: limits, and where frames come from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sources::settings::SourceSettings;
use worker_api::live::Live;
use worker_api::{HomeOf, WorkerHandles};

use crate::queue::QueueLimits;

/// What all pushes have in common.
#[derive(Debug, Clone)]
pub struct PushSettings {
    /// Addresses, certificates, time to connect and pauses: those of sources.
    pub sources: Arc<SourceSettings>,
    /// Rules at a time, those of the configuration included.
    pub rules_max: usize,
    /// Streams that are pushed at a time, once for each target.
    pub active_max: usize,
    /// What may wait for one target.
    pub queue: QueueLimits,
    /// A target that takes nothing for this long is given up.
    pub stall_timeout: Duration,
}

/// What all pushes share.
pub(crate) struct Common {
    /// Pushes that run keep those that they began with.
    pub(crate) settings: Live<Arc<PushSettings>>,
    pub(crate) workers: WorkerHandles,
    pub(crate) home: Box<HomeOf>,
    pub(crate) own_ports: Vec<u16>,
}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Common").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// What the configuration has by default.
impl Default for PushSettings {
    fn default() -> Self {
        Self {
            sources: Arc::default(),
            rules_max: 100,
            active_max: 1000,
            queue: QueueLimits { bytes: 8 << 20, time: Duration::from_secs(5) },
            stall_timeout: Duration::from_secs(10),
        }
    }
}
