//! Answers requests: opens files, reads their index if it is not known, and says what to send.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use bytes::Bytes;
use hls::{Cache as Lifetime, Object};
use media::MediaKind;
use mp4::Limits;
use recording::Recordings;
use recording::catalogue::State;
use recording::names::{RecordingName, encode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use crate::cache::Place;
use crate::cache::{Cache, Known, now};
use crate::film::{FilmInput, SegmentPlan};
use crate::names::{FileObject, Source};
use crate::query::VodQuery;
use crate::settings::VodSettings;
use crate::source::{IndexReader, MediaFile, Stamp, length_of, open_local, open_remote};
use crate::{Film, MediaBody, VodError};

/// Threads that read files of this machine at a time; others wait for one.
const DISK_THREADS_MAX: usize = 16;
/// Threads that wait for other servers at a time.
const REMOTE_THREADS_MAX: usize = 64;
/// How long what another server said of a file is believed without asking again. Each segment is asked for
/// with the condition that the file is the same, as long as a connection to it is kept.
const REMOTE_AGE_MAX: Duration = Duration::from_secs(600);

/// Recordings and files that can be played. Clones share everything.
#[derive(Debug, Clone)]
pub struct Library {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) settings: VodSettings,
    pub(crate) recordings: Option<Recordings>,
    slots: Arc<Semaphore>,
    disk: Arc<Semaphore>,
    remote: Arc<Semaphore>,
    pub(crate) cache: Cache,
    pub(crate) looked: Mutex<HashMap<Source, Looked>>,
    pub(crate) counters: Counters,
}

/// What a look into a version of a file found: its codecs, or why it is not played.
pub(crate) type Looked = (Stamp, Result<Vec<String>, VodError>);

#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) open_files: AtomicU64,
    indexes: AtomicU64,
    unplayable: AtomicU64,
    remote_requests: AtomicU64,
    remote_bytes: AtomicU64,
}

/// A request that is being answered; ends when it is dropped.
#[derive(Debug)]
pub struct Slot(#[expect(dead_code, reason = "held")] OwnedSemaphorePermit);

/// What to send.
#[derive(Debug)]
pub enum Answer {
    /// A playlist or an MPD.
    Text {
        /// It.
        text: Bytes,
        /// `Content-Type`.
        content_type: &'static str,
        /// How long it may be kept.
        lifetime: Lifetime,
    },
    /// A file or a segment.
    Media {
        /// Its bytes.
        body: Box<MediaBody>,
        /// `Content-Type`.
        content_type: &'static str,
        /// How long it may be kept.
        lifetime: Lifetime,
        /// `ETag`, of what has versions.
        etag: Option<String>,
    },
}

/// What was done so far, and what is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VodStatus {
    /// Requests answered, errors included.
    pub requests: u64,
    /// Requests refused because there were too many.
    pub refused: u64,
    /// Answers that ended early because a file could not be read any more.
    pub failed: u64,
    /// Bytes of media given out.
    pub bytes: u64,
    /// Requests that are being answered.
    pub active: u64,
    /// Files that are open.
    pub open_files: u64,
    /// Indexes read.
    pub indexes: u64,
    /// Files refused for what is in them.
    pub unplayable: u64,
    /// Indexes that are kept.
    pub cached: u64,
    /// Bytes of them.
    pub cached_bytes: u64,
    /// Requests sent to other servers to read indexes.
    pub remote_requests: u64,
    /// Bytes received for that.
    pub remote_bytes: u64,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// A file whose index is known.
struct Opened {
    film: Arc<RwLock<Film>>,
    file: MediaFile,
    place: Arc<Place>,
    tag: String,
}

impl Library {
    /// One with these settings; `recordings` knows which streams are recorded.
    pub fn new(settings: VodSettings, recordings: Option<Recordings>) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let inner = Inner {
            recordings,
            slots: semaphore(settings.requests_max),
            disk: semaphore(DISK_THREADS_MAX),
            remote: semaphore(REMOTE_THREADS_MAX),
            cache: Cache::new(settings.cache_bytes),
            looked: Mutex::default(),
            counters: Counters::default(),
            settings,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Begins a request.
    ///
    /// # Errors
    /// There are as many as there may be.
    pub fn begin(&self) -> Result<Slot, VodError> {
        self.inner.counters.requests.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&self.inner.slots).try_acquire_owned().map(Slot).map_err(|_| {
            self.inner.counters.refused.fetch_add(1, Ordering::Relaxed);
            VodError::Busy
        })
    }

    /// The answer for an object of a file.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn answer(
        &self,
        slot: Slot,
        source: &Source,
        object: FileObject,
        query: &VodQuery,
    ) -> Result<Answer, VodError> {
        if object == FileObject::Whole {
            return self.whole(slot, source).await;
        }
        let opened = self.open(source).await?;
        let wall_clock = match source {
            Source::Recording { app, stream, file } => recording_start(app, stream, file),
            _ => None,
        };
        if let FileObject::Tagged(tag, _) = &object
            && *tag != opened.tag
        {
            return Err(VodError::NotFound);
        }
        let is_long = matches!(object, FileObject::Multivariant | FileObject::Mpd)
            || matches!(object, FileObject::Tagged(_, Object::Playlist(_)));
        let (film, tag, query) = (Arc::clone(&opened.film), opened.tag.clone(), query.clone());
        let find = move || find(&read(&film), &tag, object, wall_clock, &query);
        // A playlist of a day is long: it is not written where all requests are answered.
        let (found, lifetime) = if is_long { self.inner.block(false, find).await? } else { find()? };
        match found {
            Found::Text(text, content_type) => Ok(Answer::Text { text, content_type, lifetime }),
            Found::Init(head, kind) => {
                let body = MediaBody::new(&self.inner, slot, Some(head), Vec::new(), None);
                Ok(Answer::Media { body: Box::new(body), content_type: mp4(kind), lifetime, etag: None })
            }
            Found::Segment(plan, kind) => {
                let Opened { mut file, place, .. } = opened;
                let is_remote = matches!(file, MediaFile::Remote(_));
                let resolve = move || plan.resolve(&mut file).map(|plan| (plan, file));
                let ((head, ranges), file) = self.inner.block(is_remote, resolve).await?;
                let mut body = MediaBody::new(&self.inner, slot, Some(head), ranges, Some(file));
                body.home = is_remote.then_some(place);
                Ok(Answer::Media { body: Box::new(body), content_type: mp4(kind), lifetime, etag: None })
            }
        }
    }

    /// The recording of a stream that is being made.
    pub fn live(&self, app: &str, stream: &str) -> Option<Source> {
        let (app_part, stream_part) = (encode(app), encode(stream));
        let recordings = self.inner.recordings.as_ref()?;
        let listed = recordings.list().into_iter().filter(|(_, name, entry)| {
            entry.state == State::InProgress && (&name.app, &name.stream) == (&app_part, &stream_part)
        });
        let (_, name, _) = listed.max_by_key(|(_, name, _)| name.start)?;
        let file = name.file_name();
        Some(Source::Recording { app: app.to_owned(), stream: stream.to_owned(), file })
    }

    /// What was done so far.
    pub fn status(&self) -> VodStatus {
        let inner = &self.inner;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &inner.counters;
        let (cached, cached_bytes) = inner.cache.totals();
        VodStatus {
            requests: count(&counters.requests),
            refused: count(&counters.refused),
            failed: count(&counters.failed),
            bytes: count(&counters.bytes),
            active: (inner.settings.requests_max - inner.slots.available_permits()) as u64,
            open_files: count(&counters.open_files),
            indexes: count(&counters.indexes),
            unplayable: count(&counters.unplayable),
            cached: cached as u64,
            cached_bytes: cached_bytes as u64,
            remote_requests: count(&counters.remote_requests),
            remote_bytes: count(&counters.remote_bytes),
        }
    }

    /// A file as it is, as far as it has been written.
    async fn whole(&self, slot: Slot, source: &Source) -> Result<Answer, VodError> {
        let is_remote = matches!(source, Source::Remote { .. });
        let (inner, of_thread) = (Arc::clone(&self.inner), source.clone());
        let place = is_remote.then(|| self.inner.cache.place(source));
        let kept = place.as_ref().and_then(|place| place.take_reader());
        let opened = self.inner.block(is_remote, move || {
            if !is_remote {
                let (file, stamp) = open_local(&inner.settings, &of_thread)?;
                return Ok((MediaFile::Local(file), stamp.length, Some(stamp)));
            }
            let mut file = match kept {
                Some(file) => file,
                None => open_remote(&inner.settings, &of_thread)?,
            };
            let length = length_of(&mut file)?;
            Ok::<_, VodError>((file, length, None))
        });
        let (file, length, stamp) = opened.await?;
        let all: Range<u64> = 0..length;
        let mut body = MediaBody::new(&self.inner, slot, None, vec![all], Some(file));
        body.home = place;
        let grows = stamp.is_some_and(|stamp| stamp.grows);
        let etag = stamp.filter(|_| !grows).map(|stamp| format!("\"{:016x}\"", hash(&stamp.version())));
        let lifetime = if grows { Lifetime::Never } else { Lifetime::Seconds(5) };
        Ok(Answer::Media { body: Box::new(body), content_type: content_type(source), lifetime, etag })
    }

    async fn open(&self, source: &Source) -> Result<Opened, VodError> {
        let is_remote = matches!(source, Source::Remote { .. });
        let inner = Arc::clone(&self.inner);
        // Nothing is kept of names that no file has.
        let local = match is_remote {
            true => None,
            false => {
                let (inner, of_thread) = (Arc::clone(&inner), source.clone());
                Some(self.inner.block(false, move || open_local(&inner.settings, &of_thread)).await?)
            }
        };
        let place = self.inner.cache.place(source);
        let known = Arc::clone(&place.known).lock_owned().await;
        let of_thread = (source.clone(), Arc::clone(&place));
        let opened = self.inner.block(is_remote, move || {
            let (source, place) = of_thread;
            let mut known = known;
            let found = match local {
                Some((file, stamp)) => inner.know_local(&mut known, &source, file, stamp),
                None => inner.know_remote(&mut known, &source, &place),
            };
            let film = known.as_ref().and_then(|known| known.film.clone().ok());
            let bytes = film.as_ref().map_or(256, |film| read(film).memory());
            inner.cache.settle(&place, bytes);
            let (file, stamp) = found?;
            let film = film.ok_or(VodError::NotFound)?;
            let tag = match (&source, stamp) {
                // They have the same segments as long as they are there.
                (Source::Recording { .. }, _) => "r".to_owned(),
                (_, Some(stamp)) => format!("{:016x}", hash(&stamp.version())),
                (_, None) => format!("{:016x}", read(&film).fingerprint()),
            };
            Ok(Opened { film, file, place, tag })
        });
        let opened = opened.await;
        if is_remote && opened.is_err() {
            // It may be there the next time.
            self.inner.cache.forget(source);
        }
        opened
    }
}

impl Inner {
    /// Runs what may wait for a disk or another server, on a thread that may.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        is_remote: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let threads = Arc::clone(if is_remote { &self.remote } else { &self.disk });
        let permit = threads.acquire_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime ends.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn know_local(
        &self,
        known: &mut Option<Known>,
        source: &Source,
        file: std::fs::File,
        stamp: Stamp,
    ) -> Result<(MediaFile, Option<Stamp>), VodError> {
        let mut file = MediaFile::Local(file);
        if let Some(Known { stamp: Some(before), film: Ok(film), .. }) = known.as_mut()
            && stamp.is_later_of(before)
        {
            let mut film = film.write().unwrap_or_else(PoisonError::into_inner);
            let result = match before.length < stamp.length {
                true => film.read_on(&mut file, stamp.length, true),
                false => Ok(()),
            };
            drop(film);
            *before = stamp;
            if result.is_err() {
                // What was read of it so far is no begin to go on from.
                *known = None;
            }
            return result.map(|()| (file, Some(stamp)));
        }
        let is_known = |before: Stamp| before == stamp || stamp.is_earlier_of(&before);
        if let Some(known) = known.as_ref().filter(|known| known.stamp.is_some_and(is_known)) {
            return known.film.as_ref().map(|_| ()).map_err(VodError::clone).map(|()| (file, Some(stamp)));
        }
        let is_recording = matches!(source, Source::Recording { .. });
        let input = self.input(stamp.length, stamp.grows, is_recording, true);
        let film = self.read_film(source, &mut file, input);
        let result = film.as_ref().map(|_| ()).map_err(VodError::clone);
        // What the disk refuses now it may give the next time.
        let keeps = !matches!(film, Err(VodError::Disk(_)));
        *known = keeps.then(|| Known { stamp: Some(stamp), read_at: now(), film });
        result.map(|()| (file, Some(stamp)))
    }

    fn know_remote(
        &self,
        known: &mut Option<Known>,
        source: &Source,
        place: &Place,
    ) -> Result<(MediaFile, Option<Stamp>), VodError> {
        let is_fresh = |known: &&Known| known.read_at.elapsed() < REMOTE_AGE_MAX && known.film.is_ok();
        if known.as_ref().filter(is_fresh).is_some() {
            let file = place.take_reader().map_or_else(|| open_remote(&self.settings, source), Ok)?;
            return Ok((file, None));
        }
        let mut file = open_remote(&self.settings, source)?;
        let length = length_of(&mut file)?;
        let film = self.read_film(source, &mut file, self.input(length, false, false, false));
        if let MediaFile::Remote(reader) = &file {
            let counters = reader.counters();
            tracing::debug!(
                requests = counters.requests,
                bytes = counters.bytes_received,
                "index of another server's file read"
            );
            self.counters.remote_requests.fetch_add(counters.requests, Ordering::Relaxed);
            self.counters.remote_bytes.fetch_add(counters.bytes_received, Ordering::Relaxed);
        }
        let film = film?;
        *known = Some(Known { stamp: None, read_at: now(), film: Ok(film) });
        Ok((file, None))
    }

    pub(crate) fn input(
        &self,
        length: u64,
        grows: bool,
        is_recording: bool,
        takes_fragments: bool,
    ) -> FilmInput {
        let limits = Limits { index_bytes: self.settings.index_bytes_max, ..Limits::default() };
        FilmInput { length, grows, is_recording, limits, takes_fragments }
    }

    fn read_film(
        &self,
        source: &Source,
        file: &mut MediaFile,
        input: FilmInput,
    ) -> Result<Arc<RwLock<Film>>, VodError> {
        self.counters.indexes.fetch_add(1, Ordering::Relaxed);
        // In pieces: a read of a few bytes would be a call of the kernel each.
        let film = match file {
            MediaFile::Local(file) => Film::read(std::io::BufReader::with_capacity(16 << 10, file), input),
            MediaFile::Remote(reader) => {
                Film::read(IndexReader { reader, position: 0, length: input.length }, input)
            }
        };
        let film = film.map_err(|error| error.of_file(&source.url_path()));
        if let Err(VodError::Unplayable(reason)) = &film {
            self.counters.unplayable.fetch_add(1, Ordering::Relaxed);
            tracing::info!(file = source.url_path(), reason, "a file cannot be played");
        }
        film.map(|film| Arc::new(RwLock::new(film)))
    }
}

/// What an object of a file is made of.
enum Found {
    Text(Bytes, &'static str),
    Init(Bytes, MediaKind),
    Segment(Box<SegmentPlan>, MediaKind),
}

fn find(
    film: &Film,
    tag: &str,
    object: FileObject,
    wall_clock: Option<Duration>,
    query: &VodQuery,
) -> Result<(Found, Lifetime), VodError> {
    let presentation = film.presentation(wall_clock, query.start_ms, &query.kept);
    let prefix = format!("{tag}/");
    // While it grows there is something new every few seconds; complete, it may be replaced.
    let of_file = Lifetime::Seconds(if film.grows() { 1 } else { 5 });
    let of_tag = if film.grows() { of_file } else { Lifetime::Seconds(3600) };
    if !film.is_ready() {
        return Err(VodError::NotFound);
    }
    let text = |text, content_type| Some(Found::Text(text?, content_type));
    let (found, lifetime) = match object {
        FileObject::Multivariant => (text(presentation.multivariant_playlist(&prefix), M3U8), of_file),
        FileObject::Mpd => (text(presentation.mpd(&prefix, clock()).map(Bytes::from), MPD), of_file),
        FileObject::Tagged(_, Object::Playlist(id)) => (text(presentation.media_playlist(id), M3U8), of_tag),
        FileObject::Tagged(_, Object::Time) => {
            (text(Some(Bytes::from(hls::on_demand::date(clock()))), "text/plain"), Lifetime::Never)
        }
        FileObject::Tagged(_, Object::Init(id, 0)) => {
            (film.init(id).map(|init| Found::Init(init, id.kind)), Lifetime::Immutable)
        }
        FileObject::Tagged(_, Object::Segment(id, number)) => (
            film.segment(id, number).map(|plan| Found::Segment(Box::new(plan), id.kind)),
            Lifetime::Immutable,
        ),
        FileObject::Whole | FileObject::Tagged(..) => (None, Lifetime::Never),
    };
    Ok((found.ok_or(VodError::NotFound)?, lifetime))
}

pub(crate) fn read(film: &RwLock<Film>) -> RwLockReadGuard<'_, Film> {
    // One that panicked while it read on is no worse than a file that did not grow.
    film.read().unwrap_or_else(PoisonError::into_inner)
}

/// When a recording begins, since 1970.
fn recording_start(app: &str, stream: &str, file: &str) -> Option<Duration> {
    let path = Path::new(&encode(app)).join(encode(stream)).join(file);
    RecordingName::parse(&path).map(|(name, _)| name.start)
}

/// The server's clock, since 1970, for players of DASH.
fn clock() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "players ask what time of day it is")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// FNV-1a, of 64 bits: tells versions apart, and nothing depends on it that somebody could want to forge.
pub(crate) fn hash(parts: &[u64]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.to_be_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn mp4(kind: MediaKind) -> &'static str {
    if kind == MediaKind::Video { "video/mp4" } else { "audio/mp4" }
}

fn content_type(source: &Source) -> &'static str {
    match source.file_name().rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase()).as_deref()
    {
        Some("mov") => "video/quicktime",
        Some("m4a") => "audio/mp4",
        Some("flv") => "video/x-flv",
        _ => "video/mp4",
    }
}

const M3U8: &str = "application/vnd.apple.mpegurl";
const MPD: &str = "application/dash+xml";

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use range_reader::http::HttpConfig;

    use super::*;

    const FILE: &str = "20261127T190500.123Z.mp4";

    #[test]
    fn a_request_that_opened_a_recording_before_another_does_not_read_its_index_again() {
        let folder = std::env::temp_dir().join(format!("millstream-vod-{}", std::process::id()));
        let path = folder.join("live/mill");
        std::fs::create_dir_all(&path).expect("folders");
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mp4/tests/samples");
        let bytes = std::fs::read(samples.join("fragments.mp4")).expect("a file");
        let part = path.join(format!("{FILE}.part"));
        std::fs::write(&part, &bytes[..bytes.len() - 3000]).expect("a recording");
        let settings = VodSettings {
            root: None,
            recordings: vec![folder.clone()],
            remotes: Vec::new(),
            http: HttpConfig::default(),
            requests_max: 4,
            index_bytes_max: 1 << 20,
            cache_bytes: 1 << 20,
        };
        let inner = Library::new(settings, None).inner;
        let (app, stream) = ("live".to_owned(), "mill".to_owned());
        let source = Source::Recording { app, stream, file: FILE.to_owned() };
        let open = || open_local(&inner.settings, &source).expect("it is there");
        let mut known = None;
        let mut know = |(file, stamp)| {
            inner.know_local(&mut known, &source, file, stamp).expect("it can be played");
            inner.counters.indexes.load(Ordering::Relaxed)
        };
        assert_eq!(know(open()), 1);
        let (earlier, first) = (open(), open());
        let mut file = std::fs::OpenOptions::new().append(true).open(&part).expect("it grows");
        file.write_all(&bytes[bytes.len() - 3000..]).expect("it grows");
        let later = open();
        assert_eq!(know(later), 1, "it is read on");
        assert_eq!(know(earlier), 1, "what is known is more than what this request has seen");
        let growing = open();
        std::fs::rename(&part, path.join(FILE)).expect("it is complete");
        assert_eq!(know(open()), 2, "a complete file is another one");
        assert_eq!((know(growing), know(first)), (2, 2), "and known to those who saw it before");
        std::fs::remove_dir_all(folder).expect("it can be removed");
    }
}
