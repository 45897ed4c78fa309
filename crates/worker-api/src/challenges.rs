//! What certificate authorities ask of this server to see that it has the names it orders a
//! certificate for: by TLS (tls-alpn-01, RFC 8737) and by HTTP (http-01, RFC 8555 section 8.3).
//!
//! There is something to answer only while an order is open. Workers ask only about handshakes that
//! say they are such a challenge, control about requests for one path; both find the answers here.
//! `acme` puts them in.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::sign::CertifiedKey;

/// The protocol of TLS (ALPN) that challenges name, and nothing else does.
pub const TLS_PROTOCOL: &[u8] = b"acme-tls/1";
/// Path of requests with challenges; a token follows.
pub const HTTP_PATH: &str = "/.well-known/acme-challenge/";
/// Answers that may wait at a time, of each kind: an order has at most 100 names.
const ANSWERS_MAX: usize = 128;

/// Answers to challenges.
#[derive(Default)]
pub struct Challenges(RwLock<Answers>);

#[derive(Default)]
struct Answers {
    /// By name, in lower case.
    tls: HashMap<String, Arc<CertifiedKey>>,
    /// By token.
    http: HashMap<String, String>,
}

impl Challenges {
    /// Shows `key` to handshakes with a challenge for `name`, in lower case. False: there is no
    /// room.
    pub fn answer_tls(&self, name: String, key: CertifiedKey) -> bool {
        let mut answers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = answers.tls.len() < ANSWERS_MAX;
        if has_room {
            answers.tls.insert(name, Arc::new(key));
        }
        has_room
    }

    /// Answers requests with `token` with `text`. False: there is no room.
    pub fn answer_http(&self, token: String, text: String) -> bool {
        let mut answers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let has_room = answers.http.len() < ANSWERS_MAX;
        if has_room {
            answers.http.insert(token, text);
        }
        has_room
    }

    /// Answers nothing any more.
    pub fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Answers::default();
    }

    /// The certificate for a challenge about `name`.
    pub fn tls_answer(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        answers.tls.get(&name.to_ascii_lowercase()).cloned()
    }

    /// The text for a request with `token`.
    pub fn http_answer(&self, token: &str) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).http.get(token).cloned()
    }
}

impl fmt::Debug for Challenges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        write!(f, "{} and {} answers to challenges", answers.tls.len(), answers.http.len())
    }
}

/// Whether a client with these protocols (ALPN) is an authority with a challenge (RFC 8737 section
/// 3).
pub fn is_tls_challenge<'a>(mut protocols: impl Iterator<Item = &'a [u8]>) -> bool {
    protocols.next() == Some(TLS_PROTOCOL) && protocols.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_its_protocol_and_no_other() {
        let cases: [(&[&[u8]], bool); 5] = [
            (&[b"acme-tls/1"], true),
            (&[b"h2", b"acme-tls/1"], false),
            (&[b"acme-tls/1", b"http/1.1"], false),
            (&[b"h2"], false),
            (&[], false),
        ];
        for (protocols, expected) in cases {
            assert_eq!(is_tls_challenge(protocols.iter().copied()), expected, "{protocols:?}");
        }
    }

    #[test]
    fn answers_are_there_until_they_are_cleared_and_bounded() {
        let challenges = Challenges::default();
        for token in 0..ANSWERS_MAX {
            assert!(challenges.answer_http(token.to_string(), "text".to_owned()));
        }
        assert!(!challenges.answer_http("one more".to_owned(), String::new()));
        assert_eq!(challenges.http_answer("7").as_deref(), Some("text"));
        assert_eq!(challenges.http_answer("one more"), None);
        challenges.clear();
        assert_eq!(challenges.http_answer("7"), None);
    }
}
