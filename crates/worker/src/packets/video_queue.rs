//! Which streams have video to send, and which of them is next.
//!
//! Each turn sends one slice of video, so that the loop reads sockets and sends audio in between. A stream's
//! deadline is the time its video arrived plus the time it takes to send; the earliest deadline goes first.
//! So short sends overtake long ones, and the longer a stream waits, the fewer overtake it. Cached packets
//! for viewers with a backlog take a share of the slice, so that many joining at once hold up nothing else.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rtp::payload::MediaKind;

use super::streams::Stream;
use crate::ids::PacketStreamId;
use crate::timers::Timers;

/// Streams with video that waits, or with viewers with a backlog.
#[derive(Debug)]
pub(super) struct VideoQueue {
    /// When video of which stream is due.
    due: Timers<Instant, PacketStreamId>,
    /// Streams with viewers with a backlog, the next one to be served in front.
    backlog: VecDeque<PacketStreamId>,
    /// What a datagram takes of a turn, measured.
    datagram_time: Duration,
    /// Everything that could be sent waits for room in the kernel, as the last turn has found.
    pub(super) waits_for_room: bool,
}

impl Default for VideoQueue {
    fn default() -> Self {
        Self {
            due: Timers::default(),
            backlog: VecDeque::new(),
            datagram_time: DATAGRAM_TIME,
            waits_for_room: false,
        }
    }
}

impl VideoQueue {
    /// Queues a stream, if it has video or viewers with a backlog, and is not queued.
    pub(super) fn push(&mut self, id: PacketStreamId, stream: &mut Stream) {
        if stream.video_due.is_none()
            && let Some((since, takes)) = self.waiting(stream)
        {
            self.due.set(id, &mut stream.video_due, since + takes);
        }
        if stream.sfu.has_backlog() {
            self.push_backlog(id, stream);
        }
    }

    /// Since when video of a stream waits, and how long it takes to send.
    fn waiting(&self, stream: &Stream) -> Option<(Instant, Duration)> {
        let (since, datagrams) = stream.sfu.waiting(MediaKind::Video)?;
        Some((since, self.datagram_time.saturating_mul(u32::try_from(datagrams).unwrap_or(u32::MAX))))
    }

    /// If the first video of a stream is of no use any more, because the worker has more to send than it can:
    /// what came before when is not.
    pub(super) fn useless_before(&self, stream: &Stream, now: Instant) -> Option<Instant> {
        let (since, takes) = self.waiting(stream)?;
        let before = now.checked_sub(USELESS_AFTER + takes)?;
        (since < before).then_some(before)
    }

    /// What came before when is late: for viewers without room it is dropped.
    pub(super) fn late_before(&self, stream: &Stream, now: Instant) -> Option<Instant> {
        let (_, takes) = self.waiting(stream)?;
        now.checked_sub(LATE_MAX + takes)
    }

    /// Queues a stream that has viewers with a backlog, if it is not queued.
    pub(super) fn push_backlog(&mut self, id: PacketStreamId, stream: &mut Stream) {
        if !std::mem::replace(&mut stream.backlog_queued, true) {
            self.backlog.push_back(id);
        }
    }

    /// The stream whose video is due first.
    pub(super) fn pop(&mut self) -> Option<(Instant, PacketStreamId)> {
        self.due.pop_earliest()
    }

    /// The next stream with viewers with a backlog.
    pub(super) fn pop_backlog(&mut self) -> Option<PacketStreamId> {
        self.backlog.pop_front()
    }

    /// Whether there are any.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.backlog.is_empty()
    }

    /// How long video has waited beyond its time.
    pub(super) fn delay(&self, now: Instant) -> Duration {
        self.due.next().map_or(Duration::ZERO, |due| now.saturating_duration_since(due))
    }

    /// Whether video waits for so long that the worker cannot keep up.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.due.next().is_some_and(|due| due + LATE_MAX < now)
    }

    /// How many datagrams may be made before the loop has to look at its sockets again, and how many of them
    /// are for viewers with a backlog.
    pub(super) fn slice(&self, now: Instant) -> (usize, usize) {
        let slice = if self.is_late(now) { CATCH_UP_DATAGRAMS } else { SLICE_DATAGRAMS };
        (slice, if self.due.is_empty() { SLICE_DATAGRAMS } else { SLICE_DATAGRAMS / 2 })
    }

    /// Learns from a turn what a datagram takes. Small ones tell little: most of them is something else.
    pub(super) fn turn_took(&mut self, took: Duration, datagrams: u64) {
        if datagrams >= SLICE_DATAGRAMS as u64
            && let Ok(datagrams) = u32::try_from(datagrams)
        {
            let measured = (took / datagrams).clamp(DATAGRAM_TIME / 4, DATAGRAM_TIME * 4);
            self.datagram_time = (self.datagram_time * 15 + measured) / 16;
        }
    }
}

/// Datagrams of a slice: one to two milliseconds. Each slice costs a turn of the loop, about five
/// microseconds.
pub(super) const SLICE_DATAGRAMS: usize = 512;
/// Datagrams of a slice of a worker that is late: some 15 ms, so that audio and timers have their turn.
pub(super) const CATCH_UP_DATAGRAMS: usize = 4_096;
/// What sending a datagram takes until it has been measured.
const DATAGRAM_TIME: Duration = Duration::from_micros(4);
/// How much later than it is due video may be before slices are longer: runs are longer then, and cost less.
const LATE_MAX: Duration = Duration::from_millis(100);
/// How much later than it is due video may be before it is dropped.
pub(super) const USELESS_AFTER: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_datagram_takes_is_learned_from_full_turns_and_not_from_a_pause() {
        let mut queue = VideoQueue::default();
        queue.turn_took(Duration::from_millis(900), 100);
        assert_eq!(queue.datagram_time, DATAGRAM_TIME, "a turn of something else");
        for _ in 0..100 {
            queue.turn_took(Duration::from_millis(5), 1_000);
        }
        assert!(queue.datagram_time.abs_diff(Duration::from_micros(5)) < Duration::from_nanos(50));
        // The machine was busy with something else.
        queue.turn_took(Duration::from_secs(1), 1_000);
        assert!(queue.datagram_time < Duration::from_micros(6), "{:?}", queue.datagram_time);
    }
}
