//! How a client answers challenges: Basic (RFC 7617) and Digest with MD5 or SHA-256 (RFC 7616).

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use crate::auth::Fields;

/// Who the client says it is.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    /// Name of the user.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// Never with what is secret.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

/// What a server wants to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    Basic,
    Digest { realm: String, nonce: String, opaque: Option<String>, sha256: bool, has_qop: bool, uses: u32 },
}

impl Challenge {
    /// Reads a `WWW-Authenticate` field, which may have several challenges; Digest goes first. `None`
    /// if none of them can be answered.
    pub(crate) fn read(field: &str) -> Option<Self> {
        let lower = field.to_ascii_lowercase();
        let digests = lower.match_indices("digest ").filter_map(|(at, scheme)| {
            let is_scheme = at == 0 || matches!(lower.as_bytes()[at - 1], b' ' | b',' | b'\t');
            is_scheme.then(|| Self::digest(&field[at + scheme.len()..])).flatten()
        });
        let basic = || (lower.starts_with("basic") || lower.contains(", basic")).then_some(Self::Basic);
        digests.take(CHALLENGES_MAX).next().or_else(basic)
    }

    fn digest(rest: &str) -> Option<Self> {
        let mut fields = Fields { rest };
        let (mut realm, mut nonce, mut opaque, mut sha256, mut has_qop) = (None, None, None, false, false);
        while let Some((key, value)) = fields.next_field() {
            match key.to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value),
                "nonce" => nonce = Some(value),
                "opaque" => opaque = Some(value),
                "algorithm" if value.eq_ignore_ascii_case("MD5") => {}
                "algorithm" if value.eq_ignore_ascii_case("SHA-256") => sha256 = true,
                "algorithm" => return None,
                "qop" => has_qop = value.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")),
                // The next challenge begins.
                key if key.contains(' ') => break,
                _ => {}
            }
        }
        let (realm, nonce) = (realm?, nonce?);
        // They are sent back in quotation marks.
        let is_plain = |text: &String| !text.contains(['"', '\\']) && !text.contains(char::is_control);
        let is_plain = is_plain(&realm) && is_plain(&nonce) && opaque.iter().all(is_plain);
        is_plain.then_some(Self::Digest { realm, nonce, opaque, sha256, has_qop, uses: 0 })
    }

    /// Whether `other` asks for the same again: what was shown is wrong.
    pub(crate) fn is_repeated_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Digest { nonce, .. }, Self::Digest { nonce: other, .. }) => nonce == other,
            _ => self == other,
        }
    }

    /// The `Authorization` field of a request.
    pub(crate) fn answer(&mut self, login: &Login, method: &str, uri: &str) -> String {
        let Login { user, password } = login;
        let Self::Digest { realm, nonce, opaque, sha256, has_qop, uses } = self else {
            return format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        };
        let hash = |text: String| if *sha256 { hash_sha256(&text) } else { hash_md5(&text) };
        let known = hash(format!("{user}:{realm}:{password}"));
        let asked = hash(format!("{method}:{uri}"));
        // Quotation marks and backslashes are escaped as quoted strings want it.
        let shown = user.replace('\\', "\\\\").replace('"', "\\\"");
        let mut field =
            format!("Digest username=\"{shown}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\"");
        if *has_qop {
            *uses = uses.wrapping_add(1);
            let own: String = crate::random()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let response = hash(format!("{known}:{nonce}:{uses:08x}:{own}:auth:{asked}"));
            field += &format!(", response=\"{response}\", qop=auth, nc={uses:08x}, cnonce=\"{own}\"");
        } else {
            field += &format!(", response=\"{}\"", hash(format!("{known}:{nonce}:{asked}")));
        }
        if *sha256 {
            field += ", algorithm=SHA-256";
        }
        if let Some(opaque) = opaque {
            field += &format!(", opaque=\"{opaque}\"");
        }
        field
    }
}

/// Challenges of Digest in one field that are looked at.
const CHALLENGES_MAX: usize = 4;

fn hash_md5(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

fn hash_sha256(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login() -> Login {
        Login { user: "Mufasa".to_owned(), password: "Circle Of Life".to_owned() }
    }

    /// RFC 2617 section 3.5, without `qop`: the hash over the same values.
    #[test]
    fn digest_is_answered_as_in_rfc_2069() {
        let nonce = "dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let field = format!("Digest realm=\"testrealm@host.com\", nonce=\"{nonce}\", opaque=\"5ccc\"");
        let mut challenge = Challenge::read(&field).expect("one");
        let answer = challenge.answer(&login(), "GET", "/dir/index.html");
        assert!(answer.contains("response=\"670fd8c2df070c60b045671b8b24ff02\""), "{answer}");
        assert!(answer.ends_with("opaque=\"5ccc\""), "{answer}");
    }

    #[test]
    fn of_several_challenges_digest_is_answered() {
        for field in [
            "Digest realm=\"a\", nonce=\"n\", Basic realm=\"b\"",
            "Basic realm=\"b\", Digest realm=\"a\", nonce=\"n\"",
            "digest realm=\"a\",nonce=\"n\",stale=false,qop=\"auth\"",
        ] {
            let challenge = Challenge::read(field);
            assert!(
                matches!(&challenge, Some(Challenge::Digest { realm, nonce, .. }) if realm == "a" && nonce == "n"),
                "{field}: {challenge:?}"
            );
        }
        assert_eq!(Challenge::read("Basic realm=\"b\""), Some(Challenge::Basic));
        for field in
            ["", "Bearer", "Digest", "Digest realm=\"a\"", "Digest realm=\"a\", nonce=\"n\", algorithm=X"]
        {
            assert_eq!(Challenge::read(field), None, "{field}");
        }
        let injected = "Digest realm=\"a\\\"\", nonce=\"n\"";
        assert_eq!(Challenge::read(injected), None, "it would end the quoted string");
    }

    #[test]
    fn a_login_is_never_shown() {
        assert_eq!(format!("{:?}", login()), "Login");
    }
}
