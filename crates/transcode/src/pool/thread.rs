//! A transcoding thread: one piece of each of its streams in turn, until it has no stream.
//!
//! A codec that panics ends its own stream only: it is dropped, and the worker told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use media::CodedAudio;
use nix::time::{ClockId, clock_gettime};

use super::{Replies, Reply, Seats, Work};
use crate::TranscodeError;

/// One stream on its thread.
pub(super) struct Stream {
    work: Box<dyn Work>,
    pieces: rtrb::Consumer<CodedAudio>,
    replies: Arc<Replies>,
    next: Reply,
    /// The last error told, so that it is told once.
    told: Option<TranscodeError>,
}

/// What a stream did with its turn.
#[derive(PartialEq, Eq)]
enum Turn {
    Idle,
    Worked,
    Gone,
}

/// Transcodes until the last stream has gone.
pub(super) fn run(index: usize, seats: &Seats, inbox: &Receiver<Stream>) {
    let mut streams: Vec<Stream> = Vec::new();
    let mut cpu = thread_cpu_time();
    loop {
        streams.extend(inbox.try_iter());
        let (before, mut is_busy) = (streams.len(), false);
        streams.retain_mut(|stream| {
            let turn = stream.take_turn(&mut cpu);
            is_busy |= turn == Turn::Worked;
            turn != Turn::Gone
        });
        let gone = before - streams.len();
        if gone > 0 && seats.leave(index, gone) {
            return;
        }
        if !is_busy {
            // Whoever pushes, opens or drops unparks afterwards; a token from before makes this return at
            // once.
            std::thread::park();
        }
    }
}

impl Stream {
    pub(super) fn new(
        work: Box<dyn Work>,
        pieces: rtrb::Consumer<CodedAudio>,
        token: u64,
        replies: Arc<Replies>,
    ) -> Self {
        Self { work, pieces, replies, next: Reply::empty(token), told: None }
    }

    fn take_turn(&mut self, cpu: &mut Duration) -> Turn {
        if self.pieces.is_abandoned() {
            return Turn::Gone;
        }
        let Ok(piece) = self.pieces.pop() else { return Turn::Idle };
        let (work, audio) = (&mut self.work, &mut self.next.audio);
        // After a panic the codec is dropped, never used again.
        let result = catch_unwind(AssertUnwindSafe(|| work.transcode(&piece, audio)));
        let now = thread_cpu_time();
        self.next.cpu += now.saturating_sub(*cpu);
        *cpu = now;
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.note(error),
            Err(_) => {
                self.next.error = Some("the transcoder of the audio has failed");
                self.next.ended = true;
            }
        }
        self.reply()
    }

    /// Counts an error, and tells it when it is another than the one told last.
    fn note(&mut self, error: TranscodeError) {
        self.next.broken += 1;
        if error.is_permanent() && self.told != Some(error) {
            self.told = Some(error);
            self.next.error = Some(error.text());
        }
    }

    /// Gives the reply to the worker if there is something in it to act on.
    fn reply(&mut self) -> Turn {
        if self.next.audio.is_empty() && self.next.error.is_none() {
            return Turn::Worked;
        }
        let ended = self.next.ended;
        let empty = Reply::empty(self.next.token);
        let reply = std::mem::replace(&mut self.next, empty);
        if let Err(mut refused) = self.replies.put(reply) {
            refused.dropped += refused.audio.len() as u64;
            refused.audio.clear();
            self.next = refused;
        }
        if ended { Turn::Gone } else { Turn::Worked }
    }
}

impl Reply {
    fn empty(token: u64) -> Self {
        Self {
            token,
            audio: Vec::new(),
            cpu: Duration::ZERO,
            broken: 0,
            dropped: 0,
            error: None,
            ended: false,
        }
    }
}

/// CPU time this thread has used.
fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
