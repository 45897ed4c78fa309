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

use std::collections::HashSet;
use std::fs::{self, File};
use std::future;
use std::io::{self, Write as _};
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
/// How soon a disk that has failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The directory of all streams.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    _lock: DirectoryLock,
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
    held_bytes: AtomicU64,
    is_failing: AtomicBool,
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
    /// Whether the disk takes nothing at present.
    pub is_failing: bool,
}

impl Store {
    /// Takes the directory, and removes what an earlier run left there.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let lock = DirectoryLock::take(directory, ".lock", "keeps segments there")?;
        let store = Self {
            directory: directory.to_owned(),
            _lock: lock,
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
        let Figures { bytes, segments, errors, recalled, held_bytes: _, is_failing } = &*self.figures;
        StoreStatus {
            bytes: bytes.load(Relaxed),
            segments: segments.load(Relaxed),
            errors: errors.load(Relaxed),
            recalled: recalled.load(Relaxed),
            is_failing: is_failing.load(Relaxed),
        }
    }

    fn write(&self, path: &Path, pieces: &[Bytes]) -> io::Result<()> {
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
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        self.figures.bytes.fetch_add(bytes as u64, Relaxed);
        self.figures.segments.fetch_add(1, Relaxed);
        Ok(())
    }

    fn remove(&self, path: &Path) {
        let size = fs::metadata(path).map(|found| found.len());
        match size.and_then(|size| fs::remove_file(path).map(|()| size)) {
            Ok(size) => {
                self.figures.bytes.fetch_sub(size, Relaxed);
                self.figures.segments.fetch_sub(1, Relaxed);
            }
            Err(error) => self.failed(&error),
        }
    }

    fn remove_folder(&self, folder: &Path) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        entries.flatten().for_each(|entry| self.remove(&entry.path()));
        let _ = fs::remove_dir(folder);
    }

    fn failed(&self, error: &io::Error) {
        self.figures.errors.fetch_add(1, Relaxed);
        if !self.figures.is_failing.swap(true, Relaxed) {
            let directory = self.directory.display();
            tracing::warn!(%directory, %error, "the disk of segments fails: windows are shorter");
        }
    }

    fn works(&self) {
        if self.figures.is_failing.swap(false, Relaxed) {
            tracing::info!(directory = %self.directory.display(), "the disk of segments works again");
        }
    }
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
    done: mpsc::UnboundedSender<Done>,
    /// At most one write and [`READS_MAX`] reads are under way.
    results: mpsc::UnboundedReceiver<Done>,
}

/// What the disk has done.
#[derive(Debug)]
pub(crate) enum Done {
    Written(SegmentId, io::Result<()>),
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
                store.remove_folder(folder);
            }
        });
    }

    /// Reads a segment for those who wait for it, unless that is under way, or too much is.
    pub(crate) fn read(&mut self, id: SegmentId) {
        let held = self.store.figures.held_bytes.load(Relaxed);
        if self.reading.len() >= READS_MAX || held >= HELD_BYTES_MAX || !self.reading.insert(id) {
            return;
        }
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
            Done::Written(id, Ok(())) => {
                self.is_writing = false;
                self.retry_at = None;
                self.store.works();
                window.stored(id);
                false
            }
            Done::Written(_, Err(error)) => {
                self.is_writing = false;
                self.retry_at = Some(Instant::now() + RETRY);
                self.store.failed(&error);
                false
            }
            Done::Read(id, read) => {
                self.reading.remove(&id);
                match read {
                    Ok(bytes) => {
                        self.store.figures.recalled.fetch_add(1, Relaxed);
                        window.recall(id, bytes);
                        true
                    }
                    Err(error) => {
                        self.store.figures.errors.fetch_add(1, Relaxed);
                        tracing::debug!(%error, "a segment could not be read");
                        false
                    }
                }
            }
        };
        self.remove(window.take_expired());
        self.write_on(window);
        is_new
    }

    /// Removes files.
    pub(crate) fn remove(&self, expired: Vec<SegmentId>) {
        if expired.is_empty() {
            return;
        }
        let paths: Vec<_> = expired.into_iter().map(|id| self.path(id)).collect();
        let store = Arc::clone(&self.store);
        self.runtime.spawn_blocking(move || paths.iter().for_each(|path| store.remove(path)));
    }
}

impl Drop for StreamStore {
    fn drop(&mut self) {
        let (store, folder) = (Arc::clone(&self.store), std::mem::take(&mut self.folder));
        self.runtime.spawn_blocking(move || store.remove_folder(&folder));
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
