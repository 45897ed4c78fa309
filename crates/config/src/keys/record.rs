//! Keys of recordings and of their uploads.

use crate::section::section;
use crate::value::RecordFormatChoice;

section! {
    /// Recordings: streams written to files that survive a crash of the server. Which streams is said by
    /// `[[record.rule]]` and the API. See [recording.md](recording.md).
    Record = "record" {
        /// Directory of the recordings, made if it is not there. One server at a time uses it. Empty: rules
        /// need a directory of their own, and nothing is recorded through the API that no rule has one for.
        directory: String = String::new(),
        cost "The bytes of every stream that is recorded. A thread per directory.";

        /// How files are written.
        format: RecordFormatChoice = RecordFormatChoice::Mp4,
        cost "`flv` has no checksums, no wall clock per fragment and no index to seek with.";

        /// Length after which a file ends, at the next key frame, and another one begins.
        rotate_seconds: i64 = 3_600, unit "seconds", range 2..=86_400,
        cost "Completing a file reads its fragments' heads: about 20 ms of the disk's thread per hour.";

        /// Bytes after which a file ends in the same way.
        rotate_bytes: i64 = 4_294_967_296, unit "bytes", range 1_000_000..=1_099_511_627_776,
        cost "None.";

        /// How long recordings are kept, from their begin. 0 means forever.
        keep_seconds: i64 = 0, unit "seconds", range 0..=3_153_600_000,
        cost "With 0, the disk fills unless something else removes them. A clock set to the future makes \
            recordings old.";

        /// Recordings kept of each stream. 0 means any number.
        keep_files: i64 = 0, unit "recordings", range 0..=1_000_000,
        cost "As above.";

        /// Bytes of recordings kept, of all streams of a rule together. 0 means no limit.
        keep_bytes: i64 = 0, unit "bytes", range 0..=9_007_199_254_740_991,
        cost "As above.";

        /// Length of a fragment. What is not in a whole fragment is lost with the process.
        fragment_ms: i64 = 1_000, unit "ms", range 100..=2_000,
        cost "About 800 bytes and two writes per fragment and track.";

        /// How long written bytes may be in memory only, which a power cut takes: files are synced so
        /// often. 0 leaves it to the kernel (30 s) until a file is complete. A killed process loses
        /// nothing that was written, whatever this says.
        sync_ms: i64 = 2_000, unit "ms", range 0..=600_000,
        cost "A write of the journal each time, for eight and more files together.";

        /// Bytes of fragments that may wait for the disk, per directory. What comes then is left out of its
        /// recording, which goes on in a new file.
        queue_bytes: i64 = 268_435_456, unit "bytes", range 1_048_576..=68_719_476_736,
        cost "This much memory while the disk is slow.";

        /// Media of one recording that may wait in the same way.
        queue_seconds: i64 = 10, unit "seconds", range 1..=600,
        cost "As above.";

        /// Streams recorded at a time; further ones are not, which is logged.
        recordings_max: i64 = 1_000, unit "streams", range 0..=100_000,
        cost "CPU and memory of each.";
    }
}

section! {
    /// Which streams are recorded, and how, in order; the first that matches decides. Keys that are left out
    /// are those of `[record]`. Rules are for streams that are published on this node, not for those fetched
    /// from another one.
    RecordRule = "record.rule" {
        /// Pattern over `app/stream`, such as `"live/*"`; `*` matches any characters.
        stream: String = String::new(),
        cost "None.";

        /// Whether these streams are recorded as long as they are published.
        record: bool = true,
        cost "The bytes of the streams.";
    }
}

section! {
    /// Uploads: complete recordings and HLS segments are sent to a bucket of S3, or of what speaks its
    /// protocol, or to another directory. Keys of the bucket come from the environment (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`) or from a file. See [uploads.md](uploads.md).
    Upload = "upload" {
        /// Bucket that complete recordings are sent to. Empty: none.
        bucket: String = String::new(),
        cost "The bytes of every recording; a thread for all uploads.";

        /// Directory that complete recordings are copied to instead, such as a mounted file system. It must
        /// not be within a directory of recordings.
        directory: String = String::new(),
        cost "The bytes of every recording, and a second time to check each copy.";

        /// Put in front of an object's key, which is the recording's path below its directory.
        prefix: String = String::new(),
        cost "None.";

        /// Region of the bucket.
        region: String = "us-east-1".to_owned(),
        cost "None.";

        /// URL of a server that speaks S3's protocol, such as `"https://objects.example:9000"`. Empty: AWS.
        endpoint: String = String::new(),
        cost "With `http://`, everybody on the way can read recordings. Keys are not sent either way.";

        /// Whether requests have the bucket in their path, and not in the name of the host.
        path_style: bool = true,
        cost "None. Some servers take only one of the two.";

        /// File with the bucket's keys, as `aws_access_key_id = ...` and `aws_secret_access_key = ...` on
        /// lines of their own. It is read for each request, so keys may be changed. Empty: keys from the
        /// environment.
        credentials_file: String = String::new(),
        cost "Who reads the file can write to the bucket.";

        /// File with certificates of authorities, PEM, that `endpoint` may have besides those the system
        /// trusts.
        ca_file: String = String::new(),
        cost "Whoever has a key of these authorities can pretend to be the store.";

        /// Files that are sent at a time.
        concurrency: i64 = 2, unit "files", range 1..=64,
        cost "`part_bytes` of memory each.";

        /// Larger files are sent in parts of this size, each of which is kept over a restart of the server.
        part_bytes: i64 = 16_777_216, unit "bytes", range 5_242_880..=1_073_741_824,
        cost "This much memory per file that is sent. Smaller parts cost more requests.";

        /// Limit for all uploads together. 0 means none.
        max_kbps: i64 = 0, unit "kbit/s", range 0..=100_000_000,
        cost "Without a limit, uploads compete with streams for the network.";

        /// A request without progress for this long has failed.
        stall_timeout_ms: i64 = 30_000, unit "ms", range 1_000..=600_000,
        cost "A longer time holds one of `concurrency` longer when a store hangs.";

        /// Pause after a failure; it doubles with each further one.
        retry_min_ms: i64 = 1_000, unit "ms", range 10..=3_600_000,
        cost "Shorter pauses mean more requests to a store that is in trouble.";

        /// Longest pause between attempts.
        retry_max_ms: i64 = 300_000, unit "ms", range 10..=86_400_000,
        cost "A longer one delays uploads after the store is well again.";

        /// Whether recordings are removed from this machine once the store has them.
        delete_local: bool = false,
        cost "Players of recordings on this machine lose them.";

        /// How long after that.
        delete_local_after_seconds: i64 = 3_600, unit "seconds", range 0..=315_360_000,
        cost "Room on the disk.";

        /// Pattern over `app/stream`, such as `"live/*"`: of these streams HLS segments and playlists are sent
        /// as they come. It needs `hls.mode = "always"`. Empty: none.
        segments: String = String::new(),
        cost "The bytes of the streams. Three requests to the store for each segment of each rendition.";

        /// Folder below `prefix` for them: `{segments_prefix}/{app}/{stream}/index.m3u8`.
        segments_prefix: String = "hls".to_owned(),
        cost "None.";

        /// Time that these playlists list, and three segments at least.
        segments_seconds: i64 = 60, unit "seconds", range 6..=14_400,
        cost "150 bytes per segment in each playlist, which is sent with each new segment.";

        /// Whether segments are deleted from the store once they have been out of the playlists for as long,
        /// and everything of a stream that ended so long ago. If not, nothing is deleted.
        segments_delete: bool = false,
        cost "A request to the store for each segment. What other programs put under the same names goes too.";

        /// Segments of all streams together that may wait in memory for the store. Beyond, the oldest are left
        /// out: playlists say that they are missing.
        segments_queue_mb: i64 = 64, unit "MiB", range 1..=65_536,
        cost "This much memory while the store is slow or away.";
    }
}
