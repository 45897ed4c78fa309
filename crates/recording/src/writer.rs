//! What the thread of a directory does, without the thread: files begin, grow, are completed and removed.
//!
//! Fragments go first. Files are completed when nothing else waits, or one of them in [`COMPLETE_EVERY`], so
//! that five hundred that rotate at the same moment hold nothing up. A disk that fails a call is left alone
//! for [`RETRY`]; what comes meanwhile is lost, and the first fragment that it takes again ends the failure.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::broadcast;

use crate::catalogue::{self, Catalogue, Entry, State};
use crate::complete::{Completed, complete};
use crate::duration;
use crate::names::RecordingName;
use crate::queue::{FileId, Job, Queue};
use crate::scan::{Check, checksum};
use crate::settings::{Format, RecordSettings};
use crate::storage::{Storage, StoredFile};
use crate::thread::Needed;

/// Where a fragment says what it is: behind the box with its wall clock (`prft`) and the length.
const FRAGMENT_KIND_AT: usize = 32 + 4;
/// How long a disk that has failed is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// How long until it is tried again to complete a file that could not be.
const COMPLETE_AGAIN: Duration = Duration::from_secs(10);
/// How often at least one file is completed while fragments come without a pause.
const COMPLETE_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked what is too old.
const RETENTION_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked how much room the disk has.
const ROOM_EVERY: Duration = Duration::from_secs(5);
/// From so many files on that are to be synced, one call syncs the whole file system.
const SYNC_ALL_FROM: usize = 8;

/// What has happened to a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingEvent {
    /// The directory.
    pub directory: PathBuf,
    /// Which recording.
    pub name: RecordingName,
    /// What.
    pub change: Change,
}

/// What happens to recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It begins to be written.
    Begun,
    /// It is complete.
    Completed,
    /// It was removed: by age, number or bytes, because somebody asked for it, or as there was nothing in it.
    Removed,
}

/// What others see of a directory.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) directory: PathBuf,
    pub(crate) queue: Queue,
    pub(crate) catalogue: Mutex<Catalogue>,
    /// Why the disk does nothing at present.
    pub(crate) failure: Mutex<Option<String>>,
    pub(crate) events: broadcast::Sender<RecordingEvent>,
    pub(crate) needed: Needed,
}

impl Shared {
    pub(crate) fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        // It is whole between any two statements.
        self.catalogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The times at which something is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    /// Wall clock since 1970.
    pub(crate) wall: Duration,
}

#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    storage: Box<dyn Storage>,
    settings: Arc<RecordSettings>,
    files: BTreeMap<FileId, Open>,
    /// Files to be completed, and when it is tried.
    ending: VecDeque<Ending>,
    completed_at: Instant,
    checked_at: Instant,
    retention_at: Instant,
    /// The disk has failed, and is left alone until then.
    failed_until: Option<Instant>,
    /// Up to here, from the last one on, complete recordings of earlier runs have a duration or none that can
    /// be read; `None`: all have.
    unread: Option<Unread>,
    /// When it is looked how much room there is.
    room_at: Instant,
}

/// Which complete recordings of earlier runs are to be read for their duration.
#[derive(Debug)]
enum Unread {
    All,
    Before(RecordingName),
}

#[derive(Debug)]
struct Open {
    name: RecordingName,
    file: Box<dyn StoredFile>,
    bytes: u64,
    media: Duration,
    /// Since when there is something that is not on the disk for certain.
    unsynced_since: Option<Instant>,
}

#[derive(Debug)]
struct Ending {
    name: RecordingName,
    file: Option<Box<dyn StoredFile>>,
    due: Instant,
    is_repair: bool,
}

impl Writer {
    /// Reads what is there; files that were left unfinished are going to be completed.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub(crate) fn new(
        shared: Arc<Shared>,
        mut storage: Box<dyn Storage>,
        settings: Arc<RecordSettings>,
        now: Now,
    ) -> io::Result<Self> {
        let found = catalogue::read(&mut *storage)?;
        let unfinished = found.iter().filter(|(_, entry)| entry.state == State::Unfinished);
        let ending: VecDeque<_> = unfinished
            .map(|(name, _)| Ending { name: name.clone(), file: None, due: now.at, is_repair: true })
            .collect();
        if !ending.is_empty() {
            let directory = shared.directory.display();
            tracing::info!(%directory, files = ending.len(), "recordings that a crash has left are completed");
        }
        *shared.catalogue() = found;
        Ok(Self {
            shared,
            storage,
            settings,
            files: BTreeMap::new(),
            ending,
            completed_at: now.at,
            checked_at: now.at,
            retention_at: now.at,
            failed_until: None,
            unread: Some(Unread::All),
            room_at: now.at,
        })
    }

    /// Does a job of the queue.
    pub(crate) fn handle(&mut self, job: Job, now: Now) {
        match job {
            Job::Begin { file, name, head } => {
                if let Err(error) = self.begin(file, name, &head, now) {
                    self.fail(Some(file), &error, now);
                }
            }
            Job::Append { file, bytes, media } => {
                if self.files.contains_key(&file) {
                    match self.append(file, &bytes, media, now) {
                        Ok(()) => self.works(now),
                        Err(error) => self.fail(Some(file), &error, now),
                    }
                } else {
                    self.shared.queue.counters.fragments_lost.fetch_add(1, Ordering::Relaxed);
                }
                self.shared.queue.done(file, bytes.len(), media);
            }
            Job::End { file } => {
                self.shared.queue.forget(file);
                if let Some(open) = self.files.remove(&file) {
                    self.end(open, now.at);
                }
            }
            Job::Remove { name, reply } => {
                let is_complete =
                    self.shared.catalogue().get(&name).is_some_and(|entry| entry.state == State::Complete);
                // Who asked may have gone.
                let _ = reply.send(is_complete && self.remove(&name, now));
            }
        }
    }

    /// Does what is due besides: syncs, and, if nothing else waits, completes a file. When the next thing is
    /// due.
    pub(crate) fn tend(&mut self, is_idle: bool, now: Now) -> Option<Instant> {
        self.check(now);
        self.sync(now);
        let may_complete = is_idle || now.at >= self.completed_at + COMPLETE_EVERY;
        if may_complete && let Some(at) = self.ending.iter().position(|ending| ending.due <= now.at) {
            let ending = self.ending.remove(at).expect("it was found there");
            self.complete(ending, now);
            self.completed_at = now.at;
        }
        if is_idle && now.at >= self.retention_at {
            self.retention_at = now.at + RETENTION_EVERY;
            self.keep_what_is_kept(now);
        }
        if now.at >= self.room_at {
            self.room_at = now.at + ROOM_EVERY;
            let free = self.storage.free_bytes().ok().flatten().unwrap_or(u64::MAX);
            self.shared.queue.counters.free_bytes.store(free, Ordering::Relaxed);
        }
        if is_idle && self.unread.is_some() {
            self.read_duration();
        }
        // One after the other, as long as there is nothing else to do.
        let unread = self.unread.as_ref().map(|_| now.at);
        let syncs = self.files.values().filter_map(|open| open.unsynced_since.zip(self.settings.sync));
        let syncs = syncs.map(|(since, most)| since + most);
        let endings = self.ending.iter().map(|ending| ending.due);
        syncs.chain(endings).chain([self.retention_at, self.room_at]).chain(unread).min()
    }

    /// Ends all files, and completes as many as it can up to a deadline. The others are whole, and are
    /// completed at the next start.
    pub(crate) fn close(&mut self, deadline: Instant, clock: impl Fn() -> Now) {
        let now = clock();
        for open in std::mem::take(&mut self.files).into_values() {
            self.end(open, now.at);
        }
        // Those that fail are put behind the others, and not tried a second time.
        let mut ending = std::mem::take(&mut self.ending);
        while let Some(one) = ending.pop_front() {
            let now = clock();
            if now.at >= deadline {
                let files = ending.len() + 1;
                tracing::warn!(files, "recordings are completed at the next start");
                return;
            }
            self.complete(one, now);
        }
    }

    fn begin(&mut self, file: FileId, mut name: RecordingName, head: &[u8], now: Now) -> io::Result<()> {
        if self.failed_until.is_some_and(|until| now.at < until) {
            return Err(io::Error::other("the disk has failed a moment ago"));
        }
        self.storage.check()?;
        self.storage.create_folders(&name.folder())?;
        while self.storage.exists(&name.path())? || self.storage.exists(&name.part_path())? {
            name.number += 1;
        }
        let mut created = self.storage.create(&name.part_path())?;
        // From here on the file is there, whatever happens to it.
        let entry = Entry { state: State::InProgress, bytes: 0, duration: None };
        self.shared.catalogue().insert(name.clone(), entry);
        self.tell(&name, Change::Begun);
        let written = created.append(&[head]).and_then(|()| self.storage.sync_folder(&name.folder()));
        let bytes = head.len() as u64;
        let open = Open { name, file: created, bytes, media: Duration::ZERO, unsynced_since: Some(now.at) };
        match written {
            Ok(()) => {
                self.count_bytes(bytes);
                self.files.insert(file, open);
                Ok(())
            }
            Err(error) => {
                self.end(open, now.at);
                Err(error)
            }
        }
    }

    fn append(&mut self, file: FileId, bytes: &Bytes, media: Duration, now: Now) -> io::Result<()> {
        let Some(open) = self.files.get_mut(&file) else { return Ok(()) };
        let written = match open.name.format {
            Format::Mp4 => {
                let checksum = checksum(bytes);
                // A `moof` that a crash has torn keeps ffmpeg from opening the file, whatever is before it: it
                // is one only when all of its fragment is there.
                let kind = FRAGMENT_KIND_AT..FRAGMENT_KIND_AT + 4;
                debug_assert_eq!(bytes.get(kind.clone()), Some(&b"moof"[..]));
                let (date, fragment) = (&bytes[..kind.start], &bytes[kind.end..]);
                open.file.append(&[date, b"free", fragment, &checksum])?;
                open.file.write_at(open.bytes + kind.start as u64, b"moof")?;
                bytes.len() + checksum.len()
            }
            Format::Flv => {
                open.file.append(&[bytes])?;
                bytes.len()
            }
        } as u64;
        open.bytes += written;
        open.media += media;
        open.unsynced_since.get_or_insert(now.at);
        if let Some(entry) = self.shared.catalogue().get_mut(&open.name) {
            (entry.bytes, entry.duration) = (open.bytes, Some(open.media));
        }
        self.count_bytes(written);
        self.shared.queue.counters.fragments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Files of a directory that was removed, or whose mount has vanished, can be written to and are lost.
    fn check(&mut self, now: Now) {
        if self.files.is_empty() || now.at < self.checked_at + RETRY {
            return;
        }
        self.checked_at = now.at;
        if let Err(error) = self.storage.check() {
            let files: Vec<_> = self.files.keys().copied().collect();
            files.into_iter().for_each(|file| self.fail(Some(file), &error, now));
        }
    }

    fn sync(&mut self, now: Now) {
        let Some(most) = self.settings.sync else { return };
        let is_due = |open: &Open| open.unsynced_since.is_some_and(|since| now.at >= since + most);
        let due: Vec<FileId> =
            self.files.iter().filter(|(_, open)| is_due(open)).map(|(file, _)| *file).collect();
        if due.len() >= SYNC_ALL_FROM {
            self.shared.queue.counters.syncs.fetch_add(1, Ordering::Relaxed);
            match self.storage.sync_all() {
                Ok(()) => self.files.values_mut().for_each(|open| open.unsynced_since = None),
                // Whose bytes were lost is not said.
                Err(error) => {
                    let unsynced = |(_, open): &(&FileId, &Open)| open.unsynced_since.is_some();
                    let files: Vec<_> = self.files.iter().filter(unsynced).map(|(file, _)| *file).collect();
                    files.into_iter().for_each(|file| self.fail(Some(file), &error, now));
                }
            }
            return;
        }
        for file in due {
            let Some(open) = self.files.get_mut(&file) else { continue };
            self.shared.queue.counters.syncs.fetch_add(1, Ordering::Relaxed);
            match open.file.sync() {
                Ok(()) => open.unsynced_since = None,
                // Linux forgets what it could not write: the file ends here, and is checked.
                Err(error) => self.fail(Some(file), &error, now),
            }
        }
    }

    fn end(&mut self, open: Open, due: Instant) {
        if let Some(entry) = self.shared.catalogue().get_mut(&open.name) {
            entry.state = State::Unfinished;
        }
        let Open { name, file, .. } = open;
        self.ending.push_back(Ending { name, file: Some(file), due, is_repair: false });
    }

    fn complete(&mut self, ending: Ending, now: Now) {
        let Ending { name, file, is_repair, .. } = ending;
        // What this run has written and still has open is known to be there.
        let check = if file.is_some() { Check::Nothing } else { Check::Newest };
        // What is not found is gone only if the directory is there.
        let checked = self.storage.check();
        match checked.and_then(|()| complete(&mut *self.storage, name.clone(), file, check)) {
            Ok(Completed::File(complete, scan)) => {
                let entry =
                    Entry { state: State::Complete, bytes: scan.bytes, duration: Some(scan.duration) };
                let mut catalogue = self.shared.catalogue();
                catalogue.remove(&name);
                catalogue.insert(complete.clone(), entry);
                drop(catalogue);
                let counters = &self.shared.queue.counters;
                let counter = if is_repair { &counters.files_repaired } else { &counters.files_completed };
                counter.fetch_add(1, Ordering::Relaxed);
                let (path, seconds) = (complete.path(), scan.duration.as_secs_f64());
                tracing::info!(path = %path.display(), bytes = scan.bytes, seconds, "recording complete");
                self.tell(&complete, Change::Completed);
                self.retention_at = now.at;
            }
            Ok(Completed::Empty) => self.forget(&name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(path = %name.part_path().display(), "removed before it was complete");
                self.forget(&name);
            }
            Err(error) => {
                self.fail(None, &error, now);
                // Opened again then, and looked at: what its descriptor says may not be what is there.
                let due = now.at + COMPLETE_AGAIN;
                self.ending.push_back(Ending { name, file: None, due, is_repair });
            }
        }
    }

    /// Reads how long the next recording of an earlier run is.
    fn read_duration(&mut self) {
        let unknown = |(_, entry): &(&RecordingName, &Entry)| {
            entry.state == State::Complete && entry.duration.is_none()
        };
        let next = {
            let catalogue = self.shared.catalogue();
            match &self.unread {
                None => None,
                Some(Unread::All) => catalogue.iter().rev().find(unknown),
                Some(Unread::Before(name)) => catalogue.range(..name).rev().find(unknown),
            }
            .map(|(name, _)| name.clone())
        };
        let Some(name) = next else {
            self.unread = None;
            return;
        };
        // One that cannot be read is not tried again: that is said when somebody asks for it.
        let opened = self.storage.open(&name.path(), false);
        let read = opened.and_then(|mut file| duration::read(&mut *file, name.format));
        if let (Ok(found), Some(entry)) = (read, self.shared.catalogue().get_mut(&name)) {
            entry.duration = found;
        }
        self.unread = Some(Unread::Before(name));
    }

    fn keep_what_is_kept(&mut self, now: Now) {
        let expired =
            catalogue::expired(&self.shared.catalogue(), &self.settings, &self.shared.directory, now.wall);
        for name in expired {
            // Looked at again with the next of these rounds.
            if (self.shared.needed.0)(&self.shared.directory.join(name.path())) {
                continue;
            }
            self.remove(&name, now);
        }
    }

    fn remove(&mut self, name: &RecordingName, now: Now) -> bool {
        match self.storage.remove(&name.path()) {
            Ok(()) => {
                tracing::info!(path = %name.path().display(), "a recording is removed");
                self.shared.queue.counters.files_removed.fetch_add(1, Ordering::Relaxed);
                self.forget(name);
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.forget(name);
                false
            }
            Err(error) => {
                self.fail(None, &error, now);
                false
            }
        }
    }

    fn forget(&mut self, name: &RecordingName) {
        self.shared.catalogue().remove(name);
        self.tell(name, Change::Removed);
    }

    /// A call has failed. `file` ends where it is; it is said once until the disk works again.
    fn fail(&mut self, file: Option<FileId>, error: &io::Error, now: Now) {
        self.shared.queue.counters.errors.fetch_add(1, Ordering::Relaxed);
        if let Some(file) = file {
            self.shared.queue.fail(file);
            if let Some(open) = self.files.remove(&file) {
                // Its descriptor may be of a disk that is gone.
                if let Some(entry) = self.shared.catalogue().get_mut(&open.name) {
                    entry.state = State::Unfinished;
                }
                let (name, due) = (open.name, now.at + RETRY);
                let ending = Ending { name, file: None, due, is_repair: false };
                self.ending.push_back(ending);
            }
        }
        if self.failed_until.is_none_or(|until| now.at >= until) {
            self.failed_until = Some(now.at + RETRY);
        }
        let mut failure = self.shared.failure();
        if failure.is_none() {
            let directory = self.shared.directory.display();
            tracing::error!(%directory, %error, "the disk fails: recordings have a gap until it works again");
            *failure = Some(error.to_string());
        }
    }

    /// A fragment is on its way to the disk.
    fn works(&mut self, now: Now) {
        if self.failed_until.is_none_or(|until| now.at < until) {
            return;
        }
        self.failed_until = None;
        if self.shared.failure().take().is_some() {
            let (directory, lost) = (
                self.shared.directory.display(),
                self.shared.queue.counters.fragments_lost.load(Ordering::Relaxed),
            );
            tracing::info!(%directory, fragments_lost = lost, "the disk of recordings works again");
        }
    }

    fn count_bytes(&self, bytes: u64) {
        self.shared.queue.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn tell(&self, name: &RecordingName, change: Change) {
        let (directory, name) = (self.shared.directory.clone(), name.clone());
        // Nobody needs to listen.
        let _ = self.shared.events.send(RecordingEvent { directory, name, change });
    }
}
