//! What transcoding threads give back to a worker.
//!
//! One queue per worker, filled by all threads; the worker is woken when something comes into an empty one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use media::CodedAudio;

/// Replies that wait for a worker; when full, further ones are dropped and their pieces counted in a later
/// one.
const REPLIES_MAX: usize = 8_192;

/// What became of one or more pieces.
#[derive(Debug)]
pub struct Reply {
    /// The token the transcoder was opened with.
    pub token: u64,
    /// What came out, in order; the first has its format.
    pub audio: Vec<CodedAudio>,
    /// CPU time since the reply before.
    pub cpu: Duration,
    /// Pieces since the reply before that could not be decoded.
    pub broken: u64,
    /// Pieces that came out before, and were lost since the worker did not take its replies.
    pub dropped: u64,
    /// Something the operator should know: once per format, not per piece.
    pub error: Option<&'static str>,
    /// This transcoder takes no more.
    pub ended: bool,
}

/// Replies of all threads to one worker.
pub struct Replies {
    queue: Mutex<VecDeque<Reply>>,
    is_waiting: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Replies {
    /// An empty queue. `wake` is called on a transcoding thread when something comes into it while it is
    /// empty: once per batch that the worker takes, not per reply.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), is_waiting: AtomicBool::new(false), wake: Box::new(wake) })
    }

    /// Appends everything that has come to `inbox`. Costs one atomic load when that is nothing.
    pub fn take(&self, inbox: &mut VecDeque<Reply>) {
        if !self.is_waiting.load(Ordering::Acquire) {
            return;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_waiting.store(false, Ordering::Release);
        if inbox.is_empty() {
            std::mem::swap(&mut *queue, inbox);
        } else {
            inbox.append(&mut queue);
        }
    }

    /// Gives a reply to the worker, or back when the worker has too many.
    pub(super) fn put(&self, reply: Reply) -> Result<(), Reply> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= REPLIES_MAX {
            return Err(reply);
        }
        queue.push_back(reply);
        let was_empty = !self.is_waiting.swap(true, Ordering::AcqRel);
        drop(queue);
        if was_empty {
            (self.wake)();
        }
        Ok(())
    }
}
