//! Streams that begin and end, as the registry of the workers reports them.

use std::sync::Arc;
use std::time::Duration;

use media::Codec;
use worker_api::cluster::{Elsewhere, Publication, Watched};
use worker_api::hooks::{Hooks, News};
use worker_api::streams::{Epoch, Published};

/// Passes everything on, and reports which publications of this node begin and end.
#[derive(Debug)]
pub struct StreamStates {
    hooks: Hooks,
    inner: Arc<dyn Elsewhere>,
}

impl StreamStates {
    /// Reports to `hooks`, and passes on to `inner`.
    pub fn new(hooks: Hooks, inner: Arc<dyn Elsewhere>) -> Self {
        Self { hooks, inner }
    }
}

impl Elsewhere for StreamStates {
    fn published(&self, key: &str) -> Option<Published> {
        self.inner.published(key)
    }

    fn redirect(&self, key: &str, is_full: bool) -> Option<String> {
        self.inner.redirect(key, is_full)
    }

    fn wanted(&self, key: &str) {
        self.inner.wanted(key);
    }

    fn unwanted(&self, key: &str) {
        self.inner.unwanted(key);
    }

    fn has_nodes(&self) -> bool {
        self.inner.has_nodes()
    }

    fn begins_within(&self, key: &str) -> Option<Duration> {
        self.inner.begins_within(key)
    }

    fn watched(&self, key: &str, watched: Watched) {
        self.inner.watched(key, watched);
    }

    fn started(&self, publication: &Publication<'_>) {
        self.hooks.report(News::Live { key: publication.key.into(), epoch: publication.epoch.0 });
        self.inner.started(publication);
    }

    fn changed(&self, key: &str, epoch: Epoch, published: &Published) {
        self.inner.changed(key, epoch, published);
    }

    fn codecs(&self, key: &str, epoch: Epoch, codecs: &[Codec]) {
        self.inner.codecs(key, epoch, codecs);
    }

    fn ended(&self, key: &str, epoch: Epoch) {
        self.hooks.report(News::Over { key: key.into(), epoch: epoch.0 });
        self.inner.ended(key, epoch);
    }
}
