//! Streams that sources of this server mean to publish, each by one source only.
//!
//! Two sources of one stream would be refused in turns forever. Whether a client publishes the
//! stream is for the workers to decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use worker_api::snapshot::Protocol;

/// What publishes; sessions, statistics and metrics show it as the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// A virtual channel.
    Channel,
    /// A stream pulled from another server.
    Pull,
    /// The demo channel.
    Demo,
}

impl SourceKind {
    /// For people.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Pull => "pull",
            Self::Demo => "demo",
        }
    }

    pub(super) fn protocol(self) -> Protocol {
        match self {
            Self::Channel => Protocol::Channel,
            Self::Pull => Protocol::Pull,
            Self::Demo => Protocol::Demo,
        }
    }
}

type Key = (String, String);

/// What has been claimed. Clones share it. As many entries as there may be channels and pulls.
#[derive(Debug, Clone, Default)]
pub(super) struct Names(Arc<Mutex<HashMap<Key, SourceKind>>>);

/// The right to a stream among the sources of this server; dropping it gives the stream up.
#[derive(Debug)]
pub struct Claim {
    names: Names,
    key: Key,
}

impl Names {
    /// Claims `app/name`, or says which kind of source has it.
    pub(super) fn claim(&self, app: &str, name: &str, kind: SourceKind) -> Result<Claim, SourceKind> {
        let key = (app.to_owned(), name.to_owned());
        let mut claimed = self.locked();
        if let Some(holder) = claimed.get(&key) {
            return Err(*holder);
        }
        claimed.insert(key.clone(), kind);
        Ok(Claim { names: self.clone(), key })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Key, SourceKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.names.locked().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_belongs_to_one_source_until_that_is_gone() {
        let names = Names::default();
        let pull = names.claim("live", "cam", SourceKind::Pull).expect("free");
        for kind in [SourceKind::Channel, SourceKind::Pull] {
            assert_eq!(names.clone().claim("live", "cam", kind).err(), Some(SourceKind::Pull));
        }
        let _other = names.claim("live", "films", SourceKind::Channel).expect("another stream");
        drop(pull);
        names.claim("live", "cam", SourceKind::Channel).expect("free again");
        assert_eq!(names.locked().len(), 1);
    }
}
