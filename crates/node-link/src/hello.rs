//! How two nodes introduce themselves, and how each proves that it has the cluster's secret.
//!
//! ```text
//! "MSNL" | version:2 | length:1 software | length:2 body          the same in all versions
//! body:  1 | instance:8 | length:1 name | proof:32                an introduction
//!        2 | reason:1                                             a refusal
//! ```
//! The dialer speaks first; the listener answers when it has checked the proof, or refuses. What stands
//! before the body never changes, so that nodes of different versions can name both.
//!
//! The proof is HMAC-SHA-256 under the secret of all that was said, of who opened the connection, and of
//! 32 bytes that TLS gives both ends of this connection and nobody else (RFC 5705, RFC 8446 section 7.5).
//! TLS is without known certificates here: whoever sits between two nodes has two connections with different
//! bytes, and can pass on neither proof. It can try secrets on one that it got, so the secret has to be
//! random: [`Secret::new`] takes 16 bytes at least.

use std::fmt;

use aws_lc_rs::hmac;
use zeroize::ZeroizeOnDrop;

use crate::error::{LinkError, Refusal};
use crate::limits::{HELLO_BYTES_MAX, NAME_BYTES_MAX, VERSION};
use crate::wire::Reader;

/// What all nodes of a cluster share.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Secret([u8; 32]);

/// Bytes of a secret, at least.
pub const SECRET_BYTES_MIN: usize = 16;

/// Label by which TLS gives the bytes of a [`Binding`].
pub const BINDING_LABEL: &[u8] = b"EXPORTER-millstream-node-link";
/// Label by which it gives the secret of the packets relay between the same two nodes.
pub const RELAY_LABEL: &[u8] = b"EXPORTER-millstream-packets-relay";

/// Bytes that only the two ends of one TLS connection have.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Binding(pub [u8; 32]);

/// Which end of a connection a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It opened the connection.
    Dialer,
    /// It accepted it.
    Listener,
}

/// A node as it introduces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Which start of it this is.
    pub instance: u64,
    /// Version of its software.
    pub software: String,
}

impl Secret {
    /// A secret of these bytes; `None` if they are too few.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SECRET_BYTES_MIN {
            return None;
        }
        let label = hmac::Key::new(hmac::HMAC_SHA256, b"millstream node link 1");
        let mut key = [0; 32];
        key.copy_from_slice(hmac::sign(&label, bytes).as_ref());
        Some(Self(key))
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }
}

impl Role {
    fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Listener,
            Self::Listener => Self::Dialer,
        }
    }
}

/// What the other side said first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Hello(Node),
    Refusal(Refusal),
}

/// Introduces `me`.
pub(crate) fn put_hello(out: &mut Vec<u8>, role: Role, me: &Node, secret: &Secret, binding: &Binding) {
    let proof = hmac::sign(&secret.key(), &proven(role, VERSION, me, binding));
    put_frame(out, &me.software, |body| {
        body.push(HELLO);
        body.extend(me.instance.to_be_bytes());
        put_short(body, &me.name);
        body.extend(proof.as_ref());
    });
}

/// Refuses the other node.
pub(crate) fn put_refusal(out: &mut Vec<u8>, software: &str, refusal: Refusal) {
    put_frame(out, software, |body| body.extend([REFUSAL, refusal.number()]));
}

/// Reads what the other side, which has the other role, said first, and how many bytes of `input` it was;
/// `None` while it is not complete.
pub(crate) fn read(
    input: &[u8],
    role: Role,
    secret: &Secret,
    binding: &Binding,
) -> Result<Option<(Said, usize)>, LinkError> {
    let common = input.len().min(MAGIC.len());
    if input[..common] != MAGIC[..common] {
        return Err(LinkError::NotANode);
    }
    let Some((version, software, body, len)) = split(input)? else { return Ok(None) };
    if version != VERSION {
        return Err(LinkError::OtherVersion { theirs: version, software });
    }
    let mut read = Reader::new(body, "an introduction");
    let said = match read.byte()? {
        HELLO => {
            let instance = u64::from_be_bytes(read.array()?);
            let len = usize::from(read.byte()?);
            let name = std::str::from_utf8(read.take(len)?).map_err(|_| read.malformed())?.to_owned();
            let proof = read.array::<32>()?;
            let node = Node { name, instance, software };
            if node.name.is_empty() || node.name.len() > NAME_BYTES_MAX {
                return Err(read.malformed());
            }
            hmac::verify(&secret.key(), &proven(role.other(), version, &node, binding), &proof)
                .map_err(|_| LinkError::WrongSecret)?;
            Said::Hello(node)
        }
        REFUSAL => {
            let reason = Refusal::from_number(read.byte()?);
            Said::Refusal(reason.ok_or_else(|| read.malformed())?)
        }
        _ => return Err(read.malformed()),
    };
    read.end()?;
    Ok(Some((said, len)))
}

const MAGIC: [u8; 4] = *b"MSNL";
const HELLO: u8 = 1;
const REFUSAL: u8 = 2;

/// Version, software, body, and length of all of it.
type Split<'a> = (u16, String, &'a [u8], usize);

/// Takes an introduction apart, once all of it has come.
fn split(input: &[u8]) -> Result<Option<Split<'_>>, LinkError> {
    let number = |at: usize| Some(u16::from_be_bytes([*input.get(at)?, *input.get(at + 1)?]));
    let (Some(version), Some(&software)) = (number(4), input.get(6)) else { return Ok(None) };
    let body_at = 7 + usize::from(software) + 2;
    let Some(body) = number(body_at - 2) else { return Ok(None) };
    let len = body_at + usize::from(body);
    if len > HELLO_BYTES_MAX {
        return Err(LinkError::Malformed("an introduction"));
    }
    if input.len() < len {
        return Ok(None);
    }
    let software = std::str::from_utf8(&input[7..body_at - 2]);
    let software = software.ok().filter(|text| {
        // It goes into the log before anything is proven.
        text.len() <= NAME_BYTES_MAX && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
    });
    let software = software.ok_or(LinkError::Malformed("a version of software"))?;
    Ok(Some((version, software.to_owned(), &input[body_at..len], len)))
}

fn put_frame(out: &mut Vec<u8>, software: &str, body: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    body(&mut bytes);
    out.extend(MAGIC);
    out.extend(VERSION.to_be_bytes());
    put_short(out, software);
    out.extend(u16::try_from(bytes.len()).expect("a body is short").to_be_bytes());
    out.extend(bytes);
}

fn put_short(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("names are checked before"));
    out.extend(text.as_bytes());
}

fn proven(role: Role, version: u16, node: &Node, binding: &Binding) -> Vec<u8> {
    let mut text = vec![match role {
        Role::Dialer => b'D',
        Role::Listener => b'L',
    }];
    text.extend(binding.0);
    text.extend(version.to_be_bytes());
    text.extend(node.instance.to_be_bytes());
    put_short(&mut text, &node.name);
    put_short(&mut text, &node.software);
    text
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Node {
        Node { name: "edge-1".to_owned(), instance: 7, software: "0.1.0".to_owned() }
    }

    fn said(role: Role, secret: u8, binding: u8) -> Vec<u8> {
        let mut out = Vec::new();
        put_hello(&mut out, role, &node(), &Secret::new(&[secret; 16]).unwrap(), &Binding([binding; 32]));
        out
    }

    fn heard(input: &[u8]) -> Result<Option<(Said, usize)>, LinkError> {
        read(input, Role::Listener, &Secret::new(&[1; 16]).unwrap(), &Binding([2; 32]))
    }

    #[test]
    fn an_introduction_is_taken_as_a_whole_and_by_its_proof() {
        let hello = said(Role::Dialer, 1, 2);
        for len in 0..hello.len() {
            assert_eq!(heard(&hello[..len]), Ok(None), "cut at {len}");
        }
        let more = [&hello[..], b"more"].concat();
        assert_eq!(heard(&more), Ok(Some((Said::Hello(node()), hello.len()))));
        // (what was said, remark)
        for (bytes, remark) in [
            (said(Role::Dialer, 3, 2), "another secret"),
            (said(Role::Dialer, 1, 3), "another connection"),
            (said(Role::Listener, 1, 2), "its own proof sent back"),
        ] {
            assert_eq!(heard(&bytes), Err(LinkError::WrongSecret), "{remark}");
        }
        // Whatever byte is changed, nobody is let in.
        for at in 0..hello.len() {
            let mut changed = hello.clone();
            changed[at] ^= 1;
            assert!(!matches!(heard(&changed), Ok(Some(_))), "byte {at}");
        }
    }

    #[test]
    fn other_versions_are_named_whatever_they_say() {
        let mut hello = said(Role::Dialer, 3, 3);
        hello[5] = 3;
        let error = heard(&hello).unwrap_err();
        assert_eq!(error, LinkError::OtherVersion { theirs: 3, software: "0.1.0".to_owned() });
        let text = error.to_string();
        assert!(text.contains("version 3 ") && text.contains("version 2 "), "{text}");
    }

    #[test]
    fn strangers_are_known_by_their_first_byte() {
        assert_eq!(heard(b"G"), Err(LinkError::NotANode));
        assert_eq!(heard(b"MSNX"), Err(LinkError::NotANode));
        assert_eq!(heard(b"MSNL\0\x01\xff"), Ok(None));
        let long = [&b"MSNL\0\x01\x01a"[..], &[0xff, 0xff]].concat();
        assert_eq!(heard(&long), Err(LinkError::Malformed("an introduction")));
        let mut refusal = Vec::new();
        put_refusal(&mut refusal, "0.1.0", Refusal::NameTaken);
        assert_eq!(heard(&refusal), Ok(Some((Said::Refusal(Refusal::NameTaken), refusal.len()))));
    }

    #[test]
    fn short_secrets_are_refused_and_none_are_shown() {
        assert!(Secret::new(&[1; 15]).is_none());
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        assert_eq!(format!("{secret:?} {:?}", Binding([9; 32])), "Secret(..) Binding(..)");
    }
}
