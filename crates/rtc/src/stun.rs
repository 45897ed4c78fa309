//! The outside of a STUN message (RFC 8489 §5, §14): what has to be known to authenticate it, and
//! nothing else.
//!
//! ```text
//!  0                   1                   2                   3
//! |0 0|  message type             |  length of what follows       |
//! |                    magic cookie 0x2112A442                    |
//! |                    transaction id (96 bits)                   |
//! | attributes: type (16), length (16), value, padded to 4 bytes  |
//! ```
//!
//! A filter before the STUN crate (`is`), which parses every attribute, and logs some, before
//! integrity has been verified. This one splits a message into attributes and interprets only
//! USERNAME, MESSAGE-INTEGRITY and FINGERPRINT; only authentic messages are passed on.

use aws_lc_rs::hmac;
use is::Sha1HmacProvider;
use is::stun::StunMessage;
use subtle::ConstantTimeEq;

use crate::ice::Refusal;

/// The longest STUN message that is looked at, in bytes. Checks of real peers have 80 to 200.
pub(crate) const STUN_BYTES_MAX: usize = 1280;

/// Attributes of one message that are walked over. Checks of real peers have 5 to 10.
const ATTRIBUTES_MAX: usize = 32;

const HEADER_BYTES: usize = 20;
const MAGIC_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const USERNAME: u16 = 0x0006;
const MESSAGE_INTEGRITY: u16 = 0x0008;
const MESSAGE_INTEGRITY_SHA256: u16 = 0x001c;
const FINGERPRINT: u16 = 0x8028;
const INTEGRITY_BYTES: usize = 20;
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: u16 = 0x0101;
const BINDING_ERROR: u16 = 0x0111;
/// What is XORed into the CRC-32 of FINGERPRINT (RFC 8489 §14.7).
const FINGERPRINT_XOR: u32 = 0x5354_554e;

/// The 96 bits that match a response to its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransactionId(pub(crate) [u8; 12]);

/// What a Binding message is (RFC 8489 §5). Other methods, and indications, are not spoken here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Request,
    Success,
    Error,
}

/// A well-formed STUN Binding message of which nothing has been verified but FINGERPRINT.
///
/// **Invariant:** `20 <= integrity_at`, and `integrity_at + 24 <= bytes.len()` when there is a
/// MESSAGE-INTEGRITY.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    bytes: &'a [u8],
    class: Class,
    username: Option<&'a [u8]>,
    /// Where the MESSAGE-INTEGRITY attribute begins. Messages without one are refused.
    integrity_at: usize,
}

impl<'a> Envelope<'a> {
    /// Cuts a datagram into header and attributes.
    ///
    /// Refuses messages that are not Binding messages, have no MESSAGE-INTEGRITY, are longer than
    /// [`STUN_BYTES_MAX`], or have a wrong FINGERPRINT. FINGERPRINT may be missing: integrity
    /// covers everything else.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let class = header_class(bytes)?;
        let mut envelope = Self { bytes, class, username: None, integrity_at: 0 };
        envelope.walk()?;
        if envelope.integrity_at == 0 {
            return Err(Refusal::NoIntegrity);
        }
        Ok(envelope)
    }

    /// Walks over the attributes. RFC 8489 §14.5 has what is behind MESSAGE-INTEGRITY ignored,
    /// because anybody can put it there; here anything but the other two sums makes the message
    /// malformed, and so does what is behind FINGERPRINT.
    fn walk(&mut self) -> Result<(), Refusal> {
        let mut at = HEADER_BYTES;
        for _ in 0..ATTRIBUTES_MAX {
            let Some(head) = self.bytes.get(at..at + 4) else {
                return if at == self.bytes.len() { Ok(()) } else { Err(Refusal::Malformed) };
            };
            let kind = u16::from_be_bytes([head[0], head[1]]);
            let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let value = self.bytes.get(at + 4..at + 4 + length).ok_or(Refusal::Malformed)?;
            match kind {
                FINGERPRINT => return self.check_fingerprint(at, value),
                MESSAGE_INTEGRITY if self.integrity_at == 0 => {
                    if length != INTEGRITY_BYTES {
                        return Err(Refusal::Malformed);
                    }
                    self.integrity_at = at;
                }
                USERNAME if self.integrity_at == 0 && self.username.is_none() => self.username = Some(value),
                MESSAGE_INTEGRITY_SHA256 => {}
                _ if self.integrity_at != 0 => return Err(Refusal::Malformed),
                _ => {}
            }
            at += 4 + length.next_multiple_of(4);
        }
        if at == self.bytes.len() { Ok(()) } else { Err(Refusal::Malformed) }
    }

    fn check_fingerprint(&self, at: usize, value: &[u8]) -> Result<(), Refusal> {
        let value: [u8; 4] = value.try_into().map_err(|_| Refusal::Malformed)?;
        if at + 8 != self.bytes.len() {
            return Err(Refusal::Malformed);
        }
        let expected = crc32fast::hash(&self.bytes[..at]) ^ FINGERPRINT_XOR;
        if u32::from_be_bytes(value) == expected { Ok(()) } else { Err(Refusal::Malformed) }
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    pub(crate) fn is_request(&self) -> bool {
        self.class == Class::Request
    }

    pub(crate) fn transaction(&self) -> TransactionId {
        transaction_of(self.bytes)
    }

    /// Both halves of USERNAME: of a request, first the fragment of its receiver, then that of its
    /// sender (RFC 8445 §7.2.2). `None` without a USERNAME of the form `a:b` in UTF-8.
    pub(crate) fn usernames(&self) -> Option<(&'a str, &'a str)> {
        std::str::from_utf8(self.username?).ok()?.split_once(':')
    }

    /// Whether MESSAGE-INTEGRITY was made with `password` (RFC 8489 §14.5, short-term credentials).
    ///
    /// The sum covers the message up to the attribute, with a length in the header as if it ended
    /// behind the attribute.
    pub(crate) fn is_authentic(&self, password: &str) -> bool {
        let end = self.integrity_at + 4 + INTEGRITY_BYTES;
        let length = u16::try_from(end - HEADER_BYTES).expect("no longer than STUN_BYTES_MAX");
        let covered = [&self.bytes[..2], &length.to_be_bytes(), &self.bytes[4..self.integrity_at]];
        let sum = HmacSha1.sha1_hmac(password.as_bytes(), &covered);
        sum[..].ct_eq(&self.bytes[self.integrity_at + 4..end]).into()
    }

    /// The whole message. Call only after [`Envelope::is_authentic`] has returned true.
    pub(crate) fn open(&self) -> Result<StunMessage<'a>, Refusal> {
        StunMessage::parse(self.bytes).map_err(|_| Refusal::Malformed)
    }
}

/// Reads the fixed header. The length has to be that of the datagram: nothing may hang behind a
/// message.
fn header_class(bytes: &[u8]) -> Result<Class, Refusal> {
    if bytes.len() < HEADER_BYTES || bytes.len() > STUN_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
    if length % 4 != 0 || length + HEADER_BYTES != bytes.len() || bytes[4..8] != MAGIC_COOKIE {
        return Err(Refusal::Malformed);
    }
    match u16::from_be_bytes([bytes[0], bytes[1]]) {
        BINDING_REQUEST => Ok(Class::Request),
        BINDING_SUCCESS => Ok(Class::Success),
        BINDING_ERROR => Ok(Class::Error),
        _ => Err(Refusal::NotBinding),
    }
}

/// The transaction id of a message of at least 20 bytes.
pub(crate) fn transaction_of(bytes: &[u8]) -> TransactionId {
    TransactionId(bytes[8..20].try_into().expect("a STUN header has 20 bytes"))
}

/// HMAC-SHA1 as STUN uses it, by AWS-LC.
#[derive(Debug)]
pub(crate) struct HmacSha1;

impl Sha1HmacProvider for HmacSha1 {
    fn sha1_hmac(&self, key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key));
        for payload in payloads {
            context.update(payload);
        }
        context.sign().as_ref().try_into().expect("HMAC-SHA1 gives 20 bytes")
    }
}

/// Writes a message with MESSAGE-INTEGRITY and FINGERPRINT.
///
/// # Panics
///
/// If a text in it is too long to write; ours are at most 513 bytes, and [`MESSAGE_BYTES_MAX`] is
/// made for them.
pub(crate) fn write(message: StunMessage<'_>, password: &str) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let length = message
        .to_bytes(Some(password.as_bytes()), &mut buffer, |key, parts| HmacSha1.sha1_hmac(key, parts))
        .expect("answers and checks of ours fit");
    buffer[..length].to_vec()
}

/// Room for the longest message written here: a check with a USERNAME of 128 bytes has 224.
const MESSAGE_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 5769 section 2.1: the sample request, whose password and USERNAME are given there.
    const SAMPLE_REQUEST: &str = "000100582112a442b7e7a701bc34d686fa87dfae\
        802200105354554e207465737420636c69656e74\
        002400046e0001ff80290008932ff9b151263b36\
        000600096576746a3a68367659202020\
        000800149aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a280280004e57a3bcf";
    const SAMPLE_PASSWORD: &str = "VOkJxbRl1RmTxUk/WvJxBt";

    fn bytes(hex: &str) -> Vec<u8> {
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(byte).collect()
    }

    #[test]
    fn the_sample_request_of_rfc_5769_is_authentic() {
        let request = bytes(SAMPLE_REQUEST);
        let envelope = Envelope::parse(&request).unwrap();
        assert_eq!(envelope.class(), Class::Request);
        assert_eq!(envelope.usernames(), Some(("evtj", "h6vY")));
        assert_eq!(envelope.transaction().0[..], request[8..20]);
        assert!(envelope.is_authentic(SAMPLE_PASSWORD));
        assert!(!envelope.is_authentic("VOkJxbRl1RmTxUk/WvJxBu"));
        assert!(envelope.open().unwrap().ice_controlled().is_some());
    }

    #[test]
    fn lengths_that_point_past_the_end_are_malformed() {
        let request = bytes(SAMPLE_REQUEST);
        for at in [22, 42, 50, 62, 78, 102] {
            for length in [4u16, 0x58, 0x7ff, 0xfffc, 0xffff] {
                let mut changed = request.clone();
                changed[at..at + 2].copy_from_slice(&length.to_be_bytes());
                let _ = Envelope::parse(&changed).map(|envelope| envelope.is_authentic(SAMPLE_PASSWORD));
                changed.truncate(at + 4);
                let left = (at + 4 - 20) as u16;
                changed[2..4].copy_from_slice(&left.to_be_bytes());
                let refused = Envelope::parse(&changed).err();
                assert!(matches!(refused, Some(Refusal::Malformed | Refusal::NoIntegrity)), "{at} {length}");
            }
        }
    }

    #[test]
    fn more_attributes_than_the_limit_are_malformed() {
        for (count, expected) in
            [(ATTRIBUTES_MAX, Refusal::NoIntegrity), (ATTRIBUTES_MAX + 1, Refusal::Malformed)]
        {
            let mut message = bytes("000100002112a442b7e7a701bc34d686fa87dfae");
            message.extend([0xc0, 0x57, 0, 0].repeat(count));
            message[2..4].copy_from_slice(&(4 * count as u16).to_be_bytes());
            assert_eq!(Envelope::parse(&message).err(), Some(expected), "{count}");
        }
    }
}
