//! Lists of byte ranges: merging what is not worth asking apart, and cutting lists into requests.
//!
//! Pure functions; which ranges are wanted is decided by hints and by `learn.rs`.

use std::ops::Range;

/// Bytes `start..end` of a file, or everything from `start` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte; `None`: the end of the file, wherever that is.
    pub end: Option<u64>,
}

impl From<Range<u64>> for ByteRange {
    fn from(range: Range<u64>) -> Self {
        Self { start: range.start, end: Some(range.end) }
    }
}
