//! What is known of files, as long as there is room for it.
//!
//! A file has a [`Place`], which one request at a time may fill: others that ask for the same file wait for
//! it instead of reading it, too. When there is no more room, what was not asked for the longest goes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::names::Source;
use crate::source::{MediaFile, Stamp};
use crate::{Film, VodError};

/// Files that something is known of.
const PLACES_MAX: usize = 8_192;
/// Readers of one file of another server that are kept, with their connections.
const READERS_MAX: usize = 4;
/// How long one is kept that nobody uses: servers close connections.
const READER_AGE_MAX: Duration = Duration::from_secs(30);

/// What is known of a file.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) known: Arc<tokio::sync::Mutex<Option<Known>>>,
    readers: Mutex<Vec<(MediaFile, Instant)>>,
    used: AtomicU64,
    bytes: AtomicUsize,
}

/// What was read of a version of it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    /// Of a file of this machine.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) read_at: Instant,
    pub(crate) film: Result<Arc<RwLock<Film>>, VodError>,
}

/// The places of all files.
#[derive(Debug)]
pub(crate) struct Cache {
    places: Mutex<HashMap<Source, Arc<Place>>>,
    uses: AtomicU64,
    bytes_max: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { places: Mutex::default(), uses: AtomicU64::new(0), bytes_max }
    }

    /// The place of a file.
    pub(crate) fn place(&self, source: &Source) -> Arc<Place> {
        let mut places = self.places();
        if !places.contains_key(source) && places.len() >= PLACES_MAX {
            remove_oldest(&mut places);
        }
        let place = Arc::clone(places.entry(source.clone()).or_default());
        place.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        place
    }

    /// A place has so many bytes now: makes room.
    pub(crate) fn settle(&self, place: &Place, bytes: usize) {
        place.bytes.store(bytes, Ordering::Relaxed);
        let mut places = self.places();
        while places.values().map(|place| place.bytes.load(Ordering::Relaxed)).sum::<usize>() > self.bytes_max
        {
            if !remove_oldest(&mut places) {
                break;
            }
        }
    }

    /// Forgets a file.
    pub(crate) fn forget(&self, source: &Source) {
        self.places().remove(source);
    }

    /// What is known of a file, if nobody is reading it.
    pub(crate) fn peek(&self, source: &Source) -> Option<Known> {
        let place = self.places().get(source).map(Arc::clone)?;
        place.known.try_lock().ok()?.clone()
    }

    /// How many files something is known of, and the bytes of that.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let places = self.places();
        (places.len(), places.values().map(|place| place.bytes.load(Ordering::Relaxed)).sum())
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Source, Arc<Place>>> {
        // It is whole between any two statements.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Keeps the reader of another server's file for the next request.
    pub(crate) fn keep_reader(&self, file: MediaFile) {
        let mut readers = self.readers();
        if readers.len() < READERS_MAX {
            readers.push((file, now()));
        }
    }

    /// A reader that was kept, and not for long.
    pub(crate) fn take_reader(&self) -> Option<MediaFile> {
        let mut readers = self.readers();
        readers.retain(|(_, kept_at)| kept_at.elapsed() < READER_AGE_MAX);
        readers.pop().map(|(file, _)| file)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<(MediaFile, Instant)>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes what was not asked for the longest; `false` if there is nothing.
fn remove_oldest(places: &mut HashMap<Source, Arc<Place>>) -> bool {
    let used = |place: &Arc<Place>| place.used.load(Ordering::Relaxed);
    let oldest = places.iter().min_by_key(|(_, place)| used(place)).map(|(source, _)| source.clone());
    oldest.is_some_and(|oldest| places.remove(&oldest).is_some())
}

/// The clock that does not jump.
#[expect(clippy::disallowed_methods, reason = "the age of connections, and of what other servers said")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
