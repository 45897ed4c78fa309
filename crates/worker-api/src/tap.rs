//! Players inside this process ("taps"): how they ask a worker, and the queue of their frames. The
//! counterpart of [`internal`](crate::internal).
//!
//! Frames cross by reference through a ring of one producer and one consumer. The worker never waits: it
//! puts in what it has ([`FrameSender::send`]) and wakes the reader once for all of it
//! ([`FrameSender::flush`]). A reader that lets the queue fill up loses what comes then, up to the next frame
//! that a player can begin with, and is told so. Each end ends the other when it goes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

use media::Frame;
use rtrb::{Consumer, Producer, RingBuffer};
use tokio::sync::{Notify, oneshot};

use crate::EndReason;
use crate::snapshot::{Protocol, SessionId};
use crate::streams::Epoch;

/// Items that may wait: some ten seconds of one stream.
const ITEMS_MAX: usize = 1024;
/// Bytes of their frames. What is larger waits alone.
const BYTES_MAX: usize = 8 << 20;

/// What a player of this process asks for.
#[derive(Debug, Clone)]
pub struct TapRequest {
    /// Application.
    pub app: String,
    /// Stream within it.
    pub name: String,
    /// What it is, as sessions and metrics show it.
    pub protocol: Protocol,
    /// Where its frames go, as sessions show it.
    pub address: SocketAddr,
    /// What else sessions show of it; at most 128 characters are kept.
    pub detail: String,
}

/// The same on its way to a worker, which makes it a session of its own: a player by
/// [`Protocol::Node`] or the like, for which bridges run and streams are fetched as for
/// any other.
#[derive(Debug)]
pub struct InternalTap {
    /// What it asks for.
    pub request: TapRequest,
    /// Where its frames go.
    pub frames: FrameSender,
    /// Where the answer goes: its session, which plays from then on.
    pub reply: oneshot::Sender<Result<SessionId, TapRefusal>>,
}

/// Why a worker does not take a player of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapRefusal {
    /// Nobody publishes the stream, and its application does not let players wait.
    NotFound,
    /// It is published as packets, and bridges are off.
    NotFrames,
    /// The worker has as many sessions as it may have.
    Full,
    /// The server is shutting down.
    Draining,
}

/// What a tap gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TapItem {
    /// A publication begins, or the tap has come to one that goes on. Between two of these there is always
    /// a [`Stop`](Self::Stop).
    Start {
        /// Which. A bridge from the other lane has epochs of its own.
        epoch: Epoch,
        /// Headers, then the frames since the last key frame; without those, what follows may begin in the
        /// middle of a group of pictures.
        frames: Vec<Arc<Frame>>,
    },
    /// The next frame. Headers may be repeated.
    Frame(Arc<Frame>),
    /// The queue was full, and frames were left out.
    Gap {
        /// How many.
        dropped: u64,
        /// What goes on: headers, then a frame that a player can begin with.
        frames: Vec<Arc<Frame>>,
    },
    /// The publication is over. The tap waits for another as long as a player does; who does not want that
    /// drops it.
    Stop,
}

impl TapItem {
    fn frames(&self) -> &[Arc<Frame>] {
        match self {
            Self::Start { frames, .. } | Self::Gap { frames, .. } => frames,
            Self::Frame(frame) => std::slice::from_ref(frame),
            Self::Stop => &[],
        }
    }

    fn bytes(&self) -> usize {
        self.frames().iter().map(|frame| frame.bytes()).sum()
    }
}

/// The queue of one tap.
pub fn queue() -> (Tap, FrameSender) {
    let (producer, consumer) = RingBuffer::new(ITEMS_MAX);
    let (tell_end, end) = oneshot::channel();
    let shared = Arc::<Shared>::default();
    let tap = Tap {
        ring: consumer,
        shared: Arc::clone(&shared),
        session: SessionId(0),
        is_begun: false,
        next_start: None,
        end,
        ended: None,
    };
    let (shared, end) = (WakeAtEnd(shared), Some(tell_end));
    (tap, FrameSender { ring: producer, shared, state: State::Stopped, sent_items: 0, dropped: 0, end })
}

/// The reader's end. Dropping it ends the session.
#[derive(Debug)]
pub struct Tap {
    ring: Consumer<TapItem>,
    shared: Arc<Shared>,
    pub(crate) session: SessionId,
    /// The last publication has begun and not stopped.
    is_begun: bool,
    /// A publication that begins right behind one whose end found no room: it comes after that end.
    next_start: Option<TapItem>,
    end: oneshot::Receiver<EndReason>,
    ended: Option<EndReason>,
}

/// The worker's end. Dropping it ends the tap, once what was sent is read.
#[derive(Debug)]
pub struct FrameSender {
    /// Before what wakes the reader when both are dropped: it looks whether this is gone.
    ring: Producer<TapItem>,
    shared: WakeAtEnd,
    state: State,
    sent_items: u64,
    dropped: u64,
    end: Option<oneshot::Sender<EndReason>>,
}

/// What the reader has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// There is no publication.
    Stopped,
    /// The publication has stopped, but there was no room to say so.
    OwesStop,
    /// Each frame goes on.
    Flowing,
    /// There was no room: what comes is left out up to an entry. With an epoch, the reader does not know of
    /// that publication yet.
    Lost { dropped: u64, unknown: Option<Epoch> },
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes of the frames in the ring.
    bytes: AtomicUsize,
    ready: Notify,
    /// The reader has found nothing and is to be woken.
    wants_wake: AtomicBool,
    /// The reader wants a key frame soon.
    wants_key_frame: AtomicBool,
}

impl Tap {
    /// Waits for the next item; an error is why the session is over, after all that was sent before. When
    /// the future is dropped, nothing is lost.
    pub async fn next(&mut self) -> Result<TapItem, EndReason> {
        loop {
            if let Some(item) = self.try_next() {
                return Ok(item);
            }
            self.shared.wants_wake.store(true, Ordering::Relaxed);
            // Either this side sees what was sent before, or the worker sees that a wake-up is wanted.
            fence(Ordering::SeqCst);
            let is_over = self.ring.is_abandoned();
            if let Some(item) = self.try_next() {
                return Ok(item);
            }
            if is_over {
                return Err(self.ended().await);
            }
            self.shared.ready.notified().await;
        }
    }

    /// The next item, if there is one.
    pub fn try_next(&mut self) -> Option<TapItem> {
        if let Some(start) = self.next_start.take() {
            self.is_begun = true;
            return Some(start);
        }
        let item = self.ring.pop().ok()?;
        self.shared.bytes.fetch_sub(item.bytes(), Ordering::Relaxed);
        match item {
            TapItem::Start { .. } if self.is_begun => {
                self.next_start = Some(item);
                self.is_begun = false;
                return Some(TapItem::Stop);
            }
            TapItem::Start { .. } => self.is_begun = true,
            TapItem::Stop => self.is_begun = false,
            TapItem::Frame(_) | TapItem::Gap { .. } => {}
        }
        Some(item)
    }

    /// Asks the publisher for a key frame soon, if it can be asked: one that sends packets. As often as this
    /// is called before the worker sees it, and as often as other viewers ask, it is asked as they are.
    pub fn request_key_frame(&self) {
        self.shared.wants_key_frame.store(true, Ordering::Relaxed);
    }

    /// Its session, once a worker has taken it.
    pub fn session(&self) -> SessionId {
        self.session
    }

    async fn ended(&mut self) -> EndReason {
        if self.ended.is_none() {
            self.ended = Some((&mut self.end).await.unwrap_or(EndReason::WorkerEnded));
        }
        self.ended.unwrap_or(EndReason::WorkerEnded)
    }
}

impl FrameSender {
    /// A publication begins with these frames, or goes on after them. Says what was put into the queue:
    /// frames and bytes.
    pub fn start(&mut self, epoch: Epoch, frames: Vec<Arc<Frame>>) -> (u64, u64) {
        let item = TapItem::Start { epoch, frames };
        let (frames, bytes) = (item.frames().len() as u64, item.bytes() as u64);
        if self.push(item).is_ok() {
            self.state = State::Flowing;
            return (frames, bytes);
        }
        self.dropped += frames;
        tracing::trace!(frames, "frames dropped: a player inside this process does not keep up");
        self.state = State::Lost { dropped: frames, unknown: Some(epoch) };
        (0, 0)
    }

    /// The next frame. If it is an entry, a player can begin with it after `headers`. Says what was put into
    /// the queue: frames and bytes, those of headers included.
    pub fn send(
        &mut self,
        frame: &Arc<Frame>,
        is_entry: bool,
        headers: impl FnOnce() -> Vec<Arc<Frame>>,
    ) -> (u64, u64) {
        let item = match self.state {
            State::Stopped | State::OwesStop => return (0, 0),
            State::Flowing => TapItem::Frame(Arc::clone(frame)),
            State::Lost { dropped, .. } if !is_entry || !self.has_room(frame.bytes()) => {
                return self.lose(dropped);
            }
            State::Lost { dropped, unknown } => {
                let mut frames = headers();
                frames.push(Arc::clone(frame));
                match unknown {
                    Some(epoch) => TapItem::Start { epoch, frames },
                    None => TapItem::Gap { dropped, frames },
                }
            }
        };
        let sent = (item.frames().len() as u64, item.bytes() as u64);
        match (self.push(item), self.state) {
            (Ok(()), _) => {
                self.state = State::Flowing;
                sent
            }
            (Err(()), State::Lost { dropped, .. }) => self.lose(dropped),
            (Err(()), _) => self.lose(0),
        }
    }

    /// The publication is over.
    pub fn stop(&mut self) {
        if self.state != State::Stopped {
            self.state = State::OwesStop;
            self.settle();
        }
    }

    /// Says what there was no room for before; call it from time to time.
    pub fn settle(&mut self) {
        if self.state == State::OwesStop && self.push(TapItem::Stop).is_ok() {
            self.state = State::Stopped;
        }
    }

    /// Wakes the reader for all that was sent, if it waits.
    pub fn flush(&self) {
        fence(Ordering::SeqCst);
        if self.shared.0.wants_wake.load(Ordering::Relaxed)
            && self.shared.0.wants_wake.swap(false, Ordering::Relaxed)
        {
            self.shared.0.wake();
        }
    }

    /// Whether the reader has asked for a key frame since the last call.
    pub fn take_key_frame_request(&self) -> bool {
        let wanted = &self.shared.0.wants_key_frame;
        wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed)
    }

    /// Tells the reader why its session is over, behind what was sent.
    pub fn end(mut self, reason: EndReason) {
        if let Some(end) = self.end.take() {
            // The reader may have gone first.
            let _ = end.send(reason);
        }
    }

    /// Whether the reader has gone.
    pub fn is_abandoned(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Items that wait to be read.
    pub fn queued_items(&self) -> usize {
        ITEMS_MAX - self.ring.slots()
    }

    /// Items that were read.
    pub fn read_items(&self) -> u64 {
        self.sent_items - self.queued_items() as u64
    }

    /// Bytes of their frames.
    pub fn queued_bytes(&self) -> usize {
        self.shared.0.bytes.load(Ordering::Relaxed)
    }

    /// Frames left out so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn lose(&mut self, before: u64) -> (u64, u64) {
        self.dropped += 1;
        tracing::trace!(before, "frame dropped: a player inside this process does not keep up");
        let unknown = match self.state {
            State::Lost { unknown, .. } => unknown,
            _ => None,
        };
        self.state = State::Lost { dropped: before + 1, unknown };
        (0, 0)
    }

    fn push(&mut self, item: TapItem) -> Result<(), ()> {
        let bytes = item.bytes();
        if !self.has_room(bytes) {
            return Err(());
        }
        self.shared.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.sent_items += 1;
        self.ring.push(item).map_err(|_| ())
    }

    fn has_room(&self, bytes: usize) -> bool {
        let queued = self.queued_bytes();
        !self.ring.is_full() && (queued == 0 || queued + bytes <= BYTES_MAX)
    }
}

impl Shared {
    fn wake(&self) {
        self.ready.notify_one();
    }
}

/// Wakes the reader for the end.
#[derive(Debug)]
struct WakeAtEnd(Arc<Shared>);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use media::{Codec, FrameRole, Timestamp, TrackId};

    use super::*;

    fn frame(number: i64, bytes: usize) -> Arc<Frame> {
        let time = Timestamp::from_millis(number);
        let (track, role) = (TrackId::VIDEO, FrameRole::Key);
        Arc::new(Frame::new(track, role, Codec::H264, (time, time), vec![0; bytes]))
    }

    /// A tap of a publication that has begun, and its sender.
    fn flowing() -> (Tap, FrameSender) {
        let (mut tap, mut sender) = queue();
        sender.start(Epoch(1), Vec::new());
        assert!(matches!(tap.try_next(), Some(TapItem::Start { epoch: Epoch(1), .. })));
        (tap, sender)
    }

    fn send(sender: &mut FrameSender, number: i64, bytes: usize) -> (u64, u64) {
        sender.send(&frame(number, bytes), false, || unreachable!("no entry"))
    }

    /// An entry after a header, which is frame 0.
    fn send_entry(sender: &mut FrameSender, number: i64) -> (u64, u64) {
        sender.send(&frame(number, 1), true, || vec![frame(0, 1)])
    }

    /// What the tap finds, as words.
    fn taken(tap: &mut Tap) -> Vec<String> {
        let numbers = |frames: &[Arc<Frame>]| {
            frames.iter().map(|frame| frame.dts.millis().to_string()).collect::<Vec<_>>().join(" ")
        };
        let words = |item: TapItem| match item {
            TapItem::Start { epoch, frames } => format!("start {}: {}", epoch.0, numbers(&frames)),
            TapItem::Frame(frame) => numbers(&[frame]),
            TapItem::Gap { dropped, frames } => format!("gap {dropped}: {}", numbers(&frames)),
            TapItem::Stop => "stop".to_owned(),
        };
        std::iter::from_fn(|| tap.try_next().map(words)).collect()
    }

    #[test]
    fn a_full_queue_drops_up_to_the_next_entry_and_says_so() {
        // As many frames as there is room for, and as many bytes.
        for (most, bytes) in [(ITEMS_MAX, 1), (4, BYTES_MAX / 4)] {
            let (mut tap, mut sender) = flowing();
            let sent: u64 = (0..most as i64).map(|number| send(&mut sender, number, bytes).0).sum();
            assert_eq!(sent, most as u64);
            assert_eq!(send(&mut sender, 9000, bytes), (0, 0));
            assert_eq!(send_entry(&mut sender, 9001), (0, 0), "an entry has no room either");
            assert_eq!(taken(&mut tap).len(), most);
            assert_eq!(send(&mut sender, 9002, bytes), (0, 0), "room is no use without an entry");
            assert_eq!((send_entry(&mut sender, 9003), send(&mut sender, 9004, 1)), ((2, 2), (1, 1)));
            assert_eq!(taken(&mut tap), ["gap 3: 0 9003", "9004"]);
            assert_eq!((sender.dropped(), sender.queued_items(), sender.queued_bytes()), (3, 0, 0));
        }
    }

    #[test]
    fn a_publication_that_begins_while_the_queue_is_full_begins_with_its_next_entry() {
        let (mut tap, mut sender) = flowing();
        while send(&mut sender, 1, 1).0 > 0 {}
        sender.stop();
        sender.start(Epoch(2), vec![frame(2, 1), frame(3, 1)]);
        assert_eq!(send_entry(&mut sender, 4), (0, 0));
        taken(&mut tap);
        sender.settle();
        send(&mut sender, 5, 1);
        send_entry(&mut sender, 6);
        assert_eq!(taken(&mut tap), ["stop", "start 2: 0 6"]);
        assert_eq!(sender.dropped(), 5);
    }

    #[test]
    fn each_publication_stops_before_the_next_begins() {
        // There is room for the beginning of the second, whose stop had none, and then none for the third.
        let (mut tap, mut sender) = flowing();
        while send(&mut sender, 1, 1).0 > 0 {}
        sender.stop();
        taken(&mut tap);
        assert_eq!(sender.start(Epoch(2), vec![frame(2, 1)]), (1, 1));
        assert!(matches!(tap.try_next(), Some(TapItem::Stop)));
        while send(&mut sender, 3, 1).0 > 0 {}
        sender.start(Epoch(3), vec![frame(4, 1)]);
        let second = taken(&mut tap);
        assert_eq!((&*second[0], second.len()), ("start 2: 2", 1 + ITEMS_MAX));
        send_entry(&mut sender, 5);
        sender.stop();
        assert_eq!(taken(&mut tap), ["stop", "start 3: 0 5", "stop"]);
    }

    #[test]
    fn a_stop_that_had_no_room_is_said_later() {
        let (mut tap, mut sender) = flowing();
        while send(&mut sender, 1, 1).0 > 0 {}
        sender.stop();
        sender.settle();
        assert_eq!(taken(&mut tap).len(), ITEMS_MAX);
        sender.settle();
        sender.settle();
        sender.stop();
        assert_eq!(send_entry(&mut sender, 2), (0, 0), "there is no publication");
        assert_eq!(taken(&mut tap), ["stop"]);
        sender.start(Epoch(2), vec![frame(3, BYTES_MAX * 2)]);
        assert_eq!(taken(&mut tap), ["start 2: 3"], "what is too large waits alone");
        assert_eq!(sender.read_items(), ITEMS_MAX as u64 + 3);
    }

    #[tokio::test]
    async fn the_end_comes_with_its_reason_behind_what_was_sent() {
        let (mut tap, mut sender) = flowing();
        send(&mut sender, 1, 1);
        sender.end(EndReason::Kicked);
        assert_eq!(tap.next().await, Ok(TapItem::Frame(frame(1, 1))));
        assert_eq!(tap.next().await, Err(EndReason::Kicked));
        assert_eq!(tap.next().await, Err(EndReason::Kicked), "it stays so");
        let (mut tap, sender) = queue();
        drop(sender);
        assert_eq!(tap.next().await, Err(EndReason::WorkerEnded));
        let (tap, sender) = queue();
        assert!(!sender.is_abandoned());
        drop(tap);
        assert!(sender.is_abandoned());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_waits_is_woken_by_a_flush_and_by_the_end() {
        const BEFORE: Duration = Duration::from_secs(1);
        let (mut tap, mut sender) = flowing();
        let waits = async |tap: &mut Tap| tokio::time::timeout(BEFORE, tap.next()).await.is_err();
        assert!(waits(&mut tap).await);
        let reader = tokio::spawn(async move {
            assert_eq!(tap.next().await, Ok(TapItem::Frame(frame(1, 1))));
            tap.next().await
        });
        tokio::task::yield_now().await;
        send(&mut sender, 1, 1);
        tokio::task::yield_now().await;
        assert_eq!(sender.queued_items(), 1, "nobody has woken it");
        sender.flush();
        tokio::task::yield_now().await;
        assert_eq!(sender.queued_items(), 0);
        sender.end(EndReason::Draining);
        assert_eq!(reader.await.expect("no panic"), Err(EndReason::Draining));
    }

    #[test]
    fn no_wake_up_is_missed_between_threads() {
        const FRAMES: i64 = 100_000;
        let (mut tap, mut sender) = queue();
        let worker = thread::spawn(move || {
            sender.start(Epoch(1), Vec::new());
            for number in 1..=FRAMES {
                while sender.queued_items() == ITEMS_MAX {
                    sender.flush();
                    thread::yield_now();
                }
                assert_eq!(send(&mut sender, number, number as usize % 3).0, 1);
                // Now and then faster than the reader, now and then slower.
                if number % 7 == 0 || number % 4_096 > 2_000 {
                    sender.flush();
                }
                if number % 5_000 == 0 {
                    thread::yield_now();
                }
            }
            sender.end(EndReason::ClosedByPeer);
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let read = runtime.block_on(async {
            let mut next = 0;
            loop {
                match tap.next().await {
                    Ok(TapItem::Start { .. }) => next = 1,
                    Ok(TapItem::Frame(frame)) => {
                        assert_eq!(frame.dts.millis(), next);
                        next += 1;
                    }
                    Ok(item) => panic!("{item:?}"),
                    Err(reason) => return (next, reason),
                }
            }
        });
        worker.join().expect("no panic");
        assert_eq!(read, (FRAMES + 1, EndReason::ClosedByPeer));
    }
}
