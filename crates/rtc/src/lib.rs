//! One WebRTC peer as a state machine: it is given datagrams and the time, and gives datagrams and events.
//!
//! Knows no other peers, sockets or clock.

pub mod demux;
pub mod dtls;
pub mod sdp;
pub mod tcp_framing;

mod full;
mod ice;
mod lite;
mod path;
mod peer;
mod stun;
mod transmit;

pub use dtls::SrtpKeys;
pub use ice::{
    CANDIDATE_PAIRS_MAX, REMOTE_CANDIDATES_MAX, Refusal, Timeouts, USERNAME_BYTES_MAX, VALID_PATHS_MAX,
};
pub use path::Path;
pub use peer::{CloseReason, Event, FailReason, LocalAddress, Peer, PeerConfig, PeerError, Side, Signal};
pub use sdp::{Candidate, IceCredentials, Transport};
pub use transmit::{TRANSMITS_MAX, Transmit};
