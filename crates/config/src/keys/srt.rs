//! Keys of `[srt]` and `[[srt.stream]]`.

use crate::section::section;
use crate::value::{Listen, UdpBackendChoice};

section! {
    /// SRT: publishing and playing as MPEG-TS. See [srt.md](srt.md).
    Srt = "srt" {
        /// Addresses for SRT, UDP. `*` means every IPv4 and IPv6 address. All workers share the port;
        /// port 0 picks a free one. An empty list turns SRT off.
        listen: Listen = Listen::everywhere(8890),
        cost "One socket per address of this machine and worker.";

        /// Least delay between an encoder's packet and its use here, and between a packet from here and
        /// a player's use of it. A caller may ask for more. Lost packets are sent again within that
        /// time: three or four times the round trip does where a few percent are lost.
        latency_ms: i64 = 120, unit "ms", range 0..=65_535,
        cost "This much delay, and memory for this much of each stream.";

        /// Most delay of what is received: a caller that asks for more gets this.
        latency_max_ms: i64 = 8_000, unit "ms", range 0..=65_535,
        cost "A caller can have this much of its stream kept.";

        /// What publishers and players of streams that no `[[srt.stream]]` matches encrypt with, 10 to
        /// 80 characters. Empty: in clear.
        passphrase: String = String::new(), secret true,
        cost "Encryption of each packet for each player, and half a millisecond of CPU per handshake.";

        /// Sessions per worker; further callers are refused.
        sessions_per_worker: i64 = 1_000, unit "sessions", range 1..=1_000_000,
        cost "Up to `buffer_max_bytes` of memory each, in practice the delay's worth of the stream.";

        /// Sessions per worker of which nothing has come since they were accepted; with more, callers
        /// are refused.
        pending_per_worker: i64 = 256, unit "sessions", range 1..=1_000_000,
        cost "Callers that vanish after the handshake hold this many places for \
            `silence_timeout_ms`.";

        /// The same of one address (IPv6: /64), on all workers.
        pending_per_address: i64 = 64, unit "sessions", range 1..=1_000_000,
        cost "More callers at once behind one address that lose their first packets are refused.";

        /// Sessions that one address (IPv6: /64) may ask for in a second, on average; twice as many at
        /// once. 0 sets no limit.
        handshakes_per_second: i64 = 20, unit "per second", range 0..=1_000_000,
        cost "With a passphrase, half a millisecond of a worker's time each.";

        /// A session whose peer sends nothing for this long is over. Peers send something every second.
        silence_timeout_ms: i64 = 5_000, unit "ms", range 1_000..=600_000,
        cost "A longer time leaves the name of a stream taken after an encoder has crashed.";

        /// Bytes of received packets that a session may hold.
        buffer_max_bytes: i64 = 8_388_608, unit "bytes", range 65_536..=1_073_741_824,
        cost "This much memory per publisher that sends much and loses much.";

        /// Most that is sent to one player. Streams need less; it spreads what a player begins with.
        player_max_kbps: i64 = 100_000, unit "kbit/s", range 1_000..=100_000_000,
        cost "More fills the buffers of players and of switches at once.";

        /// How datagrams are sent: as `rtc.udp_backend`, without `af_xdp`.
        udp_backend: UdpBackendChoice = UdpBackendChoice::Auto,
        cost "CPU per packet.";
    }
}

section! {
    /// Passphrases of streams, in order; the first that matches decides.
    SrtStream = "srt.stream" {
        /// Pattern over `app/stream`, such as `"live/*"`; `*` matches any characters.
        stream: String = String::new(),
        cost "None.";

        /// What publishers encrypt with, 10 to 80 characters. Empty: they send in clear.
        publish_passphrase: String = String::new(), secret true,
        cost "Publishers without it are refused.";

        /// What players decrypt with, 10 to 80 characters. Empty: they get it in clear.
        play_passphrase: String = String::new(), secret true,
        cost "Encryption of each packet for each player; players without it are refused.";
    }
}
