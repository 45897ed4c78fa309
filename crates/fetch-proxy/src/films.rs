//! Readers of remote files, one per URL, kept while they are used and for a while after.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use range_reader::http::HttpConfig;
use range_reader::{AsyncRangeReader, Counters, ReaderConfig};
use serde::Serialize;
use tokio::time::Instant;
use url::Url;

/// How long a reader is kept that nobody uses: players come back for the next range.
const UNUSED_MAX: Duration = Duration::from_secs(60);

/// Bytes of a file that are kept after they were read: heads and indexes, which players read at each
/// start, and the distance between players that play the same file. With 256 KiB, as readers have by
/// themselves, three players of one file made 15 requests; with 4 MiB two.
const LOOK_BACK_BYTES: usize = 4 << 20;

/// All readers.
#[derive(Debug)]
pub(crate) struct Films {
    http: HttpConfig,
    films_max: usize,
    open: Mutex<Vec<Arc<Film>>>,
    /// Of readers that have been closed.
    closed: Mutex<Cost>,
}

/// A remote file that players read.
#[derive(Debug)]
pub(crate) struct Film {
    url: Url,
    /// Waiting players take turns; the lock is fair.
    pub(crate) reader: tokio::sync::Mutex<AsyncRangeReader>,
    /// The answer whose bytes the reader expects, by its number.
    hinted: AtomicU64,
    player_requests: AtomicU64,
    bytes_sent: AtomicU64,
    /// As of the last read that has returned.
    counters: Mutex<Counters>,
    last_used: Mutex<Instant>,
}

/// Why a file cannot be read now.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// All readers are in use.
    TooMany(usize),
    /// The reader refuses the URL.
    Refused(std::io::Error),
}

/// What has been read, by whom, at what cost: the answer of `/stats`, and what is printed at the end.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Of all files, closed ones among them.
    #[serde(flatten)]
    pub total: Cost,
    /// Files that are open.
    pub files: Vec<FilmReport>,
}

/// One file that is open.
#[derive(Debug, Clone, Serialize)]
pub struct FilmReport {
    /// Its URL, without credentials and query.
    pub url: String,
    /// Its cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// Requests and bytes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Cost {
    /// Requests of players, for bytes or a length.
    pub player_requests: u64,
    /// Bytes of bodies handed to players.
    pub bytes_sent: u64,
    /// Requests to servers.
    pub requests: u64,
    /// Connections to servers.
    pub connections: u64,
    /// Connections that broke or were refused and were tried again.
    pub retries: u64,
    /// Bytes of bodies received from servers.
    pub bytes_received: u64,
    /// Of those, bytes handed to players; from memory again does not count again.
    pub bytes_used: u64,
    /// Of those, bytes that lay between two positions that were read.
    pub bytes_skipped: u64,
    /// Of those, bytes that were fetched for nothing, and what is in memory unread.
    pub bytes_wasted: u64,
}

impl Films {
    pub(crate) fn new(http: HttpConfig, films_max: usize) -> Self {
        Self { http, films_max, open: Mutex::default(), closed: Mutex::default() }
    }

    /// The reader of `url`, which is used as long as the result is held.
    pub(crate) fn open(&self, url: &Url) -> Result<Arc<Film>, OpenError> {
        let mut open = lock(&self.open);
        if let Some(film) = open.iter().find(|film| film.url == *url) {
            return Ok(Arc::clone(film));
        }
        if open.len() >= self.films_max {
            let unused = open.iter().enumerate().filter(|(_, film)| is_unused(film));
            let oldest = unused.min_by_key(|(_, film)| *lock(&film.last_used)).map(|(index, _)| index);
            let oldest = oldest.ok_or(OpenError::TooMany(self.films_max))?;
            self.close(open.swap_remove(oldest));
        }
        let config = ReaderConfig {
            look_back_bytes: LOOK_BACK_BYTES,
            // One range is hinted at a time. Requests for several would leave out what is in memory
            // between them, and it may be gone when it is needed.
            several_ranges: false,
            ..ReaderConfig::default()
        };
        let reader = AsyncRangeReader::open(url, self.http.clone(), config).map_err(OpenError::Refused)?;
        let film = Arc::new(Film {
            url: url.clone(),
            reader: tokio::sync::Mutex::new(reader),
            hinted: AtomicU64::new(0),
            player_requests: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            counters: Mutex::default(),
            last_used: Mutex::new(Instant::now()),
        });
        open.push(Arc::clone(&film));
        Ok(film)
    }

    /// The reader gives no more bytes: the next request gets another one.
    pub(crate) fn forget(&self, film: &Arc<Film>) {
        let mut open = lock(&self.open);
        if let Some(index) = open.iter().position(|other| Arc::ptr_eq(other, film)) {
            self.close(open.swap_remove(index));
        }
    }

    /// Closes readers that nobody has used for a while. Never ends.
    pub(crate) async fn close_unused(&self) {
        loop {
            tokio::time::sleep(UNUSED_MAX / 4).await;
            let mut open = lock(&self.open);
            let is_over =
                |film: &mut Arc<Film>| is_unused(film) && lock(&film.last_used).elapsed() >= UNUSED_MAX;
            for film in open.extract_if(.., is_over) {
                self.close(film);
            }
        }
    }

    pub(crate) fn report(&self) -> Report {
        let open = lock(&self.open);
        let mut total = *lock(&self.closed);
        let mut files = Vec::new();
        for film in open.iter() {
            let cost = film.cost();
            total.add(&cost);
            files.push(FilmReport { url: fetch_trace::without_secrets(&film.url), cost });
        }
        Report { total, files }
    }

    fn close(&self, film: Arc<Film>) {
        // What a player still gets of it afterwards is not counted.
        lock(&self.closed).add(&film.cost());
    }
}

impl Film {
    /// A player asks for bytes or the length. Returns the number of its answer, from 1.
    pub(crate) fn note_request(&self) -> u64 {
        self.player_requests.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What an answer with this number will read, unless the reader knows. It replaces what was said
    /// of others.
    pub(crate) fn hint(&self, answer: u64, reader: &mut AsyncRangeReader, range: Range<u64>) {
        if self.hinted.swap(answer, Ordering::Relaxed) != answer {
            reader.will_need([range]);
        }
    }

    /// The reader has given so many bytes, or none, for a player.
    pub(crate) fn note_read(&self, reader: &AsyncRangeReader, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
        *lock(&self.counters) = reader.counters();
        *lock(&self.last_used) = Instant::now();
    }

    fn cost(&self) -> Cost {
        let counters = *lock(&self.counters);
        Cost {
            player_requests: self.player_requests.load(Ordering::Relaxed),
            bytes_sent: self.bytes_sent.load(Ordering::Relaxed),
            requests: counters.requests,
            connections: counters.connections,
            retries: counters.retries,
            bytes_received: counters.bytes_received,
            bytes_used: counters.bytes_used,
            bytes_skipped: counters.bytes_skipped,
            bytes_wasted: counters.bytes_wasted + counters.bytes_buffered,
        }
    }
}

impl Cost {
    fn add(&mut self, other: &Self) {
        self.player_requests += other.player_requests;
        self.bytes_sent += other.bytes_sent;
        self.requests += other.requests;
        self.connections += other.connections;
        self.retries += other.retries;
        self.bytes_received += other.bytes_received;
        self.bytes_used += other.bytes_used;
        self.bytes_skipped += other.bytes_skipped;
        self.bytes_wasted += other.bytes_wasted;
    }
}

impl Report {
    /// As JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and URLs are JSON")
    }
}

/// Only the list holds it. New users come through the list, whose lock the caller has.
fn is_unused(film: &Arc<Film>) -> bool {
    Arc::strong_count(film) == 1
}

/// Values that no panic leaves half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
