//! JSON Web Tokens (RFC 7519): signed elsewhere, they say what their bearer may do and until when.
//!
//! ```text
//! token ─▶ header: algorithm, key id ─▶ key ─▶ signature ─▶ claims: time, issuer, audience ─▶ Grant
//!                                        ▲
//!                 secret, key set ([`KeySet`]), replaced while in use
//! ```
//!
//! The cryptography is `jsonwebtoken`'s. Here is what has to hold around it (RFC 8725): each key has one
//! algorithm, and a token is checked with a key of the algorithm it names, so that a public key is never
//! the secret of an HMAC; the secret is no part of a key set; nothing in a token says which key to trust
//! beyond its id; a name that is there twice, an extension that is not understood and a token without an
//! end are refused. Reads no clock, opens no socket.

mod claims;
mod keys;
mod known;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, Validation};

use claims::{Names, Words};
use keys::Key;
use known::Known;

pub use claims::{Action, Grant};
pub use keys::{KeyError, KeySet};

/// Longest token that is looked at.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Keys without the id that a token names, or of which none has an id, that are tried for it.
const KEYS_TRIED_MAX: usize = 4;

/// Why a token is refused. Says which rule, and nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is not a token of this form.
    Malformed,
    /// It names an algorithm for which there is no key.
    Algorithm,
    /// It names an extension that has to be understood, and is not.
    Critical,
    /// No key has the id that it names.
    UnknownKey,
    /// It is not signed by the key.
    Signature,
    /// It does not say when it ends.
    WithoutEnd,
    /// It has ended.
    Ended,
    /// It is not valid yet.
    NotYet,
    /// It is of another issuer.
    Issuer,
    /// It is for another audience.
    Audience,
    /// It does not allow this action.
    Action,
    /// It does not allow it with this stream.
    Stream,
}

impl Refused {
    /// One sentence for the bearer and the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "the token is malformed",
            Self::Algorithm => "no key is configured for the token's algorithm",
            Self::Critical => "the token has a critical extension that is not supported",
            Self::UnknownKey => "the token's key is not known",
            Self::Signature => "the token's signature is not valid",
            Self::WithoutEnd => "the token has no expiry time (exp)",
            Self::Ended => "the token has expired",
            Self::NotYet => "the token is not valid yet (nbf)",
            Self::Issuer => "the token is of another issuer (iss)",
            Self::Audience => "the token is for another audience (aud)",
            Self::Action => "the token does not allow this action",
            Self::Stream => "the token does not allow this stream",
        }
    }

    /// Name in API errors and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Self::Malformed => "token_malformed",
            Self::Algorithm => "token_algorithm",
            Self::Critical => "token_critical",
            Self::UnknownKey => "token_unknown_key",
            Self::Signature => "token_signature",
            Self::WithoutEnd => "token_without_expiry",
            Self::Ended => "token_expired",
            Self::NotYet => "token_not_yet_valid",
            Self::Issuer => "token_issuer",
            Self::Audience => "token_audience",
            Self::Action => "token_action",
            Self::Stream => "token_stream",
        }
    }
}

/// What tokens have to say.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Their issuer, if it matters.
    pub issuer: Option<String>,
    /// Their audience. Without one, tokens for an audience are refused (RFC 7519 section 4.1.3).
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
    /// The claim that names streams.
    pub stream_claim: String,
    /// The claim that names actions.
    pub actions_claim: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            issuer: None,
            audience: None,
            leeway: Duration::from_secs(10),
            stream_claim: "stream".to_owned(),
            actions_claim: "actions".to_owned(),
        }
    }
}

/// Checks tokens. Shared by all threads.
pub struct Verifier {
    settings: Settings,
    secret: Option<Key>,
    keys: RwLock<Arc<KeySet>>,
    known: Mutex<Known>,
    /// How often a token named a key that is not there: a reason to read the keys again.
    unknown_keys: std::sync::atomic::AtomicU64,
}

impl Verifier {
    /// One with a secret for HS256, or none, and without other keys.
    ///
    /// # Errors
    /// If the secret is shorter than its hash (RFC 7518 section 3.2).
    pub fn new(settings: Settings, secret: Option<&[u8]>) -> Result<Self, KeyError> {
        let secret = secret.map(Key::secret).transpose()?;
        Ok(Self {
            settings,
            secret,
            keys: RwLock::default(),
            known: Mutex::default(),
            unknown_keys: 0.into(),
        })
    }

    /// From now on these keys count, and none of those before.
    pub fn set_keys(&self, keys: KeySet) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        // What a key that has gone has signed is not known any more.
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// When sessions are to end that began with this: as long as it lets anybody in.
    pub fn end_of(&self, grant: &Grant) -> Duration {
        grant.until() + self.settings.leeway
    }

    /// How many tokens named a key that was not there, or an algorithm for which there is none.
    pub fn unknown_keys(&self) -> u64 {
        self.unknown_keys.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whether `text` has the form of a token: three parts between points.
    pub fn is_one(text: &str) -> bool {
        text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// What the bearer of `token` may do; `now` is since 1970.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn verify(&self, token: &str, now: Duration) -> Result<Arc<Grant>, Refused> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refused::Malformed);
        }
        let digest = digest::digest(&digest::SHA256, token.as_bytes());
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(digest.as_ref());
        let (generation, known) = known;
        let grant = match known {
            Some(grant) => grant,
            None => {
                let grant = Arc::new(self.signed(token)?);
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.put(generation, digest.as_ref(), grant.clone(), now);
                grant
            }
        };
        grant.check_time(now, self.settings.leeway)?;
        Ok(grant)
    }

    /// What a token says, if it is signed and for us.
    fn signed(&self, token: &str) -> Result<Grant, Refused> {
        let header = token.split('.').next().unwrap_or_default();
        let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| Refused::Malformed)?;
        let header: Words = serde_json::from_slice(&header).map_err(|_| Refused::Malformed)?;
        if header.get("crit").is_some() {
            return Err(Refused::Critical);
        }
        let algorithm = header.text("alg")?.ok_or(Refused::Malformed)?;
        let algorithm = keys::algorithm(algorithm).ok_or(Refused::Algorithm)?;
        let id = header.text("kid")?;
        let set = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let candidates: Vec<&Key> = match algorithm {
            Algorithm::HS256 => self.secret.iter().collect(),
            _ => set.of(algorithm, id).take(KEYS_TRIED_MAX).collect(),
        };
        if candidates.is_empty() {
            if algorithm == Algorithm::HS256 {
                return Err(Refused::Algorithm);
            }
            self.unknown_keys.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return Err(if id.is_some() { Refused::UnknownKey } else { Refused::Algorithm });
        }
        let mut refused = Refused::Signature;
        for key in candidates {
            match jsonwebtoken::decode::<Words>(token, &key.decoding, &signature_only(algorithm)) {
                Ok(decoded) => {
                    let Settings { issuer, audience, stream_claim, actions_claim, .. } = &self.settings;
                    let names = Names { issuer, audience, stream_claim, actions_claim };
                    return Grant::read(&decoded.claims, &names);
                }
                Err(error) if matches!(error.kind(), jsonwebtoken::errors::ErrorKind::InvalidSignature) => {}
                // Signed, and then not JSON, or with a name twice.
                Err(_) => refused = Refused::Malformed,
            }
        }
        Err(refused)
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// Nothing but the signature: the claims are read here, by their configured names and by the caller's clock.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    validation
}

#[cfg(test)]
mod signer;
#[cfg(test)]
mod tests;
