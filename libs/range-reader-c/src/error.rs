//! Numbers of errors: what came of `range-reader`'s, and what FFmpeg calls them.

use range_reader::ReadError;
use range_reader::error::{Permanent, SourceError};
use std::ffi::c_int;
use std::io;

/// Why a call failed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A pointer that must not be NULL was, or a value makes no sense.
    InvalidArgument = -1,
    /// There is no such file (404, 410).
    NotFound = -2,
    /// It may not be read (401, 403), or its scheme, address or redirect is not allowed.
    NotAllowed = -3,
    /// The server refuses with another status.
    Refused = -4,
    /// The server's responses contradict the requests or themselves.
    BadServer = -5,
    /// The file has changed on the server since it was opened; open it again.
    Changed = -6,
    /// No connection, no response in time, or a busy server, after several attempts. Try later.
    Unreachable = -7,
    /// The server ends its responses too early, after several attempts. Try later.
    Truncated = -8,
    /// The file, a redirect or a header is larger than allowed.
    TooLarge = -9,
    /// Name, certificate or this machine: set up wrongly on this side or that one.
    Setup = -10,
    /// The server does not say how long the file is.
    UnknownSize = -11,
    /// Stopped by `range_reader_interrupt`.
    Interrupted = -12,
    /// A bug in the library; close the reader.
    Bug = -13,
}

/// A number and its text.
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(error: Error, text: impl Into<String>) -> Self {
        Self { error, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Error::InvalidArgument, text)
    }

    pub(crate) fn unknown_size() -> Self {
        Self::new(Error::UnknownSize, "the server does not say how long the file is")
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(Error::Interrupted, "interrupted")
    }

    pub(crate) fn bug() -> Self {
        Self::new(Error::Bug, "a bug in range-reader; close the reader")
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ReadError>());
        let number = match inner {
            Some(ReadError::Truncated) => Error::Truncated,
            Some(ReadError::Source(source)) => of_source(source),
            None if error.kind() == io::ErrorKind::InvalidInput => Error::InvalidArgument,
            None if error.kind() == io::ErrorKind::Unsupported => Error::UnknownSize,
            None => Error::Setup,
        };
        Self::new(number, error.to_string())
    }
}

fn of_source(error: &SourceError) -> Error {
    match error {
        SourceError::Transient { .. } => Error::Unreachable,
        SourceError::Unsatisfiable { .. } => Error::BadServer,
        SourceError::Changed => Error::Changed,
        SourceError::Permanent(permanent) => match permanent {
            Permanent::Status(404 | 410) => Error::NotFound,
            Permanent::Status(401 | 403) | Permanent::Forbidden(_) | Permanent::NotPublic(_) => {
                Error::NotAllowed
            }
            Permanent::Status(_) => Error::Refused,
            Permanent::Lying(_) => Error::BadServer,
            Permanent::Limit(_) => Error::TooLarge,
            Permanent::Setup(_) => Error::Setup,
        },
    }
}

/// FFmpeg's tags of errors that are no errno (libavutil/error.h): the negative number of four
/// characters, the first one in the lowest byte.
const fn tag(characters: [u8; 4]) -> c_int {
    -c_int::from_le_bytes(characters)
}

/// `AVERROR_EOF`.
pub(crate) const AVERROR_EOF: c_int = tag(*b"EOF ");
/// `AVERROR_EXIT`: "Immediate exit was requested".
const AVERROR_EXIT: c_int = tag(*b"EXIT");
/// `AVERROR_EXTERNAL`: an error of a library that FFmpeg does not know.
const AVERROR_EXTERNAL: c_int = tag(*b"EXT ");

/// FFmpeg's number for a negative number of this library: `AVERROR(errno)` is the negative errno.
pub(crate) fn averror(number: i64) -> c_int {
    let is = |error: Error| number == error as i64;
    if is(Error::Interrupted) {
        AVERROR_EXIT
    } else if is(Error::Bug) {
        AVERROR_EXTERNAL
    } else if is(Error::InvalidArgument) {
        -libc::EINVAL
    } else if is(Error::NotFound) {
        -libc::ENOENT
    } else if is(Error::NotAllowed) || is(Error::Refused) {
        -libc::EACCES
    } else if is(Error::UnknownSize) {
        -libc::ENOSYS
    } else if is(Error::TooLarge) {
        -libc::EFBIG
    } else if is(Error::Unreachable) {
        -libc::ETIMEDOUT
    } else {
        -libc::EIO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_ffmpeg() {
        // As a program prints them that is compiled with FFmpeg's header.
        assert_eq!((AVERROR_EOF, AVERROR_EXIT), (-541_478_725, -1_414_092_869));
        assert_eq!(AVERROR_EXTERNAL, -542_398_533);
    }
}
