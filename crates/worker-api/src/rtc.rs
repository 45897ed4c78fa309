//! What the control side says to a worker about WebRTC sessions, and what it gets back.
//!
//! Signalling (HTTP, SDP, tokens) happens on the control side; a worker is given the facts of an offer that has been
//! read, checked and answered. It keeps nothing of the text. What becomes of a session is reported through [`Notices`],
//! so that the control side forgets its URL.

use std::net::SocketAddr;
use std::time::Duration;

use rtc::PeerConfig;
use rtc::sdp::{IceCredentials, TrackDescription};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::hooks::Admission;
use crate::overload::Overload;
use crate::snapshot::{Role, SessionId};
use crate::traces::SessionTrace;
use crate::usage::Uses;

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RtcRole {
    /// WHIP: the peer sends.
    Publish,
    /// WHEP: the peer receives.
    Play,
}

impl From<RtcRole> for Role {
    fn from(role: RtcRole) -> Self {
        match role {
            RtcRole::Publish => Self::Publisher,
            RtcRole::Play => Self::Player,
        }
    }
}

impl RtcRole {
    /// As told to the outside, once the session is connected.
    pub fn for_stats(self) -> Role {
        match self {
            Self::Publish => Role::Publisher,
            Self::Play => Role::Player,
        }
    }
}

/// A session to be opened.
pub struct RtcOpen {
    /// Publish or play.
    pub role: RtcRole,
    /// Application.
    pub app: String,
    /// Stream within it.
    pub stream: String,
    /// Who asked, by HTTP.
    pub address: SocketAddr,
    /// `User-Agent` of the request, at most 128 bytes.
    pub user_agent: Option<Box<str>>,
    /// ICE and DTLS of the peer, with the candidates of this worker.
    pub peer: PeerConfig,
    /// What was negotiated: what the publisher will send, or what the player takes and how.
    pub tracks: Vec<TrackDescription>,
    /// For a player, which of the published tracks of its kind each of `tracks` plays; else empty.
    pub published: Vec<usize>,
    /// Most bits per second that a player wants, whatever its path carries.
    pub bits_per_second_max: Option<u64>,
    /// Highest pictures that a player wants, in pixels, where there are layers to choose from.
    pub height_max: Option<u16>,
    /// When it is to end, since 1970, if its token says so.
    pub until: Option<Duration>,
    /// The operator's hook has let it in.
    pub admission: Option<Box<Admission>>,
    /// When it is to end, since 1970, if that said so.
    pub time_over: Option<Duration>,
    /// What it takes of the limits of its token and address.
    pub uses: Option<Box<Uses>>,
    /// Its trace, if it has one.
    pub trace: Option<Box<SessionTrace>>,
    /// Where the answer goes. A session whose answer nobody takes ends at once.
    pub reply: oneshot::Sender<Result<SessionId, RtcRefusal>>,
}

/// Why a worker does not open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcRefusal {
    /// The stream has a publisher, and newcomers are refused.
    Taken,
    /// The same, and that publisher is on another node of the cluster.
    TakenElsewhere,
    /// Nobody publishes the stream any more.
    NotFound,
    /// The worker has as many sessions as it may.
    Full,
    /// Its address has, or opens, too many.
    TooManyOfAddress,
    /// There is too much to do.
    Overloaded(Overload),
    /// The server is shutting down.
    Draining,
    /// What was negotiated makes no peer (a defect of the control side).
    Invalid,
}

/// What a `PATCH` asks for (RFC 9725 section 4.3).
#[derive(Debug)]
pub enum RtcPatch {
    /// More candidates of the peer. A server that answers checks needs none, but clients send them.
    Candidates(Vec<rtc::sdp::Candidate>),
    /// New credentials on both sides.
    Restart {
        /// The server's.
        local: IceCredentials,
        /// The peer's.
        remote: IceCredentials,
        /// The peer's candidates.
        candidates: Vec<rtc::sdp::Candidate>,
    },
}

/// The layer that a player asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRequest {
    /// Which of the tracks that were negotiated.
    pub track: usize,
    /// What of it; `None` leaves the choice to the server.
    pub layer: Option<LayerChoice>,
}

/// An encoding of a track, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerChoice {
    /// The encoding by its name, see [`RtcLayer`](crate::snapshot::RtcLayer); `None` if the publisher
    /// sends only one.
    pub name: Option<String>,
    /// The highest spatial layer, if there is to be a limit.
    pub spatial: Option<u8>,
    /// The highest temporal layer, if there is to be a limit.
    pub temporal: Option<u8>,
}

/// Why a player does not get the layer that it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerRefusal {
    /// There is no such session, or it publishes.
    NoSession,
    /// It has no such video track, or is not connected yet.
    NoTrack,
    /// The track has no encoding of this name.
    NoEncoding,
    /// A choice of layers inside an encoding has to name the encoding: there are several.
    EncodingMissing,
    /// This worker has no layers of the stream to choose from.
    NoChoice,
}

/// Workers that a username fragment can name: more than a server may have.
const NAMED_WORKERS_MAX: usize = 1 << 12;

/// How the ICE username fragments of sessions on this worker begin: its number in hexadecimal, by the letters
/// `A` to `P`. Where all workers share a port, the kernel reads it from the checks of peers.
pub fn ufrag_prefix(worker: usize) -> [u8; 3] {
    debug_assert!(worker < NAMED_WORKERS_MAX);
    [8, 4, 0].map(|shift| b'A' + (worker >> shift & 0xf) as u8)
}

/// The worker that a username fragment of ours names. Whether there is such a worker, and such a session, it
/// does not say.
pub fn worker_of_ufrag(ufrag: &str) -> Option<usize> {
    let digits = ufrag.as_bytes().get(..3)?;
    digits.iter().try_fold(0, |number, byte| {
        let digit = byte.checked_sub(b'A').filter(|digit| *digit < 16)?;
        Some(number << 4 | usize::from(digit))
    })
}

/// Addresses at which one worker takes WebRTC, with real ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RtcEndpoint {
    /// UDP, one for each address of the host.
    pub udp: Vec<SocketAddr>,
    /// TCP, for networks without UDP.
    pub tcp: Vec<SocketAddr>,
}

/// What becomes of a session, for the control side, which keeps its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtcNotice {
    /// ICE and DTLS are done. At most once a session.
    Connected(SessionId),
    /// It has ended, whoever ended it. Once a session that was opened.
    Ended(SessionId),
}

/// Where workers report what becomes of sessions. Bounded by the number of sessions: two messages each.
pub type Notices = mpsc::UnboundedSender<RtcNotice>;

impl std::fmt::Debug for RtcOpen {
    /// Without credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {}/{} by {}", self.role, self.app, self.stream, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_username_fragment_names_its_worker() {
        for worker in 0..NAMED_WORKERS_MAX {
            let ufrag = [&ufrag_prefix(worker)[..], b"xyz"].concat();
            assert_eq!(worker_of_ufrag(std::str::from_utf8(&ufrag).expect("ASCII")), Some(worker));
        }
        for other in ["", "AA", "AAQ", "@AA", "aAA", "0AAxyz", "A\u{e9}A"] {
            assert_eq!(worker_of_ufrag(other), None, "{other}");
        }
    }
}
