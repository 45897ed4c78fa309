//! What sessions count while they work.

use crate::stats::{Times, counted};
use crate::tally::Count;

/// Counters that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
    /// `read` calls that returned bytes.
    pub reads: u64,
    /// `write` calls that took bytes.
    pub writes: u64,
    /// Datagrams of media received by players; none by TCP.
    pub packets: u64,
    /// Media received by players.
    pub media_received: Count,
    /// Media handed to publishers' sockets.
    pub media_sent: Count,
}

counted!(Traffic { bytes_in, bytes_out, reads, writes, packets, media_received, media_sent });

/// Everything sessions count while they work.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Counters that only grow.
    pub traffic: Traffic,
    /// Latencies since the last status.
    pub latency: Times,
    /// Times from connecting to the first frame.
    pub first_frame: Times,
    /// How late publishers' messages were sent: the generator's own health.
    pub send_lateness: Times,
}

impl std::ops::Deref for Counters {
    type Target = Traffic;

    fn deref(&self) -> &Traffic {
        &self.traffic
    }
}

impl std::ops::DerefMut for Counters {
    fn deref_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }
}
