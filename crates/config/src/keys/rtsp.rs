//! Keys of `[rtsp]` and `[rtsps]`.

use crate::section::section;
use crate::value::{Listen, UdpBackendChoice};

section! {
    /// RTSP: publishing and playing as RTP. See [rtsp.md](rtsp.md).
    Rtsp = "rtsp" {
        /// Addresses for RTSP. `*` means every IPv4 and IPv6 address. Port 0 picks a free port. An
        /// empty list turns RTSP off.
        listen: Listen = Listen::everywhere(8554),
        cost "One listening socket per address and worker.";

        /// Addresses for RTP by UDP: worker `i` takes the port plus `2 i`, and the next one for RTCP;
        /// port 0 picks free ones. An empty list leaves clients with RTP inside their connection.
        udp_listen: Listen = Listen::everywhere(8000),
        cost "Two sockets per address of this machine and worker.";

        /// Connections of one address (IPv6: /64), on all workers, that neither play nor publish yet;
        /// further ones are closed. They are also closed after `limits.handshake_timeout_ms`.
        pending_per_address: i64 = 1_024, unit "connections", range 1..=1_000_000,
        cost "Each takes a place of `limits.sessions_per_worker` and a file descriptor.";

        /// How long a packet of a publisher by UDP is waited for when later ones have come.
        reorder_ms: i64 = 200, unit "ms", range 0..=5_000,
        cost "This much delay where packets are lost.";

        /// A player by UDP, or one that has paused, of which nothing is heard for this long is over.
        /// The server advertises a session timeout of 60 s.
        silence_timeout_ms: i64 = 75_000, unit "ms", range 5_000..=600_000,
        cost "A player by UDP that has vanished gets packets for this long.";

        /// How datagrams are sent: as `rtc.udp_backend`, without `af_xdp`.
        udp_backend: UdpBackendChoice = UdpBackendChoice::Auto,
        cost "CPU per packet.";
    }
}

section! {
    /// RTSP over TLS: RTP goes inside the connection.
    Rtsps = "rtsps" {
        /// Addresses for RTSP over TLS, used once `tls.certificate` or `tls.self_signed` is set. An
        /// empty list turns it off.
        listen: Listen = Listen::everywhere(8322),
        cost "A TLS session holds about 40 kB more than a plain one, and bytes are encrypted for \
            each player.";
    }
}
