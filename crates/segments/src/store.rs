//! Segments on disk: those of a long window that are not among the newest.
//!
//! ```text
//! {hls.directory}/.lock                     one server uses the directory
//! {hls.directory}/stream-7/Video-0-{msn}    a segment; a folder for each stream that is cut
//! ```
//!
//! They serve the window of a stream while it is cut, and nothing else: they are not synced, and what an
//! earlier run left is removed at the start. Files are written and read on threads of their own, so that a
//! slow disk costs memory, and then the window its oldest segments, but never delays what is cut.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, File};
use std::future;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use hls::{SegmentId, Window};
use media::TrackId;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;
use worker_api::directory_lock::DirectoryLock;

/// Threads that write and read.
pub(crate) const DISK_THREADS: usize = 4;
/// Segments of one stream that are read at a time; players ask again for further ones.
const READS_MAX: usize = 16;
/// Bytes that were read and are not yet sent, of all streams: slow readers hold them.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// How long they are kept for others who ask for the same.
const RECALLED_FOR: Duration = Duration::from_secs(3);
/// How soon a disk that has failed is tried again; one that is full, when there is room again.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_FULL: Duration = Duration::from_millis(100);
/// Segments that make room when the disk is full.
const MAKES_ROOM: usize = 2;

/// The directory of all streams.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    lock: DirectoryLock,
    folders: AtomicU64,
    figures: Arc<Figures>,
}

/// What operators see of the directory.
#[derive(Debug, Default)]
struct Figures {
    bytes: AtomicU64,
    segments: AtomicU64,
    errors: AtomicU64,
    recalled: AtomicU64,
    deferred: AtomicU64,
    held_bytes: AtomicU64,
    is_failing: AtomicBool,
    was_full: AtomicBool,
}

/// What the directory of segments has and does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStatus {
    /// Bytes on disk.
    pub bytes: u64,
    /// Segments on disk.
    pub segments: u64,
    /// Calls that the disk failed.
    pub errors: u64,
    /// Segments read for players.
    pub recalled: u64,
    /// Times that one was read later, because too much was read already.
    pub deferred: u64,
    /// Whether the disk takes nothing at present.
    pub is_failing: bool,
}

impl Store {
    /// Takes the directory, and removes what an earlier run left there.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let lock = DirectoryLock::take(directory, ".lock", "keeps segments there")?;
        let store = Self {
            directory: directory.to_owned(),
            lock,
            folders: AtomicU64::new(0),
            figures: Arc::default(),
        };
        store.clear()?;
        Ok(store)
    }

    /// Removes all folders that are ours by their names.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let is_ours = entry.file_name().to_str().is_some_and(is_folder_name);
            if is_ours && entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    pub(crate) fn status(&self) -> StoreStatus {
        let Figures { bytes, segments, errors, recalled, deferred, held_bytes: _, is_failing, was_full: _ } =
            &*self.figures;
        StoreStatus {
            bytes: bytes.load(Relaxed),
            segments: segments.load(Relaxed),
            errors: errors.load(Relaxed),
            recalled: recalled.load(Relaxed),
            deferred: deferred.load(Relaxed),
            is_failing: is_failing.load(Relaxed),
        }
    }

    fn write(&self, path: &Path, pieces: &[Bytes]) -> io::Result<u64> {
        // Nothing is written below a mount point whose disk has gone.
        self.lock.check()?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let written =
            File::create(path).and_then(|mut file| pieces.iter().try_for_each(|piece| file.write_all(piece)));
        if let Err(error) = written {
            // It may be there in part, or not at all.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(pieces.iter().map(|piece| piece.len() as u64).sum())
    }

    fn failed(&self, error: &io::Error) {
        self.figures.errors.fetch_add(1, Relaxed);
        if !self.figures.is_failing.swap(true, Relaxed) {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "the disk of segments fails: windows are shorter");
        }
    }

    /// As long as windows do not fit, that happens every few seconds: it is said once.
    fn full(&self, error: &io::Error) {
        self.figures.errors.fetch_add(1, Relaxed);
        if !self.figures.was_full.swap(true, Relaxed) {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "the disk of segments is full: windows are as long as it has room");
        }
    }

    fn works(&self) {
        if self.figures.is_failing.swap(false, Relaxed) {
            tracing::info!(directory = %self.directory.display(), "the disk of segments works again");
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn is_folder_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix("stream-").is_some_and(is_number)
}

/// One stream's part of the directory.
#[derive(Debug)]
pub(crate) struct StreamStore {
    store: Arc<Store>,
    /// Whose threads write and read.
    runtime: Handle,
    folder: PathBuf,
    is_writing: bool,
    /// When to try again after a failure.
    retry_at: Option<Instant>,
    reading: HashSet<SegmentId>,
    /// What was read lately, and when.
    recalled: VecDeque<(Instant, SegmentId)>,
    /// Bytes of what is on disk.
    sizes: HashMap<SegmentId, u64>,
    done: mpsc::UnboundedSender<Done>,
    /// At most one write and [`READS_MAX`] reads are under way.
    results: mpsc::UnboundedReceiver<Done>,
}

/// What the disk has done.
#[derive(Debug)]
pub(crate) enum Done {
    Written(SegmentId, io::Result<u64>),
    Read(SegmentId, io::Result<Bytes>),
}

impl StreamStore {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        let (done, results) = mpsc::unbounded_channel();
        let number = store.folders.fetch_add(1, Relaxed);
        Self {
            store: Arc::clone(store),
            runtime: Handle::current(),
            folder: store.directory.join(format!("stream-{number}")),
            is_writing: false,
            retry_at: None,
            reading: HashSet::new(),
            recalled: VecDeque::new(),
            sizes: HashMap::new(),
            done,
            results,
        }
    }

    fn path(&self, id: SegmentId) -> PathBuf {
        let TrackId { kind, index } = id.rendition;
        self.folder.join(format!("{kind:?}-{index}-{}", id.msn))
    }

    /// Writes what the window has too much of, one segment after the other.
    pub(crate) fn write_on(&mut self, window: &Window) {
        if self.is_writing || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Some((id, pieces)) = window.to_store() else { return };
        self.is_writing = true;
        let (store, path, done) = (Arc::clone(&self.store), self.path(id), self.done.clone());
        self.runtime.spawn_blocking(move || {
            let written = store.write(&path, &pieces);
            if done.send(Done::Written(id, written)).is_err()
                && let Some(folder) = path.parent()
            {
                // The stream is over, and its folder may be gone already.
                let _ = fs::remove_dir_all(folder);
            }
        });
    }

    /// Reads a segment for those who wait for it, unless that is under way, or too much is.
    pub(crate) fn read(&mut self, id: SegmentId) {
        if self.reading.contains(&id) {
            return;
        }
        let held = self.store.figures.held_bytes.load(Relaxed);
        if self.reading.len() >= READS_MAX || held >= HELD_BYTES_MAX {
            self.store.figures.deferred.fetch_add(1, Relaxed);
            return;
        }
        self.reading.insert(id);
        let (store, path, done) = (Arc::clone(&self.store), self.path(id), self.done.clone());
        self.runtime.spawn_blocking(move || {
            let read =
                fs::read(&path).map(|bytes| Bytes::from_owner(Held::new(Arc::clone(&store.figures), bytes)));
            let _ = done.send(Done::Read(id, read));
        });
    }

    /// What the disk has done next; never, while there is nothing to do.
    pub(crate) async fn next(&mut self) -> Done {
        match self.results.recv().await {
            Some(done) => done,
            // `self` has a sender.
            None => future::pending().await,
        }
    }

    pub(crate) fn try_next(&mut self) -> Option<Done> {
        self.results.try_recv().ok()
    }

    /// Takes in what the disk has done; whether there is something new to request.
    pub(crate) fn take(&mut self, done: Done, window: &mut Window) -> bool {
        let is_new = match done {
            Done::Written(id, written) => {
                self.is_writing = false;
                self.take_written(id, written, window);
                false
            }
            Done::Read(id, Ok(bytes)) => {
                self.reading.remove(&id);
                self.store.figures.recalled.fetch_add(1, Relaxed);
                self.recalled.push_back((Instant::now(), id));
                window.recall(id, bytes);
                true
            }
            Done::Read(id, Err(error)) => {
                self.reading.remove(&id);
                self.store.failed(&error);
                // Requests that wait for it are answered that there is none.
                window.lose_stored(id);
                true
            }
        };
        self.tidy(window);
        is_new
    }

    fn take_written(&mut self, id: SegmentId, written: io::Result<u64>, window: &mut Window) {
        match written {
            Ok(bytes) => {
                self.retry_at = None;
                self.store.works();
                self.sizes.insert(id, bytes);
                self.store.figures.bytes.fetch_add(bytes, Relaxed);
                self.store.figures.segments.fetch_add(1, Relaxed);
                window.stored(id);
            }
            Err(error) if is_full(&error) && window.give_up_stored(id.rendition, MAKES_ROOM) => {
                self.store.full(&error);
                self.retry_at = Some(Instant::now() + RETRY_FULL);
            }
            Err(error) => {
                self.store.failed(&error);
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Writes on, removes what nobody can ask for, and drops what was read a while ago; whether that was any.
    pub(crate) fn tidy(&mut self, window: &mut Window) -> bool {
        let now = Instant::now();
        let old = self.recalled.iter().take_while(|(read_at, _)| now - *read_at >= RECALLED_FOR).count();
        self.recalled.drain(..old).for_each(|(_, id)| window.drop_recalled(id));
        self.remove(window.take_expired());
        self.write_on(window);
        old > 0
    }

    /// When there is something to tidy at the latest.
    pub(crate) fn tidy_at(&self) -> Option<Instant> {
        self.recalled.front().map(|(read_at, _)| *read_at + RECALLED_FOR)
    }

    /// Removes files.
    fn remove(&mut self, expired: Vec<SegmentId>) {
        if expired.is_empty() {
            return;
        }
        self.forget_sizes(|id| expired.contains(id));
        let paths: Vec<_> = expired.iter().map(|id| self.path(*id)).collect();
        // What cannot be removed goes with the folder.
        self.runtime.spawn_blocking(move || paths.iter().for_each(|path| drop(fs::remove_file(path))));
    }

    fn forget_sizes(&mut self, is_gone: impl Fn(&SegmentId) -> bool) {
        let gone: Vec<_> = self.sizes.extract_if(|id, _| is_gone(id)).collect();
        let bytes = gone.iter().map(|(_, bytes)| bytes).sum();
        self.store.figures.bytes.fetch_sub(bytes, Relaxed);
        self.store.figures.segments.fetch_sub(gone.len() as u64, Relaxed);
    }
}

impl Drop for StreamStore {
    fn drop(&mut self) {
        self.forget_sizes(|_| true);
        let folder = std::mem::take(&mut self.folder);
        // What cannot be removed is at the next start.
        self.runtime.spawn_blocking(move || drop(fs::remove_dir_all(folder)));
    }
}

/// Bytes that were read, counted until nobody holds them.
struct Held {
    figures: Arc<Figures>,
    bytes: Vec<u8>,
}

impl Held {
    fn new(figures: Arc<Figures>, bytes: Vec<u8>) -> Self {
        figures.held_bytes.fetch_add(bytes.len() as u64, Relaxed);
        Self { figures, bytes }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.figures.held_bytes.fetch_sub(self.bytes.len() as u64, Relaxed);
    }
}
