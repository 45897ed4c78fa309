//! The columns that leave a worker once a second: what is known about each session, one array per figure.
//!
//! Every column has as many elements as the table of sessions has had rows; a row whose serial number is 0 is vacant.

use std::sync::Arc;

use crate::command::Listed;
use crate::snapshot::{Protocol, Role, SessionId};

/// `stream` of a session that has none.
pub const NO_STREAM: u32 = u32::MAX;

/// Declares the columns once: their type, and what a vacant row holds.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $vacant:expr;)*) => {
        /// What the statistics say of each session, a column for each figure.
        #[derive(Debug, Default)]
        pub struct SessionStats {
            $($(#[$doc])* pub $name: Vec<$type>,)*
        }

        impl SessionStats {
            /// Makes the columns `rows` long; new rows are vacant.
            pub fn resize(&mut self, rows: usize) {
                $(self.$name.resize(rows, $vacant);)*
            }

            /// Makes a row vacant.
            pub fn reset(&mut self, row: usize) {
                $(self.$name[row] = $vacant;)*
            }

            /// Takes all rows away; the memory stays.
            pub fn clear(&mut self) {
                $(self.$name.clear();)*
            }

            /// Appends all rows of `other`.
            pub fn append_copy(&mut self, other: &Self) {
                $(self.$name.extend_from_slice(&other.$name);)*
            }
        }
    };
}

columns! {
    /// Number of the session on its worker; 0 where the row is vacant.
    serial: u64 = 0;
    /// Its stream, as `StreamRow::reference` has it.
    stream: u32 = NO_STREAM;
    /// What it does.
    role: Role = Role::Pending;
    /// How it came in.
    protocol: Protocol = Protocol::Rtmp;
    /// When it was accepted, in milliseconds of the worker's clock.
    opened_ms: u64 = 0;
    /// Bits of the last second, in the direction of its role.
    bits_per_second: u64 = 0;
    /// RTP packets (sent again ones left out) or messages of RTMP and FLV in that direction, so far.
    packets: u64 = 0;
    /// The same in the last second.
    packets_per_second: u32 = 0;
    /// WebRTC: packets lost in all.
    lost_packets: u64 = 0;
    /// WebRTC: share lost, percent, in the last second or report; not a number when unknown.
    loss_percent: f32 = f32::NAN;
    /// WebRTC: round trip, milliseconds; not a number when unknown.
    rtt_ms: f32 = f32::NAN;
    /// WebRTC: interarrival jitter, milliseconds; not a number when unknown.
    jitter_ms: f32 = f32::NAN;
    /// Player: bytes waiting for it, at the last sample.
    queue_bytes: u64 = 0;
    /// Player: time between the arrival of what it gets next and of the newest message, milliseconds, at the last sample.
    queue_ms: u32 = 0;
    /// Player: frames it did not get because it was too slow.
    dropped_frames: u64 = 0;
}

impl SessionStats {
    /// Rows, vacant ones included.
    pub fn rows(&self) -> usize {
        self.serial.len()
    }

    /// Rows of the sessions that are listed, of those that are not over.
    pub fn listed(&self, worker: usize, listed: &Listed) -> impl Iterator<Item = usize> {
        let is_listed = move |serial: u64| match listed {
            Listed::Nothing => false,
            Listed::All => true,
            Listed::Only(ids) => ids.binary_search(&SessionId::new(worker, serial)).is_ok(),
        };
        let rows = self.serial.iter().enumerate();
        rows.filter_map(move |(row, serial)| (*serial != 0 && is_listed(*serial)).then_some(row))
    }

    /// Sessions.
    pub fn sessions(&self) -> usize {
        self.serial.iter().filter(|serial| **serial != 0).count()
    }
}

/// Snapshots that may wait for the control side, per worker: the queue is one for all workers and has this many places for
/// each of them, so that one may have more in it while another's are dropped. With the queue full the newest is dropped and
/// counted. As many used ones of a worker may be on their way back.
pub const SNAPSHOTS_MAX: usize = 2;

/// A worker's columns at one moment.
#[derive(Debug, Default)]
pub struct StatsSnapshot {
    /// Index of the worker.
    pub worker: usize,
    /// The moment, in milliseconds of the worker's clock.
    pub now_ms: u64,
    /// CPU time of the last second, percent of a core.
    pub load_percent: f32,
    /// Bytes received in the last second, on all sockets.
    pub bytes_in_per_second: u64,
    /// Bytes sent in the last second, on all sockets.
    pub bytes_out_per_second: u64,
    /// CPU time the worker took for this snapshot: rates, queues and the copy, microseconds.
    pub took_us: u32,
    /// Sessions: first the rows of connections, then those of WebRTC.
    pub sessions: SessionStats,
    /// Streams that the worker knows; one that has frames and packets here is in it twice.
    pub streams: Vec<StreamRow>,
}

/// One stream of a snapshot.
#[derive(Debug, Clone)]
pub struct StreamRow {
    /// What `sessions.stream` has for it.
    pub reference: u32,
    /// `app/name`.
    pub name: Arc<str>,
    /// Whether media comes in, from wherever.
    pub live: bool,
    /// Whether its publisher is a session of this worker.
    pub has_publisher: bool,
    /// Players on this worker.
    pub players: u32,
}

impl StatsSnapshot {
    /// Makes it empty; its buffers stay.
    pub fn clear(&mut self) {
        self.sessions.clear();
        self.streams.clear();
    }
}

/// What became of a worker's snapshots so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxCounters {
    /// Snapshots made.
    pub made: u64,
    /// Those of them that were dropped because the control side was behind.
    pub dropped: u64,
    /// CPU time they took, microseconds.
    pub took_us: u64,
    /// CPU time the last one took, microseconds.
    pub last_us: u32,
}
