//! Why a request for media over HTTP is refused: what workers answer over HTTP/1.1, and the control side
//! over HTTP/2 and for files.

use crate::denied::Denied;

/// A refusal: its status, and what its body says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// HTTP status.
    pub status: u16,
    /// For programs; does not change.
    pub code: &'static str,
    /// For people: one sentence, in ASCII.
    pub reason: &'static str,
    /// `WWW-Authenticate`, where another token may be accepted.
    pub challenge: Option<&'static str>,
}

impl Refused {
    /// The stream is not published.
    pub const NO_STREAM: Self = Self::new(404, "there is no such stream");

    /// Seconds after which a client may come again that is refused because there is too much to do.
    pub const RETRY_AFTER: &str = "2";

    /// Fields of its answer, besides what every answer has.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        let by_status: &[(&str, &str)] = match self.status {
            405 => &[("Allow", "GET, HEAD, OPTIONS")],
            426 => &[("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")],
            429 | 503 => &[("Retry-After", Self::RETRY_AFTER)],
            _ => &[],
        };
        let challenge = self.challenge.map(|challenge| ("WWW-Authenticate", challenge));
        challenge.into_iter().chain(by_status.iter().copied())
    }

    /// The body of its answer: that of the API's errors, in JSON.
    pub fn body(&self) -> String {
        let Self { code, reason, .. } = self;
        // A text in ASCII is quoted in JSON as here.
        debug_assert!(reason.is_ascii());
        format!("{{\"error\":{{\"code\":\"{code}\",\"message\":{reason:?}}}}}\n")
    }

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
        let status = match challenge {
            Some(_) => 401,
            None if denied.is_exceeded() => 429,
            None if denied.is_temporary() => 503,
            None => 403,
        };
        Self { status, code: denied.code(), reason: denied.reason(), challenge }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_json_and_the_fields_follow_from_the_status() {
        let refused = Refused { reason: "say \"please\"", ..Refused::new(503, "") };
        let body: serde_json::Value = serde_json::from_str(&refused.body()).unwrap();
        assert_eq!(body, serde_json::json!({"error": {"code": "unavailable", "message": "say \"please\""}}));
        assert_eq!(refused.fields().collect::<Vec<_>>(), [("Retry-After", "2")]);
        let refused = Refused { challenge: Some("Bearer"), ..Refused::new(405, "") };
        let fields: Vec<_> = refused.fields().collect();
        assert_eq!(fields, [("WWW-Authenticate", "Bearer"), ("Allow", "GET, HEAD, OPTIONS")]);
    }
}
