//! The packets relay: RTP of many streams between the nodes of a cluster, each packet sealed once
//! and sent to all nodes as one payload.
//!
//! No sockets, addresses or clock. A node has a [`Sender`] for the streams that it is the source of,
//! and a [`Receiver`] for those it gets from others. The caller drives them like this:
//!
//! 1. [`Sender::send`] for the packets of a stream that are there together. [`Outgoing`] then has the
//!    shared payloads and each node's private bytes, as `group_send::Sender::send_group` takes them.
//! 2. [`destination`] says for whom a datagram is: [`Receiver::handle_datagram`] opens packets and
//!    hands them on, [`Sender::handle_control`] answers what nodes ask for.
//! 3. [`Sender::catch_up`] for links that begin with what is kept, at the pace that their paths take.
//! 4. [`Sender::poll_control`], [`Sender::poll_key_frame_requests`] and [`Receiver::poll_control`]
//!    after each batch of datagrams, and at `next_timeout`.
//!
//! # Datagrams
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   0xd1 media  |     epoch     |         stream handle         |  private: differs per node
//! +---------------+---------------+-------------------------------+
//! |                     link sequence number                      |
//! +---------------------------------------------------------------+
//! |                         authenticator                         |
//! |                                                               |
//! +===============================================================+
//! |                         packet index                          |  shared: the same for all nodes
//! +---------------------------------------------------------------+
//! |     sealed: the RTP or RTCP packet, padding, its length       |
//! |                              ...                              |
//! |                    tag of AES-128-GCM (16)                    |
//! +---------------------------------------------------------------+
//!
//! +---------------+-----------------------------------------------+
//! |  0xd2 or 0xd3 |                   counter                     |  control: to a sender, to a receiver
//! +---------------+                               +---------------+
//! |                                               |
//! |     sealed messages (`control.rs`), tag of AES-128-GCM (16)
//! ```
//!
//! - The first byte is the version (high four bits) and the kind. It is none of RFC 7983, so that a
//!   port may be shared with WebRTC.
//! - The **handle** is chosen by the receiving node when it asks for the stream.
//! - The **link sequence number** counts what one node sends another, whatever the stream; the lower
//!   32 bits of 64. Loss is seen and asked for by it. A repair is the same datagram again.
//! - The **index** counts the packets of a stream and epoch, and is one packet for all nodes: what a
//!   joining node is sent of the past is what was sealed then. It makes the nonce.
//! - The **epoch** is the lower 8 bits of the number of the stream's key.
//! - **Padding** makes packets that are sent together equally long when they nearly are, because only
//!   such share a segmented send; not beyond [`Limits::datagram_bytes_max`].
//!
//! 16 private bytes and 21 shared ones: 3.1 % of 1200. `group_send` sees one payload and N prefixes.
//!
//! # Security
//!
//! What each check is worth, from the outside in. A datagram that fails one changes nothing but a
//! counter, and is never answered.
//!
//! | check | key | covers | against |
//! |---|---|---|---|
//! | number | | neither received before, nor given up | replays |
//! | authenticator, 64 bits (SipHash-2-4) | link and direction | 64 bits of link number, epoch, handle, index, 8 bytes of the tag | strangers: one in 2^64 datagrams passes, and then meets the next check; numbers moved to another packet |
//! | tag, 128 bits (AES-128-GCM) | stream and epoch | packet, index by the nonce | changed content |
//! | index | | each once in an epoch, over all links | a second copy by another link |
//!
//! State (numbers, indices, tracks) changes after the last of them. A datagram whose handle is
//! unknown has nothing to be opened by: its number counts as received, on the strength of the
//! authenticator. A datagram whose key is still to come moves its link's numbers by the same right: its
//! own waits for the key, at most [`GIVE_UP_AFTER`], and is asked for again then.
//!
//! - **Nonces** are the key's salt, the last four bytes combined with the index by exclusive or. A
//!   [`SealKey`] is made from random bytes only, cannot be copied or read back, and belongs to one
//!   [`Sender`], whose index rises; at 2^32 - 1 it refuses ([`SendError::KeyExhausted`]). What nodes
//!   get is an [`OpenKey`], which cannot seal. So no nonce is used twice, also not after a restart:
//!   that has new keys.
//! - **Links.** A [`LinkSecret`] is for one connection of two nodes (TLS exporter, or 32 random bytes
//!   sent over TLS) and gives each direction and half keys of its own by HKDF; it is consumed.
//! - **Control datagrams** are few, so they are sealed as a whole by AES-128-GCM with a counter, and a
//!   window of 1024 counters refuses replays.
//! - **Epochs**: a new key is handed out over TLS before [`Sender::rotate`]; an old one opens
//!   datagrams for [`OLD_EPOCH_VALID`] after the first of the new epoch, for what is under way. A node
//!   that leaves knows the old key only.
//! - **Not protected**: a node that has a stream's key could make packets of that stream. It has no
//!   authenticators of other links, so it would have to be on the path between two others and keep
//!   eight bytes of the tag. Nodes of a cluster trust each other that far. Sizes and times of packets
//!   can be seen by anyone on the path, as with SRTP.
//!
//! # Order
//!
//! Packets are handed on at once, in the order of arrival, and late or repaired ones when they come.
//! RTP has sequence numbers for that, `sfu` caches by them and viewers reorder anyway: holding back
//! here would add delay to all packets for the sake of a few, and again at each node of a tree.
//! What reordering does delay is the request for packets that are merely late, by as much as packets
//! were late recently, at most [`REORDER_WAIT_MAX`].
//!
//! # Limits
//!
//! [`Limits`] and the constants of this crate name them all and say what happens at each.

mod authenticator;
mod control;
mod due;
mod error;
mod history;
#[cfg(feature = "internals")]
pub mod internals;
mod key_frames;
mod keys;
mod limits;
mod missing;
mod receiver;
mod repair_budget;
mod round_trip;
mod rtp_or_rtcp;
mod sender;
mod table;
mod window;
mod wire;

pub use control::Report;
pub use error::{DropReason, SendError, SetupError};
pub use history::SealedPacket;
pub use keys::{LinkSecret, OPEN_KEY_BYTES, OpenKey, ReceiverKeys, Role, SealKey, SenderKeys};
pub use limits::{
    CONTROL_BYTES_MAX, EPOCHS_MAX, GIVE_UP_AFTER, KEY_FRAME_INTERVAL, LEFT_OUT_MAX, Limits, OLD_EPOCH_VALID,
    PACKET_BYTES_MAX, PACKETS_PER_CALL_MAX, REORDER_WAIT_MAX,
};
pub use receiver::{InLinkId, InLinkStats, InStreamId, Position, Received, Receiver, TrackIndex};
pub use sender::{Forwarded, OutLinkId, OutLinkStats, OutStreamId, Outgoing, Repair, Sender};
pub use wire::{Destination, PRIVATE_BYTES, SHARED_BYTES_ADDED, destination};

/// The example of the README, so that it stays true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
