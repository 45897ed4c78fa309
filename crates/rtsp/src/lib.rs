//! RTSP 1.0 (RFC 2326) as machines over bytes: the server's side, and clients that play and record.
//!
//! ```text
//! bytes ─▶ input (requests, interleaved packets) ─▶ ServerSession ─▶ Event, to be answered
//!                                                     └▶ output: answers
//! Event::Media ─▶ Incoming: RTP, RTCP ─▶ bridge::RtpToFrame ─▶ media::Frame, with decoding times
//!              or Passing: the same packets, to be handed on as they came
//! PlaySession: a client, with an Incoming of its own ─▶ media::Frame
//! media::Frame ─▶ RecordSession: a client, with an Outgoing of its own
//! media::Frame ─▶ Outgoing: rtp::packetize, sender reports ─▶ interleaved packets, for all players
//! ```
//!
//! No socket, thread or clock: what needs the time takes `now`. No input panics; what a peer sends is bounded
//! by [`Limits`] before it is parsed, and what breaks the protocol ends the session with an answer that says
//! so.
//!
//! Spoken: OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, RECORD, PAUSE, TEARDOWN, GET_PARAMETER and
//! SET_PARAMETER (as signs of life), RTP over UDP and interleaved in the connection, Basic and Digest (MD5,
//! as RFC 2617 has it and all clients speak).
//!
//! Left out on purpose: RTSP 2.0, multicast, SRTP, seeking and scale (streams are live), redirection,
//! requests of the server, several media of one kind (the first is taken), a SETUP of a player before
//! DESCRIBE.

mod auth;
mod client_auth;
mod clock_rate;
mod incoming;
mod input;
mod outgoing;
mod passing;
mod play;
mod reception;
mod record;
mod requests;
mod sdp;
mod server;
mod transport;

/// What names a session and is known to nobody else.
///
/// # Panics
/// If the system has no random bytes.
pub fn random() -> [u8; 32] {
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random).expect("the system has random bytes");
    random
}

pub use auth::{Credential, Offered};
pub use client_auth::Login;
pub use incoming::{Dropped, Incoming, IncomingSettings};
pub use input::{InputError, Limits, MAGIC};
pub use outgoing::{Outgoing, TRACKS, channel_of};
pub use passing::Passing;
pub use play::{PlaySession, PlaySettings, TRACKS_MAX};
pub use reception::ReceptionStats;
pub use record::{Datagram, NotWritten, RecordSession, RecordSettings};
pub use requests::ClientError;
pub use sdp::{AnnouncedTrack, Described, SdpError, announced, carried, described};
pub use server::{Ends, Event, Role, ServerSession, Status, Target};
pub use transport::{Lower, Setup};
