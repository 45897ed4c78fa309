//! Keys of `[rtmp]` and `[rtmps]`.

use crate::section::section;
use crate::value::Listen;

section! {
    /// RTMP: publishing and playing.
    Rtmp = "rtmp" {
        /// Addresses for RTMP. `*` means every IPv4 and IPv6 address. Port 0 picks a free port. An
        /// empty list turns RTMP off.
        listen: Listen = Listen::everywhere(1935),
        cost "One listening socket per address and worker.";
    }
}

section! {
    /// RTMP over TLS.
    Rtmps = "rtmps" {
        /// Addresses for RTMP over TLS, used once `tls.certificate` or `tls.self_signed` is set. An
        /// empty list turns it off.
        listen: Listen = Listen::everywhere(1936),
        cost "A TLS session holds about 40 kB more than a plain one, and bytes are encrypted for \
            each player.";
    }
}
