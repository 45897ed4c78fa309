//! What may be played, and how much of the machine that may take.

use std::path::PathBuf;

use range_reader::http::HttpConfig;
use url::Url;

/// Settings of a [`Library`](crate::Library).
#[derive(Debug, Clone)]
pub struct VodSettings {
    /// Directory of MP4 files, without links in its path; `None`: there is none.
    pub root: Option<PathBuf>,
    /// Directories of recordings.
    pub recordings: Vec<PathBuf>,
    /// Other servers whose files are played.
    pub remotes: Vec<Remote>,
    /// How those are reached.
    pub http: HttpConfig,
    /// Requests answered at a time; further ones are answered 503.
    pub requests_max: usize,
    /// Bytes of the index of one file.
    pub index_bytes_max: u64,
    /// Bytes of all indexes that are kept.
    pub cache_bytes: usize,
}

/// A server whose files are played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its name in paths of requests.
    pub name: String,
    /// What paths are appended to; ends with a slash.
    pub url: Url,
}

impl VodSettings {
    /// Whether there is anything to play.
    pub fn is_off(&self) -> bool {
        self.root.is_none() && self.recordings.is_empty() && self.remotes.is_empty()
    }
}
