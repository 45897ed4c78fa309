//! Messages between workers: one bounded single-producer ring per pair and direction.
//!
//! A frame crosses once to each worker that has players of its stream, as a reference. When a ring is full,
//! the sender drops and counts frames up to the next key frame; headers and ends of tracks among them go
//! ahead of the next frame that has room. All other messages are few (one per stream and change of publisher
//! or players) and wait in a queue of the sender until there is room. A second ring per pair is for TCP
//! connections that a full worker hands over (`placement.rs`), a third for a port that all share
//! (`packets/passing.rs`).
//!
//! A wake-up costs a system call here and a turn of the loop there. So a worker sets a flag before it sleeps
//! and then checks its rings again; a sender checks the flag after it has pushed. One of the two sees the
//! other, and only a worker that sleeps is woken, by the first sender. Frames that players get merged with
//! others are less urgent: their wake-up waits a few milliseconds, and is left out if the worker has taken
//! them by then in a turn of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

use media::Frame;
#[cfg(feature = "simulated")]
use netsim::ring::{Consumer, Producer, PushError, RingBuffer};
#[cfg(not(feature = "simulated"))]
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use sfu::{KeyFrameRequest, LayersReport, LayersWanted, Outputs, Packet, TrackIndex};

use crate::fullness::{Fullness, Gauges};
use crate::ids::{TableId, WorkerIndex};
use crate::net::listen::Accepted;
use crate::net::passed::Passed;
use crate::placement;
use crate::registry::{Epoch, Lane, PublishedTracks, StreamId};

/// Connections on their way from one worker to another; while there are more, the first keeps them.
const CONNECTIONS_MAX: usize = 32;

/// Messages about a shared port on their way from one worker to another; while there are more, datagrams are
/// dropped.
const PASSED_MAX: usize = 64;

/// What one worker sends another about a stream.
#[derive(Debug)]
pub(crate) struct WorkerMessage {
    pub(crate) stream: StreamId,
    /// The publication that it is about.
    pub(crate) epoch: Epoch,
    pub(crate) lane: Lane,
    pub(crate) body: MessageBody,
}

/// What a message says.
#[derive(Debug)]
pub(crate) enum MessageBody {
    /// From the home: the next frame, or one again that goes before it; the number of the newest that was
    /// sent; `after_loss` when frames before it were dropped.
    Frame { frame: Arc<Frame>, number: u32, after_loss: bool },
    /// From the home: the next packet, of these outputs of its track.
    Packet { packet: Arc<Packet>, outputs: Outputs },
    /// From the home: which layers there are of tracks of video.
    Layers(Arc<LayersReport>),
    /// To the home: send me this lane of the stream.
    Subscribe,
    /// To the home: no more.
    Unsubscribe,
    /// From the home: a publication has begun.
    Start(Box<Start>),
    /// From the home: the publication has ended.
    End,
    /// To the old home, whatever its lane: this publication was taken over.
    Replaced,
    /// To the home: a publisher has come to another worker. If this publication has fallen silent, it ends.
    Contested,
    /// To the home: players here cannot go on without a key frame.
    KeyFrameWanted(KeyFrameRequest),
    /// To the home: what players here need of a track of packets.
    LayersWanted { track: TrackIndex, wanted: LayersWanted },
}

/// What a new player of a publication begins with.
#[derive(Debug)]
pub(crate) enum Start {
    /// Headers and the GOP cache.
    Frames {
        frames: Vec<Arc<Frame>>,
        /// There is no key frame among them, and pictures that follow need one: players wait for the next.
        wait_for_key: bool,
        /// The number of the newest frame there was, kept or not.
        newest: u32,
    },
    /// What is published, which layers there are of it, and the packets since the last key frame.
    Packets { tracks: PublishedTracks, layers: LayersReport, packets: Vec<Arc<Packet>> },
}

impl Start {
    /// Of frames that begin now: whoever has come before gets all of them, from a key frame on if they wait
    /// for that.
    pub(crate) fn new_frames(wait_for_key: bool) -> Self {
        Self::Frames { frames: Vec::new(), wait_for_key, newest: 0 }
    }

    /// Of packets that begin now.
    pub(crate) fn new_packets(tracks: &PublishedTracks) -> Self {
        let layers = LayersReport::default();
        Self::Packets { tracks: Arc::clone(tracks), layers, packets: Vec::new() }
    }
}

/// What all workers know of one.
#[derive(Debug)]
struct Presence {
    waker: Waker,
    /// It sleeps, or is about to check its rings before it does.
    sleeps: AtomicBool,
    fullness: Arc<Fullness>,
}

impl Presence {
    /// Wakes it if it sleeps and nobody has woken it yet; whether it was woken.
    fn wake(&self) -> bool {
        // After the push that this is for: see `Mailboxes::prepare_to_sleep`.
        fence(Ordering::SeqCst);
        // Several may find it asleep; only the one that clears the flag wakes it.
        let wakes = self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed);
        if wakes {
            self.waker.wake_by_ref();
        }
        wakes
    }
}

/// One worker's ends of the rings to and from another.
#[derive(Debug)]
struct Neighbour {
    outgoing: Producer<WorkerMessage>,
    incoming: Consumer<WorkerMessage>,
    backlog: VecDeque<WorkerMessage>,
    connections_out: Producer<Accepted>,
    connections_in: Consumer<Accepted>,
    passed_out: Producer<Passed>,
    passed_in: Consumer<Passed>,
    passed_backlog: VecDeque<Passed>,
    presence: Arc<Presence>,
    /// Messages pushed since the last flush.
    pushed: u64,
    /// By when the other worker has to know of what is in its rings; `u64::MAX` if it does.
    wake_by_ms: u64,
}

impl Neighbour {
    /// Queues a message that must arrive.
    fn send(&mut self, message: WorkerMessage) {
        self.backlog.push_back(message);
        self.push_backlog();
    }

    /// Queues a frame that the other worker needs by this time, or gives it back when there is no room.
    fn try_send(&mut self, message: WorkerMessage, by_ms: u64) -> Result<(), WorkerMessage> {
        self.push_backlog();
        if !self.backlog.is_empty() {
            return Err(message);
        }
        self.outgoing.push(message).map_err(|PushError::Full(message)| message)?;
        self.pushed += 1;
        self.wake_by_ms = self.wake_by_ms.min(by_ms);
        Ok(())
    }

    /// Takes the next message of the other worker.
    fn receive(&mut self) -> Option<WorkerMessage> {
        self.incoming.pop().ok()
    }

    /// Queues a connection, or gives it back when there is no room.
    fn hand_over(&mut self, connection: Accepted) -> Result<(), Accepted> {
        // Before the push: the other worker may take it at once.
        self.presence.fullness.promise();
        if let Err(PushError::Full(connection)) = self.connections_out.push(connection) {
            self.presence.fullness.arrived();
            return Err(connection);
        }
        self.wake_by_ms = 0;
        Ok(())
    }

    /// Queues something about a shared port that must arrive.
    fn pass(&mut self, passed: Passed) {
        self.passed_backlog.push_back(passed);
        self.push_passed_backlog();
    }

    /// Queues something about a shared port, if there is room.
    fn try_pass(&mut self, passed: Passed) -> bool {
        self.push_passed_backlog();
        let is_passed = self.passed_backlog.is_empty() && self.passed_out.push(passed).is_ok();
        if is_passed {
            self.wake_by_ms = 0;
        }
        is_passed
    }

    fn push_passed_backlog(&mut self) {
        while let Some(passed) = self.passed_backlog.pop_front() {
            if let Err(PushError::Full(passed)) = self.passed_out.push(passed) {
                return self.passed_backlog.push_front(passed);
            }
            self.wake_by_ms = 0;
        }
    }

    /// Whether the other worker has left something here.
    fn has_mail(&self) -> bool {
        !self.incoming.is_empty() || !self.connections_in.is_empty() || !self.passed_in.is_empty()
    }

    /// Wakes the other worker, if it sleeps and it is time, once for all that was queued since; call it at
    /// the end of a loop turn.
    fn flush(&mut self, now_ms: u64, counters: &mut MailboxCounters) {
        self.push_backlog();
        self.push_passed_backlog();
        counters.messages += std::mem::take(&mut self.pushed);
        if self.wake_by_ms == u64::MAX {
            return;
        }
        let (room, capacity) = (self.outgoing.slots(), self.outgoing.buffer().capacity());
        // A small ring, or one that a burst fills, does not wait until it is full.
        if self.wake_by_ms <= now_ms || room < capacity / 2 {
            self.wake_by_ms = u64::MAX;
            counters.wake_ups += u64::from(self.presence.wake());
        } else if room == capacity {
            self.wake_by_ms = u64::MAX;
        }
    }

    fn push_backlog(&mut self) {
        while let Some(message) = self.backlog.pop_front() {
            if let Err(PushError::Full(message)) = self.outgoing.push(message) {
                self.backlog.push_front(message);
                return;
            }
            self.pushed += 1;
            self.wake_by_ms = 0;
        }
    }
}

/// What a worker has sent others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MailboxCounters {
    /// Messages put into rings.
    pub(crate) messages: u64,
    /// Workers woken from their sleep.
    pub(crate) wake_ups: u64,
}

/// All rings of one worker.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    /// By worker; none to itself.
    neighbours: Vec<Option<Neighbour>>,
    own: Arc<Presence>,
    gauges: Gauges,
    pub(crate) counters: MailboxCounters,
}

impl Mailboxes {
    /// Queues a message that must arrive.
    pub(crate) fn send(&mut self, to: WorkerIndex, message: WorkerMessage) {
        if let Some(neighbour) = self.neighbour(to) {
            neighbour.send(message);
        }
    }

    /// Queues media that the other worker needs by this time. False if there is no room, and it is dropped.
    pub(crate) fn try_send(&mut self, to: WorkerIndex, message: WorkerMessage, by_ms: u64) -> bool {
        self.neighbour(to).is_some_and(|neighbour| neighbour.try_send(message, by_ms).is_ok())
    }

    /// Takes the next message of another worker.
    pub(crate) fn receive(&mut self, from: WorkerIndex) -> Option<WorkerMessage> {
        self.neighbour(from)?.receive()
    }

    /// Hands a connection to a worker with more room, if this one, which may have `sessions_max` sessions, is
    /// full. Gives it back if none has, or the queue to it is full.
    pub(crate) fn hand_over(&mut self, connection: Accepted, sessions_max: usize) -> Result<(), Accepted> {
        let own = self.own.fullness.read();
        if !own.is_full(sessions_max) {
            return Err(connection);
        }
        let others = self.neighbours.iter().enumerate().filter_map(|(worker, neighbour)| {
            Some((WorkerIndex::at(worker), neighbour.as_ref()?.presence.fullness.read()))
        });
        let Some(worker) = placement::choose(own, others, sessions_max) else { return Err(connection) };
        match self.neighbour(worker) {
            Some(neighbour) => neighbour.hand_over(connection),
            None => Err(connection),
        }
    }

    /// Whether this worker, or another, has room for a player that may be sent to another node.
    pub(crate) fn has_room_for_player(&self, sessions_max: usize) -> bool {
        let others = self.neighbours.iter().flatten().map(|neighbour| &neighbour.presence);
        let mut all = others.chain([&self.own]);
        all.any(|worker| worker.fullness.read().has_room_for_player(sessions_max))
    }

    /// What is measured of all workers.
    pub(crate) fn gauges(&self) -> &Gauges {
        &self.gauges
    }

    /// Takes the next connection that another worker has handed over.
    pub(crate) fn receive_connection(&mut self, from: WorkerIndex) -> Option<Accepted> {
        self.neighbour(from)?.connections_in.pop().ok()
    }

    /// Queues something about a shared port that must arrive.
    pub(crate) fn pass(&mut self, to: WorkerIndex, passed: Passed) {
        if let Some(neighbour) = self.neighbour(to) {
            neighbour.pass(passed);
        }
    }

    /// Queues something about a shared port. False if there is no room, and it is dropped.
    pub(crate) fn try_pass(&mut self, to: WorkerIndex, passed: Passed) -> bool {
        self.neighbour(to).is_some_and(|neighbour| neighbour.try_pass(passed))
    }

    /// Takes the next of what another worker has passed on.
    pub(crate) fn receive_passed(&mut self, from: WorkerIndex) -> Option<Passed> {
        self.neighbour(from)?.passed_in.pop().ok()
    }

    /// What the others see of how full this worker is.
    pub(crate) fn fullness(&self) -> &Fullness {
        &self.own.fullness
    }

    /// All workers.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerIndex> + use<> {
        (0..self.neighbours.len()).map(WorkerIndex::at)
    }

    /// Wakes the workers that sleep and have to know now of what was queued for them; call it at the end of a
    /// loop turn.
    pub(crate) fn flush(&mut self, now_ms: u64) {
        for neighbour in self.neighbours.iter_mut().flatten() {
            neighbour.flush(now_ms, &mut self.counters);
        }
    }

    /// When a worker has to be woken, at the earliest.
    pub(crate) fn next_wake_ms(&self) -> u64 {
        self.neighbours.iter().flatten().map(|neighbour| neighbour.wake_by_ms).min().unwrap_or(u64::MAX)
    }

    /// Sets the flag that has others wake this worker. False if something has come already: then it must not
    /// sleep.
    pub(crate) fn prepare_to_sleep(&self) -> bool {
        self.own.sleeps.store(true, Ordering::Relaxed);
        // Before the rings are checked: a sender that pushes after the check sees the flag.
        fence(Ordering::SeqCst);
        let sleeps = !self.neighbours.iter().flatten().any(Neighbour::has_mail);
        if !sleeps {
            self.woke_up();
        }
        sleeps
    }

    /// This worker has woken up, whatever by, and will look at its rings.
    pub(crate) fn woke_up(&self) {
        self.own.sleeps.store(false, Ordering::Relaxed);
    }

    /// Whether there is something to be received.
    #[cfg(feature = "simulated")]
    pub(crate) fn has_messages(&self) -> bool {
        self.neighbours.iter().flatten().any(|neighbour| !neighbour.incoming.is_empty())
    }

    /// Whether it sleeps although there is something, so that somebody has to wake it.
    #[cfg(feature = "simulated")]
    pub(crate) fn sleeps_on_mail(&self) -> bool {
        self.own.sleeps.load(Ordering::Relaxed) && self.neighbours.iter().flatten().any(Neighbour::has_mail)
    }

    /// Whether it will wake that worker.
    #[cfg(feature = "simulated")]
    pub(crate) fn will_wake(&self, worker: usize) -> bool {
        self.neighbours[worker].as_ref().is_some_and(|neighbour| neighbour.wake_by_ms < u64::MAX)
    }

    fn neighbour(&mut self, worker: WorkerIndex) -> Option<&mut Neighbour> {
        self.neighbours.get_mut(worker.index())?.as_mut()
    }
}

/// The mailboxes of each worker, in order.
pub(crate) fn connect(wakers: &[Waker], capacity: usize) -> Vec<Mailboxes> {
    let present = |waker: &Waker| {
        let (sleeps, fullness) = (AtomicBool::new(false), Arc::default());
        Arc::new(Presence { waker: waker.clone(), sleeps, fullness })
    };
    let workers: Vec<_> = wakers.iter().map(present).collect();
    let count = workers.len();
    let mut ends: Vec<Vec<Option<Neighbour>>> =
        (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
    for a in 0..count {
        for b in a + 1..count {
            let (to_b, from_a) = RingBuffer::new(capacity);
            let (to_a, from_b) = RingBuffer::new(capacity);
            let (hand_to_b, handed_by_a) = RingBuffer::new(CONNECTIONS_MAX);
            let (hand_to_a, handed_by_b) = RingBuffer::new(CONNECTIONS_MAX);
            let (pass_to_b, passed_by_a) = RingBuffer::new(PASSED_MAX);
            let (pass_to_a, passed_by_b) = RingBuffer::new(PASSED_MAX);
            let (to_b, to_a) = ((to_b, from_b), (to_a, from_a));
            let (hand_to_b, hand_to_a) = ((hand_to_b, handed_by_b), (hand_to_a, handed_by_a));
            let (pass_to_b, pass_to_a) = ((pass_to_b, passed_by_b), (pass_to_a, passed_by_a));
            ends[a][b] = Some(Neighbour::new(to_b, hand_to_b, pass_to_b, &workers[b]));
            ends[b][a] = Some(Neighbour::new(to_a, hand_to_a, pass_to_a, &workers[a]));
        }
    }
    let gauges = Gauges::new(workers.iter().map(|worker| Arc::clone(&worker.fullness)));
    let of = |(neighbours, own)| {
        let (gauges, counters) = (gauges.clone(), MailboxCounters::default());
        Mailboxes { neighbours, own, gauges, counters }
    };
    ends.into_iter().zip(workers).map(of).collect()
}

impl Neighbour {
    fn new(
        (outgoing, incoming): (Producer<WorkerMessage>, Consumer<WorkerMessage>),
        (connections_out, connections_in): (Producer<Accepted>, Consumer<Accepted>),
        (passed_out, passed_in): (Producer<Passed>, Consumer<Passed>),
        presence: &Arc<Presence>,
    ) -> Self {
        let (backlog, presence) = (VecDeque::new(), Arc::clone(presence));
        Self {
            outgoing,
            incoming,
            backlog,
            connections_out,
            connections_in,
            passed_out,
            passed_in,
            passed_backlog: VecDeque::new(),
            presence,
            pushed: 0,
            wake_by_ms: u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use media::{Codec, FrameRole, Timestamp, TrackId};

    use super::*;

    fn pair(capacity: usize) -> (Neighbour, Neighbour) {
        let mut ends = connect(&[Waker::noop().clone(), Waker::noop().clone()], capacity);
        let second = ends[1].neighbours[0].take().unwrap();
        (ends[0].neighbours[1].take().unwrap(), second)
    }

    fn message(body: MessageBody) -> WorkerMessage {
        WorkerMessage { stream: StreamId(1), epoch: Epoch(1), lane: Lane::Frames, body }
    }

    fn frame(time_ms: i64) -> WorkerMessage {
        let time = Timestamp::from_millis(time_ms);
        let frame = Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Opus, (time, time), Vec::new());
        message(MessageBody::Frame { frame: Arc::new(frame), number: 0, after_loss: false })
    }

    #[test]
    fn full_ring_gives_frames_back_and_keeps_the_rest() {
        let (mut near, mut far) = pair(2);
        assert!(near.try_send(frame(1), 0).is_ok());
        assert!(near.try_send(frame(2), 0).is_ok());
        assert!(near.try_send(frame(3), 0).is_err());
        near.send(message(MessageBody::End));
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::Frame { .. }, .. })));
        near.flush(0, &mut MailboxCounters::default());
        assert!(near.try_send(frame(4), 0).is_err(), "no room again");
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::Frame { .. }, .. })));
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::End, .. })), "order is kept");
        assert!(near.try_send(frame(5), 0).is_ok());
    }

    /// Counts the wake-ups of a worker.
    #[derive(Default)]
    struct Alarm(AtomicU64);

    impl std::task::Wake for Alarm {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_a_worker_that_sleeps_is_woken_and_once_for_all() {
        let alarm = Arc::new(Alarm::default());
        let wakers = [Waker::noop().clone(), Arc::clone(&alarm).into(), Waker::noop().clone()];
        let mut workers = connect(&wakers, 8);
        let (to, rung) = (WorkerIndex::at(1), || alarm.0.load(Ordering::Relaxed));
        // It runs: it will look at its rings before it sleeps.
        assert!(workers[0].try_send(to, frame(1), 0));
        workers[0].flush(0);
        assert_eq!(rung(), 0);
        assert!(!workers[1].prepare_to_sleep(), "there is something to be read");
        assert!(workers[1].receive(WorkerIndex::at(0)).is_some());
        assert!(workers[1].prepare_to_sleep());
        // Two send it something, several times: the first flush wakes it.
        for from in [0, 2] {
            assert!(workers[from].try_send(to, frame(2), 0) && workers[from].try_send(to, frame(3), 0));
            assert_eq!(rung(), u64::from(from == 2), "not before the turn ends");
            workers[from].flush(0);
            workers[from].flush(0);
        }
        assert_eq!(rung(), 1);
        assert_eq!(workers[0].counters, MailboxCounters { messages: 3, wake_ups: 1 });
        assert_eq!(workers[2].counters, MailboxCounters { messages: 2, wake_ups: 0 });
        workers[1].woke_up();
        workers[0].send(to, message(MessageBody::End));
        workers[0].flush(0);
        assert_eq!(rung(), 1, "it runs again");
    }

    #[test]
    fn what_can_wait_wakes_later_or_not_at_all() {
        let alarm = Arc::new(Alarm::default());
        let mut workers = connect(&[Waker::noop().clone(), Arc::clone(&alarm).into()], 8);
        let (from, to, rung) = (WorkerIndex::at(0), WorkerIndex::at(1), || alarm.0.load(Ordering::Relaxed));
        assert!(workers[1].prepare_to_sleep());
        assert!(workers[0].try_send(to, frame(1), 105) && workers[0].try_send(to, frame(2), 110));
        workers[0].flush(100);
        assert_eq!((rung(), workers[0].next_wake_ms()), (0, 105));
        workers[0].flush(105);
        assert_eq!((rung(), workers[0].next_wake_ms()), (1, u64::MAX));
        workers[1].woke_up();
        while workers[1].receive(from).is_some() {}
        // Taken in time.
        assert!(workers[1].prepare_to_sleep());
        assert!(workers[0].try_send(to, frame(3), 125));
        workers[0].flush(120);
        assert!(workers[1].receive(from).is_some());
        workers[0].flush(121);
        assert_eq!((rung(), workers[0].next_wake_ms()), (1, u64::MAX));
        // What cannot wait takes it along.
        assert!(workers[0].try_send(to, frame(4), 135));
        workers[0].send(to, message(MessageBody::End));
        workers[0].flush(130);
        assert_eq!((rung(), workers[0].next_wake_ms()), (2, u64::MAX));
    }

    #[test]
    fn no_wake_up_is_lost_between_threads() {
        const MESSAGES: i64 = 20_000;
        let (wakes, woken) = std::sync::mpsc::sync_channel::<()>(1);
        struct Bell(std::sync::mpsc::SyncSender<()>);
        impl std::task::Wake for Bell {
            fn wake(self: Arc<Self>) {
                // Full: one is pending.
                let _ = self.0.try_send(());
            }
        }
        let wakers = [Waker::noop().clone(), Arc::new(Bell(wakes)).into()];
        let mut workers = connect(&wakers, 64);
        let mut receiver = workers.pop().expect("two workers");
        let mut sender = workers.pop().expect("two workers");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    while !sender.try_send(WorkerIndex::at(1), frame(number), 0) {
                        sender.flush(0);
                        std::thread::yield_now();
                    }
                    sender.flush(0);
                }
                // The bell stays until the other has everything.
                sender
            });
            let mut received = 0;
            while received < MESSAGES {
                if receiver.prepare_to_sleep() {
                    woken.recv_timeout(std::time::Duration::from_secs(60)).expect("a wake-up");
                }
                receiver.woke_up();
                while receiver.receive(WorkerIndex::at(0)).is_some() {
                    received += 1;
                }
            }
        });
    }
}
