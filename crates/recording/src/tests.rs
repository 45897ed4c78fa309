//! Recordings on disks that the tests make: in memory with every write kept, and simulated ones whose power
//! is cut.

#[path = "../tests/recording/feed.rs"]
mod feed;

mod faults;
mod files;
mod memory;
mod power_cut;
mod repair;
mod simulated;
mod torn;

use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use media::Frame;
use tokio::sync::broadcast;
use worker_api::pattern::Pattern;

use crate::queue::Queue;
use crate::settings::{FileSettings, Format, RecordSettings, Retention, Rotation, Rule};
use crate::storage::Storage;
use crate::stream::{Feeder, Recording};
use crate::thread::{Needed, Started};
use crate::writer::{Now, RecordingEvent, Shared, Writer};
use worker_api::tap::TapItem;

/// When tests begin, since 1970.
const BEGIN: Duration = Duration::from_secs(1_795_806_300);

/// A directory and a stream that is recorded into it, without threads.
struct Rig {
    writer: Writer,
    shared: Arc<Shared>,
    feeder: Feeder,
    events: broadcast::Receiver<RecordingEvent>,
    settings: Arc<RecordSettings>,
    at: Instant,
    wall: Duration,
}

fn settings(format: Format) -> RecordSettings {
    let files = FileSettings {
        directory: "/r".into(),
        format,
        rotation: Rotation { after: Duration::from_secs(3600), bytes: u64::MAX },
        retention: Retention::default(),
    };
    RecordSettings {
        by_default: None,
        rules: vec![Rule { pattern: Pattern::new("*"), files: Some(files) }],
        fragment: Duration::from_secs(1),
        sync: Some(Duration::from_secs(2)),
        queue_bytes: 1 << 20,
        queue: Duration::from_secs(10),
        recordings_max: 10,
    }
}

impl Rig {
    fn new(storage: Box<dyn Storage>, settings: RecordSettings) -> Self {
        Self::needing(storage, settings, Needed::default())
    }

    /// With recordings that something else needs.
    fn needing(storage: Box<dyn Storage>, settings: RecordSettings, needed: Needed) -> Self {
        #[expect(clippy::disallowed_methods, reason = "where virtual time begins does not matter")]
        let at = Instant::now();
        let settings = Arc::new(settings);
        let (events, listener) = broadcast::channel(1000);
        let shared = Arc::new(Shared {
            directory: "/r".into(),
            queue: Queue::new(settings.queue_bytes, settings.queue),
            catalogue: Mutex::default(),
            failure: Mutex::default(),
            events,
            needed,
        });
        let now = Now { at, wall: BEGIN };
        let writer = Writer::new(Arc::clone(&shared), storage, Arc::clone(&settings), now).expect("readable");
        let feeder = feeder(&shared, &settings);
        Self { writer, shared, feeder, events: listener, settings, at, wall: BEGIN }
    }

    fn now(&self) -> Now {
        Now { at: self.at, wall: self.wall }
    }

    /// Time passes, and the thread has done what there was to do.
    fn pass(&mut self, time: Duration) {
        self.at += time;
        self.wall += time;
        self.write(usize::MAX);
    }

    /// The thread does so many jobs.
    fn write(&mut self, most: usize) {
        for _ in 0..most {
            let now = self.now();
            let Ok(Some(job)) = self.shared.queue.take(Duration::ZERO) else {
                for _ in 0..64 {
                    self.writer.tend(true, now);
                }
                return;
            };
            self.writer.handle(job, now);
            self.writer.tend(false, now);
        }
    }

    /// Frames come when they are due, and are written as they come.
    fn publish(&mut self, frames: &[Arc<Frame>]) {
        for frame in frames {
            self.come(frame);
            self.write(usize::MAX);
        }
    }

    /// A frame comes when it is due, and the disk does nothing.
    fn come(&mut self, frame: &Arc<Frame>) {
        let due = BEGIN + frame.dts.to_duration();
        let ahead = due.saturating_sub(self.wall);
        self.at += ahead;
        self.wall += ahead;
        self.feeder.take(TapItem::Frame(Arc::clone(frame)), self.wall);
    }

    fn finish(&mut self) {
        self.feeder.finish();
        self.pass(Duration::ZERO);
    }

    /// What the log of events has by now, as words.
    fn events(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            words.push(format!("{:?} {}", event.change, event.name.file_name()));
        }
        words
    }
}

fn feeder(shared: &Arc<Shared>, settings: &RecordSettings) -> Feeder {
    let files = settings.rules[0].files.clone().expect("recorded");
    let recording = Arc::new(Recording::new("live".to_owned(), "a".to_owned(), Started::Rule, files));
    Feeder::new(recording, Arc::clone(shared), settings.fragment, 0)
}

/// Whether each track of `found` begins as `published` does, and how many frames are missing at its end.
fn missing(found: &[Vec<Vec<u8>>; 2], published: &[Vec<Vec<u8>>; 2], what: &str) -> [usize; 2] {
    std::array::from_fn(|track| {
        let (found, published) = (&found[track], &published[track]);
        assert!(found.len() <= published.len(), "{what}: more frames than there were");
        assert!(published.starts_with(found), "{what}: track {track} is not what was published");
        published.len() - found.len()
    })
}

fn stream_folder() -> &'static Path {
    Path::new("live/a")
}
