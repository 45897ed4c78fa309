//! Every file that is followed, and whose turn is next.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::status::{Cause, Failure, UploadState, UploadTotals};

/// Files that are followed. Further ones are found by a later scan, when there is room.
const FILES_MAX: usize = 200_000;

/// A file: its directory and its path below that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileKey {
    pub(crate) directory: usize,
    pub(crate) path: Arc<str>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) bytes: u64,
    pub(crate) failures: u32,
    pub(crate) state: State,
}

#[derive(Debug)]
pub(crate) enum State {
    Waiting { turn: Turn },
    Uploading { sent_bytes: u64 },
    Confirmed { at_ms: u64 },
    Failed { failure: Failure, turn: Turn },
}

/// When a file is tried, and in which order those of one time are.
pub(crate) type Turn = (Instant, u64);

#[derive(Debug, Default)]
pub(crate) struct Table {
    files: HashMap<FileKey, Entry>,
    turns: BTreeSet<(Turn, FileKey)>,
    turns_given: u64,
    pub(crate) totals: UploadTotals,
}

impl State {
    fn turn(&self) -> Option<Turn> {
        match self {
            Self::Waiting { turn } | Self::Failed { turn, .. } => Some(*turn),
            Self::Uploading { .. } | Self::Confirmed { .. } => None,
        }
    }

    pub(crate) fn shown(&self, now: Instant) -> UploadState {
        match self {
            Self::Waiting { .. } => UploadState::Waiting,
            Self::Uploading { sent_bytes } => UploadState::Uploading { sent_bytes: *sent_bytes },
            Self::Confirmed { at_ms } => UploadState::Confirmed { at_ms: *at_ms },
            Self::Failed { failure, turn: (at, _) } => UploadState::Failed {
                cause: failure.cause,
                why: failure.why.clone(),
                retry_in: at.saturating_duration_since(now),
            },
        }
    }
}

impl Table {
    pub(crate) fn get(&self, key: &FileKey) -> Option<&Entry> {
        self.files.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&FileKey, &Entry)> {
        self.files.iter()
    }

    /// Follows a file that is not followed yet: one that waits for its turn, or is confirmed.
    pub(crate) fn follow(&mut self, key: FileKey, bytes: u64, confirmed_at_ms: Option<u64>, now: Instant) {
        if self.files.len() >= FILES_MAX && !self.files.contains_key(&key) {
            self.totals.not_followed += 1;
            return;
        }
        let state = match confirmed_at_ms {
            Some(at_ms) => State::Confirmed { at_ms },
            None => State::Waiting { turn: self.turn_at(now) },
        };
        self.put(key, Entry { bytes, failures: 0, state });
    }

    /// The file whose turn it is.
    pub(crate) fn next(&mut self, now: Instant) -> Option<FileKey> {
        let key = self.turns.first().filter(|((at, _), _)| *at <= now).map(|(_, key)| key.clone())?;
        self.set_state(&key, State::Uploading { sent_bytes: 0 });
        Some(key)
    }

    /// When the next turn is.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.turns.first().map(|((at, _), _)| *at)
    }

    pub(crate) fn sent(&mut self, key: &FileKey, bytes: u64) {
        self.totals.sent_bytes += bytes;
        if let Some(Entry { state: State::Uploading { sent_bytes }, .. }) = self.files.get_mut(key) {
            *sent_bytes += bytes;
        }
    }

    /// Bytes that an earlier attempt has sent.
    pub(crate) fn resumed(&mut self, key: &FileKey, bytes: u64) {
        self.totals.resumed += 1;
        if let Some(Entry { state: State::Uploading { sent_bytes }, .. }) = self.files.get_mut(key) {
            *sent_bytes += bytes;
        }
    }

    pub(crate) fn confirmed(&mut self, key: &FileKey, bytes: u64, at_ms: u64) {
        self.put(key.clone(), Entry { bytes, failures: 0, state: State::Confirmed { at_ms } });
    }

    /// Notes a failure; the file's turn comes after `pause` for so many failures.
    pub(crate) fn failed(
        &mut self,
        key: &FileKey,
        failure: Failure,
        now: Instant,
        pause: impl FnOnce(u32) -> Duration,
    ) {
        let cause = Cause::ALL.iter().position(|cause| *cause == failure.cause);
        self.totals.failures[cause.expect("all of them are there")] += 1;
        let Some(entry) = self.files.get_mut(key) else { return };
        entry.failures = entry.failures.saturating_add(1);
        let at = now + pause(entry.failures);
        let turn = self.turn_at(at);
        self.set_state(key, State::Failed { failure, turn });
    }

    pub(crate) fn remove(&mut self, key: &FileKey) {
        if let Some(turn) = self.files.remove(key).and_then(|entry| entry.state.turn()) {
            self.turns.remove(&(turn, key.clone()));
        }
    }

    fn turn_at(&mut self, at: Instant) -> Turn {
        self.turns_given += 1;
        (at, self.turns_given)
    }

    fn set_state(&mut self, key: &FileKey, state: State) {
        if let Some(entry) = self.files.get(key) {
            let (bytes, failures) = (entry.bytes, entry.failures);
            self.put(key.clone(), Entry { bytes, failures, state });
        }
    }

    fn put(&mut self, key: FileKey, entry: Entry) {
        self.remove(&key);
        if let Some(turn) = entry.state.turn() {
            self.turns.insert((turn, key.clone()));
        }
        self.files.insert(key, entry);
    }

    /// Counts what there is now.
    pub(crate) fn totals(&self) -> UploadTotals {
        let mut totals = self.totals.clone();
        for entry in self.files.values() {
            let state = match entry.state {
                State::Waiting { .. } => 0,
                State::Uploading { .. } => 1,
                State::Confirmed { .. } => 2,
                State::Failed { .. } => 3,
            };
            totals.files[state] += 1;
            if state != 2 {
                totals.unconfirmed_bytes += entry.bytes;
            }
        }
        totals
    }
}
