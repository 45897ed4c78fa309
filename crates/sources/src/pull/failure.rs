//! Why a source gives nothing any more, whichever protocol it comes by.

use std::io;

use range_reader::error::SourceError;

use crate::settings::explain;

/// Why a source gives nothing any more: a sentence for the log and the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::pull) struct Failure(String);

impl Failure {
    pub(in crate::pull) fn new(reason: String) -> Self {
        Self(reason)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self(explain(&error))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}
