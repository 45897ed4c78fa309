//! What reading has cost.

/// Counted since the reader was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent.
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections that broke or were refused and were tried again.
    pub retries: u64,
    /// Bytes of answers received.
    pub bytes_received: u64,
    /// Different bytes handed to the caller.
    pub bytes_used: u64,
    /// Bytes received and dropped because they lay between two places that were read.
    pub bytes_skipped: u64,
    /// Bytes received for nothing: of answers that were given up, and fetched ahead and not read.
    pub bytes_wasted: u64,
    /// Seeks that began at a place which was not here yet.
    pub seeks: u64,
    /// Ranges fetched because a pattern had been learned; of them, those that were not read.
    pub predicted: u64,
    /// See `predicted`.
    pub mispredicted: u64,
}

/// What a progress callback is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Position of the reader in the file.
    pub position: u64,
    /// Length of the file, if known.
    pub total_bytes: Option<u64>,
    /// Counters so far.
    pub counters: Counters,
}
