//! Messages between workers: one bounded single-producer ring per pair and direction.
//!
//! A frame crosses once to each worker that has players of its stream, as a reference. When a ring is full
//! its frames are dropped up to the next key frame and counted; the other messages are few (one per stream
//! and change of publisher or players) and wait in a queue of the sender until there is room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use media::Frame;
use rtrb::{Consumer, Producer, RingBuffer};
use sfu::{Packet, TrackIndex};

use crate::ids::{TableId, WorkerIndex};
use crate::registry::{Epoch, Lane, PublishedTracks, StreamId};

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
    /// From the home: the next frame; `after_loss` when frames before it were dropped.
    Frame { frame: Arc<Frame>, after_loss: bool },
    /// From the home: the next packet.
    Packet(Arc<Packet>),
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
    KeyFrameWanted(TrackIndex),
}

/// What a new player of a publication begins with.
#[derive(Debug)]
pub(crate) enum Start {
    /// Headers and the GOP cache.
    Frames(Vec<Arc<Frame>>),
    /// What is published, and the packets since the last key frame.
    Packets { tracks: PublishedTracks, packets: Vec<Arc<Packet>> },
}

/// One worker's ends of the rings to and from another.
#[derive(Debug)]
struct Neighbour {
    outgoing: Producer<WorkerMessage>,
    incoming: Consumer<WorkerMessage>,
    backlog: VecDeque<WorkerMessage>,
    waker: Waker,
    wake: bool,
}

impl Neighbour {
    /// Queues a message that must arrive.
    fn send(&mut self, message: WorkerMessage) {
        self.backlog.push_back(message);
        self.push_backlog();
    }

    /// Queues a frame, or gives it back when there is no room.
    fn try_send(&mut self, message: WorkerMessage) -> Result<(), WorkerMessage> {
        self.push_backlog();
        if !self.backlog.is_empty() {
            return Err(message);
        }
        self.outgoing.push(message).map_err(|rtrb::PushError::Full(message)| message)?;
        self.wake = true;
        Ok(())
    }

    /// Takes the next message of the other worker.
    fn receive(&mut self) -> Option<WorkerMessage> {
        self.incoming.pop().ok()
    }

    /// Wakes the other worker once for all that was queued since; call it at the end of a loop turn.
    fn flush(&mut self) {
        self.push_backlog();
        if std::mem::take(&mut self.wake) {
            self.waker.wake_by_ref();
        }
    }

    fn push_backlog(&mut self) {
        while let Some(message) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(message)) = self.outgoing.push(message) {
                self.backlog.push_front(message);
                return;
            }
            self.wake = true;
        }
    }
}

/// All rings of one worker.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    /// By worker; none to itself.
    neighbours: Vec<Option<Neighbour>>,
}

impl Mailboxes {
    /// Queues a message that must arrive.
    pub(crate) fn send(&mut self, to: WorkerIndex, message: WorkerMessage) {
        if let Some(neighbour) = self.neighbour(to) {
            neighbour.send(message);
        }
    }

    /// Queues media. False if there is no room, and it is dropped.
    pub(crate) fn try_send(&mut self, to: WorkerIndex, message: WorkerMessage) -> bool {
        self.neighbour(to).is_some_and(|neighbour| neighbour.try_send(message).is_ok())
    }

    /// Takes the next message of another worker.
    pub(crate) fn receive(&mut self, from: WorkerIndex) -> Option<WorkerMessage> {
        self.neighbour(from)?.receive()
    }

    /// All workers.
    pub(crate) fn workers(&self) -> impl Iterator<Item = WorkerIndex> + use<> {
        (0..self.neighbours.len()).map(WorkerIndex::at)
    }

    /// Wakes the workers that something was queued for; call it at the end of a loop turn.
    pub(crate) fn flush(&mut self) {
        self.neighbours.iter_mut().flatten().for_each(Neighbour::flush);
    }

    fn neighbour(&mut self, worker: WorkerIndex) -> Option<&mut Neighbour> {
        self.neighbours.get_mut(worker.index())?.as_mut()
    }
}

/// The mailboxes of each worker, in order.
pub(crate) fn connect(wakers: &[Waker], capacity: usize) -> Vec<Mailboxes> {
    let count = wakers.len();
    let mut ends: Vec<Vec<Option<Neighbour>>> =
        (0..count).map(|_| (0..count).map(|_| None).collect()).collect();
    for a in 0..count {
        for b in a + 1..count {
            let (to_b, from_a) = RingBuffer::new(capacity);
            let (to_a, from_b) = RingBuffer::new(capacity);
            ends[a][b] = Some(Neighbour::new(to_b, from_b, &wakers[b]));
            ends[b][a] = Some(Neighbour::new(to_a, from_a, &wakers[a]));
        }
    }
    ends.into_iter().map(|neighbours| Mailboxes { neighbours }).collect()
}

impl Neighbour {
    fn new(outgoing: Producer<WorkerMessage>, incoming: Consumer<WorkerMessage>, waker: &Waker) -> Self {
        Self { outgoing, incoming, backlog: VecDeque::new(), waker: waker.clone(), wake: false }
    }
}

#[cfg(test)]
mod tests {
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
        message(MessageBody::Frame { frame: Arc::new(frame), after_loss: false })
    }

    #[test]
    fn full_ring_gives_frames_back_and_keeps_the_rest() {
        let (mut near, mut far) = pair(2);
        assert!(near.try_send(frame(1)).is_ok());
        assert!(near.try_send(frame(2)).is_ok());
        assert!(near.try_send(frame(3)).is_err());
        near.send(message(MessageBody::End));
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::Frame { .. }, .. })));
        near.flush();
        assert!(near.try_send(frame(4)).is_err(), "no room again");
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::Frame { .. }, .. })));
        assert!(matches!(far.receive(), Some(WorkerMessage { body: MessageBody::End, .. })), "order is kept");
        assert!(near.try_send(frame(5)).is_ok());
    }
}
