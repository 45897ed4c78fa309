//! One stream that is recorded: a player inside this process whose frames become files.

use std::collections::{HashMap, HashSet};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use worker_api::snapshot::Protocol;
use worker_api::tap::{Tap, TapItem, TapRefusal, TapRequest};
use worker_api::time::since_1970;

use crate::cut::{Cutter, Piece};
use crate::names::RecordingName;
use crate::queue::{FileId, Job};
use crate::settings::FileSettings;
use crate::thread::{NotStarted, Started};
use crate::writer::Shared;

/// A stream that is recorded, as others see it.
#[derive(Debug)]
pub struct Recording {
    /// Application.
    pub app: String,
    /// Stream.
    pub name: String,
    /// Whether a rule of the configuration started it, or the API.
    pub started_by: Started,
    /// Since when, since 1970.
    pub since: Duration,
    /// How its files are written.
    pub files: FileSettings,
    pub(crate) fragments: AtomicU64,
    pub(crate) fragments_lost: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) files_begun: AtomicU64,
}

impl Recording {
    pub(crate) fn new(app: String, name: String, started_by: Started, files: FileSettings) -> Self {
        Self {
            app,
            name,
            started_by,
            since: since_1970(),
            files,
            fragments: AtomicU64::new(0),
            fragments_lost: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            files_begun: AtomicU64::new(0),
        }
    }

    /// Fragments that went to the disk.
    pub fn fragments(&self) -> u64 {
        self.fragments.load(Ordering::Relaxed)
    }

    /// Fragments that the disk was too slow for, or refused.
    pub fn fragments_lost(&self) -> u64 {
        self.fragments_lost.load(Ordering::Relaxed)
    }

    /// Bytes that went to the disk.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Files that were begun.
    pub fn files_begun(&self) -> u64 {
        self.files_begun.load(Ordering::Relaxed)
    }
}

/// Hands pieces of a stream to the thread of its directory.
#[derive(Debug)]
pub(crate) struct Feeder {
    recording: Arc<Recording>,
    disk: Arc<Shared>,
    cutter: Cutter,
    /// Files that the thread knows, and heads of those that it does not know yet.
    known: HashSet<u64>,
    heads: HashMap<u64, (RecordingName, Vec<u8>)>,
    /// Number of the recording.
    number: u64,
    dropped_said: u64,
}

impl Feeder {
    pub(crate) fn new(recording: Arc<Recording>, disk: Arc<Shared>, fragment: Duration, number: u64) -> Self {
        let cutter = Cutter::new(recording.files.format, recording.files.rotation, fragment);
        let (known, heads) = (HashSet::new(), HashMap::new());
        Self { recording, disk, cutter, known, heads, number, dropped_said: 0 }
    }

    pub(crate) fn take(&mut self, item: TapItem, now: Duration) {
        let frames = match item {
            TapItem::Start { frames, .. } => frames,
            TapItem::Frame(frame) => vec![frame],
            TapItem::Gap { dropped, frames } => {
                tracing::debug!(
                    app = self.recording.app,
                    stream = self.recording.name,
                    dropped,
                    "frames are missing"
                );
                self.cutter.interrupt();
                frames
            }
            TapItem::Stop => {
                self.cutter.interrupt();
                Vec::new()
            }
        };
        // Those of the GOP cache came earlier: the newest has come now.
        let newest = frames.last().map(|frame| frame.dts);
        for frame in frames {
            let age = newest.map_or(0, |newest| (newest - frame.dts).millis());
            self.cutter
                .push(now.saturating_sub(Duration::from_millis(u64::try_from(age).unwrap_or(0))), &frame);
        }
        self.send();
    }

    pub(crate) fn finish(&mut self) {
        self.cutter.interrupt();
        self.send();
    }

    fn send(&mut self) {
        while let Some(piece) = self.cutter.poll() {
            match piece {
                Piece::Begin { file, start, head } => {
                    let Recording { app, name, files, .. } = &*self.recording;
                    self.heads.insert(file, (RecordingName::new(app, name, start, files.format), head));
                }
                Piece::Fragment { file, bytes, media } => {
                    // A file is there once its first fragment has found room.
                    let begins = self.heads.remove(&file);
                    let (is_first, length) = (begins.is_some(), bytes.len() as u64);
                    if !(is_first || self.known.contains(&file)) {
                        continue;
                    }
                    let id = FileId { recording: self.number, number: file };
                    match self.disk.queue.append(id, bytes, media, begins) {
                        Ok(()) => {
                            self.known.insert(file);
                            self.recording.files_begun.fetch_add(u64::from(is_first), Ordering::Relaxed);
                            self.recording.fragments.fetch_add(1, Ordering::Relaxed);
                            self.recording.bytes.fetch_add(length, Ordering::Relaxed);
                        }
                        Err(_) => {
                            self.recording.fragments_lost.fetch_add(1, Ordering::Relaxed);
                            self.cutter.lose(file);
                        }
                    }
                }
                Piece::End { file } => {
                    self.heads.remove(&file);
                    if self.known.remove(&file) {
                        let file = FileId { recording: self.number, number: file };
                        self.disk.queue.push(Job::End { file });
                    }
                }
            }
        }
        let dropped = self.cutter.frames_dropped();
        if dropped > 0 && self.dropped_said == 0 {
            self.dropped_said = dropped;
            let (app, stream) = (&self.recording.app, &self.recording.name);
            tracing::debug!(app, stream, "frames that cannot be recorded are left out");
        }
    }
}

/// Records a stream until it is over or `stop` comes. `started` gets an answer as soon as there is one.
pub(crate) async fn run(
    shared: Arc<crate::thread::Common>,
    mut feeder: Feeder,
    started: Option<oneshot::Sender<Result<(), NotStarted>>>,
    mut stop: oneshot::Receiver<()>,
) {
    let (app, name) = (feeder.recording.app.clone(), feeder.recording.name.clone());
    let key = format!("{app}/{name}");
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let request = TapRequest { app, name, protocol: Protocol::Recording, address, detail: String::new() };
    let home = (shared.home)(&key).unwrap_or_default();
    let (tap, answer) = match shared.workers.tap(home, request).await {
        Ok(Ok(tap)) => (Some(tap), Ok(())),
        Ok(Err(refusal)) => {
            tracing::debug!(stream = key, ?refusal, "not recorded");
            (
                None,
                Err(match refusal {
                    TapRefusal::NotFound => NotStarted::NotPublished,
                    TapRefusal::NotFrames => NotStarted::NotFrames,
                    TapRefusal::Full | TapRefusal::Draining => NotStarted::Full,
                }),
            )
        }
        Err(no_answer) => {
            tracing::warn!(stream = key, ?no_answer, "not recorded");
            (None, Err(NotStarted::Full))
        }
    };
    if let Some(started) = started {
        // Who asked may have gone.
        let _ = started.send(answer);
    }
    let Some(mut tap) = tap else { return };
    let directory = feeder.disk.directory.display().to_string();
    tracing::info!(stream = key, directory, "recorded");
    tokio::select! {
        () = follow(&mut feeder, &mut tap) => {}
        _ = &mut stop => {}
    }
    // What came before the end.
    while let Some(item) = tap.try_next() {
        feeder.take(item, since_1970());
    }
    feeder.finish();
    tracing::info!(stream = key, lost = feeder.recording.fragments_lost(), "no longer recorded");
}

async fn follow(feeder: &mut Feeder, tap: &mut Tap) {
    while let Ok(item) = tap.next().await {
        feeder.take(item, since_1970());
    }
}
