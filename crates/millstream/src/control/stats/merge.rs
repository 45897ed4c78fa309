//! One message from the snapshots of all workers.
//!
//! Sessions stand one worker after the other; vacant rows are left out. A stream that several workers know, or one worker in both
//! forms, is one stream. What goes in and out of a stream is summed from its sessions.

use std::collections::HashMap;

use crate::stats::message::{
    NO_STREAM, NO_WORKER, ROLE_PLAYER, ROLE_PUBLISHER, Sessions, StatsMessage, Streams, VERSION, Workers,
};
use crate::worker::columns::{self, StatsSnapshot};
use crate::worker::snapshot::Protocol;

/// Distance of messages: a worker samples once a second.
const INTERVAL_MS: u32 = 1000;

/// The message about the moment `time_ms` (Unix time).
pub(super) fn message<'a>(
    snapshots: impl Iterator<Item = &'a Box<StatsSnapshot>> + Clone,
    sequence: u64,
    time_ms: u64,
) -> StatsMessage {
    let mut message = StatsMessage {
        version: VERSION,
        sequence,
        time_ms,
        interval_ms: INTERVAL_MS,
        protocols: Protocol::ALL.iter().map(|protocol| protocol.name().to_owned()).collect(),
        ..StatsMessage::default()
    };
    let mut by_name = HashMap::new();
    for snapshot in snapshots {
        let indices = add_streams(&mut message.streams, &mut by_name, snapshot);
        let before = message.sessions.serial.len();
        add_sessions(&mut message.sessions, snapshot, &indices);
        add_worker(&mut message.workers, snapshot, message.sessions.serial.len() - before);
    }
    add_rates(&mut message);
    message
}

fn add_worker(workers: &mut Workers, snapshot: &StatsSnapshot, sessions: usize) {
    workers.index.push(snapshot.worker as u16);
    workers.load_percent.push(snapshot.load_percent);
    workers.sessions.push(sessions as u32);
    workers.snapshot_us.push(snapshot.took_us);
    workers.bits_in_per_second.push(snapshot.bytes_in_per_second * 8);
    workers.bits_out_per_second.push(snapshot.bytes_out_per_second * 8);
}

/// Adds what the message does not have yet. The result says at which index each reference of the snapshot is.
fn add_streams<'a>(
    streams: &mut Streams,
    by_name: &mut HashMap<&'a str, u32>,
    snapshot: &'a StatsSnapshot,
) -> Vec<u32> {
    let references = snapshot.streams.iter().map(|stream| stream.reference as usize + 1).max();
    let mut indices = vec![NO_STREAM; references.unwrap_or(0)];
    for stream in &snapshot.streams {
        let index = *by_name.entry(&stream.name).or_insert_with(|| {
            streams.name.push(stream.name.to_string());
            streams.live.push(false);
            streams.publisher_worker.push(NO_WORKER);
            streams.players.push(0);
            streams.bits_in_per_second.push(0);
            streams.bits_out_per_second.push(0);
            streams.name.len() as u32 - 1
        });
        indices[stream.reference as usize] = index;
        let index = index as usize;
        streams.live[index] |= stream.live;
        streams.players[index] += stream.players;
        if stream.has_publisher {
            streams.publisher_worker[index] = snapshot.worker as i32;
        }
    }
    indices
}

fn add_sessions(sessions: &mut Sessions, snapshot: &StatsSnapshot, indices: &[u32]) {
    let told = &snapshot.sessions;
    let stream = |reference: u32| match reference {
        columns::NO_STREAM => NO_STREAM,
        reference => indices.get(reference as usize).copied().unwrap_or(NO_STREAM),
    };
    for row in (0..told.rows()).filter(|row| told.serial[*row] != 0) {
        sessions.worker.push(snapshot.worker as u16);
        sessions.serial.push(told.serial[row]);
        sessions.stream.push(stream(told.stream[row]));
        sessions.role.push(told.role[row] as u8);
        sessions.protocol.push(told.protocol[row] as u8);
        sessions.connected_ms.push(snapshot.now_ms.saturating_sub(told.opened_ms[row]));
        sessions.bits_per_second.push(told.bits_per_second[row]);
        sessions.packets.push(told.packets[row]);
        sessions.packets_per_second.push(told.packets_per_second[row]);
        sessions.lost_packets.push(told.lost_packets[row]);
        sessions.loss_percent.push(told.loss_percent[row]);
        sessions.rtt_ms.push(told.rtt_ms[row]);
        sessions.jitter_ms.push(told.jitter_ms[row]);
        sessions.queue_bytes.push(told.queue_bytes[row]);
        sessions.queue_ms.push(told.queue_ms[row]);
        sessions.dropped_frames.push(told.dropped_frames[row]);
    }
}

/// What goes into streams and out of them, from their sessions.
fn add_rates(message: &mut StatsMessage) {
    let StatsMessage { streams, sessions, .. } = message;
    let rates = sessions.stream.iter().zip(&sessions.role).zip(&sessions.bits_per_second);
    for ((&stream, &role), &bits) in rates.filter(|((stream, _), _)| **stream != NO_STREAM) {
        match role {
            ROLE_PUBLISHER => streams.bits_in_per_second[stream as usize] += bits,
            ROLE_PLAYER => streams.bits_out_per_second[stream as usize] += bits,
            _ => {}
        }
    }
}
