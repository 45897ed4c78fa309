//! One publication of this server's own: messages go in, the worker's session takes them.
//!
//! Nothing is lost silently and nothing grows without bound: what the worker has not taken yet waits in a queue that is
//! limited, and a worker that takes nothing for [`PATIENCE`] ends the publication.

use std::io;
use std::time::Duration;

use live::flv;
use live::rtmp::MediaKind;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::worker::link::{DRAINING, KICKED, SILENT, TAKEN_OVER};
use crate::worker::snapshot::SessionId;

/// Bytes that may wait to be flushed; several of the largest messages.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Memory the empty queue keeps.
const QUEUE_BYTES_KEPT: usize = 256 << 10;
/// Time the worker has to take what is flushed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time the worker has to say why, after it has closed the connection, or to read what is left, before it is closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// It is larger than `limits.message_max_bytes`.
    TooLong,
    /// The queue is full: flush it.
    QueueFull,
}

/// Why a publication is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The operator ended its session.
    Kicked,
    /// Another publisher took the stream over.
    TakenOver,
    /// The server is shutting down.
    Draining,
    /// Nothing was sent for `limits.publisher_idle_timeout_ms`.
    Silent,
    /// The worker did not take what was flushed in time.
    Stalled,
    /// For another reason.
    Lost(&'static str),
}

impl Ended {
    fn of(reason: &'static str) -> Self {
        match reason {
            KICKED => Self::Kicked,
            TAKEN_OVER => Self::TakenOver,
            DRAINING => Self::Draining,
            SILENT => Self::Silent,
            other => Self::Lost(other),
        }
    }

    /// One sentence for the log and the API.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Kicked => KICKED,
            Self::TakenOver => TAKEN_OVER,
            Self::Draining => DRAINING,
            Self::Silent => SILENT,
            Self::Stalled => "the worker takes no data",
            Self::Lost(reason) => reason,
        }
    }
}

/// See the module. Dropping it ends the publication at once.
#[derive(Debug)]
pub struct Publisher {
    socket: TcpStream,
    session: SessionId,
    message_bytes_max: usize,
    /// FLV; `queue[..sent]` has left. `0 <= sent <= queue.len()`.
    queue: Vec<u8>,
    sent: usize,
    end: oneshot::Receiver<&'static str>,
    ended: Option<Ended>,
}

impl Publisher {
    /// The publication of `session`, whose worker reads from the other end of `socket` and tells `end` how it ends.
    pub(super) fn new(
        socket: TcpStream,
        session: SessionId,
        end: oneshot::Receiver<&'static str>,
        message_bytes_max: u32,
    ) -> Self {
        let mut queue = Vec::new();
        flv::write_file_header(&mut queue, true, true);
        let message_bytes_max = (message_bytes_max as usize).min(FLV_BODY_BYTES_MAX);
        Self { socket, session, message_bytes_max, queue, sent: 0, end, ended: None }
    }

    /// Queues a message. `timestamp_ms` wraps at 2^32; `body` is that of an RTMP message or FLV tag.
    ///
    /// Nothing leaves before [`flush`](Self::flush).
    pub fn send(&mut self, kind: MediaKind, timestamp_ms: u32, body: &[u8]) -> Result<(), Unsent> {
        if body.len() > self.message_bytes_max {
            return Err(Unsent::TooLong);
        }
        if self.queued_bytes() + body.len() > QUEUE_BYTES_MAX {
            return Err(Unsent::QueueFull);
        }
        flv::write_tag(&mut self.queue, kind, timestamp_ms, body);
        Ok(())
    }

    /// Waits until the worker's socket has taken all that is queued, at most 10 s.
    ///
    /// When the future is dropped, what has not left stays queued.
    pub async fn flush(&mut self) -> Result<(), Ended> {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        match timeout(PATIENCE, self.write_all()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.last_words().await),
            Err(_) => Err(*self.ended.insert(Ended::Stalled)),
        }
    }

    /// Waits for the end of the session. The future may be dropped and asked for again.
    pub async fn ended(&mut self) -> Ended {
        if let Some(ended) = self.ended {
            return ended;
        }
        let reason = (&mut self.end).await.unwrap_or("the worker has ended");
        *self.ended.insert(Ended::of(reason))
    }

    /// Flushes, ends the session, and waits (at most about a second) until the stream has no publisher.
    pub async fn finish(mut self) {
        if timeout(LAST_WORDS, self.flush()).await.is_ok_and(|flushed| flushed.is_ok()) {
            let _ = self.socket.shutdown().await;
            let _ = timeout(LAST_WORDS, self.ended()).await;
        }
    }

    /// Bytes that have not left.
    pub fn queued_bytes(&self) -> usize {
        self.queue.len() - self.sent
    }

    /// Its session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    async fn write_all(&mut self) -> io::Result<()> {
        while self.sent < self.queue.len() {
            match self.socket.write(&self.queue[self.sent..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                bytes => self.sent += bytes,
            }
        }
        self.sent = 0;
        self.queue.clear();
        self.queue.shrink_to(QUEUE_BYTES_KEPT);
        Ok(())
    }

    /// Why the connection is closed.
    async fn last_words(&mut self) -> Ended {
        match timeout(LAST_WORDS, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => *self.ended.insert(Ended::Lost("closed by the worker")),
        }
    }
}

/// A tag's length has 24 bits.
const FLV_BODY_BYTES_MAX: usize = 0xff_ffff;
