//! The cost of reading, in requests and bytes.

/// Counted since the reader was made.
///
/// Each byte received is exactly one of used, skipped, wasted and buffered:
/// `bytes_received == bytes_used + bytes_skipped + bytes_wasted + bytes_buffered`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that the server has seen ([`ClientCounts::requests`](crate::http::ClientCounts)).
    pub requests: u64,
    /// Connections opened.
    pub connections: u64,
    /// Connections that broke or were refused and were tried again.
    pub retries: u64,
    /// Bytes of responses received.
    pub bytes_received: u64,
    /// Of those, bytes handed to the caller. Reading them again from memory does not count again.
    pub bytes_used: u64,
    /// Bytes received and dropped because they lay between two positions that were read.
    pub bytes_skipped: u64,
    /// Wasted bytes: of cancelled responses, and prefetched but not read.
    pub bytes_wasted: u64,
    /// Bytes in memory that have not been handed to the caller yet.
    pub bytes_buffered: u64,
    /// Seeks to a position that was not in memory yet.
    pub seeks: u64,
    /// Bytes fetched because of a learned pattern, as far as they have been read or dropped.
    pub bytes_predicted: u64,
    /// Of those, bytes that were not read.
    pub bytes_mispredicted: u64,
}

/// The argument of a progress callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Position of the reader in the file.
    pub position: u64,
    /// Length of the file, if known.
    pub total_bytes: Option<u64>,
    /// Counters so far.
    pub counters: Counters,
}
