//! Keys, each with the one algorithm it is used with: a secret, and those of a key set (RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Longest key set, and how many keys of one are used.
const SET_BYTES_MAX: usize = 256 << 10;
const KEYS_MAX: usize = 64;
/// Shortest secret of HS256: its hash (RFC 7518 section 3.2).
const SECRET_BYTES_MIN: usize = 32;

/// What is wrong with keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyError {
    /// The secret is too short.
    ShortSecret,
    /// It is not a key set.
    NotASet(String),
    /// It has no key that can be used.
    NoKey,
}

impl std::fmt::Display for KeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ShortSecret => write!(f, "a secret for HS256 has at least {SECRET_BYTES_MIN} bytes"),
            Self::NotASet(why) => write!(f, "not a JSON Web Key Set: {why}"),
            Self::NoKey => {
                f.write_str("no key in it can be used: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA)")
            }
        }
    }
}

impl std::error::Error for KeyError {}

/// A key and what it is used with.
#[derive(Clone)]
pub(crate) struct Key {
    id: Option<Box<str>>,
    algorithm: Algorithm,
    pub(crate) decoding: DecodingKey,
}

impl Key {
    pub(crate) fn secret(secret: &[u8]) -> Result<Self, KeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret);
        }
        let decoding = DecodingKey::from_secret(secret).map_err(|_| KeyError::ShortSecret)?;
        Ok(Self { id: None, algorithm: Algorithm::HS256, decoding })
    }

    /// A public key for signatures, of a kind that is supported.
    fn from_set(value: Value) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
            // Whoever can read the set knows a secret in it.
            _ => return None,
        };
        let common = &jwk.common;
        let is_meant = common.key_algorithm.is_none_or(|named| Algorithm::try_from(named) == Ok(algorithm))
            && common.public_key_use.as_ref().is_none_or(|named| *named == PublicKeyUse::Signature)
            && common.key_operations.as_ref().is_none_or(|named| named.contains(&KeyOperations::Verify));
        let decoding = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_meant)?;
        Some(Self { id: jwk.common.key_id.map(String::into_boxed_str), algorithm, decoding })
    }
}

/// The algorithm of this name, if it is supported.
pub(crate) fn algorithm(name: &str) -> Option<Algorithm> {
    match name {
        "HS256" => Some(Algorithm::HS256),
        "RS256" => Some(Algorithm::RS256),
        "ES256" => Some(Algorithm::ES256),
        "EdDSA" => Some(Algorithm::EdDSA),
        _ => None,
    }
}

/// Public keys, as an identity system publishes them.
#[derive(Default, Clone)]
pub struct KeySet {
    keys: Vec<Key>,
    left_out: usize,
}

impl KeySet {
    /// Reads a JSON Web Key Set. Keys of other kinds, and secrets, are left out.
    ///
    /// # Errors
    /// If it is none, or if nothing of it can be used.
    pub fn parse(json: &[u8]) -> Result<Self, KeyError> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        if json.len() > SET_BYTES_MAX {
            return Err(KeyError::NotASet(format!("longer than {} kB", SET_BYTES_MAX >> 10)));
        }
        let set: Set = serde_json::from_slice(json).map_err(|error| KeyError::NotASet(error.to_string()))?;
        let all = set.keys.len();
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::from_set).take(KEYS_MAX).collect();
        let left_out = all - keys.len();
        if keys.is_empty() { Err(KeyError::NoKey) } else { Ok(Self { keys, left_out }) }
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many keys of the set are not used.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Keys of `algorithm`: with this id, or any for a token that names none.
    pub(crate) fn of(&self, algorithm: Algorithm, id: Option<&str>) -> impl Iterator<Item = &Key> {
        let is_it =
            move |key: &&Key| key.algorithm == algorithm && id.is_none_or(|id| key.id.as_deref() == Some(id));
        self.keys.iter().filter(is_it)
    }
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}
