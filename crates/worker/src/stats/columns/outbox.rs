//! The way of a snapshot out of the worker: a bounded queue, and the same buffers again and again.
//!
//! The worker never waits: with the queue full the snapshot is dropped and counted, and its buffers
//! serve the next one. Buffers that the control side has read come back through a second bounded
//! queue. What becomes of snapshots is decided there (`control::stats`).

use std::sync::mpsc::Receiver;

use tokio::sync::mpsc::Sender;

use worker_api::columns::{OutboxCounters, StatsSnapshot};

/// The way of statistics snapshots to the control side and of used ones back.
#[derive(Debug)]
pub(crate) struct Outbox {
    queue: Sender<Box<StatsSnapshot>>,
    used: Receiver<Box<StatsSnapshot>>,
    /// One that was not taken.
    spare: Option<Box<StatsSnapshot>>,
    pub(crate) counters: OutboxCounters,
}

impl Outbox {
    /// Snapshots go to `queue`; those that were read come back from `used`.
    pub(crate) fn new(queue: Sender<Box<StatsSnapshot>>, used: Receiver<Box<StatsSnapshot>>) -> Self {
        Self { queue, used, spare: None, counters: OutboxCounters::default() }
    }

    /// An empty snapshot, with the buffers of an earlier one if there are any.
    pub(crate) fn take_empty(&mut self) -> Box<StatsSnapshot> {
        let used = self.spare.take().or_else(|| self.used.try_recv().ok());
        let mut snapshot = used.unwrap_or_default();
        snapshot.clear();
        snapshot
    }

    /// Sends a snapshot, if there is room.
    pub(crate) fn send(&mut self, snapshot: Box<StatsSnapshot>) {
        self.counters.made += 1;
        self.counters.took_us += u64::from(snapshot.took_us);
        self.counters.last_us = snapshot.took_us;
        if let Err(error) = self.queue.try_send(snapshot) {
            self.counters.dropped += 1;
            self.spare = Some(error.into_inner());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use worker_api::columns::SNAPSHOTS_MAX;

    #[test]
    fn a_full_queue_drops_and_counts_and_buffers_are_used_again() {
        let (queue, mut received) = tokio::sync::mpsc::channel(SNAPSHOTS_MAX);
        let (give_back, used) = sync_channel(SNAPSHOTS_MAX);
        let mut outbox = Outbox::new(queue, used);
        let send = |outbox: &mut Outbox, now_ms| {
            let mut snapshot = outbox.take_empty();
            assert!(snapshot.streams.is_empty() && snapshot.sessions.rows() == 0, "nothing old is in it");
            snapshot.sessions.resize(now_ms as usize * 100);
            (snapshot.now_ms, snapshot.took_us) = (now_ms, 10);
            let buffer = snapshot.sessions.serial.as_ptr();
            outbox.send(snapshot);
            buffer
        };
        send(&mut outbox, 3);
        send(&mut outbox, 2);
        let dropped = send(&mut outbox, 2);
        assert_eq!(outbox.counters, OutboxCounters { made: 3, dropped: 1, took_us: 30, last_us: 10 });
        assert_eq!(send(&mut outbox, 1), dropped, "the buffers of the one that was dropped");
        let first = received.try_recv().expect("the first");
        assert_eq!(first.now_ms, 3, "the oldest is kept");
        let buffer = first.sessions.serial.as_ptr();
        outbox.spare = None;
        give_back.send(first).expect("room");
        assert_eq!(send(&mut outbox, 1), buffer, "the buffers that came back");
        assert_eq!(outbox.counters.dropped, 2);
    }

    #[test]
    fn a_control_side_that_has_gone_is_no_failure() {
        let (queue, received) = tokio::sync::mpsc::channel(SNAPSHOTS_MAX);
        let (_, used) = sync_channel(SNAPSHOTS_MAX);
        let mut outbox = Outbox::new(queue, used);
        drop(received);
        let snapshot = outbox.take_empty();
        outbox.send(snapshot);
        assert_eq!(outbox.counters.dropped, 1);
    }
}
