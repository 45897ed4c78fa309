//! Counters of sessions in columns: one array per figure, one element per session.
//!
//! A figure is written into its column where it is counted; nobody else keeps it. What reads all sessions at
//! once (rates, the statistics that leave the worker every second, gauges) therefore reads arrays from end to
//! end, and a copy of them is a few `memcpy`s instead of a walk over ten thousand sessions. The row of a
//! session is its index in the table that owns it: one set of columns stands beside the connections, another
//! beside the WebRTC sessions. How a copy leaves is in `outbox.rs`, what it consists of in
//! `worker_api::columns`.

mod collect;
mod outbox;
mod sample;

pub(crate) use outbox::Outbox;
#[cfg(test)]
use worker_api::columns::NO_STREAM;

use crate::ids::{FrameStreamId, PacketStreamId, TableId};
use worker_api::columns::SessionStats;
use worker_api::snapshot::{Protocol, Role, SessionId, SessionSnapshot};

/// `stream` of a session that has frames of the stream at `index`.
pub(crate) fn frames_reference(stream: FrameStreamId) -> u32 {
    stream.0 * 2
}

/// `stream` of a session that has packets of the stream at `index`.
pub(crate) fn packets_reference(stream: PacketStreamId) -> u32 {
    stream.0 * 2 + 1
}

/// The columns of one table of sessions.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    /// What a snapshot copies.
    pub(crate) stats: SessionStats,
    /// Bytes received.
    bytes_in: Vec<u64>,
    /// Bytes sent.
    bytes_out: Vec<u64>,
    /// Bytes in the direction of the role at the last sample.
    sampled_bytes: Vec<u64>,
    /// `stats.packets` at the last sample.
    sampled_packets: Vec<u64>,
    /// Packets that should have come from a publisher at the last sample, or [`NOT_YET`].
    sampled_expected: Vec<u64>,
}

/// `sampled_expected` before the first sample.
const NOT_YET: u64 = u64::MAX;

/// How packets of a publisher have arrived here so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    /// Packets sent, by their sequence numbers.
    pub(crate) expected_packets: u64,
    /// Those of them that came.
    pub(crate) arrived_packets: u64,
    /// Round trip, milliseconds; not a number when unknown.
    pub(crate) rtt_ms: f32,
    /// Interarrival jitter, milliseconds.
    pub(crate) jitter_ms: f32,
}

/// What a viewer's report says about how packets arrive there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reception {
    /// Packets lost in all.
    pub(crate) lost_packets: u64,
    /// Share lost, percent.
    pub(crate) loss_percent: f32,
    /// Round trip, milliseconds; not a number when unknown.
    pub(crate) rtt_ms: f32,
    /// Interarrival jitter, milliseconds; not a number when unknown.
    pub(crate) jitter_ms: f32,
}

impl Columns {
    /// A session begins at `row`.
    pub(crate) fn open(&mut self, row: impl TableId, id: SessionId, protocol: Protocol, now_ms: u64) {
        let row = row.index();
        if self.stats.rows() <= row {
            self.resize(row + 1);
        }
        self.reset(row);
        self.stats.serial[row] = id.serial();
        self.stats.protocol[row] = protocol;
        self.stats.opened_ms[row] = now_ms;
    }

    /// The session at `row` is over: nothing of it stays.
    pub(crate) fn close(&mut self, row: impl TableId) {
        self.reset(row.index());
    }

    fn reset(&mut self, row: usize) {
        self.stats.reset(row);
        for column in
            [&mut self.bytes_in, &mut self.bytes_out, &mut self.sampled_bytes, &mut self.sampled_packets]
        {
            column[row] = 0;
        }
        self.sampled_expected[row] = NOT_YET;
    }

    /// The session at `row` has ended and only sends its last bytes, which still count: statistics no longer
    /// list it.
    pub(crate) fn retire(&mut self, row: impl TableId) {
        self.stats.serial[row.index()] = 0;
    }

    /// What the session at `row` does from now on, with which stream. Its packets and what describes its
    /// reception and its queue restart.
    pub(crate) fn takes_role(&mut self, row: impl TableId, role: Role, stream: u32) {
        let row = row.index();
        let kept = (self.stats.serial[row], self.stats.protocol[row], self.stats.opened_ms[row]);
        self.stats.reset(row);
        (self.stats.serial[row], self.stats.protocol[row], self.stats.opened_ms[row]) = kept;
        self.stats.role[row] = role;
        self.stats.stream[row] = stream;
        self.sampled_packets[row] = 0;
        self.sampled_expected[row] = NOT_YET;
        self.sampled_bytes[row] = if role == Role::Player { self.bytes_out[row] } else { self.bytes_in[row] };
    }

    /// Bytes came in.
    pub(crate) fn received(&mut self, row: impl TableId, bytes: u64) {
        self.bytes_in[row.index()] += bytes;
    }

    /// Bytes went out.
    pub(crate) fn sent(&mut self, row: impl TableId, bytes: u64) {
        self.bytes_out[row.index()] += bytes;
    }

    /// Packets, or messages, went by in the direction of the role.
    pub(crate) fn passed(&mut self, row: impl TableId, packets: u64) {
        self.stats.packets[row.index()] += packets;
    }

    /// Packets, or messages, that went by since it has its role.
    #[cfg(feature = "simulated")]
    pub(crate) fn passed_by(&self, row: impl TableId) -> u64 {
        self.stats.packets[row.index()]
    }

    /// A report came.
    pub(crate) fn reported(&mut self, row: impl TableId, reception: Reception) {
        self.set_reception(row.index(), reception);
    }

    fn set_reception(&mut self, row: usize, reception: Reception) {
        self.stats.lost_packets[row] = reception.lost_packets;
        self.stats.loss_percent[row] = reception.loss_percent;
        self.stats.rtt_ms[row] = reception.rtt_ms;
        self.stats.jitter_ms[row] = reception.jitter_ms;
    }

    /// A publisher's packets have been looked at. Its loss is that of the time since the last look.
    pub(crate) fn arrived(&mut self, row: impl TableId, arrival: Arrival) {
        let row = row.index();
        let Arrival { expected_packets, arrived_packets, rtt_ms, jitter_ms } = arrival;
        let lost_packets = expected_packets.saturating_sub(arrived_packets);
        let before = std::mem::replace(&mut self.sampled_expected[row], expected_packets);
        let loss_percent = match expected_packets.checked_sub(before) {
            // The first look, a stream that restarted, or silence: there is no share of nothing.
            None | Some(0) => f32::NAN,
            Some(expected) => {
                let lost = lost_packets.saturating_sub(self.stats.lost_packets[row]).min(expected);
                lost as f32 * 100.0 / expected as f32
            }
        };
        self.set_reception(row, Reception { lost_packets, loss_percent, rtt_ms, jitter_ms });
    }

    /// Bytes received so far.
    pub(crate) fn bytes_in(&self, row: impl TableId) -> u64 {
        self.bytes_in[row.index()]
    }

    /// Bytes sent so far.
    pub(crate) fn bytes_out(&self, row: impl TableId) -> u64 {
        self.bytes_out[row.index()]
    }

    /// When the session was accepted, milliseconds.
    pub(crate) fn opened_ms(&self, row: impl TableId) -> u64 {
        self.stats.opened_ms[row.index()]
    }

    /// Publishers and players.
    pub(crate) fn publishers_and_players(&self) -> (u64, u64) {
        let count = |role| self.stats.role.iter().filter(|other| **other == role).count() as u64;
        (count(Role::Publisher), count(Role::Player))
    }

    /// The figures of the session at `row` for the API; the other fields stay empty.
    pub(crate) fn session_snapshot(
        &self,
        row: impl TableId,
        id: SessionId,
        address: std::net::SocketAddr,
        now_ms: u64,
    ) -> SessionSnapshot {
        let row = row.index();
        let stats = &self.stats;
        SessionSnapshot {
            id,
            role: stats.role[row],
            protocol: stats.protocol[row],
            stream: None,
            address,
            connected_ms: now_ms - stats.opened_ms[row],
            bytes_in: self.bytes_in[row],
            bytes_out: self.bytes_out[row],
            bits_per_second: stats.bits_per_second[row],
            queue_bytes: stats.queue_bytes[row],
            queue_ms: stats.queue_ms[row],
            dropped_frames: stats.dropped_frames[row],
            user_agent: None,
            rtc: None,
            srt: None,
        }
    }

    fn resize(&mut self, rows: usize) {
        self.stats.resize(rows);
        for column in
            [&mut self.bytes_in, &mut self.bytes_out, &mut self.sampled_bytes, &mut self.sampled_packets]
        {
            column.resize(rows, 0);
        }
        self.sampled_expected.resize(rows, NOT_YET);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConnId;

    fn one(role: Role) -> Columns {
        let mut columns = Columns::default();
        columns.open(ConnId(2), SessionId::new(3, 7), Protocol::Whep, 500);
        columns.takes_role(ConnId(2), role, 4);
        columns
    }

    #[test]
    fn a_row_is_empty_before_and_after_its_session() {
        let mut columns = one(Role::Player);
        columns.sent(ConnId(2), 10);
        columns.passed(ConnId(2), 3);
        columns.reported(
            ConnId(2),
            Reception { lost_packets: 1, loss_percent: 2.0, rtt_ms: 3.0, jitter_ms: 4.0 },
        );
        assert_eq!(columns.stats.serial, [0, 0, 7]);
        assert_eq!(
            (columns.stats.stream[2], columns.opened_ms(ConnId(2)), columns.bytes_out(ConnId(2))),
            (4, 500, 10)
        );
        columns.close(ConnId(2));
        let mut untouched = Columns::default();
        untouched.resize(3);
        assert_eq!(format!("{columns:?}"), format!("{untouched:?}"));
    }

    #[test]
    fn the_next_session_of_a_row_inherits_nothing() {
        let mut columns = one(Role::Publisher);
        columns.received(ConnId(2), 10);
        columns.retire(ConnId(2));
        columns.received(ConnId(2), 5);
        assert_eq!(
            (columns.stats.serial[2], columns.bytes_in(ConnId(2))),
            (0, 15),
            "its last bytes count for its log line"
        );
        columns.open(ConnId(2), SessionId::new(3, 8), Protocol::Rtmp, 900);
        assert_eq!(
            (columns.stats.serial[2], columns.bytes_in(ConnId(2)), columns.stats.role[2]),
            (8, 0, Role::Pending)
        );
        assert_eq!(columns.stats.stream[2], NO_STREAM);
    }

    #[test]
    fn a_publishers_loss_is_that_of_the_last_second() {
        let mut columns = one(Role::Publisher);
        let rows = [
            (1000, 900, 100, None), // what was before it is not its doing
            (1100, 995, 105, Some(5.0)),
            (1100, 995, 105, None), // nothing came, nothing is known
            (1110, 1005, 105, Some(0.0)),
            (1120, 1020, 100, Some(0.0)), // what was late came
            (1121, 1020, 101, Some(100.0)),
            (50, 50, 0, None), // its sequence numbers started over
        ];
        for (expected_packets, arrived_packets, lost, percent) in rows {
            let arrival = Arrival { expected_packets, arrived_packets, rtt_ms: 20.0, jitter_ms: 1.5 };
            columns.arrived(ConnId(2), arrival);
            let stats = &columns.stats;
            let found = Some(stats.loss_percent[2]).filter(|percent| !percent.is_nan());
            assert_eq!(
                (stats.lost_packets[2], found),
                (lost, percent),
                "{expected_packets} {arrived_packets}"
            );
            assert_eq!((stats.rtt_ms[2], stats.jitter_ms[2]), (20.0, 1.5));
        }
    }

    #[test]
    fn roles_are_counted_from_their_column() {
        let mut columns = one(Role::Player);
        columns.open(ConnId(0), SessionId::new(3, 8), Protocol::Rtmp, 900);
        columns.open(ConnId(5), SessionId::new(3, 9), Protocol::Rtmp, 900);
        columns.takes_role(ConnId(5), Role::Publisher, 0);
        assert_eq!(columns.publishers_and_players(), (1, 1));
        columns.takes_role(ConnId(5), Role::Pending, NO_STREAM);
        assert_eq!(columns.publishers_and_players(), (0, 1));
    }
}
