//! The thread of a directory: the only one that waits for the disk.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::broadcast;

use crate::queue::Queue;
use crate::settings::RecordSettings;
use crate::storage::{Directory, Storage};
use crate::thread::Needed;
use crate::writer::{Now, RecordingEvent, Shared, Writer};

/// Longest time without a look at what is due.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often it is looked what is due while there are jobs.
const TEND_EVERY: Duration = Duration::from_millis(20);
/// Time to complete files when the server stops.
const COMPLETE_WITHIN: Duration = Duration::from_secs(10);

/// A directory and its thread.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) shared: Arc<Shared>,
    /// Ends when the thread does.
    ended: Mutex<Receiver<()>>,
}

impl Disk {
    /// Takes a directory for this server and starts its thread.
    ///
    /// # Errors
    /// It cannot be made, read or written to, another server uses it, or the system gives no thread.
    pub(crate) fn start(
        directory: &Path,
        settings: Arc<RecordSettings>,
        events: broadcast::Sender<RecordingEvent>,
        needed: Needed,
    ) -> io::Result<Self> {
        let storage = Directory::lock(directory)?;
        Self::start_with(directory, Box::new(storage), settings, events, needed)
    }

    /// The same with a file system of the caller's.
    pub(crate) fn start_with(
        directory: &Path,
        storage: Box<dyn Storage>,
        settings: Arc<RecordSettings>,
        events: broadcast::Sender<RecordingEvent>,
        needed: Needed,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            directory: directory.to_owned(),
            queue: Queue::new(settings.queue_bytes, settings.queue),
            catalogue: Mutex::default(),
            failure: Mutex::default(),
            events,
            needed,
        });
        let mut writer = Writer::new(Arc::clone(&shared), storage, settings, now())?;
        let (running, ended) = sync_channel::<()>(0);
        let of_thread = Arc::clone(&shared);
        worker_api::thread::spawn("recording-disk", move || {
            let _running = running;
            run(&mut writer, &of_thread);
        })?;
        Ok(Self { shared, ended: Mutex::new(ended) })
    }

    /// Writes what waits, completes files, and waits for that.
    pub(crate) fn stop(&self, within: Duration) {
        self.shared.queue.close();
        // Nothing is ever sent: it ends, or it does not.
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(within);
    }
}

fn run(writer: &mut Writer, shared: &Shared) {
    let mut wait = Duration::ZERO;
    let mut tended_at: Option<Instant> = None;
    loop {
        let job = shared.queue.take(wait);
        let is_idle = matches!(job, Ok(None));
        match job {
            Ok(Some(job)) => {
                let begun = now();
                writer.handle(job, begun);
                note_time(shared, begun.at);
            }
            Ok(None) => {}
            Err(()) => break,
        }
        let at = now();
        wait = Duration::ZERO;
        if is_idle || tended_at.is_none_or(|tended| at.at >= tended + TEND_EVERY) {
            tended_at = Some(at.at);
            let due = writer.tend(is_idle, at);
            note_time(shared, at.at);
            if is_idle {
                wait = due.map_or(LOOK_AGAIN, |due| due.saturating_duration_since(at.at).min(LOOK_AGAIN));
            }
        }
    }
    writer.close(now().at + COMPLETE_WITHIN, now);
}

/// Something has been done since then: written, synced, or a file completed.
fn note_time(shared: &Shared, since: Instant) {
    let micros = u64::try_from(now().at.duration_since(since).as_micros()).unwrap_or(u64::MAX);
    shared.queue.counters.slowest_micros.fetch_max(micros, Ordering::Relaxed);
}

fn now() -> Now {
    #[expect(clippy::disallowed_methods, reason = "the thread of a disk has a clock of its own")]
    let (at, wall) = (Instant::now(), SystemTime::now());
    Now { at, wall: wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() }
}
