//! Which stream is transcoded on which thread.
//!
//! A new stream goes to the thread with the fewest. The lock is held when streams come and go, never for a
//! piece.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use bridge::CodedAudio;

use super::thread::Stream;
use super::work::{Aac, Opus};
use super::{Conversion, PIECES_MAX, PoolRefused, PushError, Replies, Work, thread};
use worker_api::settings::TranscodingSettings;

/// Handle of all transcoding threads; clones are the same pool.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    settings: TranscodingSettings,
    seats: Arc<Seats>,
}

/// Streams per thread.
#[derive(Debug)]
pub(super) struct Seats {
    threads: Mutex<Vec<Option<Running>>>,
}

/// A thread, which is there as long as it has streams.
#[derive(Debug)]
struct Running {
    streams: usize,
    inbox: Sender<Stream>,
    thread: Thread,
}

/// The way of one stream to its thread. Dropping it ends the transcoding; what is queued is thrown away.
#[derive(Debug)]
pub(crate) struct Transcoder {
    /// `Some` until it is dropped.
    pieces: Option<rtrb::Producer<CodedAudio>>,
    thread: Thread,
}

impl Pool {
    /// A pool without threads: they start when they are needed.
    pub(crate) fn new(settings: TranscodingSettings) -> Self {
        let threads = (0..settings.threads.max(1)).map(|_| None).collect();
        Self { settings, seats: Arc::new(Seats { threads: Mutex::new(threads) }) }
    }

    /// Begins to transcode a stream; results come in `replies` under the token `bridge`.
    pub(crate) fn open(
        &self,
        conversion: Conversion,
        bridge: u64,
        replies: &Arc<Replies>,
    ) -> Result<Transcoder, PoolRefused> {
        let work: Box<dyn Work> = match conversion {
            Conversion::ToOpus => Box::new(Opus::new(self.settings.opus_bits_per_second)),
            Conversion::ToAac => {
                Box::new(Aac::new(self.settings.aac_bits_per_second).map_err(|_| PoolRefused::NotBuiltIn)?)
            }
        };
        self.open_with(work, bridge, replies)
    }

    pub(super) fn open_with(
        &self,
        work: Box<dyn Work>,
        bridge: u64,
        replies: &Arc<Replies>,
    ) -> Result<Transcoder, PoolRefused> {
        let mut threads = self.seats.lock();
        let streams = |running: &Option<Running>| running.as_ref().map_or(0, |running| running.streams);
        if threads.iter().map(streams).sum::<usize>() >= self.settings.streams_max {
            return Err(PoolRefused::TooManyStreams);
        }
        let (index, seat) = threads
            .iter_mut()
            .enumerate()
            .min_by_key(|(_, running)| streams(running))
            .ok_or(PoolRefused::NoThread)?;
        let running = match seat {
            Some(running) => running,
            vacant => vacant.insert(Running::spawn(index, &self.seats)?),
        };
        let (producer, pieces) = rtrb::RingBuffer::new(PIECES_MAX);
        let stream = Stream::new(work, pieces, bridge, Arc::clone(replies));
        // The thread ends only with the lock held and no stream left, so it is there to receive.
        running.inbox.send(stream).map_err(|_| PoolRefused::NoThread)?;
        running.streams += 1;
        running.thread.unpark();
        Ok(Transcoder { pieces: Some(producer), thread: running.thread.clone() })
    }

    /// Threads that run and streams they have.
    #[cfg(test)]
    pub(super) fn load(&self) -> Vec<usize> {
        self.seats.lock().iter().flatten().map(|running| running.streams).collect()
    }
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Running>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `gone` streams off thread `index`; true if none is left, and the thread must end.
    pub(super) fn leave(&self, index: usize, gone: usize) -> bool {
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
    fn spawn(index: usize, seats: &Arc<Seats>) -> Result<Self, PoolRefused> {
        let (inbox, streams) = channel();
        let seats = Arc::clone(seats);
        let thread =
            worker_api::thread::spawn(format!("audio-{index}"), move || thread::run(index, &seats, &streams))
                .map_err(|_| PoolRefused::NoThread)?;
        Ok(Self { streams: 0, inbox, thread: thread.thread().clone() })
    }
}

impl Transcoder {
    /// Hands a piece over. Never waits.
    pub(crate) fn push(&mut self, piece: CodedAudio) -> Result<(), PushError> {
        if piece.data.len() > transcode::PIECE_BYTES_MAX {
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
