//! Why a request for media over HTTP is refused: what workers answer over HTTP/1.1, and the control side
//! over HTTP/2 and for files.

use crate::auth::Denied;

/// A refusal: its status, and what its body says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status.
    pub status: u16,
    /// For programs; does not change.
    pub code: &'static str,
    /// For people: one sentence, in ASCII.
    pub reason: &'static str,
    /// `WWW-Authenticate`, where another token may be let in.
    pub challenge: Option<&'static str>,
}

impl Refused {
    /// The stream is not published.
    pub const NO_STREAM: Self = Self::new(404, "there is no such stream");

    /// One whose code follows from its status.
    pub const fn new(status: u16, reason: &'static str) -> Self {
        let code = match status {
            307 => "elsewhere",
            404 => "not_found",
            405 => "method_not_allowed",
            406 => "not_playable",
            408 => "timeout",
            416 => "bad_range",
            426 => "upgrade_required",
            431 => "head_too_large",
            503 => "unavailable",
            _ => "bad_request",
        };
        Self { status, code, reason, challenge: None }
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        let challenge = denied.challenge();
        let status = if challenge.is_some() { 401 } else { 403 };
        Self { status, code: denied.code(), reason: denied.reason(), challenge }
    }
}
