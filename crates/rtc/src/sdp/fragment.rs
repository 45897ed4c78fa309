//! `application/trickle-ice-sdpfrag` (RFC 8840): candidates sent later, and ICE restarts (RFC 9725
//! section 4.3).
//!
//! ```text
//! a=ice-ufrag:EsAw            of the session or of a media description: which generation the candidates are of
//! a=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1
//! m=audio 9 RTP/AVP 0         a placeholder; its mid says which transport is meant
//! a=mid:0
//! a=candidate:...
//! a=end-of-candidates
//! ```
//!
//! With one bundled transport it does not matter which description has a candidate, so all are
//! merged.

use std::fmt;

use super::error::{Limit, SdpError};
use super::{CANDIDATES_MAX, Candidate, IceCredentials, LINE_BYTES_MAX, LINES_MAX};

/// Largest fragment that is read, in bytes: enough for the maximum number of candidates.
const FRAGMENT_BYTES_MAX: usize = 64 * 1024;

/// A fragment: news about one side's end of the transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrickleFragment {
    /// User fragment the candidates are for, if given. Another than the session's asks for an ICE
    /// restart.
    pub ufrag: Option<String>,
    /// Password belonging to it; needed for a restart.
    pub password: Option<String>,
    /// Candidates that can be used here.
    pub candidates: Vec<Candidate>,
    /// No more candidates will follow.
    pub end_of_candidates: bool,
    /// Only for printing: the sender is ICE-lite.
    pub ice_lite: bool,
    /// `a=mid` of the description the transport is written in; empty for none.
    pub mid: String,
}

impl TrickleFragment {
    /// The credentials, when both parts are there and well-formed.
    #[must_use]
    pub fn ice(&self) -> Option<IceCredentials> {
        IceCredentials::new(self.ufrag.as_deref()?, self.password.as_deref()?)
    }

    /// The answer of an ICE-lite agent to an ICE restart: new credentials and all candidates.
    #[must_use]
    pub fn restarted(ice: &IceCredentials, candidates: &[Candidate], mid: &str) -> Self {
        Self {
            ufrag: Some(ice.ufrag.clone()),
            password: Some(ice.password.clone()),
            candidates: candidates.to_vec(),
            end_of_candidates: true,
            ice_lite: true,
            mid: mid.to_owned(),
        }
    }
}

/// Reads a fragment. Lines that mean nothing for a transport are skipped.
///
/// # Errors
///
/// [`SdpError::TooMuch`], [`SdpError::Syntax`] for a line that is not `x=...`, and
/// [`SdpError::NoIceCredentials`] when a user fragment or password has a wrong length or wrong
/// characters.
pub fn parse_fragment(text: &str) -> Result<TrickleFragment, SdpError> {
    if text.len() > FRAGMENT_BYTES_MAX {
        return Err(SdpError::TooMuch(Limit::Bytes));
    }
    let mut fragment = TrickleFragment::default();
    let mut candidate_lines = 0;
    for (at, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if at >= LINES_MAX {
            return Err(SdpError::TooMuch(Limit::Lines));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(SdpError::TooMuch(Limit::LineBytes));
        }
        if line.is_empty() {
            continue;
        }
        if line.as_bytes().get(1) != Some(&b'=') || line.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(SdpError::Syntax(u32::try_from(at + 1).unwrap_or(u32::MAX)));
        }
        candidate_lines += usize::from(line.starts_with("a=candidate:"));
        if candidate_lines > CANDIDATES_MAX {
            return Err(SdpError::TooMuch(Limit::Candidates));
        }
        fragment.take(line);
    }
    fragment.check()
}

impl TrickleFragment {
    fn take(&mut self, line: &str) {
        let Some(attribute) = line.strip_prefix("a=") else { return };
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        match name {
            // The first of each: what is repeated per media description is the same, or of a
            // transport that the bundle does not use.
            "ice-ufrag" => drop(self.ufrag.get_or_insert_with(|| value.trim().to_owned())),
            "ice-pwd" => drop(self.password.get_or_insert_with(|| value.trim().to_owned())),
            "candidate" => self.candidates.extend(Candidate::parse(value).filter(|it| it.component == 1)),
            "end-of-candidates" => self.end_of_candidates = true,
            "ice-lite" => self.ice_lite = true,
            "mid" if self.mid.is_empty() => value.trim().clone_into(&mut self.mid),
            _ => {}
        }
    }

    /// Whether what is there of the credentials is well-formed.
    fn check(self) -> Result<Self, SdpError> {
        const FILLER: &str = "0123456789012345678901";
        let ufrag = self.ufrag.as_deref().unwrap_or(FILLER);
        let password = self.password.as_deref().unwrap_or(FILLER);
        IceCredentials::new(ufrag, password).map(|_| ()).ok_or(SdpError::NoIceCredentials)?;
        Ok(self)
    }
}

/// The fragment as a body for PATCH or the answer to it.
impl fmt::Display for TrickleFragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ice_lite {
            f.write_str("a=ice-lite\r\n")?;
        }
        f.write_str("a=ice-options:trickle ice2\r\n")?;
        if !self.mid.is_empty() {
            write!(f, "a=group:BUNDLE {0}\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\na=mid:{0}\r\n", self.mid)?;
        }
        if let Some(ufrag) = &self.ufrag {
            write!(f, "a=ice-ufrag:{ufrag}\r\n")?;
        }
        if let Some(password) = &self.password {
            write!(f, "a=ice-pwd:{password}\r\n")?;
        }
        for candidate in &self.candidates {
            write!(f, "a={candidate}\r\n")?;
        }
        if self.end_of_candidates { f.write_str("a=end-of-candidates\r\n") } else { Ok(()) }
    }
}
