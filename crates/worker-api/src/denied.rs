//! Why somebody may not publish, play or manage: by the rules, or by the operator's hook.

use crate::usage::Exceeded;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// Only peers on this machine are let in, and this one is elsewhere.
    NotLoopback,
    /// A token is needed and none was shown.
    TokenMissing,
    /// The token shown is not one of those that are accepted.
    TokenWrong,
    /// No rule matches, or the rule lets nobody in.
    Closed,
    /// A proxy forwarded the request, so the address of the peer says nothing.
    Forwarded,
    /// The request names a host under which this machine is not trusted (DNS rebinding).
    HostNotTrusted,
    /// Another site's page sent the request.
    CrossSite,
    /// The signed token breaks a rule.
    Signed(jwt::Refused),
    /// The operator's hook says no.
    Hook,
    /// The operator's hook was asked and gave no usable answer in time.
    HookFailed,
    /// Its token or its address uses as much as it may.
    Exceeded(Exceeded),
}

impl Denied {
    /// One sentence for the peer and the log; contains nothing secret.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotLoopback => "only clients on the server's own machine are allowed here without a token",
            Self::TokenMissing => "a token is required",
            Self::TokenWrong => "the token is not valid",
            Self::Closed => "not allowed by the server's configuration",
            Self::Forwarded => "the request came through a proxy: a token is required",
            Self::HostNotTrusted => "this host name is not trusted without a token (see http.public_hosts)",
            Self::CrossSite => "requests from pages of other sites are not allowed",
            Self::Signed(refused) => refused.reason(),
            Self::Hook => "not allowed by the server's operator",
            Self::HookFailed => "whether this is allowed could not be found out: try again",
            Self::Exceeded(exceeded) => exceeded.reason(),
        }
    }

    /// Name in API errors.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotLoopback => "not_loopback",
            Self::TokenMissing => "token_missing",
            Self::TokenWrong => "token_wrong",
            Self::Closed => "closed",
            Self::Forwarded => "forwarded",
            Self::HostNotTrusted => "host_not_trusted",
            Self::CrossSite => "cross_site",
            Self::Signed(refused) => refused.code(),
            Self::Hook => "hook_denied",
            Self::HookFailed => "hook_failed",
            Self::Exceeded(exceeded) => exceeded.label(),
        }
    }

    /// Whether the same request may be let in a moment later.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::HookFailed | Self::Exceeded(_))
    }

    /// Whether it may come in, and there is only no room for it.
    pub fn is_exceeded(self) -> bool {
        matches!(self, Self::Exceeded(_))
    }

    /// `WWW-Authenticate` of an answer of 401, where another token may be let in; without it, 403. Without
    /// a token, the answer names the scheme alone (RFC 6750 section 3).
    pub fn challenge(self) -> Option<&'static str> {
        match self {
            Self::TokenMissing => Some("Bearer"),
            Self::TokenWrong | Self::Signed(_) => Some("Bearer error=\"invalid_token\""),
            _ => None,
        }
    }
}
