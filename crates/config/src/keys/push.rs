//! Keys of `[pushes]` and `[[push]]`.

use crate::section::section;

section! {
    /// Limits of `[[push]]`: streams that are sent on to other servers. Addresses, certificates,
    /// the time to connect and the pauses before retries are those of `[sources]`. See
    /// [pushes.md](pushes.md).
    PushLimits = "pushes" {
        /// `[[push]]` entries and those of the API; further ones get 409.
        rules_max: i64 = 100, unit "pushes", range 0..=100_000,
        cost "Each is compared with each stream that begins.";

        /// Streams that are sent at the same time, counted once for each target.
        active_max: i64 = 1_000, unit "streams", range 0..=100_000,
        cost "The bandwidth of each. One thread sends all of them and encrypts TLS.";

        /// Bytes of frames that may wait for one target. When they are more, all are left out, and
        /// the target gets the stream from the next key frame on.
        queue_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "So much memory for each target that is too slow.";

        /// Longest time that a frame may wait; then as above.
        queue_max_ms: i64 = 5_000, unit "ms", range 100..=600_000,
        cost "A slow target is up to this much later.";

        /// A target that takes nothing for this long is disconnected and retried.
        stall_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "A longer time leaves viewers at a dead target without a picture for longer.";
    }
}

section! {
    /// Live streams of this server that are sent on to other servers, each for as long as it is
    /// published. A stream may have several; more can be added over the API.
    PushEntry = "push" {
        /// Which streams, as a pattern of `app/stream`: `*` stands for any run of characters.
        stream: String = String::new(),
        cost "None.";

        /// Where to: `rtmp://`, `rtmps://`, `rtsp://`, `rtsps://`, `whip://` and `whips://` (WHIP
        /// over HTTP and HTTPS), `srt://` (MPEG-TS, as a caller) or `udp://` (MPEG-TS to an address
        /// or a multicast group). `{app}` and `{stream}` stand for the names of the stream. User
        /// name, password, query, and a stream key at its end, are used and not shown.
        url: String = String::new(), secret true,
        cost "The bandwidth of each stream, for as long as it is published.";

        /// Bearer token that a WHIP endpoint wants. Empty: none.
        token: String = String::new(), secret true,
        cost "None.";
    }
}
