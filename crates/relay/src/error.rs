//! Why datagrams are dropped and calls refused: small values, each one counter of the caller's.

use std::error::Error;
use std::fmt;

/// Why a received datagram was dropped.
///
/// Of the first six, nothing but a counter has changed, with one exception: the number of a datagram
/// whose [epoch is unknown](DropReason::UnknownEpoch). The others are authentic, and count as received
/// on their link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Too short, too long, of another version, not for this half of the node, or not laid out as
    /// this version says.
    Malformed,
    /// There is no such link.
    UnknownLink,
    /// Its number was received before, was given up, or is too old to tell.
    Replayed,
    /// Authenticator or tag of a link are not what the peer would have written.
    Forged,
    /// The stream has no key of this epoch, or no longer; the authenticator is right. If it may still
    /// get the key, the number is asked for again once that is there, else it counts as received.
    UnknownEpoch,
    /// The payload is not what was sealed for the stream.
    BadPayload,
    /// The handle belongs to no stream: what was under way when it was let go.
    UnknownHandle,
    /// The stream has had this packet, by another link.
    Duplicate,
    /// The sealed packet is neither RTP nor RTCP.
    NotRtp,
    /// The stream has as many SSRCs as it may have.
    TooManyTracks,
}

impl DropReason {
    /// Whether the datagram was the peer's own, so that its number counts as received.
    pub fn is_authentic(self) -> bool {
        matches!(self, Self::UnknownHandle | Self::Duplicate | Self::NotRtp | Self::TooManyTracks)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Malformed => "malformed",
            Self::UnknownLink => "unknown link",
            Self::Replayed => "replayed",
            Self::Forged => "forged",
            Self::UnknownEpoch => "unknown epoch",
            Self::BadPayload => "bad payload",
            Self::UnknownHandle => "unknown handle",
            Self::Duplicate => "duplicate",
            Self::NotRtp => "not RTP",
            Self::TooManyTracks => "too many tracks",
        })
    }
}

impl Error for DropReason {}

/// Why packets were not sent. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no such stream, or the link has not subscribed to it.
    Unknown,
    /// The stream is another node's, whose packets are forwarded and not sealed; or the other way round.
    NotTheSource,
    /// More than [`PACKETS_PER_CALL_MAX`](crate::PACKETS_PER_CALL_MAX) packets.
    TooMany,
    /// A packet is shorter than an RTCP header or longer than
    /// [`PACKET_BYTES_MAX`](crate::PACKET_BYTES_MAX); or what is to be forwarded is no datagram.
    BadLength,
    /// The stream's key has sealed as many packets as it may: [`Sender::rotate`](crate::Sender::rotate).
    KeyExhausted,
}

impl fmt::Display for SendError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unknown => "no such stream, or not subscribed",
            Self::NotTheSource => "the stream is sealed elsewhere, or here",
            Self::TooMany => "too many packets in one call",
            Self::BadLength => "a packet is too short or too long",
            Self::KeyExhausted => "the key has sealed as many packets as it may",
        })
    }
}

impl Error for SendError {}

/// Why a link, a stream, a subscription or a key was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// As many as [`Limits`](crate::Limits) allows.
    Full,
    /// There is no such link or stream.
    Unknown,
    /// The link has another stream under this handle.
    HandleInUse,
    /// The epoch of the key is not later than those there were.
    StaleEpoch,
    /// The stream has three keys that are in use, were until just now, or are to be.
    TooManyKeys,
    /// The stream is another node's, and so are its keys.
    NotTheSource,
}

impl fmt::Display for SetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Full => "as many as there may be",
            Self::Unknown => "no such link or stream",
            Self::HandleInUse => "the handle is in use",
            Self::TooManyKeys => "the stream has as many keys as it may",
            Self::StaleEpoch => "the epoch is not a later one",
            Self::NotTheSource => "the stream is sealed elsewhere",
        })
    }
}

impl Error for SetupError {}
