//! The threads of recordings with a worker that is played by the test.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use media::Frame;
use recording::settings::{FileSettings, Format, RecordSettings, Retention, Rotation, Rule};
use recording::{Needed, RecordingInput, RecordingThread};
use tokio::sync::mpsc;
use worker_api::WorkerHandles;
use worker_api::command::Command;
use worker_api::pattern::Pattern;
use worker_api::publications::StreamPublished;
use worker_api::snapshot::SessionId;
use worker_api::streams::Epoch;
use worker_api::tap::FrameSender;

pub(crate) fn settings(directory: &Path, format: Format) -> RecordSettings {
    let files = FileSettings {
        directory: directory.to_owned(),
        format,
        rotation: Rotation { after: Duration::from_secs(3600), bytes: u64::MAX },
        retention: Retention::default(),
    };
    RecordSettings {
        by_default: None,
        rules: vec![Rule { pattern: Pattern::new("*"), files: Some(files) }],
        fragment: Duration::from_secs(1),
        sync: Some(Duration::from_secs(2)),
        queue_bytes: 64 << 20,
        queue: Duration::from_secs(600),
        recordings_max: 10,
    }
}

/// A folder of this test that is removed at its end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("recording-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// All files below it, by path.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut folders = vec![self.0.clone()];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name() != ".lock" => files.push(entry.path()),
                    false => {}
                }
            }
        }
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Server {
    thread: RecordingThread,
    publish: mpsc::Sender<StreamPublished>,
    taps: Receiver<FrameSender>,
}

impl Server {
    pub(crate) fn start(settings: RecordSettings) -> Result<Self, String> {
        let (tapped, taps): (Sender<FrameSender>, _) = channel();
        let tapped = Mutex::new(tapped);
        let send = move |_: usize, command: Command| {
            if let Command::Tap(tap) = command {
                let _ = tap.reply.send(Ok(SessionId(1)));
                let _ = tapped.lock().unwrap().send(tap.frames);
            }
            Ok(())
        };
        let (publish, published) = mpsc::channel(100);
        let workers = WorkerHandles::over(1, Box::new(send));
        let input = RecordingInput {
            settings,
            workers,
            home: Box::new(|_| Some(0)),
            published,
            needed: Needed::default(),
        };
        Ok(Self { thread: RecordingThread::start(input)?, publish, taps })
    }

    /// A stream begins to be published, and is recorded.
    pub(crate) fn publish(&self, name: &str) -> Published {
        let key: Arc<str> = format!("live/{name}").into();
        self.publish.try_send(StreamPublished { key, app_bytes: 4, is_fetched: false }).unwrap();
        let mut frames = self.taps.recv_timeout(Duration::from_secs(30)).expect("it is recorded");
        frames.start(Epoch(1), Vec::new());
        Published { frames }
    }

    /// How much there is of all recordings, on its way to the disk no more.
    pub(crate) fn recorded(&self) -> Duration {
        let recordings = self.thread.recordings().list();
        recordings.iter().filter_map(|(.., entry)| entry.duration).sum()
    }

    pub(crate) fn stop(self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(self.thread.stop());
    }
}

/// A publisher.
pub(crate) struct Published {
    frames: FrameSender,
}

impl Published {
    /// Sends a frame as soon as there is room for it.
    pub(crate) fn send(&mut self, frame: &Arc<Frame>) {
        while self.frames.queued_items() > 500 || self.frames.queued_bytes() > 4 << 20 {
            self.frames.flush();
            std::thread::yield_now();
        }
        self.frames.send(frame, frame.is_key(), Vec::new);
        self.frames.flush();
    }
}
