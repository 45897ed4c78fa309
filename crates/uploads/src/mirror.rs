//! Live streams in the store: segments as they are complete, and the playlists that name them.
//!
//! ```text
//! views of a stream ──▶ stream.rs: takes what is new ─▶ rendition.rs: waits, is listed, is retired
//!                                  sends, a segment before the playlist that names it, and deletes
//! ```
//!
//! Every stream has one task, which alone writes below its folder. Nothing is kept on disk: segments wait in
//! memory, as far as there is room, and the store itself says after a restart what is left to be deleted.
//! Names of segments are never used twice, so an object under one is the segment or somebody else's.

mod rendition;
mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::path::Path;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use worker_api::segments::SegmentsUpdate;

use crate::backoff::{Pace, pause};
use crate::settings::{MirrorSettings, UploadSettings};
use crate::status::{Cause, Failure};
use crate::store::{Store, hex};

/// Requests to the store for segments that are under way at a time.
const REQUESTS_MAX: usize = 64;
/// The same for deletions, which wait for each other and keep no segment waiting.
const DELETIONS_MAX: usize = 8;
/// Longest pause after a failure: what is live is worth nothing minutes later.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Messages that may wait for the task of a stream: it takes them at once.
const MESSAGES_MAX: usize = 16;
/// Streams that begin at one time; of further ones nothing is sent.
pub(crate) const STREAMS_WAITING_MAX: usize = 1_024;
/// Objects of earlier runs that are looked at after a start; further ones at the next.
const LEFT_MAX: usize = 200_000;

/// A stream that is cut into segments from now on.
#[derive(Debug)]
pub(crate) struct MirroredStream {
    /// Path of its folder below the prefix for streams.
    pub(crate) folder: String,
    /// What there is of it, as it changes.
    pub(crate) views: watch::Receiver<SegmentsUpdate>,
}

/// Segments in the store since the start, and those that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MirrorTotals {
    /// Streams being uploaded, and ended ones with segments still to delete.
    pub streams: u64,
    /// Bytes of segments that wait for the store.
    pub waiting_bytes: u64,
    /// Segments and init segments that the store has confirmed.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Playlists written.
    pub playlists: u64,
    /// Segments left out because the store was too slow or away for too long, or had another object of their
    /// name: playlists say that they are missing.
    pub left_out: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// Requests that failed.
    pub failures: u64,
}

/// What the tasks of all streams have in common.
#[derive(Debug)]
pub(crate) struct Mirror {
    store: Arc<Store>,
    counts: Arc<Counts>,
    /// Of all uploads, for pauses.
    uploads: UploadSettings,
    settings: MirrorSettings,
    requests: Semaphore,
    deletions: Semaphore,
    pace: Mutex<Pace>,
}

/// Counted by tasks, and read by those who look.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    streams: AtomicUsize,
    waiting_bytes: AtomicUsize,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    playlists: AtomicU64,
    left_out: AtomicU64,
    deleted: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    pub(crate) fn totals(&self) -> MirrorTotals {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        MirrorTotals {
            streams: self.streams.load(Ordering::Relaxed) as u64,
            waiting_bytes: self.waiting_bytes.load(Ordering::Relaxed) as u64,
            sent: of(&self.sent),
            sent_bytes: of(&self.sent_bytes),
            playlists: of(&self.playlists),
            left_out: of(&self.left_out),
            deleted: of(&self.deleted),
            failures: of(&self.failures),
        }
    }
}

/// What the task of a stream gets.
#[derive(Debug)]
enum Message {
    /// It is cut, from now on.
    Run(watch::Receiver<SegmentsUpdate>),
    /// What an earlier process has left in its folder: media, and playlists.
    Left { media: Vec<Path>, playlists: Vec<Path> },
}

/// Sends all streams that come.
pub(crate) async fn run(
    (store, uploads, counts): (Arc<Store>, UploadSettings, Arc<Counts>),
    mut streams: mpsc::Receiver<MirroredStream>,
    started_ms: u64,
) {
    // Then none comes.
    let Some(settings) = uploads.mirror.clone() else { return std::future::pending().await };
    let deletes = settings.deletes;
    let (requests, deletions) = (Semaphore::new(REQUESTS_MAX), Semaphore::new(DELETIONS_MAX));
    let pace = Mutex::default();
    let mirror = Arc::new(Mirror { store, counts, uploads, settings, requests, deletions, pace });
    let mut tasks: JoinSet<String> = JoinSet::new();
    let mut known: HashMap<String, mpsc::Sender<Message>> = HashMap::new();
    let mut left = std::pin::pin!(mirror.left(started_ms));
    let mut looks_for_left = deletes;
    loop {
        tokio::select! {
            stream = streams.recv() => {
                // All handles are gone.
                let Some(MirroredStream { folder, views }) = stream else { return };
                pass(&mirror, &mut known, &mut tasks, folder, Message::Run(views));
            }
            Some(Ok(folder)) = tasks.join_next() => {
                // It may have begun again by now.
                if known.get(&folder).is_some_and(mpsc::Sender::is_closed) {
                    known.remove(&folder);
                }
            }
            found = &mut left, if looks_for_left => {
                looks_for_left = false;
                for (folder, (media, playlists)) in found {
                    pass(&mirror, &mut known, &mut tasks, folder, Message::Left { media, playlists });
                }
            }
        }
        mirror.counts().streams.store(known.len(), Ordering::Relaxed);
    }
}

/// Gives a message to the task of a stream, which is made if it is not there.
fn pass(
    mirror: &Arc<Mirror>,
    known: &mut HashMap<String, mpsc::Sender<Message>>,
    tasks: &mut JoinSet<String>,
    folder: String,
    message: Message,
) {
    let message = match known.get(&folder).map(|stream| stream.try_reserve()) {
        Some(Ok(place)) => return place.send(message),
        Some(Err(mpsc::error::TrySendError::Full(()))) => {
            tracing::warn!(folder, "begins too often; this time its segments are not sent to the store");
            return;
        }
        Some(Err(mpsc::error::TrySendError::Closed(()))) | None => message,
    };
    let (sender, messages) = mpsc::channel(MESSAGES_MAX);
    // The first one has room.
    let _ = sender.try_send(message);
    known.insert(folder.clone(), sender);
    tasks.spawn(stream::run(Arc::clone(mirror), folder, messages));
}

impl Mirror {
    fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Path of an object in the store.
    fn key(&self, folder: &str, name: &str) -> Result<Path, Failure> {
        self.store.key(&join(&self.settings.prefix, &join(folder, name)))
    }

    /// Waits until the store may be asked, asks, and notes how that went.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        loop {
            let not_before = self.pace().not_before();
            let Some(at) = not_before.filter(|at| *at > Instant::now()) else { break };
            sleep_until(at).await;
        }
        let place = self.requests.acquire().await.expect("it is never closed");
        let answer = request.await;
        drop(place);
        match &answer {
            Err(failure) if failure.cause != Cause::Conflict => self.failed(failure),
            _ => {
                let failures = self.pace().worked();
                if failures > 0 {
                    tracing::info!(failures, "the store takes segments again");
                }
            }
        }
        answer
    }

    /// Cleans up. Whatever comes of it, segments do not wait for that.
    async fn clean<T>(&self, request: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let _place = self.deletions.acquire().await.expect("it is never closed");
        let answer = request.await;
        if answer.is_err() {
            self.counts().failures.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    fn failed(&self, failure: &Failure) {
        self.counts().failures.fetch_add(1, Ordering::Relaxed);
        let Failure { cause, why } = failure;
        if self.pace().failed(Instant::now(), &self.uploads, PAUSE_MAX) {
            tracing::warn!(cause = cause.name(), why, "segments do not reach the store; it is tried again");
        }
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a segment to the store, which has it once under its name.
    async fn put(&self, key: &Path, content: Bytes) -> Result<(), Failure> {
        let store = &self.store;
        let (bytes, sha256) = (content.len() as u64, hex(&Sha256::digest(&content)));
        let e_tag = match store.put_segment(key, content, &sha256).await {
            Ok(e_tag) => e_tag,
            // An answer may have been lost before: then it is there.
            Err(Failure { cause: Cause::Conflict, .. }) => None,
            Err(failure) => return Err(failure),
        };
        let Some(there) = store.head(key).await? else {
            return Err(Failure::new(Cause::Unconfirmed, "a segment is not there after it was sent"));
        };
        let is_same = there.bytes == bytes
            && match &there.sha256 {
                Some(hash) => *hash == sha256,
                None if store.resumes() && e_tag.is_some() => there.e_tag == e_tag,
                None => store.read_hash(key).await? == sha256,
            };
        if !is_same {
            let why = format!("another object has the key {key} of a segment; it is not overwritten");
            return Err(Failure::new(Cause::Conflict, why));
        }
        self.counts().sent.fetch_add(1, Ordering::Relaxed);
        self.counts().sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// What earlier processes have left, by folder: media, and playlists.
    async fn left(&self, started_ms: u64) -> BTreeMap<String, (Vec<Path>, Vec<Path>)> {
        for failures in 1_u32.. {
            match self.clean(self.list(started_ms)).await {
                Ok(left) => return left,
                Err(Failure { why, .. }) => {
                    if failures == 1 {
                        tracing::warn!(why, "it is not known what is left to be deleted in the store");
                    }
                    sleep(pause(failures, &self.uploads)).await;
                }
            }
        }
        BTreeMap::new()
    }

    async fn list(&self, started_ms: u64) -> Result<BTreeMap<String, (Vec<Path>, Vec<Path>)>, Failure> {
        let store = &self.store;
        let root = store.key(&self.settings.prefix)?;
        let mut found = store.list(&root).take(LEFT_MAX);
        let mut left: BTreeMap<String, (Vec<Path>, Vec<Path>)> = BTreeMap::new();
        while let Some(key) = found.next().await {
            let key = key.map_err(|error| store.explain(&error))?;
            let below = key.as_ref().strip_prefix(root.as_ref()).map(|rest| rest.trim_start_matches('/'));
            match below.and_then(|below| Some((below, left_of(below, started_ms)?))) {
                Some((_, (folder, true))) => left.entry(folder.to_owned()).or_default().0.push(key),
                Some((_, (folder, false))) => left.entry(folder.to_owned()).or_default().1.push(key),
                None => {}
            }
        }
        Ok(left)
    }
}

/// The folder of a stream that an object of an earlier process is in, and whether it is media. `None`: it is
/// not ours, or of this process.
fn left_of(path: &str, started_ms: u64) -> Option<(&str, bool)> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        [app, stream, playlist] => match hls::Object::parse(playlist)? {
            hls::Object::Multivariant | hls::Object::Playlist(_) => {
                Some((&path[..app.len() + 1 + stream.len()], false))
            }
            _ => None,
        },
        [app, stream, tag, rendition, object] => {
            let is_earlier = u64::from_str_radix(tag, 16).is_ok_and(|began_ms| began_ms < started_ms);
            match hls::Object::parse(&format!("{rendition}/{object}"))? {
                hls::Object::Init(..) | hls::Object::Segment(..) if is_earlier => {
                    Some((&path[..app.len() + 1 + stream.len()], true))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_earlier_processes_have_made_is_left() {
        // The tag is when a stream began to be cut, in milliseconds and hexadecimal.
        for (path, expected) in [
            ("live/mill/index.m3u8", Some(("live/mill", false))),
            ("live/mill/v0.m3u8", Some(("live/mill", false))),
            ("live/mill/3e7/v0/17.m4s", Some(("live/mill", true))),
            ("live/mill/3e7/a1/init-0.mp4", Some(("live/mill", true))),
            ("live/mill/3e8/v0/17.m4s", None),
            ("live/mill/3e7/v0/17.3.m4s", None),
            ("live/mill/3e7/v0/17.mp4", None),
            ("live/mill/x/v0/17.m4s", None),
            ("live/mill/20261127T190500.123Z.mp4", None),
            ("index.m3u8", None),
            ("", None),
        ] {
            assert_eq!(left_of(path, 1000), expected, "{path}");
        }
    }
}
