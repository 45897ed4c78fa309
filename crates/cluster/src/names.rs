//! Names of nodes and streams, and how they become keys of the directory.
//!
//! Keys of NATS are tokens of a few ASCII characters; names of streams have letters of any script and `/`.
//! Every byte that is no letter, digit or `-` of ASCII is written as `_` and two hexadecimal digits, so that
//! each name has one key and each key one name.

use std::fmt;
use std::sync::Arc;

/// Name of a node: 1 to 64 characters `a-z`, `A-Z`, `0-9`, `-`, `_` and `.`, first of all a letter or digit.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName(Arc<str>);

/// Name of a stream, `app/stream`: 3 to [`STREAM_NAME_BYTES_MAX`] bytes without control characters, with a
/// `/` inside. Which characters a server takes from clients is its own, narrower rule.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(Arc<str>);

/// A name of an application and one of a stream, each up to 255 bytes, and the `/` between.
pub const STREAM_NAME_BYTES_MAX: usize = 511;

const NODE_NAME_BYTES_MAX: usize = 64;

impl NodeName {
    /// `name`, unless it breaks the rule.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (1..=NODE_NAME_BYTES_MAX).contains(&name.len())
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        fits.then(|| Self(Arc::from(name)))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn token(&self) -> String {
        to_token(&self.0)
    }

    pub(crate) fn from_token(token: &str) -> Option<Self> {
        Self::new(&from_token(token)?)
    }
}

impl StreamName {
    /// `name`, unless it breaks the rule.
    pub fn new(name: &str) -> Option<Self> {
        let fits = (3..=STREAM_NAME_BYTES_MAX).contains(&name.len())
            && !name.chars().any(char::is_control)
            && name.split('/').count() > 1
            && name.split('/').all(|part| !part.is_empty());
        fits.then(|| Self(Arc::from(name)))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn token(&self) -> String {
        to_token(&self.0)
    }

    pub(crate) fn from_token(token: &str) -> Option<Self> {
        Self::new(&from_token(token)?)
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn to_token(name: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut token = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        if is_plain(byte) {
            token.push(char::from(byte));
        } else {
            token.push('_');
            token.push(char::from(HEX[usize::from(byte >> 4)]));
            token.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    token
}

fn from_token(token: &str) -> Option<String> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let mut name = Vec::with_capacity(token.len());
    let mut bytes = token.bytes();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'_' => {
                let byte = digit(bytes.next()?)? << 4 | digit(bytes.next()?)?;
                // A second spelling of the same name would be a second publisher.
                if is_plain(byte) {
                    return None;
                }
                byte
            }
            plain if is_plain(plain) => plain,
            _ => return None,
        });
    }
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_one_key_and_each_key_one_name() {
        for name in ["live/a", "a/b/c", "live/жук.mp4", "live/a_b~+@:", "live/_41", "x/%2F"] {
            let name = StreamName::new(name).unwrap();
            let token = name.token();
            assert!(token.bytes().all(|byte| is_plain(byte) || byte == b'_'), "{token}");
            assert_eq!(StreamName::from_token(&token).as_ref(), Some(&name), "{token}");
        }
        // (token, remark)
        for (token, remark) in [
            ("live_2Fa_61", "a letter that needs no digits"),
            ("live_2fa", "small digits"),
            ("live_2", "half a byte"),
            ("live_2F_FF", "no UTF-8"),
            ("live.a", "two tokens"),
            ("live", "no application"),
            ("_2Flive", "an empty part"),
            ("", "nothing"),
            ("live_2Fa_0A", "a control character"),
        ] {
            assert_eq!(StreamName::from_token(token), None, "{remark}");
        }
        assert_eq!(StreamName::new(&format!("a/{}", "b".repeat(STREAM_NAME_BYTES_MAX))), None);
    }

    #[test]
    fn names_of_nodes_are_short_and_plain() {
        for name in ["a", "edge-1.fra", "N_2"] {
            assert_eq!(NodeName::from_token(&NodeName::new(name).unwrap().token()).unwrap().as_str(), name);
        }
        for name in ["", "-a", ".a", "a b", "a/b", "ж", &"a".repeat(65)] {
            assert_eq!(NodeName::new(name), None, "{name}");
        }
    }
}
