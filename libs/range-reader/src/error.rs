//! Errors, by whose fault they are.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a source could not give bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceError {
    /// Worth another try: the connection broke, nothing came in time, the server is busy (408, 429,
    /// 5xx).
    Transient {
        /// What happened.
        reason: String,
        /// What the server asked for (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// No requested byte exists (416): the file is shorter than that.
    Unsatisfiable {
        /// Length of the file, if the response says it.
        total_bytes: Option<u64>,
    },
    /// The file is not the one it was: entity tag, date or length differ.
    Changed,
    /// Not worth another try.
    Permanent(Permanent),
}

/// Errors that a retry does not help against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permanent {
    /// The server's status: 401, 403, 404, 410 and others.
    Status(u16),
    /// The server's response contradicts the request or itself; the reason says how.
    Lying(&'static str),
    /// A scheme or redirect that is not allowed.
    Forbidden(String),
    /// A host whose addresses [`HttpConfig::addresses`](crate::http::HttpConfig::addresses) does
    /// not allow.
    NotPublic(String),
    /// Larger, or taking longer, than allowed.
    Limit(&'static str),
    /// Name, certificate, URL: set up wrongly on this side or that one.
    Setup(String),
}

/// Why a read failed; inside the [`io::Error`] that `read` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The source's error, after as many attempts as are allowed.
    Source(SourceError),
    /// The body repeatedly ended before its announced length.
    Truncated,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient { reason, .. } => f.write_str(reason),
            Self::Unsatisfiable { .. } => f.write_str("the file is shorter than what was asked of it"),
            Self::Changed => f.write_str("the file has changed on the server since it was opened"),
            Self::Permanent(permanent) => permanent.fmt(f),
        }
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "the server answers {status}"),
            Self::Lying(how) => write!(f, "the server's answer is wrong: {how}"),
            Self::Forbidden(what) => write!(f, "not allowed: {what}"),
            Self::NotPublic(host) => {
                write!(
                    f,
                    "not allowed: {host} has no public address, and `HttpConfig::addresses` is not `Any`"
                )
            }
            Self::Limit(what) => write!(f, "over the limit: {what}"),
            Self::Setup(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Truncated => f.write_str("the server ends its answers too early"),
        }
    }
}

impl std::error::Error for SourceError {}
impl std::error::Error for ReadError {}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Source(SourceError::Permanent(Permanent::Status(404 | 410))) => {
                io::ErrorKind::NotFound
            }
            ReadError::Source(SourceError::Permanent(
                Permanent::Status(401 | 403) | Permanent::Forbidden(_) | Permanent::NotPublic(_),
            )) => io::ErrorKind::PermissionDenied,
            ReadError::Source(
                SourceError::Permanent(_) | SourceError::Changed | SourceError::Unsatisfiable { .. },
            ) => io::ErrorKind::InvalidData,
            ReadError::Source(SourceError::Transient { .. }) => io::ErrorKind::ConnectionAborted,
            ReadError::Truncated => io::ErrorKind::UnexpectedEof,
        };
        io::Error::new(kind, error)
    }
}
