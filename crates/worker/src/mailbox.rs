//! Messages between workers: one bounded single-producer ring per pair and direction.
//!
//! A frame crosses once to each worker that has players of its stream, as a reference. When a ring is full its
//! frames are dropped up to the next key frame and counted; the other messages are few (one per stream and
//! change of publisher or players) and wait in a queue of the sender until there is room.

use std::collections::VecDeque;
use std::sync::Arc;

use delivery::Frame;
use rtrb::{Consumer, Producer, RingBuffer};
use sfu::{Packet, TrackIndex};

use crate::registry::{Epoch, PublishedTracks, StreamId};

/// What one worker tells another about a stream.
#[derive(Debug)]
pub(crate) enum Crossing {
    /// To the home: send me this stream.
    Subscribe(StreamId),
    /// To the home: no more.
    Unsubscribe(StreamId),
    /// From the home: a publisher is there; `frames` are its headers and GOP cache so far.
    Start { stream: StreamId, epoch: Epoch, frames: Vec<Arc<Frame>> },
    /// From the home: the next frame; `after_loss` when frames before it were dropped.
    Frame { stream: StreamId, epoch: Epoch, frame: Arc<Frame>, after_loss: bool },
    /// From the home: the publisher has gone.
    Gone { stream: StreamId, epoch: Epoch },
    /// To the old home: this publication was taken over.
    Replaced { stream: StreamId, epoch: Epoch },
    /// To the home of a stream of packets: send me this stream.
    PacketsSubscribe(StreamId),
    /// To the home of a stream of packets: no more.
    PacketsUnsubscribe(StreamId),
    /// From the home: a publisher of packets is there; `packets` are those a new player begins with.
    PacketsStart { stream: StreamId, epoch: Epoch, tracks: PublishedTracks, packets: Vec<Arc<Packet>> },
    /// From the home: the next packet.
    Packet { stream: StreamId, epoch: Epoch, packet: Arc<Packet> },
    /// From the home: the publisher of packets has gone.
    PacketsGone { stream: StreamId, epoch: Epoch },
    /// To the home: a publisher has come to another worker. If this publication has fallen silent, it ends.
    Contested { stream: StreamId, epoch: Epoch },
    /// To the home: players here cannot go on without a key frame.
    KeyFrameWanted { stream: StreamId, track: TrackIndex },
}

/// One worker's ends of the rings to and from another.
#[derive(Debug)]
pub(crate) struct Neighbour {
    outgoing: Producer<Crossing>,
    incoming: Consumer<Crossing>,
    backlog: VecDeque<Crossing>,
    waker: Arc<mio::Waker>,
    wake: bool,
}

impl Neighbour {
    /// Queues a message that must arrive.
    pub(crate) fn tell(&mut self, crossing: Crossing) {
        self.backlog.push_back(crossing);
        self.push_backlog();
    }

    /// Queues a frame, or gives it back when there is no room.
    pub(crate) fn offer(&mut self, crossing: Crossing) -> Result<(), Crossing> {
        self.push_backlog();
        if !self.backlog.is_empty() {
            return Err(crossing);
        }
        self.outgoing.push(crossing).map_err(|rtrb::PushError::Full(crossing)| crossing)?;
        self.wake = true;
        Ok(())
    }

    /// Takes the next message of the other worker.
    pub(crate) fn receive(&mut self) -> Option<Crossing> {
        self.incoming.pop().ok()
    }

    /// Wakes the other worker once for all that was queued since; call it at the end of a loop turn.
    pub(crate) fn flush(&mut self) {
        self.push_backlog();
        if std::mem::take(&mut self.wake) {
            // The only error is an eventfd whose counter is full, which means a wake-up is pending.
            let _ = self.waker.wake();
        }
    }

    fn push_backlog(&mut self) {
        while let Some(crossing) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(crossing)) = self.outgoing.push(crossing) {
                self.backlog.push_front(crossing);
                return;
            }
            self.wake = true;
        }
    }
}

/// The neighbours of each worker, indexed by worker; a worker has none at its own index.
pub(crate) fn connect(wakers: &[Arc<mio::Waker>], capacity: usize) -> Vec<Vec<Option<Neighbour>>> {
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
    ends
}

impl Neighbour {
    fn new(outgoing: Producer<Crossing>, incoming: Consumer<Crossing>, waker: &Arc<mio::Waker>) -> Self {
        Self { outgoing, incoming, backlog: VecDeque::new(), waker: Arc::clone(waker), wake: false }
    }
}

#[cfg(test)]
mod tests {
    use delivery::{FrameRole, Track};

    use super::*;

    fn pair(capacity: usize) -> (Neighbour, Neighbour) {
        let wakers: Vec<_> = (0..2)
            .map(|token| {
                let poll = mio::Poll::new().unwrap();
                Arc::new(mio::Waker::new(poll.registry(), mio::Token(token)).unwrap())
            })
            .collect();
        let mut ends = connect(&wakers, capacity);
        let second = ends[1][0].take().unwrap();
        (ends[0][1].take().unwrap(), second)
    }

    fn frame(timestamp: u32) -> Crossing {
        let frame = Frame { track: Track::Audio, role: FrameRole::Audio, timestamp, payload: Vec::new() };
        Crossing::Frame { stream: StreamId(1), epoch: Epoch(1), frame: Arc::new(frame), after_loss: false }
    }

    #[test]
    fn full_ring_gives_frames_back_and_keeps_the_rest() {
        let (mut near, mut far) = pair(2);
        assert!(near.offer(frame(1)).is_ok());
        assert!(near.offer(frame(2)).is_ok());
        assert!(near.offer(frame(3)).is_err());
        near.tell(Crossing::Gone { stream: StreamId(1), epoch: Epoch(1) });
        assert!(matches!(far.receive(), Some(Crossing::Frame { .. })));
        near.flush();
        assert!(near.offer(frame(4)).is_err(), "no room again");
        assert!(matches!(far.receive(), Some(Crossing::Frame { .. })));
        assert!(matches!(far.receive(), Some(Crossing::Gone { .. })), "order is kept");
        assert!(near.offer(frame(5)).is_ok());
    }
}
