//! User fragment and password of an ICE agent (RFC 8839 section 5.4).

use serde::{Deserialize, Serialize};

use super::candidate::is_ice_char;

/// What STUN checks between two agents are named and authenticated by.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IceCredentials {
    /// `a=ice-ufrag`: 4 to 256 characters.
    pub ufrag: String,
    /// `a=ice-pwd`: 22 to 256 characters.
    pub password: String,
}

impl IceCredentials {
    /// Checks both for length and characters.
    ///
    /// Besides the standard's letters, digits, `+` and `/`, the characters `-`, `_` and `=` of
    /// other base-64 forms are taken. A colon never is: it separates the fragments in STUN's
    /// USERNAME.
    #[must_use]
    pub fn new(ufrag: &str, password: &str) -> Option<Self> {
        let good = |text: &str| text.chars().all(|c| is_ice_char(c) || matches!(c, '-' | '_' | '='));
        let right = (4..=256).contains(&ufrag.len()) && (22..=256).contains(&password.len());
        (right && good(ufrag) && good(password))
            .then(|| Self { ufrag: ufrag.to_owned(), password: password.to_owned() })
    }
}

/// Leaves out the password, which must not reach a log.
impl std::fmt::Debug for IceCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IceCredentials").field("ufrag", &self.ufrag).finish_non_exhaustive()
    }
}
