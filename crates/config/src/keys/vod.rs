//! Keys of video on demand.

use crate::section::section;

section! {
    /// Video on demand: recordings and MP4 files, by ranges, HLS and DASH, below `/vod/`. Recordings are
    /// played without any of these keys. See [vod.md](vod.md).
    Vod = "vod" {
        /// Whether anything is served below `/vod/`.
        enabled: bool = true,
        cost "None while nobody plays. Whoever may play a stream may play its recordings.";

        /// Directory of MP4 files that are served; links that lead out of it are not followed. Empty: none.
        root: String = String::new(),
        cost "Whoever may play `vod/files/...` (`[[auth.play]]`) can fetch its MP4 files.";

        /// Requests answered at a time; further ones are answered 503.
        requests_max: i64 = 256, unit "requests", range 1..=1_024,
        cost "256 kB of memory each, and an HTTP connection, of which there are 1024.";

        /// Bytes of the index of one file; a file with a larger one is not played.
        index_max_bytes: i64 = 67_108_864, unit "bytes", range 65_536..=1_073_741_824,
        cost "Up to twice as much memory while an index is read.";

        /// Bytes of all indexes that are kept. What was not played the longest goes.
        cache_max_bytes: i64 = 268_435_456, unit "bytes", range 1_048_576..=68_719_476_736,
        cost "This much memory. A film of two hours takes 3 MB; one that is not kept is read again.";
    }
}

section! {
    /// Other servers whose MP4 files are played, below `/vod/remote/{name}/`. Addresses, certificates and
    /// time limits are those of `[sources]`.
    VodRemote = "vod.remote" {
        /// Its name in URLs: letters, digits, `-` and `_`.
        name: String = String::new(),
        cost "None.";

        /// What paths are appended to, `http://` or `https://`. A user name, a password and a query in it are
        /// used and not shown.
        url: String = String::new(), secret true,
        cost "Whoever may play `vod/remote/...` (`[[auth.play]]`) can fetch all MP4 files below it.";
    }
}
