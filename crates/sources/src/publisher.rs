//! One publication of this server's own: messages go in, the worker's session takes them.
//!
//! Nothing is lost silently and nothing grows without bound: what the worker has not taken yet waits in a queue that is
//! limited, and a worker that takes nothing for [`WRITE_TIMEOUT`] ends the publication.

use std::io;
use std::time::Duration;

use media::{Frame, MediaKind};
use rtmp::flv::{self, TagBody};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use worker_api::EndReason;
use worker_api::snapshot::SessionId;

/// Bytes that may wait to be flushed; several of the largest messages.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Memory the empty queue keeps.
const QUEUE_BYTES_KEPT: usize = 256 << 10;
/// Time the worker has to take what is flushed.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time the worker has to say why, after it has closed the connection, or to read what is left, before it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Why a message was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// It is larger than `limits.message_max_bytes`.
    TooLong,
    /// The queue is full: flush it.
    QueueFull,
}

/// One publication of a source: writes FLV to its worker. Dropping it ends the publication at once.
#[derive(Debug)]
pub struct Publisher {
    socket: TcpStream,
    session: SessionId,
    message_bytes_max: usize,
    /// FLV; `queue[..sent]` has left. `0 <= sent <= queue.len()`.
    queue: Vec<u8>,
    sent: usize,
    end: oneshot::Receiver<EndReason>,
    ended: Option<EndReason>,
}

impl Publisher {
    /// The publication of `session`, whose worker reads from the other end of `socket` and tells `end` how it ends.
    pub(super) fn new(
        socket: TcpStream,
        session: SessionId,
        end: oneshot::Receiver<EndReason>,
        message_bytes_max: u32,
    ) -> Self {
        let mut queue = Vec::new();
        flv::write_file_header(&mut queue, true, true);
        let message_bytes_max = (message_bytes_max as usize).min(FLV_BODY_BYTES_MAX);
        Self { socket, session, message_bytes_max, queue, sent: 0, end, ended: None }
    }

    /// Queues a frame. Nothing leaves before [`flush`](Self::flush).
    pub fn send(&mut self, frame: &Frame) -> Result<(), Unsent> {
        // RTMP timestamps wrap at 2^32.
        let timestamp_ms = frame.dts.millis() as u32;
        match TagBody::of(frame) {
            Some(body) => self.send_body(frame.track.kind, timestamp_ms, &body.parts().concat()),
            None => Ok(()),
        }
    }

    /// Queues a message. `timestamp_ms` wraps at 2^32; `body` is that of an RTMP message or FLV tag.
    pub fn send_body(&mut self, kind: MediaKind, timestamp_ms: u32, body: &[u8]) -> Result<(), Unsent> {
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
    pub async fn flush(&mut self) -> Result<(), EndReason> {
        if let Some(ended) = self.ended {
            return Err(ended);
        }
        match timeout(WRITE_TIMEOUT, self.write_all()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.last_words().await),
            Err(_) => Err(*self.ended.insert(EndReason::WorkerStalled)),
        }
    }

    /// Waits for the end of the session. The future may be dropped and asked for again.
    pub async fn ended(&mut self) -> EndReason {
        if let Some(ended) = self.ended {
            return ended;
        }
        let reason = (&mut self.end).await.unwrap_or(EndReason::WorkerEnded);
        *self.ended.insert(reason)
    }

    /// Flushes, ends the session, and waits (at most about a second) until the stream has no publisher.
    pub async fn finish(mut self) {
        if timeout(CLOSE_TIMEOUT, self.flush()).await.is_ok_and(|flushed| flushed.is_ok()) {
            let _ = self.socket.shutdown().await;
            let _ = timeout(CLOSE_TIMEOUT, self.ended()).await;
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
    async fn last_words(&mut self) -> EndReason {
        match timeout(CLOSE_TIMEOUT, self.ended()).await {
            Ok(ended) => ended,
            Err(_) => *self.ended.insert(EndReason::ClosedByWorker),
        }
    }
}

/// A tag's length has 24 bits.
const FLV_BODY_BYTES_MAX: usize = 0xff_ffff;

#[cfg(test)]
mod tests {
    use rtmp::flv::{FlvReader, Tag};
    use tokio::io::AsyncReadExt;

    use super::super::pair;
    use super::*;

    /// A publisher, the worker's end of its socket, and where the worker says why it ends.
    async fn publisher() -> (Publisher, TcpStream, oneshot::Sender<EndReason>) {
        let pair = pair::connect().await.expect("a pair");
        let theirs = TcpStream::from_std(pair.theirs).expect("a socket that does not block");
        let (ended, end) = oneshot::channel();
        (Publisher::new(pair.ours, SessionId::new(0, 1), end, 1 << 20), theirs, ended)
    }

    async fn tags(socket: &mut TcpStream, count: usize) -> Vec<Tag> {
        let (mut reader, mut tags, mut piece) = (FlvReader::new(1 << 20), Vec::new(), vec![0; 64 << 10]);
        while tags.len() < count {
            let bytes = socket.read(&mut piece).await.expect("bytes");
            assert!(bytes > 0, "the connection ended after {} tags", tags.len());
            reader.push(&piece[..bytes]);
            while let Some(tag) = reader.next_tag().expect("FLV") {
                tags.push(tag);
            }
        }
        tags
    }

    #[tokio::test]
    async fn messages_arrive_in_order_and_nothing_leaves_before_a_flush() {
        let (mut publisher, mut theirs, _ended) = publisher().await;
        for (kind, timestamp, body) in [
            (MediaKind::Data, 0, &b"m"[..]),
            (MediaKind::Video, 40, b"vv"),
            (MediaKind::Audio, u32::MAX, b""),
        ] {
            publisher.send_body(kind, timestamp, body).expect("room");
        }
        let waiting = publisher.queued_bytes();
        assert_eq!(waiting, 13 + 3 * 15 + 3);
        publisher.flush().await.expect("taken");
        assert_eq!(publisher.queued_bytes(), 0);
        let tags = tags(&mut theirs, 3).await;
        let seen: Vec<_> = tags.iter().map(|tag| (tag.kind, tag.timestamp, tag.body.len())).collect();
        assert_eq!(
            seen,
            [(MediaKind::Data, 0, 1), (MediaKind::Video, 40, 2), (MediaKind::Audio, u32::MAX, 0)]
        );
    }

    #[tokio::test]
    async fn a_flush_that_is_given_up_goes_on_where_it_was() {
        let (mut publisher, mut theirs, _ended) = publisher().await;
        let bodies: Vec<Vec<u8>> = (0..32u8).map(|number| vec![number; 900_000]).collect();
        for body in &bodies {
            publisher.send_body(MediaKind::Video, 0, body).expect("room");
        }
        let all = publisher.queued_bytes();
        // Polled once, and given up.
        tokio::select! {
            biased;
            _ = publisher.flush() => panic!("no socket takes 29 MB at once"),
            () = std::future::ready(()) => {}
        }
        assert!((1..all).contains(&publisher.queued_bytes()), "a part has left");
        let (tags, flushed) = tokio::join!(tags(&mut theirs, bodies.len()), publisher.flush());
        flushed.expect("taken");
        assert!(tags.iter().zip(&bodies).all(|(tag, body)| tag.body == *body));
    }

    #[tokio::test]
    async fn a_worker_that_takes_nothing_ends_the_publication() {
        let (mut publisher, _theirs, _ended) = publisher().await;
        for _ in 0..32 {
            publisher.send_body(MediaKind::Video, 0, &[0; 900_000]).expect("room");
        }
        tokio::time::pause();
        assert_eq!(publisher.flush().await, Err(EndReason::WorkerStalled));
        assert_eq!(publisher.ended().await, EndReason::WorkerStalled, "it stays so");
    }

    #[tokio::test]
    async fn messages_and_the_queue_are_bounded() {
        let (mut publisher, _theirs, _ended) = publisher().await;
        let body = vec![0; (1 << 20) + 1];
        assert_eq!(publisher.send_body(MediaKind::Video, 0, &body), Err(Unsent::TooLong));
        let body = &body[..1 << 20];
        let mut sent = 0;
        while publisher.send_body(MediaKind::Video, 0, body).is_ok() {
            sent += 1;
        }
        assert_eq!(publisher.send_body(MediaKind::Video, 0, body), Err(Unsent::QueueFull));
        assert!(sent > 50 && publisher.queued_bytes() <= QUEUE_BYTES_MAX, "{sent}");
    }

    #[tokio::test]
    async fn the_end_is_told_with_its_reason() {
        for reason in [
            EndReason::Kicked,
            EndReason::TakenOver,
            EndReason::Draining,
            EndReason::SilentPublisher,
            EndReason::Protocol("a tag is too large"),
        ] {
            let (mut publisher, theirs, ended) = publisher().await;
            ended.send(reason).expect("the publisher waits");
            drop(theirs);
            assert_eq!(publisher.ended().await, reason);
            assert_eq!(publisher.flush().await, Err(reason));
        }
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_explained_by_what_the_worker_says() {
        let (mut publisher, theirs, ended) = publisher().await;
        ended.send(EndReason::Kicked).expect("the publisher waits");
        drop(theirs);
        // The first write may still be taken by the kernel.
        let failure = loop {
            publisher.send_body(MediaKind::Video, 0, &[0; 100_000]).expect("room");
            if let Err(ended) = publisher.flush().await {
                break ended;
            }
        };
        assert_eq!(failure, EndReason::Kicked);
    }
}
