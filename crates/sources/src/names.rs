//! Streams that sources of this server mean to publish, each by one source only.
//!
//! Two sources of one stream would be refused in turns forever. Whether a client publishes the
//! stream is for the workers to decide.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use worker_api::snapshot::Protocol;

use crate::settings::AddedBy;

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
pub(super) struct Names(Arc<Mutex<Claimed>>);

#[derive(Debug, Default)]
struct Claimed {
    last_id: u64,
    holders: HashMap<Key, Holder>,
}

#[derive(Debug)]
struct Holder {
    kind: SourceKind,
    /// Of the claim that counts: one that was taken over gives nothing up.
    id: u64,
    /// A pattern has begun it: it gives way to what the configuration names.
    is_of_pattern: bool,
}

/// Who claims a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claimant {
    /// A request of the API, or the demo.
    Request,
    /// An entry of the configuration that names the stream: takes over from a pattern.
    Entry,
    /// A pattern that the stream matches.
    Pattern,
}

impl From<AddedBy> for Claimant {
    fn from(added_by: AddedBy) -> Self {
        match added_by {
            AddedBy::Configuration => Self::Entry,
            AddedBy::Api => Self::Request,
        }
    }
}

/// The right to a stream among the sources of this server; dropping it gives the stream up.
#[derive(Debug)]
pub struct Claim {
    names: Names,
    key: Key,
    id: u64,
}

impl Names {
    /// Claims `app/name`, or says which kind of source has it.
    pub(super) fn claim(
        &self,
        app: &str,
        name: &str,
        kind: SourceKind,
        claimant: Claimant,
    ) -> Result<Claim, SourceKind> {
        let key = (app.to_owned(), name.to_owned());
        let mut claimed = self.locked();
        if let Some(holder) = claimed.holders.get(&key)
            && !(holder.is_of_pattern && claimant == Claimant::Entry)
        {
            return Err(holder.kind);
        }
        claimed.last_id += 1;
        let id = claimed.last_id;
        let is_of_pattern = claimant == Claimant::Pattern;
        claimed.holders.insert(key.clone(), Holder { kind, id, is_of_pattern });
        Ok(Claim { names: self.clone(), key, id })
    }

    fn locked(&self) -> MutexGuard<'_, Claimed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claimed = self.names.locked();
        if claimed.holders.get(&self.key).is_some_and(|holder| holder.id == self.id) {
            claimed.holders.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_belongs_to_one_source_until_that_is_gone() {
        let names = Names::default();
        let claim = |name, kind| names.clone().claim("live", name, kind, Claimant::Entry);
        let pull = claim("cam", SourceKind::Pull).expect("free");
        for kind in [SourceKind::Channel, SourceKind::Pull] {
            assert_eq!(claim("cam", kind).err(), Some(SourceKind::Pull));
        }
        let _other = claim("films", SourceKind::Channel).expect("another stream");
        drop(pull);
        claim("cam", SourceKind::Channel).expect("free again");
        assert_eq!(names.locked().holders.len(), 1);
    }

    #[test]
    fn a_pattern_gives_way_to_an_entry_that_names_the_stream() {
        let names = Names::default();
        let claim = |claimant| names.claim("live", "cam", SourceKind::Pull, claimant);
        let of_pattern = claim(Claimant::Pattern).expect("free");
        for claimant in [Claimant::Request, Claimant::Pattern] {
            assert_eq!(claim(claimant).err(), Some(SourceKind::Pull));
        }
        let own = claim(Claimant::Entry).expect("taken over");
        drop(of_pattern);
        assert_eq!(
            claim(Claimant::Entry).err(),
            Some(SourceKind::Pull),
            "what was taken over gives nothing up"
        );
        drop(own);
        claim(Claimant::Request).expect("free again");
    }
}
