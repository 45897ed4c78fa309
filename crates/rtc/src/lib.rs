//! One WebRTC peer as a state machine: datagrams and the time go in, datagrams and events come out.
//!
//! It has no sockets or clock, knows no other peers and never sees media: it decides from and to
//! which addresses media may flow, and with which keys.
//!
//! ```text
//! datagram ─▶ demux ─▶ STUN ─▶ Peer: ICE ──▶ valid paths, selected path ──▶ Event::PathSelected
//!               │      DTLS ─▶ Peer: DTLS ─▶ fingerprint, SRTP keys ──────▶ Event::Connected
//!               └────▶ RTP, RTCP: the owner's, from valid paths only
//! offer ─▶ sdp ─▶ answer, and what a PeerConfig is made of
//! ```
//!
//! [`Peer`] is either side: a server that answers checks (ICE-lite) or a client that sends them.
//! Guarantees:
//!
//! - nothing changes, and nothing is answered, before a datagram has proven its origin ([`Refusal`]
//!   lists the reasons), so that this host cannot be used to amplify traffic to a third party;
//! - DTLS is accepted only from paths over which an authentic check was received;
//! - [`Event::Connected`] comes after the certificate has been compared with the signalled
//!   fingerprint;
//! - [`Peer::path`] is `None` at most 30 s after the last sign of consent (RFC 7675);
//! - a client whose NAT gives it another port is followed at its first check; one on another host,
//!   once it has answered a check of ours.
//!
//! | RFC | where | left out |
//! |---|---|---|
//! | 7983, 5761 §4 | [`demux`] | ZRTP, TURN channels |
//! | 8445, 8489 | `lite`, `full`, `stun` | freezing, several components, TURN, error 420 |
//! | 7675 | `lite`, `full` | |
//! | 6544, 4571 | [`tcp_framing`], [`Path`] | active and simultaneous-open candidates of a server |
//! | 5763, 5764, 6347, 9147 | [`dtls`] | see there |
//! | 8866, 9429, 9725, 8840 | [`sdp`] | see there |

pub mod demux;
pub mod dtls;
pub mod sdp;
pub mod tcp_framing;

mod established;
mod full;
mod ice;
mod lite;
mod path;
mod peer;
mod stun;
mod transmit;

pub use dtls::SrtpKeys;
pub use established::Established;
pub use ice::{
    CANDIDATE_PAIRS_MAX, REMOTE_CANDIDATES_MAX, Refusal, Timeouts, USERNAME_BYTES_MAX, VALID_PATHS_MAX,
};
pub use path::Path;
pub use peer::{CloseReason, Event, FailReason, LocalAddress, Peer, PeerConfig, PeerError, Side, Signal};
pub use sdp::{Candidate, IceCredentials, Transport};
pub use transmit::{TRANSMITS_MAX, Transmit};

/// The examples of the README, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
