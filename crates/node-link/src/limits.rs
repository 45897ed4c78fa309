//! Every limit of the protocol, and what happens when it is reached.

use std::time::Duration;

/// Version of the protocol, and of the packets relay between the same nodes. A node of another one
/// is refused, and both sides learn both versions.
///
/// Since 2, encodings of video cross one by one, and nodes say which they leave out.
pub const VERSION: u16 = 2;

/// Bytes of a node's name; of its software's version. A longer one is malformed.
pub const NAME_BYTES_MAX: usize = 64;
/// Bytes of a stream's name. A longer one is malformed.
pub const STREAM_BYTES_MAX: usize = 511;
/// Bytes that describe a stream's tracks. More are malformed.
pub const TRACKS_BYTES_MAX: usize = 8 * 1024;
/// Bytes of a node's address for datagrams. A longer one is malformed.
pub const ADDRESS_BYTES_MAX: usize = 255;
/// Nodes that a refusal names instead. More are malformed.
pub const OTHERS_MAX: usize = 16;

/// Bytes of a frame. A larger one is left out by the sender, and malformed to a receiver. It is what
/// `limits.message_max_bytes` can be set to.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Bytes of a frame that one message carries: streams take turns after each, so that a key frame of one
/// delays the others by this much only. With the head of a message it fits a TLS record.
pub const CHUNK_BYTES_MAX: usize = 16_000;
/// Bytes that a message with a part of a frame has room for; where less is left, the next write takes it. On
/// a slow link writes are small, and a TLS record, which is nothing before all of it is there, with them.
pub const PART_BYTES_LEAST: usize = 1_000;
/// Bytes that a stream may send before it is the next one's turn; a message that exceeds it is made up for
/// in the turns that follow.
pub(crate) const TURN_BYTES: i64 = 4_000;
/// Bytes of a message behind its length. A longer one is malformed.
pub const MESSAGE_BYTES_MAX: usize = 16_384;

/// Streams fetched, and streams served, on one link. A further one is refused.
pub const STREAMS_MAX: usize = 16_384;

/// Bytes of a stream that a fetching node takes before it has used them. A sender that begins a frame
/// beyond it breaks the protocol; one that keeps to it holds frames back, and leaves out what gets late.
pub const WINDOW_BYTES: u32 = 4 << 20;
/// Frames of a stream that wait to be sent are left out, up to the next key frame, once the first of
/// them has waited this long. Far below the two seconds that a player may be behind: the path's own
/// queues and the key frame itself come on top.
pub const LATE_AFTER: Duration = Duration::from_millis(900);
/// The same where a key frame waits behind it: what is left out then is little, and the key frame, which has
/// the largest part of its way before it, comes sooner by all of it.
pub(crate) const LATE_BEFORE_KEY: Duration = Duration::from_millis(450);
/// By so much later, at most, the wait of frames begins that a node begins with: half of a group of pictures
/// of twenty seconds.
pub(crate) const CATCH_UP_MAX: Duration = Duration::from_secs(10);
/// Bytes of a stream that wait to be sent; beyond, the same happens. Frames are shared with all other
/// nodes and players of the stream, so that this is no memory of the link alone.
pub const QUEUE_BYTES_MAX: usize = 32 << 20;
/// Bytes of messages other than frames that wait to be sent. A node that lets more pile up is not reading,
/// and its link ends.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Keys of a stream that come within [`KEYS_AGAIN`], at most; more are malformed. They change every half a
/// minute at most, and a node that joins gets three.
pub(crate) const KEYS_AT_ONCE: u32 = 16;
/// See [`KEYS_AT_ONCE`].
pub(crate) const KEYS_AGAIN: Duration = Duration::from_secs(10);

/// Time in which both nodes have to have introduced themselves.
pub const HELLO_WITHIN: Duration = Duration::from_secs(3);
/// Bytes of an introduction. A longer one is malformed.
pub(crate) const HELLO_BYTES_MAX: usize = 512;

/// Time between pings while no stream is on the link.
pub const PING_IDLE: Duration = Duration::from_secs(1);
/// The same while there is one: a parent that is gone has to be noticed well within a second.
pub const PING_BUSY: Duration = Duration::from_millis(200);
/// The link is over when nothing at all has come for so long after a ping, and two round trips, while no
/// stream is on it.
pub const SILENT_IDLE: Duration = Duration::from_secs(3);
/// The same while there is a stream: enough for two retransmissions of TCP.
pub const SILENT_BUSY: Duration = Duration::from_millis(650);
/// A longer round trip counts as this much there: one that was measured over a standstill says nothing of the
/// way. So a dead node is noticed [`SILENT_BUSY`] and two seconds after a ping at the latest.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(1);
/// For so long after it left frames out a node is given as much time as one without streams.
pub(crate) const SLOW_FOR: Duration = Duration::from_secs(10);
/// A caller that comes this long after its time was not running: it reads what has come before it judges.
pub(crate) const AWAY_AFTER: Duration = Duration::from_millis(300);
/// Of so many round trips the shortest counts: others waited behind frames.
pub(crate) const ROUND_TRIPS_KEPT: usize = 8;
