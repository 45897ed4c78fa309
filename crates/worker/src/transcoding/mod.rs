//! Threads that transcode audio, shared by all streams of all workers; never a worker.
//!
//! ```text
//!  worker ─ Transcoder::push ─▶ queue of the stream ─▶ thread: one piece of each stream in turn ─▶ Replies ─ waker ─▶ worker
//! ```
//!
//! Nobody waits: a full queue refuses the piece, and results that a worker does not take are left out and counted. A thread
//! starts with the first stream it gets and ends with its last, so that a server without bridges has none. What the codecs
//! do is the business of the crate `transcode`.

mod pool;
mod replies;
mod thread;
mod work;

use bridge::CodedAudio;

pub(crate) use pool::{Pool, Transcoder};
pub(crate) use replies::{Replies, Reply};

/// Pieces that wait for a transcoder; when full, [`Transcoder::push`] refuses. As much as ten seconds of AAC, since the
/// pictures kept for new viewers bring their audio along at once.
pub(crate) const PIECES_MAX: usize = 512;

/// What is made of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// AAC and MP3 to Opus.
    ToOpus,
    /// Opus to AAC; only in builds with `fdk-aac`.
    ToAac,
}

/// Why there is no transcoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolRefused {
    /// As many streams are transcoded as are configured.
    TooManyStreams,
    /// This build has no encoder for it.
    NotBuiltIn,
    /// The operating system gives no thread.
    NoThread,
}

/// Why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushError {
    /// [`PIECES_MAX`] pieces wait already.
    Full,
    /// Longer than any piece can be ([`transcode::PIECE_BYTES_MAX`]).
    Oversized,
    /// The transcoder has failed, and said so in a reply.
    Ended,
}

impl std::fmt::Display for PoolRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::TooManyStreams => {
                "as many streams as configured are being transcoded ([transcoding] streams_max)"
            }
            Self::NotBuiltIn => "this build has no AAC encoder (cargo feature fdk-aac)",
            Self::NoThread => "there is no thread to transcode on",
        })
    }
}

/// Something that transcodes one stream.
trait Work: Send {
    /// Transcodes a piece and appends what it completes.
    fn transcode(
        &mut self,
        piece: &CodedAudio,
        out: &mut Vec<CodedAudio>,
    ) -> Result<(), transcode::TranscodeError>;
}

#[cfg(test)]
mod tests;
