//! The queue to the thread of a directory: bounded in bytes, and in media of each file. Who puts something in
//! never waits; what finds no room is left out, and its file ends before the gap.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::names::RecordingName;

/// A file, as long as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    /// Of which recording.
    pub(crate) recording: u64,
    /// Its number there.
    pub(crate) number: u64,
}

/// What the thread is to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// A file begins.
    Begin {
        /// Which.
        file: FileId,
        /// Its name, if that is free.
        name: RecordingName,
        /// Its first bytes.
        head: Vec<u8>,
    },
    /// A fragment goes behind what there is.
    Append {
        /// Of which file.
        file: FileId,
        /// The fragment.
        bytes: Bytes,
        /// How long it is played.
        media: Duration,
    },
    /// A file is to be completed.
    End {
        /// Which.
        file: FileId,
    },
    /// A complete file is to go.
    Remove {
        /// Which.
        name: RecordingName,
        /// Whether it was there.
        reply: oneshot::Sender<bool>,
    },
}

/// Why a fragment was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// There is no room: the disk does not keep up.
    Full,
    /// The disk has refused its file.
    Failed,
}

/// What a directory's thread and its users have counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes written to files.
    pub(crate) bytes: AtomicU64,
    pub(crate) fragments: AtomicU64,
    pub(crate) fragments_lost: AtomicU64,
    pub(crate) files_completed: AtomicU64,
    pub(crate) files_removed: AtomicU64,
    pub(crate) files_repaired: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// Longest time that a call took, in microseconds.
    pub(crate) slowest_micros: AtomicU64,
    /// Bytes that the file system has left; [`u64::MAX`]: not known.
    pub(crate) free_bytes: AtomicU64,
}

#[derive(Debug)]
pub(crate) struct Queue {
    bytes_max: usize,
    media_max: Duration,
    state: Mutex<State>,
    changed: Condvar,
    /// Fragments are left out, and the log reports it.
    is_losing: AtomicBool,
    pub(crate) counters: Counters,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Bytes of fragments that wait, or are being written.
    bytes: usize,
    /// Media that waits, by recording.
    media: HashMap<u64, Duration>,
    /// Files that the disk has refused, until their end comes.
    failed: HashSet<FileId>,
    is_closed: bool,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize, media_max: Duration) -> Self {
        Self {
            bytes_max,
            media_max,
            state: Mutex::default(),
            changed: Condvar::new(),
            is_losing: AtomicBool::new(false),
            counters: Counters { free_bytes: AtomicU64::new(u64::MAX), ..Counters::default() },
        }
    }

    /// A fragment; `begins` if it is the first of its file. A fragment larger than the queue goes alone.
    pub(crate) fn append(
        &self,
        file: FileId,
        bytes: Bytes,
        media: Duration,
        begins: Option<(RecordingName, Vec<u8>)>,
    ) -> Result<(), Lost> {
        let mut state = self.state();
        let queued = state.media.get(&file.recording).copied().unwrap_or_default();
        let lost = if state.failed.contains(&file) {
            Some(Lost::Failed)
        } else if state.bytes > 0
            && (state.bytes + bytes.len() > self.bytes_max || queued + media > self.media_max)
        {
            Some(Lost::Full)
        } else {
            None
        };
        if let Some(lost) = lost {
            drop(state);
            self.counters.fragments_lost.fetch_add(1, Ordering::Relaxed);
            if lost == Lost::Full && !self.is_losing.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    queued_bytes = self.bytes(),
                    "the disk does not keep up: recordings have gaps"
                );
            }
            return Err(lost);
        }
        state.bytes += bytes.len();
        *state.media.entry(file.recording).or_default() += media;
        if let Some((name, head)) = begins {
            state.jobs.push_back(Job::Begin { file, name, head });
        }
        state.jobs.push_back(Job::Append { file, bytes, media });
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// A job that takes no room to speak of.
    pub(crate) fn push(&self, job: Job) {
        self.state().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_one();
    }

    /// The next job, waited for up to `wait`. `Err(())`: nothing more comes.
    pub(crate) fn take(&self, wait: Duration) -> Result<Option<Job>, ()> {
        let mut state = self.state();
        if state.jobs.is_empty() && !state.is_closed && !wait.is_zero() {
            state = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        match state.jobs.pop_front() {
            Some(job) => Ok(Some(job)),
            None if state.is_closed => Err(()),
            None => Ok(None),
        }
    }

    /// A fragment that was taken is written, or never will be.
    pub(crate) fn done(&self, file: FileId, bytes: usize, media: Duration) {
        let mut state = self.state();
        state.bytes -= bytes;
        if let Some(queued) = state.media.get_mut(&file.recording) {
            *queued = queued.saturating_sub(media);
            if queued.is_zero() {
                state.media.remove(&file.recording);
            }
        }
        let is_relaxed = state.bytes < self.bytes_max / 2;
        drop(state);
        if is_relaxed
            && self.is_losing.load(Ordering::Relaxed)
            && self.is_losing.swap(false, Ordering::Relaxed)
        {
            let lost = self.counters.fragments_lost.load(Ordering::Relaxed);
            tracing::info!(fragments_lost = lost, "the disk keeps up again");
        }
    }

    /// The disk has refused a file: what comes for it is left out.
    pub(crate) fn fail(&self, file: FileId) {
        self.state().failed.insert(file);
    }

    /// Nothing comes for a file any more.
    pub(crate) fn forget(&self, file: FileId) {
        self.state().failed.remove(&file);
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }

    /// Whether fragments are left out at present because there is no room.
    pub(crate) fn is_losing(&self) -> bool {
        self.is_losing.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it has left it whole: no call is made with the lock held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(recording: u64) -> FileId {
        FileId { recording, number: 0 }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn append(queue: &Queue, file: u64, bytes: usize) -> Result<(), Lost> {
        queue.append(id(file), Bytes::from(vec![0; bytes]), SECOND, None)
    }

    #[test]
    fn what_finds_no_room_is_left_out_and_room_comes_back_when_it_is_written() {
        let queue = Queue::new(100, 3 * SECOND);
        assert_eq!(append(&queue, 1, 60), Ok(()));
        assert_eq!(append(&queue, 2, 60), Err(Lost::Full), "bytes of all files");
        assert!(queue.is_losing());
        for _ in 0..2 {
            assert_eq!(append(&queue, 1, 1), Ok(()));
        }
        assert_eq!(append(&queue, 1, 1), Err(Lost::Full), "media of one file");
        assert_eq!(append(&queue, 2, 1), Ok(()));
        assert!(matches!(queue.take(SECOND), Ok(Some(Job::Append { .. }))));
        assert_eq!(append(&queue, 2, 60), Err(Lost::Full), "it is still being written");
        queue.done(id(1), 60, SECOND);
        assert!(!queue.is_losing());
        assert_eq!(append(&queue, 2, 60), Ok(()));
        assert_eq!(queue.counters.fragments_lost.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_fragment_larger_than_the_queue_goes_alone() {
        let queue = Queue::new(100, SECOND);
        assert_eq!(append(&queue, 1, 1000), Ok(()));
        assert_eq!(append(&queue, 2, 1), Err(Lost::Full));
    }

    #[test]
    fn a_file_that_has_failed_takes_nothing_until_it_has_ended() {
        let queue = Queue::new(100, SECOND);
        queue.fail(id(1));
        assert_eq!(append(&queue, 1, 1), Err(Lost::Failed));
        assert_eq!(append(&queue, 2, 1), Ok(()));
        queue.close();
        assert!(matches!(queue.take(SECOND), Ok(Some(Job::Append { .. }))));
        assert!(queue.take(SECOND).is_err());
    }
}
