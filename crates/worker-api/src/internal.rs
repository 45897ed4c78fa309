//! Publishers inside this process (channels, pulls, the demo): how they ask a worker, and the queue
//! of their frames.
//!
//! Frames cross by reference through a ring of one producer and one consumer, so no side ever waits
//! for a lock of the other. A source sends what it has ([`Publisher::send`]) and wakes the worker
//! once for all of it ([`Publisher::flush`]); the worker takes what is there
//! ([`FrameReceiver::receive`]). A full queue makes the source wait, and a worker that takes
//! nothing for [`WRITE_TIMEOUT`] is given up. Each end ends the other when it goes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use media::Frame;
use rtrb::{Consumer, Producer, RingBuffer};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use super::EndReason;
use super::snapshot::{Protocol, SessionId};

/// Frames that may wait: some ten seconds of one stream.
const FRAMES_MAX: usize = 1024;
/// Their bytes. A frame that is larger waits alone.
const BYTES_MAX: usize = 8 << 20;
/// Time the worker has to take a frame when the queue is full.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time the worker has to take what is left when a source ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What a source of this process asks for.
#[derive(Debug, Clone)]
pub struct PublishRequest {
    /// Application to publish in.
    pub app: String,
    /// Name to publish as.
    pub name: String,
    /// What it is, as sessions and metrics show it. [`Protocol::Node`] is a stream that is fetched from
    /// another node: it gives way to every other publisher, and replaces one that is fetched already.
    pub protocol: Protocol,
    /// Where its media comes from, as sessions show it.
    pub address: SocketAddr,
    /// What else sessions show of it; at most 128 characters are kept.
    pub detail: String,
}

/// The same on its way to a worker, which makes it a session of its own.
#[derive(Debug)]
pub struct InternalPublish {
    /// What it asks for.
    pub request: PublishRequest,
    /// What it will send.
    pub frames: FrameReceiver,
    /// Where the answer goes: its session, which publishes from then on.
    pub reply: oneshot::Sender<Result<SessionId, Refusal>>,
}

/// Why a worker does not take a publisher of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The stream has a publisher.
    Taken,
    /// It has one on another node of the cluster.
    TakenElsewhere,
    /// The worker has as many sessions as it may have.
    Full,
    /// The server is shutting down.
    Draining,
}

/// Why a frame was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsent {
    /// It is larger than `limits.message_max_bytes`.
    TooLong,
    /// The publication is over.
    Ended(EndReason),
}

/// The queue of one publication; frames of more than `frame_bytes_max` bytes are refused.
pub fn queue(frame_bytes_max: usize) -> (Publisher, FrameReceiver) {
    let (producer, consumer) = RingBuffer::new(FRAMES_MAX);
    let (tell_end, end) = oneshot::channel();
    let shared = Arc::new(Shared { wants_wake: AtomicBool::new(true), ..Shared::default() });
    let publisher = Publisher {
        ring: producer,
        shared: Arc::clone(&shared),
        frame_bytes_max,
        session: SessionId(0),
        end,
        ended: None,
    };
    (publisher, FrameReceiver { ring: consumer, shared, wakes: true, end: Some(tell_end) })
}

/// The source's end of a publication. Dropping it ends the publication once what it has sent is
/// taken.
#[derive(Debug)]
pub struct Publisher {
    ring: Producer<Arc<Frame>>,
    shared: Arc<Shared>,
    frame_bytes_max: usize,
    pub(crate) session: SessionId,
    end: oneshot::Receiver<EndReason>,
    ended: Option<EndReason>,
}

/// The worker's end. Dropping it ends the publication.
#[derive(Debug)]
pub struct FrameReceiver {
    ring: Consumer<Arc<Frame>>,
    shared: Arc<Shared>,
    /// The worker is to be woken for what comes, rather than coming by itself.
    wakes: bool,
    end: Option<oneshot::Sender<EndReason>>,
}

/// What the worker finds in a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// The next frame.
    Frame(Arc<Frame>),
    /// None now. Unless it was told to come by itself, the worker will be woken.
    Empty,
    /// None any more: the source has gone.
    Over,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes of the frames in the ring.
    bytes: AtomicUsize,
    wake: OnceLock<Wake>,
    /// The worker has found nothing and is to be woken.
    wants_wake: AtomicBool,
    room: Notify,
    /// The source waits for room.
    wants_room: AtomicBool,
    /// The source sends no more.
    is_closed: AtomicBool,
    /// Messages of the source that were no frames, not yet counted by the worker.
    invalid: AtomicU64,
}

/// Wakes the worker.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl Publisher {
    /// Queues a frame; waits for room, at most [`WRITE_TIMEOUT`]. The worker need not notice before
    /// [`flush`](Self::flush). When the future is dropped, the frame is not sent.
    pub async fn send(&mut self, frame: Arc<Frame>) -> Result<(), Unsent> {
        let bytes = frame.bytes();
        if bytes > self.frame_bytes_max {
            return Err(Unsent::TooLong);
        }
        while self.ended.is_none() && !self.has_room(bytes) {
            self.shared.wants_room.store(true, Ordering::Relaxed);
            // Either this side sees the room that was made before, or the worker sees that room is
            // wanted.
            fence(Ordering::SeqCst);
            if self.has_room(bytes) {
                break;
            }
            self.flush();
            tokio::select! {
                biased;
                ended = &mut self.end => self.ended = Some(ended.unwrap_or(EndReason::WorkerEnded)),
                waited = timeout(WRITE_TIMEOUT, self.shared.room.notified()) => {
                    if waited.is_err() {
                        self.ended = Some(EndReason::WorkerStalled);
                    }
                }
            }
        }
        if self.ended.is_some() || self.ring.is_abandoned() {
            return Err(Unsent::Ended(self.ended().await));
        }
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
        let pushed = self.ring.push(frame);
        debug_assert!(pushed.is_ok(), "there is room, and nobody else pushes");
        Ok(())
    }

    /// Wakes the worker for all that was sent, if it is not on its way.
    pub fn flush(&self) {
        fence(Ordering::SeqCst);
        if self.shared.wants_wake.load(Ordering::Relaxed)
            && self.shared.wants_wake.swap(false, Ordering::Relaxed)
        {
            self.shared.wake();
        }
    }

    /// Has a message counted that was no frame, and so was left out.
    pub fn count_invalid(&self) {
        self.shared.invalid.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the end of the session. The future may be dropped and asked for again.
    pub async fn ended(&mut self) -> EndReason {
        if let Some(ended) = self.ended {
            return ended;
        }
        let reason = (&mut self.end).await.unwrap_or(EndReason::WorkerEnded);
        *self.ended.insert(reason)
    }

    /// Ends the session, and waits (at most a second) until all frames are taken and the stream has
    /// no publisher.
    pub async fn finish(mut self) {
        self.close();
        let _ = timeout(CLOSE_TIMEOUT, self.ended()).await;
    }

    /// Its session, once a worker has taken it.
    pub fn session(&self) -> SessionId {
        self.session
    }

    fn has_room(&self, bytes: usize) -> bool {
        let queued = self.shared.bytes.load(Ordering::Relaxed);
        !self.ring.is_full() && (queued == 0 || queued + bytes <= BYTES_MAX)
    }

    fn close(&self) {
        // Also a worker that would come by itself: the stream is free the sooner.
        if !self.shared.is_closed.swap(true, Ordering::AcqRel) {
            self.shared.wake();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.close();
    }
}

impl FrameReceiver {
    /// Says how the worker is woken; once, before the source is told that it publishes.
    pub fn on_ready(&self, wake: impl Fn() + Send + Sync + 'static) {
        // A second one would be a defect; the first goes on.
        let _ = self.shared.wake.set(Wake(Box::new(wake)));
    }

    /// The next frame, if there is one.
    pub fn receive(&mut self) -> Next {
        match self.take() {
            Next::Empty if self.wakes => {
                self.shared.wants_wake.store(true, Ordering::Relaxed);
                // Either this side sees the frame that was sent before, or the source sees that a
                // wake-up is wanted.
                fence(Ordering::SeqCst);
                self.take()
            }
            next => next,
        }
    }

    /// From now on the worker is woken for what comes, or (`false`) looks by itself from time to
    /// time.
    pub fn set_wakes(&mut self, wakes: bool) {
        self.wakes = wakes;
        self.shared.wants_wake.store(false, Ordering::Relaxed);
    }

    /// Messages that were no frames, since this was asked last.
    pub fn take_invalid(&self) -> u64 {
        match self.shared.invalid.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.shared.invalid.swap(0, Ordering::Relaxed),
        }
    }

    /// Tells the source why its session is over; the first reason counts.
    pub fn end(&mut self, reason: EndReason) {
        if let Some(end) = self.end.take() {
            // The source may have gone first.
            let _ = end.send(reason);
        }
    }

    fn take(&mut self) -> Next {
        // Looked at first: what was sent before the end is taken before it.
        let is_closed = self.shared.is_closed.load(Ordering::Acquire);
        let Ok(frame) = self.ring.pop() else { return if is_closed { Next::Over } else { Next::Empty } };
        self.shared.bytes.fetch_sub(frame.bytes(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.shared.wants_room.load(Ordering::Relaxed) {
            self.shared.wants_room.store(false, Ordering::Relaxed);
            self.shared.room.notify_one();
        }
        Next::Frame(frame)
    }
}

impl Shared {
    fn wake(&self) {
        if let Some(Wake(wake)) = self.wake.get() {
            wake();
        }
    }
}

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wake")
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use media::{Codec, FrameRole, Timestamp, TrackId};

    use super::*;

    fn frame(number: i64, bytes: usize) -> Arc<Frame> {
        let time = Timestamp::from_millis(number);
        let (track, role) = (TrackId::VIDEO, FrameRole::Key);
        Arc::new(Frame::new(track, role, Codec::H264, (time, time), vec![0; bytes]))
    }

    /// A queue, and how often its worker was woken.
    fn watched() -> (Publisher, FrameReceiver, Arc<AtomicUsize>) {
        let (publisher, receiver) = queue(1 << 20);
        let wakes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&wakes);
        receiver.on_ready(move || _ = counted.fetch_add(1, Ordering::Relaxed));
        (publisher, receiver, wakes)
    }

    /// Numbers of the frames that are there.
    fn taken(receiver: &mut FrameReceiver) -> Vec<i64> {
        let number = |next| match next {
            Next::Frame(frame) => Some(frame.dts.millis()),
            Next::Empty | Next::Over => None,
        };
        std::iter::from_fn(|| number(receiver.receive())).collect()
    }

    #[tokio::test]
    async fn frames_arrive_in_order_and_the_worker_is_woken_once_for_all_of_them() {
        let (mut publisher, mut receiver, wakes) = watched();
        for round in 1..=3 {
            for number in 0..5 {
                publisher.send(frame(number, 9)).await.expect("room");
                publisher.flush();
            }
            assert_eq!(wakes.load(Ordering::Relaxed), round);
            assert_eq!(taken(&mut receiver), [0, 1, 2, 3, 4]);
        }
        publisher.flush();
        assert_eq!(receiver.receive(), Next::Empty);
    }

    #[tokio::test]
    async fn a_worker_that_comes_by_itself_is_not_woken() {
        let (mut publisher, mut receiver, wakes) = watched();
        receiver.set_wakes(false);
        for number in 0..3 {
            publisher.send(frame(number, 9)).await.expect("room");
            publisher.flush();
            assert_eq!(taken(&mut receiver), [number]);
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 0);
        receiver.set_wakes(true);
        assert_eq!(receiver.receive(), Next::Empty);
        publisher.send(frame(3, 9)).await.expect("room");
        publisher.flush();
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_waits_for_room_and_what_waits_is_bounded() {
        for (bytes, most) in [(0, FRAMES_MAX), (1 << 20, BYTES_MAX >> 20)] {
            let (mut publisher, mut receiver, wakes) = watched();
            let sent = tokio::spawn(async move {
                for number in 0..5_000 {
                    publisher.send(frame(number, bytes)).await?;
                }
                publisher.finish().await;
                Ok::<(), Unsent>(())
            });
            let mut all = Vec::new();
            while all.len() < 5_000 {
                // Less than a worker may take for it.
                tokio::time::sleep(WRITE_TIMEOUT / 2).await;
                let batch = taken(&mut receiver);
                assert!((1..=most).contains(&batch.len()), "{} of at most {most}", batch.len());
                all.extend(batch);
            }
            assert!(all.into_iter().eq(0..5_000));
            assert!(wakes.load(Ordering::Relaxed) > 0, "a full queue is a reason to wake the worker");
            assert_eq!(receiver.receive(), Next::Over);
            receiver.end(EndReason::ClosedByPeer);
            assert_eq!(sent.await.expect("no panic"), Ok(()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn large_frames_pass_alone_and_too_large_ones_do_not() {
        let (mut publisher, mut receiver) = queue(BYTES_MAX * 2);
        publisher.send(frame(0, BYTES_MAX * 2)).await.expect("the queue is empty");
        assert_eq!(publisher.send(frame(1, BYTES_MAX * 2 + 1)).await, Err(Unsent::TooLong));
        let second = publisher.send(frame(2, 1));
        let taken = async {
            tokio::task::yield_now().await;
            taken(&mut receiver)
        };
        let (sent, taken) = tokio::join!(second, taken);
        assert_eq!((sent, taken), (Ok(()), vec![0]), "the second one has waited");
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_takes_nothing_ends_the_publication() {
        let (mut publisher, mut receiver, _) = watched();
        for number in 0..FRAMES_MAX as i64 {
            publisher.send(frame(number, 0)).await.expect("room");
        }
        let stalled = Err(Unsent::Ended(EndReason::WorkerStalled));
        assert_eq!(publisher.send(frame(0, 0)).await, stalled);
        assert_eq!(taken(&mut receiver).len(), FRAMES_MAX);
        assert_eq!(publisher.send(frame(0, 0)).await, stalled, "it stays so");
        assert_eq!(publisher.ended().await, EndReason::WorkerStalled);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_is_told_with_its_reason() {
        for reason in [
            EndReason::Kicked,
            EndReason::TakenOver,
            EndReason::Draining,
            EndReason::SilentPublisher,
            EndReason::Protocol("a tag is too large"),
        ] {
            let (mut publisher, mut receiver, _) = watched();
            receiver.end(reason);
            receiver.end(EndReason::Defect);
            drop(receiver);
            assert_eq!(publisher.send(frame(0, 0)).await, Err(Unsent::Ended(reason)));
            assert_eq!(publisher.ended().await, reason);
        }
        let (mut publisher, receiver, _) = watched();
        drop(receiver);
        assert_eq!(publisher.send(frame(0, 0)).await, Err(Unsent::Ended(EndReason::WorkerEnded)));
        let (mut publisher, mut receiver, _) = watched();
        while publisher.has_room(0) {
            publisher.send(frame(0, 0)).await.expect("room");
        }
        receiver.end(EndReason::Kicked);
        let waited = publisher.send(frame(0, 0)).await;
        assert_eq!(waited, Err(Unsent::Ended(EndReason::Kicked)), "also to a source that waits for room");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_is_taken_before_the_end() {
        let (mut publisher, mut receiver, wakes) = watched();
        publisher.send(frame(7, 0)).await.expect("room");
        receiver.set_wakes(false);
        drop(publisher);
        assert_eq!(wakes.load(Ordering::Relaxed), 1, "its end is always a reason to wake the worker");
        assert_eq!(taken(&mut receiver), [7]);
        assert_eq!(receiver.receive(), Next::Over);
        // A worker that does not answer holds the end up for a moment only.
        let (publisher, _receiver) = queue(1);
        let began = tokio::time::Instant::now();
        publisher.finish().await;
        assert_eq!(began.elapsed(), CLOSE_TIMEOUT);
    }

    #[test]
    fn messages_that_were_no_frames_are_counted_once() {
        let (publisher, receiver) = queue(1);
        assert_eq!(receiver.take_invalid(), 0);
        publisher.count_invalid();
        publisher.count_invalid();
        assert_eq!((receiver.take_invalid(), receiver.take_invalid()), (2, 0));
    }

    #[test]
    fn no_wake_up_and_no_room_is_missed_between_threads() {
        const FRAMES: i64 = 200_000;
        let (mut publisher, mut receiver) = queue(1 << 20);
        let worker = thread::spawn(move || {
            let (mut next, me) = (0, thread::current());
            receiver.on_ready(move || me.unpark());
            loop {
                match receiver.receive() {
                    Next::Frame(frame) => {
                        assert_eq!(frame.dts.millis(), next);
                        next += 1;
                    }
                    Next::Empty => thread::park_timeout(WRITE_TIMEOUT * 2),
                    Next::Over => return next,
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            for number in 0..FRAMES {
                // Now and then faster than the worker, now and then slower.
                publisher
                    .send(frame(number, number as usize % 3))
                    .await
                    .expect("a worker that does not stall");
                if number % 7 == 0 || number % 4_096 > 2_000 {
                    publisher.flush();
                }
                if number % 5_000 == 0 {
                    thread::yield_now();
                }
            }
        });
        drop(publisher);
        assert_eq!(worker.join().expect("no panic"), FRAMES);
    }
}
