//! Why something is not played, by whose fault it is.

use std::fmt;
use std::io;

use mp4::Mp4Error;
use range_reader::ReadError;
use range_reader::error::{Permanent, SourceError};

/// Why a file, or an object of it, cannot be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VodError {
    /// There is no such file, or it has no such object, or no longer.
    NotFound,
    /// The file is there, and cannot be cut into segments: this is why.
    Unplayable(String),
    /// The disk fails, which is not the client's fault; the log has the reason.
    Disk(String),
    /// The server that has the file does not give it.
    Remote(String),
    /// There are as many requests as there may be.
    Busy,
}

impl VodError {
    /// Of the file at this path: one that is neither MP4 nor FLV is not what its name says.
    pub(crate) fn of_file(self, path: &str) -> Self {
        let is_flv = path.rsplit_once('.').is_some_and(|(_, kind)| kind.eq_ignore_ascii_case("flv"));
        match self {
            Self::Unplayable(reason) if is_flv && reason == Mp4Error::NotMp4.to_string() => {
                Self::Unplayable("not an FLV file".to_owned())
            }
            other => other,
        }
    }
}

impl fmt::Display for VodError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("there is no such file, or it has changed"),
            Self::Unplayable(reason) | Self::Disk(reason) | Self::Remote(reason) => f.write_str(reason),
            Self::Busy => f.write_str("too many files are played at once"),
        }
    }
}

impl std::error::Error for VodError {}

impl From<Mp4Error> for VodError {
    fn from(error: Mp4Error) -> Self {
        match error {
            Mp4Error::Io(error) => error.into(),
            error => Self::Unplayable(error.to_string()),
        }
    }
}

impl From<io::Error> for VodError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>()) {
            Some(ReadError::Source(SourceError::Permanent(Permanent::Status(404 | 410)))) => Self::NotFound,
            Some(ReadError::Source(SourceError::Permanent(Permanent::NotPublic(host)))) => {
                let why = "has no public address, and `sources.allow_private_addresses` is not set";
                Self::Remote(format!("not allowed: {host} {why}"))
            }
            Some(error) => Self::Remote(error.to_string()),
            None if error.kind() == io::ErrorKind::NotFound => Self::NotFound,
            None => Self::Disk(error.to_string()),
        }
    }
}
