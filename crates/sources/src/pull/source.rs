//! A stream of another server, whichever protocol it comes by.

use std::io;
use std::net::SocketAddr;

use range_reader::error::SourceError;
use rtmp::MediaMessage;

use super::http_flv::HttpFlv;
use super::rtmp_play::RtmpPlay;
use super::spec::Origin;
use crate::settings::{SourceSettings, explain};

/// Why a source gives nothing any more: a sentence for the log and the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(reason: String) -> Self {
        Self(reason)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self(explain(&error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// An open stream.
#[derive(Debug)]
pub(super) enum Source {
    Http(Box<HttpFlv>),
    Rtmp(Box<RtmpPlay>),
}

impl Source {
    /// Opens it: name, address, TCP, TLS, and with HTTP the head of the answer.
    pub(super) async fn open(origin: &Origin, settings: &SourceSettings) -> Result<Self, Failure> {
        Ok(match origin {
            Origin::Http(url) => Self::Http(Box::new(HttpFlv::open(url, settings).await?)),
            Origin::Rtmp(url) => Self::Rtmp(Box::new(RtmpPlay::open(url, settings).await?)),
        })
    }

    /// Waits for bytes, and says how many came. Then take messages until there is none.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        match self {
            Self::Http(source) => source.fill().await,
            Self::Rtmp(source) => source.fill().await,
        }
    }

    /// The next message that has come as a whole.
    pub(super) fn next_message(&mut self) -> Result<Option<MediaMessage>, Failure> {
        match self {
            Self::Http(source) => source.next_message(),
            Self::Rtmp(source) => source.next_message(),
        }
    }

    /// Who sends it, where that is known.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Http(source) => source.peer(),
            Self::Rtmp(source) => source.peer(),
        }
    }
}
