//! Messages for tests: any number of workers, streams and sessions, the same each time.
//!
//! Session `i` has the id `i % workers`-`i`, plays stream `i % streams` (the first of each stream
//! publishes it), and goes by protocol `i % 3`; figures grow with `i`.

use stats::message::{
    NO_STREAM, ROLE_PENDING, ROLE_PLAYER, ROLE_PUBLISHER, Sessions, StatsMessage, Streams, VERSION, Workers,
};

/// Noon of a day in 2026.
const TIME_MS: u64 = 1_795_262_400_000;

/// The message of these numbers.
pub(crate) fn message(workers: u16, streams: u32, sessions: u32) -> StatsMessage {
    StatsMessage {
        version: VERSION,
        sequence: 1,
        time_ms: TIME_MS,
        interval_ms: 1000,
        protocols: ["rtmp", "whep", "http-flv"].map(str::to_owned).to_vec(),
        workers: workers_of(workers, sessions),
        streams: streams_of(streams, sessions),
        sessions: sessions_of(workers, streams, sessions),
    }
}

/// The message `seconds` after `first`: time has passed, and bit rates have moved a little.
pub(crate) fn later(first: &StatsMessage, seconds: u64) -> StatsMessage {
    let mut message = first.clone();
    message.sequence += seconds;
    message.time_ms += seconds * 1000;
    for (row, rate) in message.sessions.bits_per_second.iter_mut().enumerate() {
        *rate += (seconds + row as u64) % 7 * 50_000;
    }
    for rate in &mut message.streams.bits_out_per_second {
        *rate += seconds % 5 * 1_000_000;
    }
    message.sessions.connected_ms.iter_mut().for_each(|ms| *ms += seconds * 1000);
    message
}

fn workers_of(workers: u16, sessions: u32) -> Workers {
    let each = sessions / u32::from(workers.max(1));
    Workers {
        index: (0..workers).collect(),
        load_percent: (0..workers).map(|worker| 12.5 + f32::from(worker) * 25.0).collect(),
        sessions: vec![each; workers.into()],
        snapshot_us: vec![each / 50; workers.into()],
        bits_in_per_second: vec![2_500_000; workers.into()],
        bits_out_per_second: vec![u64::from(each) * 2_500_000; workers.into()],
    }
}

fn streams_of(streams: u32, sessions: u32) -> Streams {
    let players = |stream| (sessions / streams + u32::from(sessions % streams > stream)).saturating_sub(1);
    Streams {
        name: (0..streams).map(|stream| format!("live/cam{stream:03}")).collect(),
        live: (0..streams).map(|stream| stream % 5 != 4).collect(),
        publisher_worker: (0..streams).map(|stream| if stream % 5 == 4 { -1 } else { 0 }).collect(),
        players: (0..streams).map(players).collect(),
        bits_in_per_second: (0..streams).map(|stream| if stream % 5 == 4 { 0 } else { 2_500_000 }).collect(),
        bits_out_per_second: (0..streams).map(|stream| u64::from(players(stream)) * 2_500_000).collect(),
    }
}

fn sessions_of(workers: u16, streams: u32, sessions: u32) -> Sessions {
    let rows = || (0..sessions).map(u64::from);
    let by_webrtc = |row: u32| row % 3 == 1;
    let measured = |row: u32, value: f32| if by_webrtc(row) { value } else { f32::NAN };
    let role = |row: u32| match row {
        _ if streams == 0 => ROLE_PENDING,
        row if row < streams => ROLE_PUBLISHER,
        _ => ROLE_PLAYER,
    };
    Sessions {
        worker: (0..sessions).map(|row| (row % u32::from(workers)) as u16).collect(),
        serial: rows().collect(),
        stream: (0..sessions).map(|row| row.checked_rem(streams).unwrap_or(NO_STREAM)).collect(),
        role: (0..sessions).map(role).collect(),
        protocol: (0..sessions).map(|row| (row % 3) as u8).collect(),
        connected_ms: rows().map(|row| 1000 + row * 700).collect(),
        bits_per_second: rows().map(|row| 2_000_000 + row * 100).collect(),
        packets: rows().map(|row| row * 300).collect(),
        packets_per_second: (0..sessions).map(|row| 200 + row % 100).collect(),
        lost_packets: (0..sessions).map(|row| if by_webrtc(row) { u64::from(row) } else { 0 }).collect(),
        loss_percent: (0..sessions).map(|row| measured(row, (row % 80) as f32 / 10.0)).collect(),
        rtt_ms: (0..sessions).map(|row| measured(row, 5.0 + (row % 300) as f32)).collect(),
        jitter_ms: (0..sessions).map(|row| measured(row, (row % 30) as f32 / 2.0)).collect(),
        queue_bytes: rows().map(|row| row % 10 * 70_000).collect(),
        queue_ms: (0..sessions).map(|row| row % 10 * 130).collect(),
        dropped_frames: rows().map(|row| row % 4 * 6).collect(),
    }
}
