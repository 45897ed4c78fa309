//! What `[acme]` means.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What is ordered, and from whom.
#[derive(Debug, Clone)]
pub struct AcmeSettings {
    /// The names of each certificate, in lower case; none is empty.
    pub orders: Vec<Vec<String>>,
    /// Whom the authority writes to, as URLs (`mailto:`).
    pub contact: Vec<String>,
    /// The authority's directory: a URL with `https`.
    pub directory: String,
    /// How it is shown that the names are this server's.
    pub challenge: ChallengeKind,
    /// Where the account and the certificates are kept.
    pub state_directory: PathBuf,
    /// The account at the authority that the new one belongs to, if it wants one.
    pub external_account: Option<ExternalAccount>,
    /// Authorities that are trusted for HTTPS to the directory besides those of the system.
    pub extra_roots_pem: Vec<u8>,
    /// How long before its end a certificate is renewed; `None`: a third of its life.
    pub renew_before: Option<Duration>,
}

/// How it is shown that names are a server's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By a certificate at port 443 (tls-alpn-01).
    Tls,
    /// By a text at port 80 (http-01).
    Http,
}

/// An account that exists at the authority (RFC 8555 section 7.3.4).
#[derive(Clone)]
pub struct ExternalAccount {
    /// Which.
    pub key_id: String,
    /// HMAC key.
    pub key: Vec<u8>,
}

impl fmt::Debug for ExternalAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAccount").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}
