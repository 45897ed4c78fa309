//! Every limit of the crate, and what happens when it is reached.

use std::time::Duration;

/// Limits that depend on the machine. The defaults suit a node with thousands of streams.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Links of one [`Sender`](crate::Sender) or [`Receiver`](crate::Receiver). Default 4096; beyond
    /// it [`SetupError::Full`](crate::SetupError::Full).
    pub links_max: usize,
    /// Streams of one. Default 16,384; beyond it [`SetupError::Full`](crate::SetupError::Full).
    pub streams_max: usize,
    /// How long a stream's packets are kept for repairs. Default 1.5 s. Older ones are removed when
    /// the next is sent or, of a stream that pauses, as long again later; what is asked for after it is
    /// not repaired. Those since a start
    /// ([`Sender::keep_from`](crate::Sender::keep_from)) stay, as far as the next two allow.
    pub history: Duration,
    /// Packets a stream keeps at most. Default 4096; the oldest are removed.
    pub history_packets_max: usize,
    /// Bytes a stream keeps at most. Default 8 MiB; the oldest packets are removed.
    pub history_bytes_max: usize,
    /// Bytes of a datagram's UDP payload that the path carries in one piece. Default 1472, that of
    /// Ethernet. Packets that are sent together are not padded to the length of one that exceeds it.
    pub datagram_bytes_max: usize,
    /// SSRCs of one stream. Default 512. Packets of others are sent, but key frames cannot be asked
    /// for; a receiver drops them ([`DropReason::TooManyTracks`](crate::DropReason::TooManyTracks)).
    pub tracks_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            links_max: 4096,
            streams_max: 16_384,
            history: Duration::from_millis(1_500),
            history_packets_max: 4096,
            history_bytes_max: 8 << 20,
            datagram_bytes_max: 1472,
            tracks_max: 512,
        }
    }
}

/// Packets of one [`Sender::send`](crate::Sender::send), at most; more are refused.
pub const PACKETS_PER_CALL_MAX: usize = 1024;

/// Bytes of one RTP packet, at most: what fits into a UDP datagram with all headers. Longer ones are
/// refused. Whether it passes the path in one piece is the caller's business.
pub const PACKET_BYTES_MAX: usize = 65_507 - crate::wire::PRIVATE_BYTES - crate::wire::SHARED_BYTES_ADDED;

/// Bytes of a control datagram, at most; longer ones are malformed, and what does not fit into one
/// goes into the next.
pub const CONTROL_BYTES_MAX: usize = 1200;

/// How long an old key opens datagrams after the first one of a new epoch. As long as repairs can
/// take: a packet is given up earlier.
pub const OLD_EPOCH_VALID: Duration = Duration::from_secs(3);

/// Keys of a stream that a receiver holds: old, current and next. A fourth is refused until the oldest
/// has expired.
pub const EPOCHS_MAX: usize = 3;

/// Padding that makes packets of one call equally long; packets that lack more are left as they are.
pub(crate) const PADDING_MAX: usize = 16;

/// Least time between two key-frame requests for one SSRC that reach the publisher, whatever the
/// number of nodes that ask. What comes earlier is one request at its end.
pub const KEY_FRAME_INTERVAL: Duration = Duration::from_millis(500);

/// SSRCs of a stream that a node leaves out: the layers that nobody there watches. Further ones are sent.
pub const LEFT_OUT_MAX: usize = 128;

/// How often a node says what it leaves out right after that has changed, with a round trip between two: what
/// is lost then would cost a viewer the wait until it says so again, every [`REPORT_INTERVAL`].
pub(crate) const LEFT_OUT_SAID: u8 = 4;

/// Key-frame requests that wait for their time because one link asked first, at a sender and at a
/// receiver. Further ones of this link are dropped; whoever needs a key frame asks again.
pub(crate) const KEY_FRAMES_WAITING_MAX: usize = 1024;

/// Runs of link numbers a link remembers, each one call of `send`, for no longer than
/// [`Limits::history`]: as many as the link's rate makes of it, up to this, 7 MB. The oldest are
/// forgotten, and not repaired any more.
pub(crate) const RUNS_MAX: usize = 131_072;

/// Link numbers that one control datagram can get repaired, of those that are still kept. The rest is
/// asked for again; what is not kept any more is said, and given up.
pub(crate) const REPAIRS_PER_DATAGRAM_MAX: usize = 1024;

/// Part of a link's media bytes that may be sent again.
pub(crate) const REPAIR_SHARE: f64 = 0.25;

/// Bytes a second that may be sent again however little media there is.
pub(crate) const REPAIR_BYTES_PER_SECOND_MIN: f64 = 16_000.0;
/// The most that can be saved up: what a second of the link's media adds, between these two. Beyond,
/// nothing is repaired until there is budget again.
pub(crate) const REPAIR_BYTES_MAX: f64 = 256.0 * 1024.0;
/// See [`REPAIR_BYTES_MAX`].
pub(crate) const REPAIR_BYTES_LIMIT: f64 = 8.0 * 1024.0 * 1024.0;

/// Numbers that may be missing from a link at once, or twice as many as it sent in a second up to
/// [`MISSING_LIMIT`], which all streams share; those that came since do not count. At a gap that would exceed
/// it the oldest are given up: the newest are those that the sender still has.
pub(crate) const MISSING_MAX: usize = 4096;
/// See [`MISSING_MAX`]. Entries in all, those that are done with as well, are twice as many at most: 9 MB.
pub(crate) const MISSING_LIMIT: usize = 65_536;

/// Of these, numbers that came for a stream that does not have their key yet. Further ones are given up.
pub(crate) const PARKED_MAX: usize = 1024;

/// Requests for one number.
pub(crate) const ASKED_MAX: u8 = 10;

/// How long a number is missing before it is given up. Shorter than [`Limits::history`], since the
/// sender has had it for half a round trip longer.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// How long at most a number may be late before it is asked for. Without reordering it is asked for
/// at once.
pub const REORDER_WAIT_MAX: Duration = Duration::from_millis(10);

/// Packets behind the newest index of an epoch that can still come. Older ones count as duplicates.
pub(crate) const INDEX_WINDOW: usize = 8192;

/// Counters of control datagrams behind the newest that can still come.
pub(crate) const CONTROL_WINDOW: usize = 1024;

/// Handles of one link: all that 16 bits name.
pub(crate) const HANDLES_MAX: usize = 1 << 16;

/// Sealed packets without a use that are kept to be used again.
pub(crate) const SPARES_MAX: usize = 512;

/// When a sender says how far it has come, after the last packet: a loss at the end of a burst is
/// seen by it. Longer than the frames of 25 a second are apart, so that it costs a live stream
/// nothing. It doubles up to the other.
pub(crate) const HEARTBEAT_FIRST: Duration = Duration::from_millis(60);
/// See [`HEARTBEAT_FIRST`].
pub(crate) const HEARTBEAT_LAST: Duration = Duration::from_secs(1);

/// Time between a receiver's pings, and between its reports.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Pings without an answer that are remembered.
pub(crate) const PINGS_MAX: usize = 4;
