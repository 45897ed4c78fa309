//! What a reload of the configuration replaces while the server runs: settings and rules, as a whole.
//!
//! One writer, many readers. A reader either takes the present value ([`Live::load`]), as the control side
//! does for each request, or keeps one and asks whether there is a newer ([`Live::version`]), as workers do
//! once a turn: a load of a number that hardly ever changes. Commands to the workers were the other choice;
//! a full queue would refuse some of them, and the workers would follow different rules.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::auth::Policy;
use crate::settings::WorkerSettings;

/// Settings and rules in effect.
#[derive(Debug, Clone, Default)]
pub struct Current {
    /// Of the workers.
    pub settings: Arc<WorkerSettings>,
    /// Who may do what.
    pub policy: Arc<Policy>,
}

/// A value that can be replaced.
#[derive(Debug, Default)]
pub struct Live<T> {
    value: RwLock<T>,
    version: AtomicU64,
}

impl<T: Clone> Live<T> {
    /// Begins with `value`, at version 0.
    pub fn new(value: T) -> Self {
        Self { value: RwLock::new(value), version: AtomicU64::new(0) }
    }

    /// The present value.
    pub fn load(&self) -> T {
        // Nothing panics with the lock held.
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it. Whoever asks after this has returned gets the new one.
    pub fn replace(&self, value: T) {
        *self.value.write().unwrap_or_else(PoisonError::into_inner) = value;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// How often it was replaced.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}

impl Live<Current> {
    /// Who may do what, now.
    pub fn policy(&self) -> Arc<Policy> {
        self.load().policy
    }

    /// Settings, now.
    pub fn settings(&self) -> Arc<WorkerSettings> {
        self.load().settings
    }
}

impl From<WorkerSettings> for Current {
    /// These settings, and nobody may do anything.
    fn from(settings: WorkerSettings) -> Self {
        Self { settings: Arc::new(settings), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_that_there_is_a_newer_value() {
        let live = Live::new(1);
        let before = live.version();
        assert_eq!((live.load(), live.version()), (1, before));
        live.replace(2);
        assert_ne!(live.version(), before);
        assert_eq!(live.load(), 2);
    }
}
