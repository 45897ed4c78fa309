//! The thread, and whose turn is next.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use worker_api::directory_lock::DirectoryLock;
use worker_api::segments::SegmentsUpdate;

use crate::backoff::{Pace, pause};
use crate::journal::{Journal, JournalFile};
use crate::mirror::{self, MirrorTotals, MirroredStream};
use crate::scan::{self, Found};
use crate::send::{self, Outcome};
use crate::settings::UploadSettings;
use crate::status::{Cause, Failure, UploadState, UploadStatus, UploadTotals};
use crate::store::Store;
use crate::table::{FileKey, State, Table};

/// Messages about complete files that may wait. What comes then is found by the next scan.
const MESSAGES_MAX: usize = 1_024;
/// How often directories are looked through for files that no message was about, and for those that are gone.
const SCAN_EVERY: Duration = Duration::from_secs(60);
/// The file whose lock says that a server sends the files of a directory.
const LOCK: &str = ".uploads.lock";

/// Removes a local file that was confirmed long enough ago.
pub type Remove = dyn Fn(&Path) + Send + Sync;

/// What the thread needs.
pub struct UploadInput {
    /// Where to, and how.
    pub settings: UploadSettings,
    /// Directories whose complete files are sent. Those that are not there are made.
    pub directories: Vec<PathBuf>,
    /// How local files are removed.
    pub remove: Box<Remove>,
}

/// Owns the thread, which ends when this is dropped. What is being sent goes on at the next start.
#[derive(Debug)]
pub struct UploadsThread {
    uploads: Uploads,
    _running: oneshot::Sender<()>,
    ended: Option<std::thread::JoinHandle<()>>,
}

/// Uploads, for those who complete files and those who look.
#[derive(Debug, Clone)]
pub struct Uploads {
    shared: Arc<Shared>,
    messages: Sender<PathBuf>,
    streams: Sender<MirroredStream>,
}

/// What the thread and its handles have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: UploadSettings,
    pub(crate) store: Arc<Store>,
    pub(crate) directories: Vec<Directory>,
    mirror: Arc<mirror::Counts>,
    table: Mutex<Table>,
}

#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) path: PathBuf,
    journal: Mutex<Journal>,
    /// Held as long as this is there.
    _lock: DirectoryLock,
}

impl UploadsThread {
    /// Takes the directories for this server and starts the thread.
    ///
    /// # Errors
    /// A directory cannot be used or another server uses it, the store's settings make no store, or the
    /// system gives no thread.
    pub fn start(input: UploadInput) -> Result<Self, String> {
        let UploadInput { settings, directories, remove } = input;
        let store = Arc::new(Store::new(&settings)?);
        let directories = directories
            .into_iter()
            .map(|path| {
                let explain = |error| format!("uploads from {}: {error}", path.display());
                Directory::open(&path, store.label()).map_err(explain)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(Shared {
            settings,
            store,
            directories,
            mirror: Arc::default(),
            table: Mutex::default(),
        });
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("the runtime of uploads: {error}"))?;
        let (running, ended) = oneshot::channel::<()>();
        let (messages, completed) = mpsc::channel(MESSAGES_MAX);
        let (streams, begun) = mpsc::channel(mirror::STREAMS_WAITING_MAX);
        let started_ms = wall_ms();
        let of_mirror = (Arc::clone(&shared.store), shared.settings.clone(), Arc::clone(&shared.mirror));
        let of_thread = Arc::clone(&shared);
        let thread = worker_api::thread::spawn("uploads", move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = run(of_thread, completed, remove) => {}
                    () = mirror::run(of_mirror, begun, started_ms) => {}
                    // Whether it is sent or dropped does not matter.
                    _ = ended => {}
                }
            });
            // Not waiting for a disk that does not answer.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(|error| format!("the thread of uploads: {error}"))?;
        let uploads = Uploads { shared, messages, streams };
        Ok(Self { uploads, _running: running, ended: Some(thread) })
    }

    /// For others.
    pub fn uploads(&self) -> Uploads {
        self.uploads.clone()
    }

    /// Ends the thread and waits for that: requests in flight are cut off.
    pub fn stop(mut self) {
        let Some(thread) = self.ended.take() else { return };
        drop(self);
        // One that panicked has said so.
        let _ = thread.join();
    }
}

impl Uploads {
    /// A file is complete. Never waits.
    pub fn completed(&self, path: &Path) {
        // With too many at once, the next scan finds it.
        let _ = self.messages.try_send(path.to_owned());
    }

    /// A live stream is cut into segments, which go to `folder` below the prefix for streams, if they are to
    /// be sent. Never waits.
    pub fn mirror(&self, app: &str, name: &str, folder: String, views: watch::Receiver<SegmentsUpdate>) {
        let mirror = self.shared.settings.mirror.as_ref();
        if mirror.is_some_and(|mirror| mirror.streams.matches_parts(app, name))
            && self.streams.try_send(MirroredStream { folder, views }).is_err()
        {
            tracing::warn!(app, name, "too many streams begin: its segments are not sent to the store");
        }
    }

    /// Live streams in the store.
    pub fn mirror_totals(&self) -> MirrorTotals {
        self.shared.mirror.totals()
    }

    /// Where files are sent to.
    pub fn store(&self) -> &str {
        self.shared.store.label()
    }

    /// Whether the store has said that it has a file. Its local copy has to be kept until then.
    pub fn is_confirmed(&self, path: &Path) -> bool {
        self.state(path).is_some_and(|state| matches!(state, UploadState::Confirmed { .. }))
    }

    /// Whether a file is one that is sent: then its local copy has to be kept until it is confirmed.
    pub fn is_followed(&self, path: &Path) -> bool {
        self.shared.key_of(path).is_some()
    }

    /// How far a file is; `None`: it is not followed, or not yet.
    pub fn state(&self, path: &Path) -> Option<UploadState> {
        let key = self.shared.key_of(path)?;
        self.shared.table().get(&key).map(|entry| entry.state.shown(now()))
    }

    /// Files, those first that failed, then those that are being sent, wait, and are confirmed; `limit` at
    /// most, and how many there are. With a name of [`UploadState::NAMES`], those in that state alone.
    pub fn list(&self, state: Option<&str>, limit: usize) -> (Vec<UploadStatus>, usize) {
        let now = now();
        let table = self.shared.table();
        let mut files: Vec<_> = table
            .iter()
            .map(|(key, entry)| (key, entry, entry.state.shown(now)))
            .filter(|(_, _, shown)| state.is_none_or(|state| shown.name() == state))
            .collect();
        let rank = |state: &UploadState| match state {
            UploadState::Failed { .. } => 0,
            UploadState::Uploading { .. } => 1,
            UploadState::Waiting => 2,
            UploadState::Confirmed { .. } => 3,
        };
        // Recordings have their time in their names: of each state the newest first.
        files.sort_by(|a, b| (rank(&a.2), b.0).cmp(&(rank(&b.2), a.0)));
        let total = files.len();
        let shown = files.into_iter().take(limit).map(|(key, entry, state)| UploadStatus {
            directory: self.shared.directories[key.directory].path.display().to_string(),
            path: key.path.to_string(),
            bytes: entry.bytes,
            failures: entry.failures,
            state,
        });
        (shown.collect(), total)
    }

    /// Totals.
    pub fn totals(&self) -> UploadTotals {
        let failing = |directory: &&Directory| directory.journal().failure().is_some();
        let journals_failing = self.shared.directories.iter().filter(failing).count() as u64;
        UploadTotals { journals_failing, ..self.shared.table().totals() }
    }
}

impl Shared {
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of an absolute path, if it is one that is sent.
    fn key_of(&self, path: &Path) -> Option<FileKey> {
        let below =
            |directory: &Directory| Some(path.strip_prefix(&directory.path).ok()?.to_str()?.to_owned());
        let (directory, path) =
            self.directories.iter().enumerate().find_map(|(index, known)| Some((index, below(known)?)))?;
        let is_sent = scan::is_complete(&path, &self.settings.suffixes);
        is_sent.then(|| FileKey { directory, path: path.into() })
    }

    /// Follows a file unless it is followed already.
    fn follow(&self, key: FileKey, found: &Found) {
        let mut table = self.table();
        let is_known = table.get(&key).is_some_and(|entry| {
            // One that was confirmed and has become another one is sent under its name, and refused there.
            entry.bytes == found.file.bytes || !matches!(entry.state, State::Confirmed { .. })
        });
        if !is_known {
            let directory = &self.directories[key.directory];
            let confirmed = directory
                .journal()
                .get(&key.path)
                .and_then(|known| known.confirmed_at_ms.filter(|_| known.file == found.file));
            table.follow(key, found.file.bytes, confirmed, now());
        }
    }
}

impl Directory {
    fn open(path: &Path, store: &str) -> io::Result<Self> {
        let lock = DirectoryLock::take(path, LOCK, "sends its files")?;
        let journal = Journal::open(Box::new(JournalFile::new(path)), store)?;
        Ok(Self { path: path.to_owned(), journal: Mutex::new(journal), _lock: lock })
    }

    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(shared: Arc<Shared>, mut completed: Receiver<PathBuf>, remove: Box<Remove>) {
    let mut attempts: JoinSet<(FileKey, Result<Outcome, Failure>)> = JoinSet::new();
    let mut scans: JoinSet<(usize, io::Result<Vec<Found>>)> = JoinSet::new();
    let mut aborts: JoinSet<()> = JoinSet::new();
    let mut pace = Pace::default();
    let mut tick = tokio::time::interval(SCAN_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        while attempts.len() < shared.settings.concurrency && pace.not_before().is_none_or(|at| at <= now()) {
            let Some(key) = shared.table().next(now()) else { break };
            let shared = Arc::clone(&shared);
            attempts.spawn(async move {
                let sent = send::send(&shared, &key).await;
                (key, sent)
            });
        }
        let next = shared.table().next_turn().filter(|_| attempts.len() < shared.settings.concurrency);
        let next = next.map(|at| pace.not_before().map_or(at, |not_before| at.max(not_before)));
        tokio::select! {
            path = completed.recv() => {
                // All handles are gone, and so is whoever started the thread.
                let Some(path) = path else { return };
                note(&shared, &path);
            }
            Some(Ok((key, sent))) = attempts.join_next() => finish(&shared, &mut pace, &key, sent),
            Some(Ok((directory, found))) = scans.join_next() => {
                merge(&shared, directory, found, &mut aborts);
                remove_old(&shared, directory, &remove);
            }
            Some(_) = aborts.join_next() => {}
            // A scan that takes longer than until the next one is not started twice.
            _ = tick.tick(), if scans.is_empty() => {
                for (index, directory) in shared.directories.iter().enumerate() {
                    directory.journal().tend();
                    let (path, suffixes) = (directory.path.clone(), shared.settings.suffixes.clone());
                    scans.spawn_blocking(move || (index, scan::complete_files(&path, &suffixes)));
                }
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(now)), if next.is_some() => {}
        }
    }
}

/// A message says that a file is complete.
fn note(shared: &Shared, path: &Path) {
    let Some(key) = shared.key_of(path) else { return };
    // One that has gone by now needs nothing.
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return };
    if metadata.is_file() {
        let found = Found { path: key.path.to_string(), file: scan::identity(&metadata) };
        shared.follow(key, &found);
    }
}

/// An attempt has ended.
fn finish(shared: &Shared, pace: &mut Pace, key: &FileKey, sent: Result<Outcome, Failure>) {
    let directory = &shared.directories[key.directory];
    let (file, is_sent) = match sent {
        Ok(Outcome::Gone) => {
            directory.journal().forget(&key.path);
            shared.table().remove(key);
            return;
        }
        Ok(Outcome::Sent(file)) => (file, true),
        Ok(Outcome::AlreadyThere(file)) => (file, false),
        Err(failure) => {
            let Failure { cause, why } = &failure;
            tracing::warn!(path = %key.path, cause = cause.name(), why, "not uploaded; it is tried again");
            let settings = &shared.settings;
            let now = now();
            if cause.is_of_the_store() {
                pace.failed(now, settings, settings.retry_max);
            }
            let is_conflict = *cause == Cause::Conflict;
            // Somebody has to remove one of the two: more attempts in between change nothing.
            let pause = |failures| if is_conflict { settings.retry_max } else { pause(failures, settings) };
            shared.table().failed(key, failure, now, pause);
            return;
        }
    };
    pace.worked();
    let at_ms = wall_ms();
    let known = directory.journal().get(&key.path).map(|known| known.sha256.clone());
    directory.journal().confirm(&key.path, file, &known.unwrap_or_default(), at_ms);
    let mut table = shared.table();
    table.confirmed(key, file.bytes, at_ms);
    if is_sent {
        table.totals.sent += 1;
    } else {
        table.totals.already_there += 1;
    }
    tracing::debug!(path = %key.path, bytes = file.bytes, is_sent, "uploaded");
}

/// A directory was looked through.
fn merge(shared: &Arc<Shared>, index: usize, found: io::Result<Vec<Found>>, aborts: &mut JoinSet<()>) {
    let directory = &shared.directories[index];
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(directory = %directory.path.display(), %error, "cannot be looked through for uploads");
            return;
        }
    };
    let key = |path: &str| FileKey { directory: index, path: path.into() };
    for file in &found {
        shared.follow(key(&file.path), file);
    }
    // Files that are gone.
    let there: std::collections::HashSet<&str> = found.iter().map(|file| file.path.as_str()).collect();
    let is_gone = |path: &str| !there.contains(path) && !directory.path.join(path).exists();
    let followed: Vec<FileKey> = {
        let table = shared.table();
        let of_directory = table.iter().filter(|(key, entry)| {
            // An attempt finds out by itself.
            key.directory == index && !matches!(entry.state, State::Uploading { .. })
        });
        of_directory.map(|(key, _)| key.clone()).collect()
    };
    let known: Vec<String> = directory.journal().paths().map(str::to_owned).collect();
    let gone = followed.into_iter().filter(|key| is_gone(&key.path));
    for key in gone {
        shared.table().remove(&key);
    }
    for path in known.into_iter().filter(|path| is_gone(path)) {
        if shared.table().get(&key(&path)).is_some() {
            continue;
        }
        let multipart = directory.journal().get(&path).and_then(|known| known.multipart.clone());
        if let Some(multipart) = multipart.filter(|_| shared.store.resumes()) {
            let (shared, path) = (Arc::clone(shared), path.clone());
            aborts.spawn(async move {
                // A store that does not answer now keeps the parts until its bucket's rules remove them.
                if let Ok(object) = shared.store.key(&path) {
                    let _ = shared.store.abort(&object, &multipart.upload).await;
                }
            });
        }
        directory.journal().forget(&path);
    }
}

/// Removes local files that were confirmed long enough ago.
fn remove_old(shared: &Shared, index: usize, remove: &Remove) {
    let Some(after) = shared.settings.delete_local_after else { return };
    let now_ms = wall_ms();
    let old: Vec<FileKey> = {
        let table = shared.table();
        let is_old = |state: &State| matches!(state, State::Confirmed { at_ms } if is_old_enough(*at_ms, now_ms, after));
        let of_directory = table.iter().filter(|(key, entry)| key.directory == index && is_old(&entry.state));
        of_directory.map(|(key, _)| key.clone()).collect()
    };
    for key in old {
        remove(&shared.directories[index].path.join(&*key.path));
        shared.table().totals.removed += 1;
    }
}

/// Whether what was confirmed at one time is to be removed at another. A clock that was set back removes
/// nothing.
fn is_old_enough(at_ms: u64, now_ms: u64, after: Duration) -> bool {
    now_ms.checked_sub(at_ms).is_some_and(|age| u128::from(age) >= after.as_millis())
}

fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the thread has a clock of its own")]
fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_removes_no_local_file() {
        let hour = Duration::from_secs(3600);
        assert!(is_old_enough(1_000, 3_601_000, hour));
        assert!(!is_old_enough(1_000, 3_600_999, hour));
        assert!(!is_old_enough(5_000_000, 1_000, hour), "confirmed in the future");
        assert!(!is_old_enough(5_000_000, 1_000, Duration::ZERO));
    }
}
