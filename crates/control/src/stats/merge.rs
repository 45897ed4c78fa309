//! One message from the snapshots of all workers.
//!
//! Sessions stand one worker after the other; vacant rows are left out. A stream that several
//! workers know, or one worker in both forms, is one stream. What goes in and out of a stream is
//! summed from its sessions.

use std::collections::HashMap;

use ::stats::message::{
    NO_STREAM, NO_WORKER, ROLE_PLAYER, ROLE_PUBLISHER, Sessions, StatsMessage, Streams, VERSION, Workers,
};
use worker_api::columns::{self, StatsSnapshot};
use worker_api::snapshot::Protocol;

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
    let columns = &snapshot.sessions;
    let rows: Vec<usize> = (0..columns.rows()).filter(|row| columns.serial[*row] != 0).collect();
    let stream = |reference: u32| match reference {
        columns::NO_STREAM => NO_STREAM,
        reference => indices.get(reference as usize).copied().unwrap_or(NO_STREAM),
    };
    // One column after the other: each is one array read and one written.
    sessions.worker.resize(sessions.worker.len() + rows.len(), snapshot.worker as u16);
    extend(&mut sessions.serial, &rows, |row| columns.serial[row]);
    extend(&mut sessions.stream, &rows, |row| stream(columns.stream[row]));
    extend(&mut sessions.role, &rows, |row| columns.role[row] as u8);
    extend(&mut sessions.protocol, &rows, |row| columns.protocol[row] as u8);
    extend(&mut sessions.connected_ms, &rows, |row| snapshot.now_ms.saturating_sub(columns.opened_ms[row]));
    macro_rules! extend_same {
        ($($column:ident),*) => { $(extend(&mut sessions.$column, &rows, |row| columns.$column[row]);)* };
    }
    extend_same!(bits_per_second, packets, packets_per_second, lost_packets, loss_percent);
    extend_same!(rtt_ms, jitter_ms, queue_bytes, queue_ms, dropped_frames);
}

fn extend<T>(column: &mut Vec<T>, rows: &[usize], value: impl Fn(usize) -> T) {
    column.extend(rows.iter().map(|row| value(*row)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use worker_api::columns::StreamRow;
    use worker_api::snapshot::{Protocol, Role};

    fn stream(reference: u32, name: &str, players: u32, has_publisher: bool) -> StreamRow {
        StreamRow { reference, name: name.into(), live: has_publisher, has_publisher, players }
    }

    /// A snapshot with a row for each of `sessions`: serial number, stream, role, bits a second.
    fn snapshot(
        worker: usize,
        streams: Vec<StreamRow>,
        sessions: &[(u64, u32, Role, u64)],
    ) -> Box<StatsSnapshot> {
        let mut snapshot = StatsSnapshot { worker, now_ms: 5000, took_us: 40, streams, ..Default::default() };
        snapshot.sessions.resize(sessions.len());
        for (row, (serial, stream, role, bits)) in sessions.iter().enumerate() {
            let columns = &mut snapshot.sessions;
            (columns.serial[row], columns.stream[row], columns.role[row]) = (*serial, *stream, *role);
            (columns.bits_per_second[row], columns.protocol[row], columns.opened_ms[row]) =
                (*bits, Protocol::Whep, 1000);
        }
        Box::new(snapshot)
    }

    #[test]
    fn streams_of_several_workers_and_both_forms_become_one() {
        let (publisher, player, pending) = (Role::Publisher, Role::Player, Role::Pending);
        let none = columns::NO_STREAM;
        let first = snapshot(
            0,
            vec![stream(0, "live/a", 2, true), stream(1, "live/a", 1, false), stream(6, "live/b", 0, true)],
            &[(9, 0, publisher, 500), (0, none, pending, 0), (11, 0, player, 400), (12, 1, player, 300)],
        );
        let second = snapshot(
            3,
            vec![stream(4, "live/c", 1, false), stream(3, "live/a", 4, false)],
            &[(1, 3, player, 200), (2, none, pending, 7), (4, 4, player, 0), (5, 99, player, 1)],
        );
        let message = message([first, second].iter(), 6, 7);
        assert_eq!(message.check(), Ok(()));
        assert_eq!((message.version, message.sequence, message.time_ms), (1, 6, 7));
        let Streams { name, live, publisher_worker, players, bits_in_per_second, bits_out_per_second } =
            message.streams;
        assert_eq!(name, ["live/a", "live/b", "live/c"]);
        assert_eq!((live, publisher_worker), (vec![true, true, false], vec![0, 0, NO_WORKER]));
        assert_eq!(players, [7, 0, 1]);
        assert_eq!((bits_in_per_second, bits_out_per_second), (vec![500, 0, 0], vec![900, 0, 0]));
        let sessions = message.sessions;
        assert_eq!(sessions.worker, [0, 0, 0, 3, 3, 3, 3]);
        assert_eq!(sessions.serial, [9, 11, 12, 1, 2, 4, 5], "vacant rows are left out");
        assert_eq!(
            sessions.stream,
            [0, 0, 0, 0, NO_STREAM, 2, NO_STREAM],
            "a stream nobody described is none"
        );
        assert_eq!(sessions.role, [1, 2, 2, 2, 0, 2, 2]);
        assert_eq!(sessions.connected_ms, [4000; 7]);
        assert!(sessions.protocol.iter().all(|index| message.protocols[usize::from(*index)] == "whep"));
        assert_eq!((message.workers.index, message.workers.sessions), (vec![0, 3], vec![3, 4]));
    }

    #[test]
    fn protocols_and_roles_are_the_numbers_that_the_message_has() {
        for (index, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol as usize, index, "{protocol:?}");
        }
        assert_eq!(
            (Role::Pending as u8, Role::Publisher as u8),
            (::stats::message::ROLE_PENDING, ROLE_PUBLISHER)
        );
        assert_eq!(Role::Player as u8, ROLE_PLAYER);
    }

    #[test]
    fn nothing_makes_an_empty_message() {
        let message = message([].iter(), 1, 2);
        assert_eq!((message.check(), message.sessions.serial.len()), (Ok(()), 0));
    }
}
