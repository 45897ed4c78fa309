//! The rest of the cluster: it publishes what the test says, and keeps what it is told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use worker_api::cluster::{Elsewhere, Publication};
use worker_api::streams::{Epoch, Published};

use super::until;

/// What a node reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    Wanted,
    Unwanted,
    Started { epoch: Epoch, worker: usize, published: Published, takes_over: bool },
    Changed { epoch: Epoch, published: Published },
    Ended { epoch: Epoch },
}

/// A cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    elsewhere: HashMap<String, Published>,
    reports: Vec<(String, Report)>,
    /// Reports that the test has seen.
    seen: usize,
}

impl Cluster {
    /// Another node publishes a stream from now on.
    pub(crate) fn publish(&self, key: &str, published: Published) {
        self.lock().elsewhere.insert(key.to_owned(), published);
    }

    /// It does not any more.
    pub(crate) fn unpublish(&self, key: &str) {
        self.lock().elsewhere.remove(key);
    }

    /// Waits for the next report about a stream.
    pub(crate) async fn next(&self, key: &str) -> Report {
        let (found, report) = until("a report", async || {
            let mut state = self.lock();
            let report = state.reports.get(state.seen).cloned()?;
            state.seen += 1;
            Some(report)
        })
        .await;
        assert_eq!(found, key, "{report:?}");
        report
    }

    /// Reports that nobody has waited for.
    pub(crate) fn unseen(&self) -> Vec<(String, Report)> {
        let state = self.lock();
        state.reports[state.seen..].to_vec()
    }

    fn report(&self, key: &str, report: Report) {
        self.lock().reports.push((key.to_owned(), report));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Elsewhere for Cluster {
    fn published(&self, key: &str) -> Option<Published> {
        self.lock().elsewhere.get(key).cloned()
    }

    fn redirect(&self, _: &str, _: bool) -> Option<String> {
        None
    }

    fn wanted(&self, key: &str) {
        self.report(key, Report::Wanted);
    }

    fn unwanted(&self, key: &str) {
        self.report(key, Report::Unwanted);
    }

    fn started(&self, publication: &Publication<'_>) {
        let Publication { key, epoch, worker, published, takes_over } = *publication;
        let published = published.clone();
        self.report(key, Report::Started { epoch, worker, published, takes_over });
    }

    fn changed(&self, key: &str, epoch: Epoch, published: &Published) {
        self.report(key, Report::Changed { epoch, published: published.clone() });
    }

    fn ended(&self, key: &str, epoch: Epoch) {
        self.report(key, Report::Ended { epoch });
    }
}
