//! Threads that transcode sound, shared by all streams, never a worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bridge::CodedSound;

use crate::worker::settings::TranscodingSettings;

/// What is made of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    ToOpus,
    ToAac,
}

#[derive(Debug, Clone)]
pub(crate) struct Pool;

#[derive(Debug)]
pub(crate) struct Transcoder;

#[derive(Debug)]
pub(crate) struct Full;

#[derive(Debug)]
pub(crate) struct PoolRefused;

impl std::fmt::Display for PoolRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too many streams are being transcoded")
    }
}

#[derive(Debug)]
pub(crate) struct Replies;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) bridge: u64,
    pub(crate) sound: Vec<CodedSound>,
    pub(crate) cpu: Duration,
    pub(crate) error: Option<String>,
    pub(crate) ended: bool,
}

impl Pool {
    pub(crate) fn new(_settings: &TranscodingSettings) -> std::io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn open(
        &self,
        _: Conversion,
        _token: u64,
        _: &Arc<Replies>,
    ) -> Result<Transcoder, PoolRefused> {
        Err(PoolRefused)
    }
}

impl Transcoder {
    pub(crate) fn push(&mut self, _: CodedSound) -> Result<(), Full> {
        Err(Full)
    }
}

impl Replies {
    pub(crate) fn new(_waker: Arc<mio::Waker>) -> Arc<Self> {
        Arc::new(Self)
    }

    pub(crate) fn take(&self, _inbox: &mut VecDeque<Reply>) {}
}
