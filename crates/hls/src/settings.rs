//! How much a window keeps.

use media::Timestamp;

/// Settings and limits of a [`Window`](crate::Window).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Complete segments that playlists list, at least. Default 6.
    ///
    /// More are listed where that is less than three target durations (RFC 8216bis section 6.2.2).
    pub segments: usize,
    /// Time that playlists list, at least. Default zero: [`Settings::segments`] decides.
    pub listed: Timestamp,
    /// How long segments stay after they left the playlist. Default 8 s.
    pub grace: Timestamp,
    /// Bytes of a rendition in memory. Default 64 MiB; the oldest segments go early when there is no more
    /// room, or to disk.
    pub bytes: usize,
    /// Whether older segments go to disk ([`Window::to_store`](crate::Window::to_store)). Default no.
    pub stores: bool,
    /// Bytes of segments from disk that are kept for those who ask. Default 32 MiB.
    pub recalled_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            segments: 6,
            listed: Timestamp::ZERO,
            grace: Timestamp::from_millis(8_000),
            bytes: 64 << 20,
            stores: false,
            recalled_bytes: 32 << 20,
        }
    }
}
