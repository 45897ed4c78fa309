//! Keys of the limits of peers and of the server.

use crate::section::section;

section! {
    /// Limits that keep one peer from harming the others.
    Limits = "limits" {
        /// Sessions per worker; further connections are closed at once.
        sessions_per_worker: i64 = 50_000, unit "sessions", range 1..=4_000_000,
        cost "A playing session takes about 12 kB in addition to kernel socket buffers, and one \
            file descriptor (`ulimit -n`).";

        /// Connections of one client address (IPv6: /64) at a time, over all workers; WebRTC sessions
        /// and callers by SRT count as well. Further ones are closed at once, or refused by WHIP and
        /// WHEP with 429. 0: any.
        connections_per_address: i64 = 0, unit "connections", range 0..=1_000_000,
        cost "Behind one address there may be a whole company, or all who come through a proxy.";

        /// Connections, WebRTC sessions and callers by SRT that one client address (IPv6: /64) may
        /// open in a second, on average; twice as many at once. 0: any.
        connects_per_second_per_address: i64 = 0, unit "connections/s", range 0..=1_000_000,
        cost "As for `connections_per_address`; players by HLS without keep-alive connect for each \
            segment.";

        /// Sessions that publish or play with one token at a time, over all workers. Further ones are
        /// refused by their protocols' own words. Viewers by HLS and DASH, who have no sessions, and
        /// those by MoQ are not counted. 0: any.
        connections_per_token: i64 = 0, unit "sessions", range 0..=1_000_000,
        cost "A token that is meant for many clients is for so many of them.";

        /// Sessions that may begin with one token in a second, on average; twice as many at once. 0:
        /// any.
        connects_per_second_per_token: i64 = 0, unit "sessions/s", range 0..=1_000_000,
        cost "Clients that come back after an interruption come at once.";

        /// What the sessions with one token send and receive in all, measured each second, from which
        /// on there are no more of them; who is there goes on. 0: any.
        kbps_per_token: i64 = 0, unit "kbit/s", range 0..=100_000_000,
        cost "A sum for each session and second. Those who come within the same two seconds are let in.";

        /// The same for one client address (IPv6: /64).
        kbps_per_address: i64 = 0, unit "kbit/s", range 0..=100_000_000,
        cost "As for `kbps_per_token`, and for `connections_per_address`.";

        /// Load of a worker from which on it takes no more players, percent of a core, measured over
        /// the last two seconds. They are refused by their protocol's own words, or sent to another
        /// node (`cluster.redirect`); who plays goes on. 0: never.
        load_percent: i64 = 90, unit "percent of a core", range 0..=100,
        cost "With more, players that are there get their media later when a key frame goes to all of \
            them; with less, some of each core is never used.";

        /// The same for publishers, which are refused last: never below `load_percent`. 0: never.
        publisher_load_percent: i64 = 97, unit "percent of a core", range 0..=100,
        cost "A publisher that is refused has no players at all.";

        /// Length of a worker's turns (the p99 of a second, in two seconds) from which on it takes no
        /// more players. 0: never.
        loop_time_ms: i64 = 250, unit "ms", range 0..=60_000,
        cost "Long turns are also what other programs on the same core cause.";

        /// How long media waits beyond its time before it is sent (the longest of a second, in two
        /// seconds) from which on a worker takes no more players. 0: never.
        send_delay_ms: i64 = 250, unit "ms", range 0..=60_000,
        cost "As for `loop_time_ms`.";

        /// What the workers send in all, in Mbit/s of media, from which on there are no more players:
        /// players, pushes and other nodes, without VOD and HLS over HTTP/2. Set it to what the line
        /// carries, less a tenth for headers. 0: any.
        egress_mbit: i64 = 0, unit "Mbit/s", range 0..=10_000_000,
        cost "A line that is full loses packets of all who use it.";

        /// Memory of the process (resident) that it should not exceed. With a seventh of it left,
        /// caches of key frames shrink and idle connections are closed; with a twentieth left,
        /// players are refused; then publishers. 0: any.
        memory_bytes: i64 = 0, unit "bytes", range 0..=1_099_511_627_776,
        cost "Who is there may still need more: leave room below the limit of a container.";

        /// Time allowed from accept to a publish or play command, or to a complete HTTP request
        /// head; then the connection is closed.
        handshake_timeout_ms: i64 = 10_000, unit "ms", range 100..=600_000,
        cost "A longer time lets idle connections hold their slot and up to 64 kB longer.";

        /// A publisher that sends no byte for this long is closed, and its stream waits for a new one;
        /// so is one by SRT of whose packets no frame of audio or video can be read for this long.
        publisher_idle_timeout_ms: i64 = 30_000, unit "ms", range 1_000..=3_600_000,
        cost "A longer time leaves players with a dead publisher; a shorter one ends publishers on \
            bad networks.";

        /// Largest RTMP message accepted from a publisher.
        message_max_bytes: i64 = 8_388_608, unit "bytes", range 4_096..=16_777_215,
        cost "A publisher can make the server hold this much for a message in progress.";

        /// Characters accepted in the names of applications and streams besides letters and digits
        /// of any script and `-_.~+@:`. `" %"`, for example, accepts spaces and percent signs. Control
        /// characters, invisible ones, `\`, `?` and `#` cannot be accepted, `/` only divides an
        /// application, and no part of a name may begin with a dot.
        name_extra_characters: String = String::new(),
        cost "Names appear in URLs, logs, metrics and scripts: whatever reads them must expect these \
            characters.";

        /// Frames that fit in the ring between two workers; when full, frames are dropped up to the
        /// next key frame.
        ring_frames: i64 = 4_096, unit "frames", range 64..=1_048_576,
        cost "16 bytes per frame and ordered pair of workers, allocated at start; the frames \
            themselves are shared.";

        /// Data the kernel holds unsent for a player before it reports the socket as full
        /// (`TCP_NOTSENT_LOWAT`).
        socket_unsent_bytes: i64 = 131_072, unit "bytes", range 4_096..=16_777_216,
        cost "Larger values take more kernel memory per slow player and cause fewer wake-ups.";

        /// Send buffer of player sockets (`SO_SNDBUF`). 0 leaves the kernel's automatic sizing.
        socket_send_buffer_bytes: i64 = 0, unit "bytes", range 0..=67_108_864,
        cost "A fixed size bounds kernel memory per player and caps throughput at this many bytes \
            per round trip.";
    }
}
