//! Threads that transcode audio, shared by all streams of all workers; never a worker.
//!
//! ```text
//!  worker ─ Transcoder::push ─▶ queue of the stream ─▶ thread: one piece of each stream in turn ─▶ Replies
//!  ─▶ worker
//! ```
//!
//! Nobody waits: a full queue refuses the piece, and results that a worker does not take are left out and
//! counted. A new stream goes to the thread with the fewest. A thread starts with the first stream it gets
//! and ends with its last, so that a server without bridges has none. The lock is held when streams come and
//! go, never for a piece.

mod replies;
mod thread;

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, Thread};

use media::CodedAudio;

pub use replies::{Replies, Reply};
use thread::Stream;

use crate::{AacSettings, NotBuiltIn, OpusSettings, PIECE_BYTES_MAX, ToAac, ToOpus, TranscodeError};

/// Pieces that wait for a transcoder; when full, [`Transcoder::push`] refuses. As
/// much as ten seconds of AAC, since the video kept for new viewers brings its audio along at once.
const PIECES_MAX: usize = 512;

/// How much is transcoded at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// Threads; at least 1.
    pub threads: usize,
    /// Streams; further ones are refused.
    pub streams_max: usize,
}

/// Handle of all transcoding threads; clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    streams_max: usize,
    spawn: Spawn,
    seats: Arc<Seats>,
}

/// Starts a named thread as the program starts all of its: such that it logs where its others do.
pub type Spawn = fn(String, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// Streams per thread.
#[derive(Debug)]
struct Seats {
    threads: Mutex<Vec<Option<Running>>>,
}

/// A thread, which is there as long as it has streams.
#[derive(Debug)]
struct Running {
    streams: usize,
    inbox: Sender<Stream>,
    thread: Thread,
}

/// The queue of one stream to its thread. Dropping it ends the transcoding; what is queued is thrown away.
#[derive(Debug)]
pub struct Transcoder {
    /// `Some` until it is dropped.
    pieces: Option<rtrb::Producer<CodedAudio>>,
    thread: Thread,
}

impl Pool {
    /// A pool without threads: they start when they are needed.
    pub fn new(settings: PoolSettings, spawn: Spawn) -> Self {
        let threads = (0..settings.threads.max(1)).map(|_| None).collect();
        Self {
            streams_max: settings.streams_max,
            spawn,
            seats: Arc::new(Seats { threads: Mutex::new(threads) }),
        }
    }

    /// Begins to transcode a stream; results come in `replies` under `token`.
    ///
    /// # Errors
    /// [`PoolRefused`] says what is missing.
    pub fn open(
        &self,
        conversion: Conversion,
        token: u64,
        replies: &Arc<Replies>,
    ) -> Result<Transcoder, PoolRefused> {
        let work: Box<dyn Work> = match conversion {
            Conversion::ToOpus(settings) => Box::new(ToOpus::new(settings)),
            Conversion::ToAac(settings) => {
                Box::new(ToAac::new(settings).map_err(|NotBuiltIn| PoolRefused::NotBuiltIn)?)
            }
        };
        self.open_with(work, token, replies)
    }

    fn open_with(
        &self,
        work: Box<dyn Work>,
        token: u64,
        replies: &Arc<Replies>,
    ) -> Result<Transcoder, PoolRefused> {
        let mut threads = self.seats.lock();
        let streams = |running: &Option<Running>| running.as_ref().map_or(0, |running| running.streams);
        if threads.iter().map(streams).sum::<usize>() >= self.streams_max {
            return Err(PoolRefused::TooManyStreams);
        }
        let (index, seat) = threads
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, running)| streams(running))
            .ok_or(PoolRefused::NoThread)?;
        let running = match seat {
            Some(running) => running,
            vacant => vacant.insert(Running::spawn(index, &self.seats, self.spawn)?),
        };
        let (producer, pieces) = rtrb::RingBuffer::new(PIECES_MAX);
        let stream = Stream::new(work, pieces, token, Arc::clone(replies));
        // The thread ends only with the lock held and no stream left, so it is there to receive.
        running.inbox.send(stream).map_err(|_| PoolRefused::NoThread)?;
        running.streams += 1;
        running.thread.unpark();
        Ok(Transcoder { pieces: Some(producer), thread: running.thread.clone() })
    }

    /// Threads that run and streams they have.
    #[cfg(test)]
    fn load(&self) -> Vec<usize> {
        self.seats.lock().iter().flatten().map(|running| running.streams).collect()
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Running>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `gone` streams off thread `index`; true if none is left, and the thread must end.
    fn leave(&self, index: usize, gone: usize) -> bool {
        let mut threads = self.lock();
        let Some(seat) = threads.get_mut(index) else { return true };
        let Some(running) = seat else { return true };
        running.streams = running.streams.saturating_sub(gone);
        let is_last = running.streams == 0;
        if is_last {
            *seat = None;
        }
        is_last
    }
}

impl Running {
    fn spawn(index: usize, seats: &Arc<Seats>, spawn: Spawn) -> Result<Self, PoolRefused> {
        let (inbox, streams) = channel();
        let seats = Arc::clone(seats);
        let run = Box::new(move || thread::run(index, &seats, &streams));
        let thread = spawn(format!("audio-{index}"), run).map_err(|_| PoolRefused::NoThread)?;
        Ok(Self { streams: 0, inbox, thread: thread.thread().clone() })
    }
}

impl Transcoder {
    /// Hands a piece over. Never waits.
    ///
    /// # Errors
    /// [`PushError`]; the piece is dropped.
    pub fn push(&mut self, piece: CodedAudio) -> Result<(), PushError> {
        if piece.data.len() > PIECE_BYTES_MAX {
            return Err(PushError::Oversized);
        }
        let pieces = self.pieces.as_mut().ok_or(PushError::Ended)?;
        if pieces.is_abandoned() {
            return Err(PushError::Ended);
        }
        pieces.push(piece).map_err(|_| PushError::Full)?;
        self.thread.unpark();
        Ok(())
    }
}

impl Drop for Transcoder {
    fn drop(&mut self) {
        // First the queue, then the thread: it must see that the queue is abandoned.
        self.pieces = None;
        self.thread.unpark();
    }
}

/// What is made of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversion {
    /// AAC and MP3 to Opus.
    ToOpus(OpusSettings),
    /// Opus to AAC; only in builds with `fdk-aac`.
    ToAac(AacSettings),
}

/// Why there is no transcoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolRefused {
    /// As many streams are transcoded as are configured.
    TooManyStreams,
    /// This build has no encoder for it.
    NotBuiltIn,
    /// The operating system gives no thread.
    NoThread,
}

/// Why a piece was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushError {
    /// The queue of the stream is full.
    Full,
    /// Longer than any piece can be ([`PIECE_BYTES_MAX`]).
    Oversized,
    /// The transcoder has failed, and said so in a reply.
    Ended,
}

impl PoolRefused {
    /// For the viewer's error and the log.
    pub fn text(self) -> &'static str {
        match self {
            Self::TooManyStreams => {
                "as many streams as configured are being transcoded ([transcoding] streams_max)"
            }
            Self::NotBuiltIn => NotBuiltIn::TEXT,
            Self::NoThread => "there is no thread to transcode on",
        }
    }
}

/// Something that transcodes one stream.
trait Work: Send {
    /// Transcodes a piece and appends what it completes.
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError>;
}

impl Work for ToOpus {
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        self.push(piece.format.as_deref(), piece.pts_us, &piece.data, out)
    }
}

impl Work for ToAac {
    fn transcode(&mut self, piece: &CodedAudio, out: &mut Vec<CodedAudio>) -> Result<(), TranscodeError> {
        self.push(piece.pts_us, &piece.data, out)
    }
}

#[cfg(test)]
mod tests;
