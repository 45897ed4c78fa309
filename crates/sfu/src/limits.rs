//! How much a stream of packets may keep, and what happens beyond.
//!
//! What a user may want to change is in [`Limits`]; what follows from the protocols stands as
//! constants beside the code that uses it.

use std::time::Duration;

/// Tracks of one stream, half of them audio and half video. A publisher's further ones are left
/// out. Each costs memory only if there is one.
pub const TRACKS_MAX: usize = 128;

/// Simulcast layers of one track. Further ones are not received.
pub const LAYERS_MAX: usize = 4;

/// Limits of one stream on one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// How long a packet can be sent again. Default 1.5 s.
    ///
    /// Costs its bitrate: 1.5 s of 2 Mbit/s are 375 kB for each track, whatever the number of
    /// viewers.
    pub history_duration: Duration,
    /// Packets of one track kept for sending again. Default 4096. The oldest go first.
    pub history_packets_max: usize,
    /// Memory of the packets of one track kept for sending again. Default 8 MiB. The oldest go first.
    pub history_bytes_max: usize,
    /// Whether packets are kept from the newest key frame on, so that a new viewer has a picture at
    /// once. Default yes; without it, each new viewer asks the publisher for a key frame (which
    /// happens twice a second at most).
    pub gop_cache: bool,
    /// Oldest key frame a new viewer begins with. Default 10 s. An older one is not offered: a new
    /// one is asked for.
    pub gop_duration_max: Duration,
    /// Packets from the newest key frame on. Default 8192. Beyond, it is not offered.
    pub gop_packets_max: usize,
    /// Memory of the packets from the newest key frame on. Default 8 MiB. Beyond, it is not offered.
    pub gop_bytes_max: usize,
    /// Viewers of this stream on this worker. Default 20,000. Beyond, joining is refused.
    pub viewers_max: usize,
    /// Whether packets of a frame that are one byte shorter than its longest get one byte of
    /// padding, so that they leave as one run of equal datagrams. Default no.
    pub equalise_runs: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            history_duration: Duration::from_millis(1_500),
            history_packets_max: 4_096,
            history_bytes_max: 8 << 20,
            gop_cache: true,
            gop_duration_max: Duration::from_secs(10),
            gop_packets_max: 8_192,
            gop_bytes_max: 8 << 20,
            viewers_max: 20_000,
            equalise_runs: false,
        }
    }
}
