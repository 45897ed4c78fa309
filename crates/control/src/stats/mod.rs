//! Live statistics: `GET /api/v1/stats` once, `GET /api/v1/stats/stream` every second by WebSocket.
//!
//! ```text
//! workers ─▶ bounded queue ─▶ collect.rs: one round of snapshots ─▶ merge.rs: one message ─▶ watch ─▶ all readers
//! ```
//!
//! A message is encoded when its first reader wants it, and all readers share the bytes. A reader
//! that is slow gets the newest message when it is ready for one, never a queue of old ones. The
//! access rule is that of the API (`access.rs`); schema in `::stats::message` and
//! docs/statistics.md.

mod accept;
mod collect;
mod handlers;
mod merge;
mod socket;

pub use collect::{Cost, StatsControl, collect};
pub(super) use handlers::{__path_stats, __path_stats_stream, stats, stats_stream};
pub(super) use socket::token_of_protocols;

/// Where the stream is.
pub(super) const STREAM_PATH: &str = "/api/v1/stats/stream";
/// Readers of the stream at the same time; further ones are answered 503. What one takes of memory
/// is a message.
pub const SUBSCRIBERS_MAX: usize = 64;

#[cfg(test)]
mod tests;
