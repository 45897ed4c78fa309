//! What can be wrong with an MP4 file, in words for the person who owns it.

use std::fmt;
use std::io;

use media::{Codec, FourCc};

/// Why a file cannot be read, or not further.
#[derive(Debug)]
pub enum Mp4Error {
    /// The reader failed.
    Io(io::Error),
    /// The first bytes are none of an MP4 or QuickTime file.
    NotMp4,
    /// The file ends without an index (`moov`): a recording that was cut off, or not finished yet.
    NoIndex,
    /// The file ends before a box or sample that its index promises.
    Truncated {
        /// First byte of what is promised, from the start of the file.
        at: u64,
    },
    /// A number is beyond its limit.
    TooLarge {
        /// What it is a number of.
        what: &'static str,
        /// The number.
        value: u64,
        /// The limit, see [`Limits`](super::Limits).
        limit: u64,
    },
    /// A box contradicts its format, itself or another box.
    Malformed {
        /// Type of the box.
        kind: FourCc,
        /// What is wrong.
        why: &'static str,
    },
    /// No track has this id.
    NoTrack(u32),
    /// No track can be played: these are the codecs of its video and audio tracks, none if it has
    /// neither.
    NothingToPlay(Vec<Codec>),
    /// The tracks that could be played have no samples.
    NoSamples,
    /// The file is in order, but uses something that is not read here.
    Unsupported(&'static str),
}

impl Mp4Error {
    pub(super) fn malformed(kind: &[u8; 4], why: &'static str) -> Self {
        Self::Malformed { kind: FourCc(*kind), why }
    }

    /// Refuses what is beyond its limit.
    pub(super) fn check(what: &'static str, value: u64, limit: u64) -> Result<(), Self> {
        if value > limit { Err(Self::TooLarge { what, value, limit }) } else { Ok(()) }
    }
}

impl fmt::Display for Mp4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "reading failed: {error}"),
            Self::NotMp4 => f.write_str("not an MP4 file"),
            Self::NoIndex => f.write_str("the file has no index (moov): cut off, or not finished"),
            Self::Truncated { at } => write!(f, "the file ends before what its index promises at byte {at}"),
            Self::TooLarge { what, value, limit } => write!(f, "{what}: {value}, the limit is {limit}"),
            Self::Malformed { kind, why } => write!(f, "broken box {kind}: {why}"),
            Self::NoTrack(id) => write!(f, "no track has the id {id}"),
            Self::NothingToPlay(codecs) if codecs.is_empty() => f.write_str("no video or audio track"),
            Self::NothingToPlay(codecs) => {
                f.write_str("no track can be played, it has ")?;
                for (index, codec) in codecs.iter().enumerate() {
                    write!(f, "{}{codec}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::NoSamples => f.write_str("its tracks have no samples"),
            Self::Unsupported(what) => write!(f, "not supported: {what}"),
        }
    }
}

impl std::error::Error for Mp4Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Mp4Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
