//! Once a second: rates from counters, for all rows at once.

use crate::stats::columns::Columns;
use worker_api::snapshot::Role;

impl Columns {
    /// Ends the sample: rates are those of the last `elapsed_ms`. Rows from `rows` on, which are vacant, are
    /// given up.
    pub(crate) fn sample(&mut self, elapsed_ms: u64, rows: usize) {
        self.resize(rows);
        let per_second = 1000.0 / elapsed_ms.max(1) as f64;
        let Self { stats, bytes_in, bytes_out, sampled_bytes, sampled_packets, .. } = self;
        for row in 0..stats.serial.len() {
            let role = stats.role[row];
            let bytes = if role == Role::Player { bytes_out[row] } else { bytes_in[row] };
            let fresh = bytes.saturating_sub(sampled_bytes[row]);
            let counts = if role == Role::Pending { 0.0 } else { 8.0 * per_second };
            sampled_bytes[row] = bytes;
            stats.bits_per_second[row] = (fresh as f64 * counts) as u64;
            let packets = stats.packets[row];
            let fresh = packets.saturating_sub(sampled_packets[row]);
            sampled_packets[row] = packets;
            stats.packets_per_second[row] = (fresh as f64 * per_second).round() as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ConnId;
    use worker_api::snapshot::{Protocol, SessionId};

    #[test]
    fn rates_are_of_the_direction_of_the_role() {
        let rows = [
            (Role::Pending, 0, 0), // what it says before it has a stream is no media
            (Role::Publisher, 8 * 3000, 20),
            (Role::Player, 8 * 5000, 20),
        ];
        let mut columns = Columns::default();
        for (row, (role, ..)) in rows.into_iter().enumerate() {
            columns.open(ConnId(row as u32), SessionId::new(0, row as u64 + 1), Protocol::Rtmp, 1);
            columns.received(ConnId(row as u32), 77);
            columns.sent(ConnId(row as u32), 99);
            columns.takes_role(ConnId(row as u32), role, 0);
            columns.received(ConnId(row as u32), 3000);
            columns.sent(ConnId(row as u32), 5000);
            if role != Role::Pending {
                columns.passed(ConnId(row as u32), 20);
            }
        }
        columns.sample(1000, 3);
        for (row, (role, bits, packets)) in rows.into_iter().enumerate() {
            let found = (columns.stats.bits_per_second[row], columns.stats.packets_per_second[row]);
            assert_eq!(found, (bits, packets), "{role:?}");
        }
        columns.sent(ConnId(2), 3000);
        columns.passed(ConnId(2), 11);
        columns.sample(1100, 3);
        assert_eq!((columns.stats.bits_per_second[2], columns.stats.packets_per_second[2]), (21_818, 10));
        assert_eq!((columns.stats.bits_per_second[1], columns.stats.packets_per_second[1]), (0, 0));
    }

    #[test]
    fn vacant_rows_at_the_end_are_given_up_and_come_back() {
        let mut columns = Columns::default();
        for row in 0..10 {
            columns.open(ConnId(row as u32), SessionId::new(0, row as u64 + 1), Protocol::Rtmp, 5);
        }
        (4..10).for_each(|row| columns.close(ConnId(row as u32)));
        columns.retire(ConnId(3));
        columns.sample(1000, 4);
        assert_eq!(
            (columns.stats.rows(), columns.stats.sessions()),
            (4, 3),
            "a session that is closing keeps its row"
        );
        columns.open(ConnId(7), SessionId::new(0, 11), Protocol::Rtmp, 5);
        assert_eq!(columns.stats.serial, [1, 2, 3, 0, 0, 0, 0, 11]);
    }
}
