//! Once a second: what the columns do not have yet is noted, then a copy of them leaves the worker.
//!
//! All of it together is what a snapshot costs the worker, and is measured as such: the thread's CPU time
//! from the first rate to the last copied column. The goal is a millisecond for ten thousand sessions
//! (`scripts/bench live-stats`).

use super::{frames_reference, packets_reference};
use crate::event_loop::Worker;
use crate::frames::stream::{Channel, Format};
use crate::ids::TableId;
use crate::net::Clock;
use worker_api::columns::StreamRow;

/// Places in logs whose age is remembered while queues are looked at.
const SEEN: usize = 256;

impl Worker {
    /// Ends the sample of `elapsed_ms` of all sessions and sends a copy of the columns to the control side.
    pub(crate) fn send_stats(&mut self, elapsed_ms: u64) {
        let begun = Clock::thread_cpu_time();
        self.connections.columns.sample(elapsed_ms, self.connections.sessions.rows());
        self.note_queues();
        self.note_srt();
        self.packets.note_reception(self.ctx.now);
        self.packets.sample(elapsed_ms);
        let mut snapshot = self.control.outbox.take_empty();
        let last = self.ctx.load.last;
        snapshot.worker = self.ctx.worker.index();
        snapshot.now_ms = self.ctx.now_ms;
        snapshot.load_percent = last.load_percent;
        snapshot.bytes_in_per_second = last.bytes_in;
        snapshot.bytes_out_per_second = last.bytes_out;
        snapshot.sessions.append_copy(&self.connections.columns.stats);
        snapshot.sessions.append_copy(&self.packets.columns.stats);
        snapshot.streams.extend(self.frames.streams.iter().map(|(id, stream)| StreamRow {
            reference: frames_reference(id),
            name: stream.publication.key.clone(),
            live: stream.publication.source.is_some(),
            has_publisher: stream.publication.has_publisher(),
            players: stream.publication.players,
        }));
        snapshot.streams.extend(self.packets.streams.iter().map(|(id, stream)| StreamRow {
            reference: packets_reference(id),
            name: stream.publication.key.clone(),
            live: stream.publication.source.is_some(),
            has_publisher: stream.publication.has_publisher(),
            players: stream.publication.players,
        }));
        snapshot.took_us = Clock::thread_cpu_time().saturating_sub(begun).as_micros() as u32;
        self.control.outbox.send(snapshot);
    }

    /// Notes how far each player is behind the newest bytes for it.
    fn note_queues(&mut self) {
        let stats = &mut self.connections.columns.stats;
        let mut seen = [(usize::MAX, 0, 0); SEEN];
        for (_, player) in self.frames.players.iter() {
            let conn = player.conn.index();
            let stream = &self.frames.streams[player.stream];
            let Some(Channel { log, .. }) = &stream.channels[player.format as usize] else { continue };
            stats.queue_bytes[conn] = player.cursor.lag_bytes(log);
            // Players that are served together are at the same place: finding the message there once is
            // enough.
            let Some(position) = player.cursor.position() else {
                stats.queue_ms[conn] = 0;
                continue;
            };
            let channel = player.stream.index() * Format::COUNT + player.format as usize;
            let known = &mut seen[(position as usize ^ channel) % SEEN];
            if (known.0, known.1) != (channel, position) {
                *known = (channel, position, player.cursor.lag_ms(log) as u32);
            }
            stats.queue_ms[conn] = known.2;
        }
        for (_, tap) in self.frames.taps.iter() {
            stats.queue_bytes[tap.conn.index()] = tap.frames.queued_bytes() as u64;
        }
    }
}
