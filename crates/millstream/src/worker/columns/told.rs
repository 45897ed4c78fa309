//! The columns that leave the worker: what is told about each session once a second.
//!
//! Every column has as many elements as the table of sessions has had rows; a row whose serial number is 0 is vacant.

use crate::worker::link::Listed;
use crate::worker::snapshot::{Protocol, Role, SessionId};

/// `stream` of a session that has none.
pub const NO_STREAM: u32 = u32::MAX;

/// Declares the columns once: their type, and what a vacant row holds.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $vacant:expr;)*) => {
        /// See the module.
        #[derive(Debug, Default)]
        pub struct Told {
            $($(#[$doc])* pub $name: Vec<$type>,)*
        }

        impl Told {
            /// Makes the columns `rows` long; new rows are vacant.
            pub(crate) fn resize(&mut self, rows: usize) {
                $(self.$name.resize(rows, $vacant);)*
            }

            /// Makes a row vacant.
            pub(super) fn reset(&mut self, row: usize) {
                $(self.$name[row] = $vacant;)*
            }

            /// Takes all rows away; the memory stays.
            pub(super) fn clear(&mut self) {
                $(self.$name.clear();)*
            }

            /// Appends all rows of `other`.
            pub(in crate::worker) fn append_copy(&mut self, other: &Self) {
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

impl Told {
    /// Rows, vacant ones included.
    pub fn rows(&self) -> usize {
        self.serial.len()
    }

    /// Rows of the sessions that are listed, of those that are not over.
    pub(in crate::worker) fn listed(&self, worker: usize, listed: &Listed) -> impl Iterator<Item = usize> {
        let is_listed = move |serial: u64| match listed {
            Listed::Nothing => false,
            Listed::All => true,
            Listed::Only(ids) => ids.binary_search(&SessionId::new(worker, serial)).is_ok(),
        };
        let rows = self.serial.iter().enumerate();
        rows.filter_map(move |(row, serial)| (*serial != 0 && is_listed(*serial)).then_some(row))
    }

    /// Sessions.
    #[cfg(test)]
    pub fn sessions(&self) -> usize {
        self.serial.iter().filter(|serial| **serial != 0).count()
    }
}
