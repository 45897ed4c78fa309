//! SRT (draft-sharabayko-srt-01) as machines over datagrams: live mode, listener and caller.
//!
//! ```text
//! datagram ─▶ wire ─▶ CookieSecret::handle ─▶ Request ─▶ Asked::accept ─▶ Connection   listener
//!                     Caller ───────────────────────────────────────────▶ Connection   caller
//! datagram ─▶ Connection::handle_packet ─▶ receiver ─▶ deliver ─▶ payloads, in order and in time
//! payload ──▶ Connection::send ──────────▶ sender ───▶ poll_transmit ─▶ datagram
//! ```
//!
//! No socket, thread or clock: all of it takes `now`. No input panics; what a peer sends is counted and
//! dropped where it makes no sense, and memory is bounded by [`Limits`]. A listener keeps nothing of a
//! caller before its cookie has come back.
//!
//! Spoken: handshakes of version 5 with stream ID and key material, packets encrypted with AES-128,
//! AES-192 and AES-256 in counter mode or by AES-GCM, key refresh, acknowledgements full and light,
//! reports of losses at once and periodic, timestamp-based delivery with too-late drop, keep-alive and
//! shutdown.
//!
//! Left out on purpose: version 4, rendezvous, file mode, groups (bonding), packet filters (FEC), which
//! callers do not get and are told so; messages of several packets, which live mode does not have;
//! estimates of the link's capacity, which live mode does not use; AES-GCM of libsrt 1.5.2 and 1.5.3,
//! whose nonces repeat.

mod caller;
mod cipher;
mod connection;
mod handshake;
mod keys;
mod listener;
mod pacer;
mod peer_clock;
mod receiver;
mod round_trip;
mod sender;
mod sequence;
mod stream_id;
mod wire;

pub use caller::{Call, CallError, Caller};
pub use cipher::{CipherMode, KeyLength};
pub use connection::{Connection, Counters, DropReason, End, Limits, Status};
pub use handshake::{Handshake, Kind, Reject, STREAM_ID_BYTES_MAX};
pub use keys::{PASSPHRASE_BYTES, Passphrase};
pub use listener::{Accept, Asked, CookieSecret, Ignored, Incoming, Request};
pub use sequence::SequenceNumber;
pub use stream_id::{Mode, StreamId};
pub use wire::{
    Ack, AckDetails, Body, Control, DATAGRAM_BYTES_MAX, Data, HEADER_BYTES, KeyFlag, LossList, MTU,
    PAYLOAD_BYTES_MAX, Packet, SocketId, TS_PAYLOAD_BYTES, WireError, destination,
};
