//! What the configuration says about hooks.

use std::fmt;
use std::time::Duration;

use http::Uri;
use worker_api::auth::Denied;
use worker_api::hooks::HookEvent;

/// Hooks of a server.
#[derive(Clone)]
pub struct HookSettings {
    /// Where each event goes, in the order of [`HookEvent::ALL`].
    pub urls: [Option<Uri>; HookEvent::ALL.len()],
    /// Key of the signatures.
    pub secret: Vec<u8>,
    /// Time for an answer, from when it is asked.
    pub timeout: Duration,
    /// Somebody is let in although the hook gives no usable answer.
    pub allows_on_error: bool,
    /// Questions that are open at a time.
    pub concurrency: usize,
    /// For how long plays are collected into one request; zero: each has its own.
    pub play_batch: Duration,
    /// Events of one stream that may wait.
    pub queue_max: usize,
    /// For how long an event is sent again.
    pub retry_for: Duration,
    /// Certificates in PEM that are trusted besides the system's.
    pub extra_roots_pem: Vec<u8>,
}

impl HookSettings {
    /// Where an event goes, if somebody wants it.
    pub fn url(&self, event: HookEvent) -> Option<&Uri> {
        HookEvent::ALL.iter().zip(&self.urls).find(|(other, _)| **other == event)?.1.as_ref()
    }

    /// What becomes of a question that gets no usable answer.
    pub fn on_error(&self) -> Result<(), Denied> {
        if self.allows_on_error { Ok(()) } else { Err(Denied::HookFailed) }
    }
}

impl fmt::Debug for HookSettings {
    /// Without the secret and the URLs, which may have one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = HookEvent::ALL.iter().filter(|event| self.url(**event).is_some());
        let wanted: Vec<_> = wanted.map(|event| event.name()).collect();
        f.debug_struct("HookSettings").field("wanted", &wanted).field("timeout", &self.timeout).finish()
    }
}
