//! What is recorded, where to, and for how long it is kept.

use std::path::PathBuf;
use std::time::Duration;

use worker_api::pattern::Pattern;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Fragmented MP4 that gets an ordinary index when it is complete.
    Mp4,
    /// FLV, with the codecs of Enhanced RTMP.
    Flv,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Mp4, Self::Flv];

    /// Name in the configuration and the API, and extension of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Mp4 => "mp4",
            Self::Flv => "flv",
        }
    }
}

/// What is recorded and how, for the whole server.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// What applies to streams that are recorded because the API started it; `None` where there is
    /// no directory for them.
    pub by_default: Option<FileSettings>,
    /// The first that matches decides.
    pub rules: Vec<Rule>,
    /// How long a fragment is.
    pub fragment: Duration,
    /// How long written bytes may be in memory only; `None`: as long as the kernel likes.
    pub sync: Option<Duration>,
    /// Bytes that may wait for the thread of a directory.
    pub queue_bytes: usize,
    /// Media of one recording that may wait for it.
    pub queue: Duration,
    /// Streams recorded at a time.
    pub recordings_max: usize,
}

/// One `[[record.rule]]`.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Streams, as `app/name`, that it is for.
    pub pattern: Pattern,
    /// How they are recorded; `None`: not at all.
    pub files: Option<FileSettings>,
}

/// Where the files of a stream go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The directory.
    pub directory: PathBuf,
    /// How they are written.
    pub format: Format,
    /// When one file is followed by the next.
    pub rotation: Rotation,
    /// Which of them are kept.
    pub retention: Retention,
}

/// When a file is long enough; it ends at the next key frame then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// By its duration.
    pub after: Duration,
    /// By its bytes.
    pub bytes: u64,
}

/// What is kept of complete files; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long, from the begin of the file.
    pub age: Option<Duration>,
    /// How many of each stream.
    pub files: Option<usize>,
    /// Bytes of all streams of the rule together.
    pub bytes: Option<u64>,
}

impl RecordSettings {
    /// Whether anything can be recorded.
    pub fn is_off(&self) -> bool {
        self.by_default.is_none() && self.rules.iter().all(|rule| rule.files.is_none())
    }

    /// How a stream is recorded by itself; `None`: it is not.
    pub fn rule(&self, app: &str, name: &str) -> Option<&FileSettings> {
        self.first_match(app, name)?.files.as_ref()
    }

    /// How a stream is recorded when the API starts it.
    pub fn on_demand(&self, app: &str, name: &str) -> Option<&FileSettings> {
        self.first_match(app, name).and_then(|rule| rule.files.as_ref()).or(self.by_default.as_ref())
    }

    fn first_match(&self, app: &str, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.pattern.matches_parts(app, name))
    }

    /// All settings of files, those of rules first.
    pub fn files(&self) -> impl Iterator<Item = &FileSettings> {
        self.rules.iter().filter_map(|rule| rule.files.as_ref()).chain(&self.by_default)
    }
}
