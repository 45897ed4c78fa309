//! Who a client says it is: Basic (RFC 7617) and Digest with MD5 (RFC 2617, as all clients of RTSP speak it).
//!
//! The password is the token; the name of the user is anything. A nonce is of one connection, so that what
//! was heard of one opens no other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

/// Realm of the challenges.
pub(crate) const REALM: &str = "millstream";

/// What a client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A token: of the URL, or the password of Basic, or a bearer's.
    Token(String),
    /// An answer to a challenge, which shows that it knows a token.
    Digest(Response),
}

/// An answer to a challenge of Digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    username: String,
    uri: String,
    /// `nonce:nc:cnonce:qop`, or the nonce alone, as it is hashed.
    middle: String,
    method: String,
    response: String,
}

/// Which challenges a client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// It may show a token by Basic.
    pub basic: bool,
    /// It may show that it knows a token by Digest.
    pub digest: bool,
}

impl Credential {
    /// Whether the client knows `token`. Not for tokens that are shown: those are compared by the caller.
    pub fn knows(&self, token: &str) -> bool {
        let Self::Digest(response) = self else { return false };
        let Response { username, uri, middle, method, response } = response;
        let known = hash(&format!("{username}:{REALM}:{token}"));
        let asked = hash(&format!("{method}:{uri}"));
        let expected = hash(&format!("{known}:{middle}:{asked}"));
        // No early end, so that time tells nothing.
        let differs = expected.bytes().zip(response.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        expected.len() == response.len() && differs == 0
    }
}

/// Reads an `Authorization` field of a request of `method`. `None` if it is none, or not for `nonce`.
pub(crate) fn read(field: &str, method: &str, nonce: &str) -> Option<Credential> {
    let (scheme, rest) = field.trim().split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "basic" => {
            let bytes = STANDARD.decode(rest.trim()).ok()?;
            let text = String::from_utf8(bytes).ok()?;
            let (_, password) = text.split_once(':')?;
            Some(Credential::Token(password.to_owned()))
        }
        "bearer" => Some(Credential::Token(rest.trim().to_owned())),
        "digest" => {
            let mut fields = Fields { rest };
            let (mut username, mut uri, mut response) = (None, None, None);
            let (mut shown, mut realm, mut nc, mut cnonce, mut qop) = (None, None, None, None, None);
            while let Some((key, value)) = fields.next_field() {
                let place = match key.to_ascii_lowercase().as_str() {
                    "username" => &mut username,
                    "uri" => &mut uri,
                    "response" => &mut response,
                    "nonce" => &mut shown,
                    "realm" => &mut realm,
                    "nc" => &mut nc,
                    "cnonce" => &mut cnonce,
                    "qop" => &mut qop,
                    "algorithm" if !value.eq_ignore_ascii_case("MD5") => return None,
                    _ => continue,
                };
                // Of a field that is there twice, nobody knows which one counts.
                if place.replace(value).is_some() {
                    return None;
                }
            }
            if shown.as_deref() != Some(nonce) || realm.as_deref() != Some(REALM) {
                return None;
            }
            let middle = match qop {
                Some(qop) => format!("{nonce}:{}:{}:{qop}", nc?, cnonce?),
                None => nonce.to_owned(),
            };
            let response = response?.to_ascii_lowercase();
            let method = method.to_owned();
            Some(Credential::Digest(Response { username: username?, uri: uri?, middle, method, response }))
        }
        _ => None,
    }
}

/// `WWW-Authenticate` fields.
pub(crate) fn challenges(offered: Offered, nonce: &str) -> impl Iterator<Item = String> {
    let digest = offered.digest.then(|| format!("Digest realm=\"{REALM}\", nonce=\"{nonce}\""));
    let basic = offered.basic.then(|| format!("Basic realm=\"{REALM}\""));
    digest.into_iter().chain(basic)
}

fn hash(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `key="value", key=value, ...`
pub(crate) struct Fields<'a> {
    pub(crate) rest: &'a str,
}

impl Fields<'_> {
    pub(crate) fn next_field(&mut self) -> Option<(String, String)> {
        let rest = self.rest.trim_start_matches([' ', '\t', ',']);
        let (key, rest) = rest.split_once('=')?;
        let (value, rest) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => {
                let mut value = String::new();
                let mut chars = quoted.char_indices();
                let end = loop {
                    match chars.next()? {
                        (_, '\\') => value.push(chars.next()?.1),
                        (at, '"') => break at + 1,
                        (_, char) => value.push(char),
                    }
                };
                (value, &quoted[end..])
            }
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        self.rest = rest;
        Some((key.trim().to_owned(), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_basic_is_the_token() {
        let token = |text: &str| Some(Credential::Token(text.to_owned()));
        assert_eq!(read("Basic dXNlcjpzZWNyZXQ=", "DESCRIBE", ""), token("secret"));
        assert_eq!(read("basic OmE6Yg==", "DESCRIBE", ""), token("a:b"), "no user, and a colon in it");
        assert_eq!(read("Bearer abc", "DESCRIBE", ""), token("abc"));
        for field in ["", "Basic", "Basic ???", "Basic dXNlcg==", "Basic //8=", "Other abc"] {
            assert_eq!(read(field, "DESCRIBE", ""), None, "{field}");
        }
    }

    /// The example of RFC 2617 section 3.5, with this realm.
    fn answer(method: &str, token: &str) -> String {
        let known = hash(&format!("me:{REALM}:{token}"));
        let asked = hash(&format!("{method}:rtsp://h/live/a"));
        let response = hash(&format!("{known}:n1:{asked}"));
        format!(
            "Digest username=\"me\", realm=\"{REALM}\", nonce=\"n1\", uri=\"rtsp://h/live/a\", \
             response=\"{response}\""
        )
    }

    #[test]
    fn digest_shows_that_a_token_is_known() {
        let credential = read(&answer("DESCRIBE", "secret"), "DESCRIBE", "n1").expect("one");
        assert!(credential.knows("secret"));
        assert!(!credential.knows("other"));
        let of_other_method = read(&answer("DESCRIBE", "secret"), "PLAY", "n1").expect("one");
        assert!(!of_other_method.knows("secret"));
        assert_eq!(read(&answer("DESCRIBE", "secret"), "DESCRIBE", "n2"), None, "another connection's");
    }

    /// RFC 2617 section 3.5.
    #[test]
    fn the_hash_is_that_of_the_example_in_the_rfc() {
        let known = hash("Mufasa:testrealm@host.com:Circle Of Life");
        let asked = hash("GET:/dir/index.html");
        let middle = "dcd98b7102dd2f0e8b11d0f600bfb0c093:00000001:0a4f113b:auth";
        assert_eq!(hash(&format!("{known}:{middle}:{asked}")), "6629fae49393a05397450978507c4ef1");
    }

    #[test]
    fn broken_answers_are_none() {
        let good = answer("DESCRIBE", "secret");
        for end in 0..good.len() {
            let read = read(&good[..end], "DESCRIBE", "n1");
            assert!(read.is_none_or(|credential| !credential.knows("secret")), "{end}");
        }
        assert_eq!(read(&format!("{good}, nonce=\"n1\""), "DESCRIBE", "n1"), None, "twice");
        assert_eq!(read(&format!("{good}, algorithm=SHA-256"), "DESCRIBE", "n1"), None);
        assert_eq!(read(&format!("{good}, qop=auth"), "DESCRIBE", "n1"), None, "qop without its fields");
    }
}
