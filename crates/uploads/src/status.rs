//! How far uploads are, for those who look.

use std::time::Duration;

/// Why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// No connection, or it broke.
    Unreachable,
    /// No progress for too long.
    Timeout,
    /// The keys are missing, wrong, or not allowed to.
    Denied,
    /// There is no such bucket, or the upload in parts is no longer known.
    Missing,
    /// The store failed (5xx).
    Server,
    /// The store refuses the request (4xx).
    Refused,
    /// Another object has the key. It is not overwritten.
    Conflict,
    /// The file cannot be read, or has changed while it was sent.
    File,
    /// The store does not have what it took.
    Unconfirmed,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Unreachable,
        Self::Timeout,
        Self::Denied,
        Self::Missing,
        Self::Server,
        Self::Refused,
        Self::Conflict,
        Self::File,
        Self::Unconfirmed,
    ];

    /// Name in the API and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Denied => "denied",
            Self::Missing => "missing",
            Self::Server => "server",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::File => "file",
            Self::Unconfirmed => "unconfirmed",
        }
    }

    /// Whether other files would fail in the same way: all wait then.
    pub(crate) fn is_of_the_store(self) -> bool {
        !matches!(self, Self::Conflict | Self::File | Self::Unconfirmed)
    }
}

/// Why an attempt failed, and what to say of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    pub(crate) why: String,
}

impl Failure {
    pub(crate) fn new(cause: Cause, why: impl Into<String>) -> Self {
        Self { cause, why: why.into() }
    }
}

/// How far a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadState {
    /// Its turn comes.
    Waiting,
    /// It is being read or sent.
    Uploading {
        /// Bytes that the store has taken.
        sent_bytes: u64,
    },
    /// The store has it.
    Confirmed {
        /// Since when, in milliseconds since 1970.
        at_ms: u64,
    },
    /// The last attempt failed, and there will be another one.
    Failed {
        /// Why.
        cause: Cause,
        /// The same in words.
        why: String,
        /// Until the next attempt.
        retry_in: Duration,
    },
}

impl UploadState {
    /// Names of the states in the API and metrics.
    pub const NAMES: [&'static str; 4] = ["waiting", "uploading", "confirmed", "failed"];

    /// Name in the API and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Uploading { .. } => "uploading",
            Self::Confirmed { .. } => "confirmed",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A file and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadStatus {
    /// Directory it is below.
    pub directory: String,
    /// Path below that.
    pub path: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Attempts that failed since the last success.
    pub failures: u32,
    /// How far it is.
    pub state: UploadState,
}

/// Totals since the start, and what there is now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UploadTotals {
    /// Files in each state, in the order of [`UploadState::NAMES`].
    pub files: [u64; 4],
    /// Bytes of files that are not confirmed.
    pub unconfirmed_bytes: u64,
    /// Files that the store has confirmed after they were sent.
    pub sent: u64,
    /// Files that the store had already.
    pub already_there: u64,
    /// Bytes that the store has taken, parts of files that are not confirmed included.
    pub sent_bytes: u64,
    /// Attempts that failed, in the order of [`Cause::ALL`].
    pub failures: [u64; Cause::ALL.len()],
    /// Uploads in parts that went on where an earlier attempt had ended.
    pub resumed: u64,
    /// Local files removed because they were confirmed long enough ago.
    pub removed: u64,
    /// Files that are not followed because there are too many.
    pub not_followed: u64,
    /// Directories whose journal cannot be written at present.
    pub journals_failing: u64,
}
