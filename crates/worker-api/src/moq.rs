//! What the control side knows of MoQ, whose sessions are on a thread of their own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How MoQ is doing. Its thread writes, others read.
#[derive(Debug, Default)]
pub struct MoqStatus {
    /// Gauge: sessions.
    pub sessions: AtomicU64,
    /// Sessions that were let in.
    pub accepted: AtomicU64,
    /// Clients that were refused: by their token, the name of a stream, or a limit.
    pub refused: AtomicU64,
    /// Connections that did not become sessions.
    pub failed: AtomicU64,
    /// Frames of publishers that were left out, since they made no sense.
    pub invalid: AtomicU64,
    certificate_hash: Mutex<Option<String>>,
}

impl MoqStatus {
    /// SHA-256 of the present certificate in hexadecimal digits, if it was made for trials.
    pub fn certificate_hash(&self) -> Option<String> {
        self.certificate_hash.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It has another certificate.
    pub fn set_certificate_hash(&self, hash: String) {
        *self.certificate_hash.lock().unwrap_or_else(PoisonError::into_inner) = Some(hash);
    }

    /// Adds one to a counter of this.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
