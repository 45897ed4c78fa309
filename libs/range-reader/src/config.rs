//! Settings of a reader.

use std::time::Duration;

/// How a reader buffers, looks ahead and tries again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderConfig {
    /// Bytes already read that are kept, so that seeks back among them are free. Default 256 KiB.
    pub look_back_bytes: usize,
    /// Bytes fetched ahead of the reader and kept in memory. Default 2 MiB. When it is reached,
    /// nothing more is received. It may be exceeded by what the client takes from the socket at
    /// once, 512 KiB at most.
    pub window_bytes: usize,
    /// Learn patterns when there are no hints. Default true.
    pub learn: bool,
    /// Ranges of one request at most. Default 200, which common servers accept.
    pub ranges_per_request_max: usize,
    /// GetRequest for several ranges in one request when the server can. Default true.
    pub several_ranges: bool,
    /// Consecutive attempts without a new byte before a read fails. Default 5.
    pub tries_max: u32,
    /// First pause between attempts; it doubles each time. Default 200 ms.
    pub pause: Duration,
    /// Longest pause between attempts, also when a server asks for more. Default 10 s.
    pub pause_max: Duration,
    /// Time without any byte, over all attempts and pauses, after which a read fails. Default 30 s.
    pub silence_max: Duration,
    /// Answers that break off, or end before what was asked, after which a read fails. Default 32.
    /// Each MiB that comes takes one off, so that servers that never send more than that at once
    /// can be read; after [`silence_max`](Self::silence_max) without one they count from 0 again.
    pub cut_answers_max: u32,
    /// Longest file that is read, in bytes. Default: any.
    pub file_bytes_max: Option<u64>,
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self {
            look_back_bytes: 256 << 10,
            window_bytes: 2 << 20,
            learn: true,
            ranges_per_request_max: 200,
            several_ranges: true,
            tries_max: 5,
            pause: Duration::from_millis(200),
            pause_max: Duration::from_secs(10),
            silence_max: Duration::from_secs(30),
            cut_answers_max: 32,
            file_bytes_max: None,
        }
    }
}
