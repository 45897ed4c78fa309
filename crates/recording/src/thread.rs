//! The thread that follows streams, and what others ask of it: which streams are recorded, which recordings
//! there are.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;
use worker_api::publications::StreamPublished;
use worker_api::{HomeOf, WorkerHandles};

use crate::catalogue::Entry;
use crate::disk::Disk;
use crate::names::{self, RecordingName};
use crate::queue::Job;
use crate::settings::RecordSettings;
use crate::stream::{self, Feeder, Recording};
use crate::writer::{RecordingEvent, Shared};

/// Commands that may wait.
const COMMANDS_MAX: usize = 256;
/// Events that a slow listener may be behind.
const EVENTS_MAX: usize = 1024;
/// How long a command waits for its answer: the worker's own limit comes first.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Says of a complete recording, by its path, whether something else needs it still, such as an upload: it
/// stays then, however old it is.
#[derive(Clone)]
pub struct Needed(pub Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl Default for Needed {
    /// Nothing is.
    fn default() -> Self {
        Self(Arc::new(|_| false))
    }
}

impl fmt::Debug for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Needed(...)")
    }
}

/// What the thread needs.
pub struct RecordingInput {
    /// What is recorded, and how.
    pub settings: RecordSettings,
    /// Where frames come from.
    pub workers: WorkerHandles,
    /// The worker that has a stream, if one has.
    pub home: Box<HomeOf>,
    /// Streams that begin to be published.
    pub published: Receiver<StreamPublished>,
    /// Which recordings stay although they are old.
    pub needed: Needed,
}

/// Why a stream is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Started {
    /// A rule of the configuration.
    Rule,
    /// The API.
    Api,
}

/// Why a recording was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    /// The stream is being recorded.
    Exists,
    /// No directory is configured for it.
    NoDirectory,
    /// Nobody publishes it.
    NotPublished,
    /// It is published as packets, and bridges are off.
    NotFrames,
    /// There are as many recordings, or sessions, as there may be.
    Full,
}

/// A directory of recordings.
#[derive(Debug, Clone)]
pub struct DirectoryStatus {
    /// Where it is.
    pub path: PathBuf,
    /// Why the disk takes nothing at present.
    pub failure: Option<String>,
    /// Whether fragments are left out at present because the disk is too slow.
    pub is_losing: bool,
    /// Bytes that wait to be written.
    pub queued_bytes: u64,
    /// Complete and other recordings in it, and their bytes.
    pub recordings: u64,
    /// Bytes of them.
    pub recorded_bytes: u64,
    /// Bytes that the file system has left, once that is known.
    pub free_bytes: Option<u64>,
    /// Bytes written since the start.
    pub written_bytes: u64,
    /// Fragments written.
    pub fragments: u64,
    /// Fragments left out: too slow, or refused.
    pub fragments_lost: u64,
    /// Recordings completed.
    pub files_completed: u64,
    /// Recordings of an earlier run completed.
    pub files_repaired: u64,
    /// Recordings removed.
    pub files_removed: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Times that bytes were brought to the disk.
    pub syncs: u64,
    /// Longest time that a job of the thread took.
    pub slowest: Duration,
}

/// Owns the threads, which end when this is stopped or dropped.
#[derive(Debug)]
pub struct RecordingThread {
    recordings: Recordings,
    /// Dropped to end it, and the thread's answer.
    running: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// Recordings, for the control side.
#[derive(Debug, Clone)]
pub struct Recordings {
    commands: Sender<Command>,
    common: Arc<Common>,
}

/// What all recordings have in common.
pub(crate) struct Common {
    pub(crate) settings: Arc<RecordSettings>,
    pub(crate) workers: WorkerHandles,
    pub(crate) home: Box<HomeOf>,
    disks: Vec<Disk>,
    active: Mutex<BTreeMap<Arc<str>, Arc<Recording>>>,
    events: broadcast::Sender<RecordingEvent>,
    next_recording: AtomicU64,
}

impl fmt::Debug for Common {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Common").field("disks", &self.disks).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Command {
    Start { app: String, name: String, reply: oneshot::Sender<Result<(), NotStarted>> },
    Stop { key: String, reply: oneshot::Sender<bool> },
}

impl RecordingThread {
    /// Takes the directories for this server, and starts a thread for each and one for all streams.
    ///
    /// # Errors
    /// A directory that cannot be used, which the text names, or no thread.
    pub fn start(input: RecordingInput) -> Result<Self, String> {
        let RecordingInput { settings, workers, home, published, needed } = input;
        let settings = Arc::new(settings);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let mut disks: Vec<Disk> = Vec::new();
        for files in settings.files() {
            let is_known = disks.iter().any(|disk| disk.shared.directory == files.directory);
            if !is_known {
                let disk =
                    Disk::start(&files.directory, Arc::clone(&settings), events.clone(), needed.clone());
                let directory = files.directory.display();
                disks.push(disk.map_err(|error| format!("recordings cannot go to {directory}: {error}"))?);
            }
        }
        let common = Arc::new(Common {
            settings,
            workers,
            home,
            disks,
            active: Mutex::default(),
            events,
            next_recording: AtomicU64::new(0),
        });
        let no_thread = |error: io::Error| format!("the thread of recordings could not start: {error}");
        let runtime = Builder::new_current_thread().enable_time().build().map_err(no_thread)?;
        let (commands, commanded) = mpsc::channel(COMMANDS_MAX);
        let (running, stopped) = oneshot::channel::<()>();
        let (ending, ended) = oneshot::channel::<()>();
        let of_thread = Arc::clone(&common);
        worker_api::thread::spawn("recording", move || {
            runtime.block_on(run(&of_thread, published, commanded, stopped));
            for disk in &of_thread.disks {
                disk.stop(STOP_WITHIN);
            }
            // Whoever stops it waits for this, or does not.
            let _ = ending.send(());
        })
        .map_err(no_thread)?;
        let recordings = Recordings { commands, common };
        Ok(Self { recordings, running: Some(running), ended: Some(ended) })
    }

    /// For the control side.
    pub fn recordings(&self) -> Recordings {
        self.recordings.clone()
    }

    /// Ends all recordings, and waits until their files are complete, or whole and left for the next start.
    pub async fn stop(mut self) {
        drop(self.running.take());
        if let Some(ended) = self.ended.take() {
            let _ = tokio::time::timeout(STOP_WITHIN + Duration::from_secs(1), ended).await;
        }
    }
}

/// Longest time that the end of a directory's thread is waited for; a disk may not answer any more.
const STOP_WITHIN: Duration = Duration::from_secs(12);

impl Recordings {
    /// Begins to record a stream that is published.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn start(&self, app: &str, name: &str) -> Result<(), NotStarted> {
        let (reply, answer) = oneshot::channel();
        let command = Command::Start { app: app.to_owned(), name: name.to_owned(), reply };
        self.commands.try_send(command).map_err(|_| NotStarted::Full)?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await;
        answer.ok().and_then(Result::ok).unwrap_or(Err(NotStarted::Full))
    }

    /// Ends the recording of a stream; whether there was one. One by a rule begins again with the next
    /// publication.
    pub async fn stop(&self, app: &str, name: &str) -> bool {
        let (reply, answer) = oneshot::channel();
        let command = Command::Stop { key: format!("{app}/{name}"), reply };
        if self.commands.try_send(command).is_err() {
            return false;
        }
        answer.await.unwrap_or(false)
    }

    /// Streams that are recorded at present, by name.
    pub fn active(&self) -> Vec<Arc<Recording>> {
        self.common.active().values().cloned().collect()
    }

    /// Whether a stream is recorded at present.
    pub fn is_active(&self, app: &str, name: &str) -> bool {
        self.common.active().contains_key(&*format!("{app}/{name}"))
    }

    /// Recordings, of all directories, by directory, stream and time.
    pub fn list(&self) -> Vec<(PathBuf, RecordingName, Entry)> {
        let of = |disk: &Disk| -> Vec<_> {
            let directory = &disk.shared.directory;
            let catalogue = disk.shared.catalogue();
            catalogue.iter().map(|(name, entry)| (directory.clone(), name.clone(), entry.clone())).collect()
        };
        self.common.disks.iter().flat_map(of).collect()
    }

    /// The recording of a stream that has, or will have, a file of this name. Only what is listed is found:
    /// no path is made of the names.
    pub fn find(&self, app: &str, stream: &str, file: &str) -> Option<(PathBuf, RecordingName, Entry)> {
        let path: PathBuf = [&*names::encode(app), &*names::encode(stream), file].iter().collect();
        let named = RecordingName::parse(&path).filter(|(_, is_complete)| *is_complete).map(|(name, _)| name);
        let of = |disk: &Disk| {
            let catalogue = disk.shared.catalogue();
            let by_name = named.as_ref().and_then(|name| catalogue.get_key_value(name));
            // Of long names, lists have what is left.
            let is_cut = |name: &RecordingName| name.app.contains('~') || name.stream.contains('~');
            let is_it = |name: &RecordingName| {
                let (known_app, known_stream) = name.stream_name();
                name.file_name() == file && known_app == app && known_stream == stream
            };
            let found = by_name.or_else(|| {
                catalogue.iter().filter(|(name, _)| is_cut(name)).find(|(name, _)| is_it(name))
            })?;
            Some((disk.shared.directory.clone(), found.0.clone(), found.1.clone()))
        };
        self.common.disks.iter().find_map(of)
    }

    /// Removes a complete recording; whether it was there.
    pub async fn remove(&self, directory: &Path, name: &RecordingName) -> bool {
        let Some(disk) = self.common.disks.iter().find(|disk| disk.shared.directory == directory) else {
            return false;
        };
        let (reply, answer) = oneshot::channel();
        disk.shared.queue.push(Job::Remove { name: name.clone(), reply });
        tokio::time::timeout(ANSWER_WITHIN, answer).await.ok().and_then(Result::ok).unwrap_or(false)
    }

    /// The directories, and what was counted there.
    pub fn directories(&self) -> Vec<DirectoryStatus> {
        self.common.disks.iter().map(|disk| status(&disk.shared)).collect()
    }

    /// What happens to recordings from now on.
    pub fn subscribe(&self) -> broadcast::Receiver<RecordingEvent> {
        self.common.events.subscribe()
    }
}

impl Common {
    fn active(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Recording>>> {
        // It is whole between any two statements.
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn status(shared: &Shared) -> DirectoryStatus {
    let catalogue = shared.catalogue();
    let (recordings, recorded_bytes) =
        (catalogue.len() as u64, catalogue.values().map(|entry| entry.bytes).sum());
    drop(catalogue);
    let counters = &shared.queue.counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    DirectoryStatus {
        path: shared.directory.clone(),
        failure: shared.failure().clone(),
        is_losing: shared.queue.is_losing(),
        queued_bytes: shared.queue.bytes() as u64,
        recordings,
        recorded_bytes,
        free_bytes: Some(count(&counters.free_bytes)).filter(|bytes| *bytes != u64::MAX),
        written_bytes: count(&counters.bytes),
        fragments: count(&counters.fragments),
        fragments_lost: count(&counters.fragments_lost),
        files_completed: count(&counters.files_completed),
        files_repaired: count(&counters.files_repaired),
        files_removed: count(&counters.files_removed),
        errors: count(&counters.errors),
        syncs: count(&counters.syncs),
        slowest: Duration::from_micros(count(&counters.slowest_micros)),
    }
}

/// A stream that is recorded, to the thread itself.
#[derive(Debug)]
struct Running {
    stop: Option<oneshot::Sender<()>>,
    /// Another publisher has begun meanwhile.
    again: bool,
}

async fn run(
    common: &Arc<Common>,
    mut published: Receiver<StreamPublished>,
    mut commands: Receiver<Command>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut running: BTreeMap<Arc<str>, Running> = BTreeMap::new();
    let mut tasks: JoinSet<Arc<str>> = JoinSet::new();
    let mut feed_is_open = true;
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            stream = published.recv(), if feed_is_open => {
                let Some(StreamPublished { key, app_bytes, is_fetched }) = stream else {
                    // The workers have ended.
                    feed_is_open = false;
                    continue;
                };
                if let Some(entry) = running.get_mut(&key) {
                    entry.again = true;
                } else if !is_fetched {
                    begin(common, &mut running, &mut tasks, &key, app_bytes, None);
                }
            }
            command = commands.recv() => match command {
                None => break,
                Some(Command::Stop { key, reply }) => {
                    let stop = running.get_mut(&*key).and_then(|entry| entry.stop.take());
                    // Who asked may have gone.
                    let _ = reply.send(stop.is_some_and(|stop| stop.send(()).is_ok()));
                }
                Some(Command::Start { app, name, reply }) => {
                    let key: Arc<str> = format!("{app}/{name}").into();
                    if running.contains_key(&key) {
                        let _ = reply.send(Err(NotStarted::Exists));
                    } else {
                        begin(common, &mut running, &mut tasks, &key, app.len(), Some(reply));
                    }
                }
            },
            Some(ended) = tasks.join_next() => {
                let Ok(key) = ended else { continue };
                common.active().remove(&key);
                let again = running.remove(&key).is_some_and(|entry| entry.again && entry.stop.is_some());
                if again && let Some((app, _)) = key.rsplit_once('/') {
                    begin(common, &mut running, &mut tasks, &key, app.len(), None);
                }
            }
        }
    }
    // Their files get what has come.
    for entry in running.values_mut() {
        if let Some(stop) = entry.stop.take() {
            let _ = stop.send(());
        }
    }
    while tasks.join_next().await.is_some() {}
    common.active().clear();
}

/// Begins to record a stream: by a rule, or as the API says, which waits for `reply`.
fn begin(
    common: &Arc<Common>,
    running: &mut BTreeMap<Arc<str>, Running>,
    tasks: &mut JoinSet<Arc<str>>,
    key: &Arc<str>,
    app_bytes: usize,
    reply: Option<oneshot::Sender<Result<(), NotStarted>>>,
) {
    let (app, name) = (&key[..app_bytes], &key[app_bytes + 1..]);
    let (files, started_by) = match &reply {
        Some(_) => (common.settings.on_demand(app, name), Started::Api),
        None => (common.settings.rule(app, name), Started::Rule),
    };
    let refusal = match files {
        None => Some(NotStarted::NoDirectory),
        Some(_) if running.len() >= common.settings.recordings_max => {
            tracing::warn!(stream = %key, "not recorded: `record.recordings_max` is reached");
            Some(NotStarted::Full)
        }
        Some(_) => None,
    };
    let disk =
        files.and_then(|files| common.disks.iter().find(|disk| disk.shared.directory == files.directory));
    let (Some(files), Some(disk), None) = (files, disk, refusal) else {
        if let Some(reply) = reply {
            let _ = reply.send(Err(refusal.unwrap_or(NotStarted::NoDirectory)));
        }
        return;
    };
    let recording = Arc::new(Recording::new(app.to_owned(), name.to_owned(), started_by, files.clone()));
    let (stop, stopped) = oneshot::channel();
    running.insert(Arc::clone(key), Running { stop: Some(stop), again: false });
    common.active().insert(Arc::clone(key), Arc::clone(&recording));
    let feeder = Feeder::new(
        recording,
        Arc::clone(&disk.shared),
        common.settings.fragment,
        common.next_recording.fetch_add(1, Ordering::Relaxed),
    );
    let (common, key) = (Arc::clone(common), Arc::clone(key));
    tasks.spawn(async move {
        stream::run(common, feeder, reply, stopped).await;
        key
    });
}
