//! Why a push fails, or does not send a frame.

use std::fmt;

/// Why a push to this server itself is refused.
pub(crate) const LOOP: &str = "it leads to this server, as a stream that would be pushed again";

/// Why a target gets nothing any more: a sentence for the log and the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Trying again soon would change nothing.
    pub(crate) is_lasting: bool,
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lasting: false }
    }

    pub(crate) fn lasting(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_lasting: true }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// Why a frame is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The target cannot carry its track; a sentence.
    Track(String),
    /// The target was promised other tracks than there are now; a sentence. It has to be opened
    /// again.
    Changed(&'static str),
    /// This frame is broken.
    Frame,
}
