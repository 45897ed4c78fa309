//! Keys of `[moq]`.

use crate::section::section;
use crate::value::Listen;

section! {
    /// Media over QUIC, an experiment: publishing and playing by WebTransport. See [moq.md](moq.md).
    Moq = "moq" {
        /// UDP addresses for MoQ, such as `["*:4443"]`, in a server that is built with the cargo feature
        /// `moq`; any other refuses them. `*` means every IPv4 and IPv6 address. Port 0 picks a
        /// free port. An empty list turns MoQ off. The certificate is that of `tls.certificate`; without
        /// it, one for trials is made, and its SHA-256 is printed.
        listen: Listen = Listen(Vec::new()),
        cost "A thread for all sessions, and one socket per address.";

        /// Sessions at a time; further clients are refused.
        sessions_max: i64 = 1_000, unit "sessions", range 1..=100_000,
        cost "Up to `group_max_bytes` of memory each and track.";

        /// A client of which nothing is heard for this long is over.
        silence_timeout_ms: i64 = 10_000, unit "ms", range 1_000..=600_000,
        cost "A longer time leaves the name of a stream taken after a publisher has crashed.";

        /// How far a subscriber may be behind before groups of pictures are left out for it.
        max_age_ms: i64 = 5_000, unit "ms", range 0..=60_000,
        cost "Memory for this much of a stream for each of its subscribers.";

        /// Most of one group of pictures. Video of a longer one goes on with the next key frame.
        group_max_bytes: i64 = 16_777_216, unit "bytes", range 65_536..=33_554_432,
        cost "This much memory for each subscriber and track, if key frames are far apart.";
    }
}
