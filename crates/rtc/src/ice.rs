//! What both kinds of ICE agent have in common: reasons to refuse a datagram, limits, times, what
//! they report to the peer.
//!
//! [`lite`](crate::lite) is the server's side, [`full`](crate::full) the client's. Both keep one
//! rule: **nothing changes, and nothing is answered, before a message has proven its origin** by
//! USERNAME and MESSAGE-INTEGRITY, or by a transaction id of ours.

use std::time::Duration;

use crate::Path;

/// Paths of one peer that are valid at a time. A browser with two interfaces, IPv6 and TCP has 6;
/// when there are more, the one without a check for the longest time is replaced.
pub const VALID_PATHS_MAX: usize = 8;

/// Remote addresses that one client side learns, from candidates and checks together. More are
/// ignored.
pub const REMOTE_CANDIDATES_MAX: usize = 32;

/// Candidate pairs that one client side checks. More are not formed, the least important ones
/// first.
pub const CANDIDATE_PAIRS_MAX: usize = 64;

/// Longest USERNAME of a check of ours, in bytes: both fragments and the colon between them.
///
/// RFC 8489 §14.3 allows 508; the STUN writer used here takes 128. Browsers use 9, ours are below
/// 40. A client side is not created with more; a server side answers such peers, but never sends
/// them a check ([`crate::Peer`]).
pub const USERNAME_BYTES_MAX: usize = 128;

/// How long a peer is waited for. All of it runs on the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From creation to the first path. Default 15 s.
    pub ice: Duration,
    /// From the first path to keys. Default 15 s.
    pub dtls: Duration,
    /// From the last sign of consent to the end of sending (RFC 7675 §5.1: at most 30 s). Default
    /// 25 s.
    ///
    /// The sign is an authenticated check of the peer for the server's side, an answer to a check
    /// for the client's.
    pub consent: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { ice: Duration::from_secs(15), dtls: Duration::from_secs(15), consent: Duration::from_secs(25) }
    }
}

/// Why a datagram was refused. It changed nothing, and is answered only if it was a
/// [`Refusal::RoleConflict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Neither STUN nor DTLS.
    NotSignal,
    /// Starts like STUN or DTLS and is not.
    Malformed,
    /// STUN, but no Binding request, success or error: an indication, TURN, another method.
    NotBinding,
    /// STUN without MESSAGE-INTEGRITY.
    NoIntegrity,
    /// A request whose USERNAME is missing or is not that of this session.
    WrongUsername,
    /// MESSAGE-INTEGRITY made with another password.
    WrongIntegrity,
    /// An answer to nothing that was asked, or from another address than was asked.
    UnknownTransaction,
    /// A replay of an authentic request: a transaction id may be repeated only on its own path.
    Replayed,
    /// The peer claims the role of this side. Answered with error 487 (RFC 8445 §7.3.1.1).
    RoleConflict,
    /// One address more than a peer may have.
    TooManyCandidates,
    /// DTLS from an address that has passed no check.
    UnvalidatedPath,
    /// DTLS that the handshake or the record layer refused.
    DtlsRejected,
    /// Consent is lost or the peer is closed: the credentials are worth nothing any more (RFC 7675
    /// §5.1).
    Closed,
}

impl Refusal {
    /// A name for the log: lower case with underscores.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSignal => "not_signal",
            Self::Malformed => "malformed",
            Self::NotBinding => "not_binding",
            Self::NoIntegrity => "no_integrity",
            Self::WrongUsername => "wrong_username",
            Self::WrongIntegrity => "wrong_integrity",
            Self::UnknownTransaction => "unknown_transaction",
            Self::Replayed => "replayed",
            Self::RoleConflict => "role_conflict",
            Self::TooManyCandidates => "too_many_candidates",
            Self::UnvalidatedPath => "unvalidated_path",
            Self::DtlsRejected => "dtls_rejected",
            Self::Closed => "closed",
        }
    }
}

/// Events from an agent to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IceEvent {
    /// Media goes over this path from now on.
    Selected(Path),
    /// No path was found in time.
    Failed,
    /// The peer has stopped consenting: nothing may be sent.
    ConsentLost,
}
