//! Which streams have video to send, and which of them is next.
//!
//! A turn sends one slice of it, so that sockets are read and audio leaves in between. Video is due when it
//! could have left if there were nothing else: what takes little time overtakes what takes long, and the
//! longer something waits the less can overtake it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use rtp::payload::MediaKind;

use super::streams::Stream;
use crate::ids::PacketStreamId;

/// Streams with video that waits, the one that is due first in front.
#[derive(Debug, Default)]
pub(super) struct VideoQueue(BinaryHeap<Reverse<(Instant, PacketStreamId)>>);

impl VideoQueue {
    /// Queues a stream, if it has video and is not queued.
    pub(super) fn push(&mut self, id: PacketStreamId, stream: &mut Stream) {
        if stream.video_due.is_none()
            && let Some((since, datagrams)) = stream.sfu.waiting(MediaKind::Video)
        {
            let due = due(since, datagrams);
            stream.video_due = Some(due);
            self.0.push(Reverse((due, id)));
        }
    }

    /// The stream that is due first. An entry counts only if it is the one that its stream was last queued
    /// with.
    pub(super) fn pop(&mut self) -> Option<(Instant, PacketStreamId)> {
        self.0.pop().map(|Reverse(first)| first)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many datagrams may be made before the loop has to look at its sockets again.
    ///
    /// A worker that cannot keep up reads nothing more until it has caught up: what it does not read waits in
    /// the sockets, and not here.
    pub(super) fn slice(&self, now: Instant) -> usize {
        let is_late = self.0.peek().is_some_and(|Reverse((due, _))| *due + LATE_MAX < now);
        if is_late { usize::MAX } else { SLICE_DATAGRAMS }
    }
}

/// When video that waits since `since` is due.
fn due(since: Instant, datagrams: usize) -> Instant {
    since + DATAGRAM_TIME * u32::try_from(datagrams).unwrap_or(u32::MAX)
}

/// Datagrams of a slice: half a millisecond to one. Each slice costs a turn of the loop, about five
/// microseconds.
pub(super) const SLICE_DATAGRAMS: usize = 512;
/// What sending a datagram takes, for the order alone.
const DATAGRAM_TIME: Duration = Duration::from_micros(2);
/// Video may be so late before input has to wait.
const LATE_MAX: Duration = Duration::from_millis(100);
