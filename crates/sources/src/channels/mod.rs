//! Virtual live channels: playlists of files that are published as streams of this server, in real
//! time.
//!
//! `location.rs` decides which files may be played, `item.rs` reads one on a thread of its own,
//! `playlist.rs` plays items one after the other, `schedule.rs` computes the position of a playlist
//! at a given time, `timeline.rs` and `crate::pace` give each frame its timestamps and its time to
//! leave, `outgoing.rs` adds configurations, and `runner.rs` publishes. This file has the list of
//! all channels. Parsing files is left to `mp4`, fetching them to `range_reader`.

mod file;
mod item;
mod location;
mod outgoing;
mod playlist;
mod queue;
mod runner;
mod schedule;
mod spec;
mod status;
mod timeline;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

pub use spec::{ChannelRequest, ChannelSpec};
pub use status::{Event, EventKind, ItemStatus, Snapshot, State};

use crate::ingest::Ingest;
use crate::names::{Claim, SourceKind};
use crate::settings::{AddedBy, LiveSettings, SourceSettings};
use crate::thread::IngestThread;
use item::Item;
use playlist::{OpenTimeouts, Playlist};
use runner::{Command, Parts, Runner};
use status::Status;
use worker_api::time;

/// Requests to one channel that wait; a further one is refused.
const COMMANDS_MAX: usize = 4;
/// Time for opening an item, index included.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a channel was not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdded {
    /// The stream has a channel already, or another source of this server.
    Exists(SourceKind),
    /// There are as many as there may be.
    Full {
        /// `sources.channels_max`.
        most: usize,
    },
}

/// Why no item was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSkipped {
    /// There is no such channel.
    None,
    /// It neither plays an item nor waits for a certain one.
    Idle(State),
}

/// A channel as the API shows it.
#[derive(Debug, Clone)]
pub struct View {
    /// What it was made of.
    pub spec: Arc<ChannelSpec>,
    /// Who added it.
    pub added_by: AddedBy,
    /// How it is.
    pub now: Snapshot,
}

/// What metrics tell of a channel, since it was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figures {
    /// Application.
    pub app: String,
    /// Name of its stream.
    pub name: String,
    /// What it does.
    pub state: State,
    /// Items played to their end.
    pub items_played: u64,
    /// Items skipped because they were broken.
    pub items_failed: u64,
    /// Times the pacing restarted.
    pub pauses: u64,
}

/// All channels.
#[derive(Debug)]
pub struct Channels {
    ingest: Ingest,
    settings: Arc<LiveSettings>,
    list: Mutex<List>,
}

/// By app and name.
type List = BTreeMap<(String, String), Channel>;

#[derive(Debug)]
struct Channel {
    spec: Arc<ChannelSpec>,
    added_by: AddedBy,
    status: Arc<Status>,
    commands: mpsc::Sender<Command>,
    /// The channel ends when this is dropped or becomes true.
    removed: watch::Sender<bool>,
    _claim: Claim,
}

impl Channels {
    /// None yet.
    pub fn new(ingest: Ingest, settings: Arc<LiveSettings>) -> Self {
        Self { ingest, settings, list: Mutex::default() }
    }

    /// What channels may do.
    pub fn settings(&self) -> Arc<SourceSettings> {
        self.settings.load()
    }

    /// None, and without workers: for tests of what stands before it.
    pub fn idle(channels_max: usize) -> Self {
        let thread = IngestThread::start().expect("a thread");
        let workers = worker_api::WorkerHandles::over(0, Box::new(|_, _| Ok(())));
        let settings = SourceSettings { channels_max, ..SourceSettings::default() };
        Self::new(Ingest::new(workers, &thread, 0), Arc::new(LiveSettings::new(Arc::new(settings))))
    }

    /// Adds a channel, which begins at once.
    pub fn add(&self, spec: ChannelSpec, added_by: AddedBy) -> Result<View, NotAdded> {
        let key = (spec.app.clone(), spec.name.clone());
        let mut list = self.lock();
        let most = self.settings().channels_max;
        if list.len() >= most && !list.contains_key(&key) {
            return Err(NotAdded::Full { most });
        }
        // After it is known that there is room: a pattern that gives way has lost the stream.
        let claim = self.ingest.claim(&key.0, &key.1, SourceKind::Channel, added_by.into());
        let claim = claim.map_err(NotAdded::Exists)?;
        let channel = self.start(Arc::new(spec), added_by, claim);
        let view = channel.view();
        list.insert(key, channel);
        Ok(view)
    }

    /// Ends a channel and forgets it. Whether there was one.
    pub fn remove(&self, app: &str, name: &str) -> bool {
        let mut list = self.lock();
        let Some(channel) = list.remove(&(app.to_owned(), name.to_owned())) else { return false };
        // Explicitly, before the sender is dropped: the task waits for several things at once.
        let _ = channel.removed.send(true);
        true
    }

    /// Has a channel go on with its next item.
    pub fn skip(&self, app: &str, name: &str) -> Result<(), NotSkipped> {
        let list = self.lock();
        let channel = list.get(&(app.to_owned(), name.to_owned())).ok_or(NotSkipped::None)?;
        channel.status.can_skip().map_err(NotSkipped::Idle)?;
        // A full queue: as many requests wait already.
        let _ = channel.commands.try_send(Command::Skip);
        Ok(())
    }

    /// All channels, by app and name.
    pub fn views(&self) -> Vec<View> {
        self.lock().values().map(Channel::view).collect()
    }

    /// One channel.
    pub fn view(&self, app: &str, name: &str) -> Option<View> {
        self.lock().get(&(app.to_owned(), name.to_owned())).map(Channel::view)
    }

    /// Figures of all channels, by app and name.
    pub fn figures(&self) -> Vec<Figures> {
        self.lock().values().map(Channel::figures).collect()
    }

    fn start(&self, spec: Arc<ChannelSpec>, added_by: AddedBy, claim: Claim) -> Channel {
        let channel = format!("{}/{}", spec.app, spec.name);
        let status = Arc::new(Status::new(channel, spec.items.clone(), time::now()));
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let (removed, ends) = watch::channel(false);
        let settings = self.settings();
        let timeouts = OpenTimeouts { open: OPEN_TIMEOUT, frame: settings.stall_timeout };
        let (opened, of_items) = (Arc::clone(&spec), Arc::clone(&settings));
        let needs_length = spec.start.is_some();
        let open = move |index: usize, join| Item::open(&opened.items[index], join, needs_length, &of_items);
        let playlist =
            Playlist::new(Box::new(open), spec.items.len(), spec.looped, timeouts, Arc::clone(&status));
        let parts = Parts {
            app: spec.app.clone(),
            name: spec.name.clone(),
            start: spec.start,
            settings,
            ingest: self.ingest.clone(),
            status: Arc::clone(&status),
            commands: received,
            removed: ends,
        };
        self.ingest.spawn(Runner::new(parts, playlist).run());
        Channel { spec, added_by, status, commands, removed, _claim: claim }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        // Nothing panics with the lock held.
        self.list.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Channel {
    fn view(&self) -> View {
        View { spec: Arc::clone(&self.spec), added_by: self.added_by, now: self.status.snapshot() }
    }

    fn figures(&self) -> Figures {
        let (app, name) = (self.spec.app.clone(), self.spec.name.clone());
        let (state, items_played, items_failed, pauses) = self.status.totals();
        Figures { app, name, state, items_played, items_failed, pauses }
    }
}
