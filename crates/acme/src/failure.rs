//! Why an order came to nothing.

use std::time::Duration;

/// Why an order came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// What happened: a sentence without a secret.
    pub(crate) message: String,
    /// When the authority wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

/// Whose fault it is, more or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No connection, or none that is trusted.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// Asked too often.
    RateLimited,
    /// The authority could not see that the names are this server's.
    Challenge,
    /// The authority refuses the account or the order.
    Refused,
    /// What it answers makes no sense, or its certificate is not what was ordered.
    BadAnswer,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Unreachable,
        Self::Timeout,
        Self::RateLimited,
        Self::Challenge,
        Self::Refused,
        Self::BadAnswer,
    ];

    /// In metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Challenge => "challenge_failed",
            Self::Refused => "refused",
            Self::BadAnswer => "bad_answer",
        }
    }
}

impl Failure {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), retry_after: None }
    }
}
