//! What all sessions share, and what is known of one client.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rtmp::name::{NameError, NameRules};
use tokio::time::Instant;
use worker_api::auth::{Bearer, Denied, Permit};
use worker_api::live::{Current, Live};
use worker_api::moq::MoqStatus;
use worker_api::settings::MoqSettings;
use worker_api::{HomeOf, WorkerHandles, time};

use crate::streams::Streams;

/// What all sessions share.
pub(crate) struct Shared {
    pub(crate) settings: MoqSettings,
    pub(crate) names: NameRules,
    pub(crate) current: Arc<Live<Current>>,
    pub(crate) workers: WorkerHandles,
    pub(crate) home: Box<HomeOf>,
    pub(crate) streams: Streams,
    pub(crate) status: Arc<MoqStatus>,
}

impl Shared {
    /// Longest frame of a publisher.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.current.settings().message_bytes_max as usize
    }
}

/// Who is at the other end.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: Option<String>,
    /// What sessions show of it.
    pub(crate) agent: String,
    /// The path of its URL: a stream if it has a slash, else the application that names of
    /// broadcasts are in, or nothing.
    pub(crate) base: String,
}

/// `app/name`, checked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamKey(Arc<str>);

impl StreamKey {
    /// Checks it.
    pub(crate) fn new(names: &NameRules, key: &str) -> Result<Self, NameError> {
        let (app, name) = key.rsplit_once('/').ok_or(NameError::Empty)?;
        names.check(app, name)?;
        Ok(Self(key.into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn app(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(app, _)| app)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, name)| name)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Client {
    /// The stream that a broadcast of this path is.
    pub(crate) fn stream_of(&self, broadcast: &str) -> String {
        match (self.base.is_empty(), broadcast.is_empty()) {
            (true, _) => broadcast.to_owned(),
            (_, true) => self.base.clone(),
            _ => format!("{}/{broadcast}", self.base),
        }
    }

    /// The path of the broadcast that a stream is, if the client can ask for it.
    pub(crate) fn broadcast_of<'a>(&self, stream: &'a str) -> Option<&'a str> {
        if self.base.is_empty() {
            return Some(stream);
        }
        let rest = stream.strip_prefix(&*self.base)?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }

    /// Whether its URL names one stream.
    pub(crate) fn names_a_stream(&self) -> bool {
        self.base.contains('/')
    }

    /// Whether it may play a stream.
    pub(crate) fn may_play(&self, shared: &Shared, key: &StreamKey) -> Result<Permit, Denied> {
        shared.current.policy().may_play(key.app(), key.name(), &self.bearer())
    }

    /// Whether it may publish a stream.
    pub(crate) fn may_publish(&self, shared: &Shared, key: &StreamKey) -> Result<Permit, Denied> {
        shared.current.policy().may_publish(key.app(), key.name(), &self.bearer())
    }

    fn bearer(&self) -> Bearer<'_> {
        Bearer { token: self.token.as_deref(), peer: self.address.ip(), now: time::since_1970() }
    }
}

/// When what is permitted ends.
pub(crate) fn end_of(permit: Permit) -> Option<Instant> {
    let left = |until: Duration| until.saturating_sub(time::since_1970());
    permit.until.and_then(|until| Instant::now().checked_add(left(until)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_stream_or_what_names_of_broadcasts_are_in() {
        let client = |base: &str| Client {
            address: ([127, 0, 0, 1], 9).into(),
            token: None,
            agent: String::new(),
            base: base.to_owned(),
        };
        for (base, broadcast, stream) in
            [("", "live/cam", "live/cam"), ("live", "cam", "live/cam"), ("live/cam", "", "live/cam")]
        {
            let client = client(base);
            assert_eq!(client.stream_of(broadcast), stream);
            assert_eq!(client.broadcast_of(stream), Some(broadcast));
        }
        assert_eq!(client("live").broadcast_of("lively/cam"), None);
        assert_eq!(client("live/cam").broadcast_of("live/camera"), None);
        let names = NameRules::default();
        for wrong in ["", "cam", "/cam", "live/", "live/../cam", "live//cam"] {
            assert!(StreamKey::new(&names, wrong).is_err(), "{wrong}");
        }
        let key = StreamKey::new(&names, "a/b/cam").expect("a stream");
        assert_eq!((key.app(), key.name()), ("a/b", "cam"));
    }
}
