//! How orders go, for metrics and the API.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use crate::failure::Cause;

/// How orders go.
#[derive(Debug, Default)]
pub struct AcmeStatus {
    issued: AtomicU64,
    failed: [AtomicU64; Cause::ALL.len()],
    storage_errors: AtomicU64,
    orders: Mutex<Vec<OrderStatus>>,
}

/// How it stands with one certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OrderStatus {
    /// Names that it is to have.
    pub names: Vec<String>,
    /// When the one in use expires, since 1970; `None`: there is none yet.
    pub not_after: Option<Duration>,
    /// Whether it is being ordered now.
    pub is_ordering: bool,
    /// When it is ordered next, since 1970.
    pub next_attempt: Duration,
    /// Orders that have failed one after the other.
    pub failures: u32,
    /// Why the last one has.
    pub last_error: Option<String>,
}

impl AcmeStatus {
    pub(crate) fn count_issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failed(&self, cause: Cause) {
        self.failed[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_storage_error(&self) {
        self.storage_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_orders(&self, orders: Vec<OrderStatus>) {
        *self.orders.lock().unwrap_or_else(PoisonError::into_inner) = orders;
    }

    /// Certificates issued since the start.
    pub fn issued(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Orders that have failed since the start, by cause.
    pub fn failed(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        Cause::ALL.into_iter().map(|cause| (cause, self.failed[cause as usize].load(Ordering::Relaxed)))
    }

    /// Times that something could not be written to or read from disk.
    pub fn storage_errors(&self) -> u64 {
        self.storage_errors.load(Ordering::Relaxed)
    }

    /// Each certificate, in the order of the configuration.
    pub fn orders(&self) -> Vec<OrderStatus> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
