//! Session keys from a master key (RFC 3711 section 4.3, RFC 6188 section 3, RFC 7714 section 11).
//!
//! The key derivation rate is 0, as everywhere: session keys are derived once. The pseudo-random
//! function is AES in counter mode with the master key; it is run six times per key and never per
//! packet, so the library does it.

use aws_lc_rs::cipher::{AES_128, AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey};
use zeroize::Zeroizing;

/// What a session key is for (RFC 3711 section 4.3.2, table of labels).
#[derive(Clone, Copy)]
pub(crate) enum Label {
    RtpEncryption = 0,
    RtpAuthentication = 1,
    RtpSalt = 2,
    RtcpEncryption = 3,
    RtcpAuthentication = 4,
    RtcpSalt = 5,
}

/// Derives session keys from one master key and salt.
pub(crate) struct Derivation {
    master: EncryptingKey,
    /// Master salt in front, zeros behind (RFC 7714 section 11 for the 12-byte salt).
    salt: Zeroizing<[u8; 16]>,
}

impl Derivation {
    /// `key` is 16 or 32 bytes long, `salt` 12 or 14; [`MasterKey`](crate::MasterKey) has seen to that.
    pub(crate) fn new(key: &[u8], salt: &[u8]) -> Self {
        let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
        let master = UnboundCipherKey::new(algorithm, key)
            .and_then(EncryptingKey::ctr)
            .expect("the lengths of AES keys were checked when the master key was made");
        let mut padded = Zeroizing::new([0; 16]);
        padded[..salt.len()].copy_from_slice(salt);
        Self { master, salt: padded }
    }

    /// The session key of `label`, `LEN` bytes.
    pub(crate) fn derive<const LEN: usize>(&self, label: Label) -> Zeroizing<[u8; LEN]> {
        let mut key = Zeroizing::new([0; LEN]);
        // x = (label || index DIV kdr) XOR master salt; the label is the eighth byte of fourteen.
        let mut x = *self.salt;
        x[7] ^= label as u8;
        self.master
            .less_safe_encrypt(key.as_mut_slice(), EncryptionContext::Iv128(x.into()))
            .expect("counter mode takes every length");
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// RFC 3711 appendix B.3.
    #[test]
    fn keys_are_those_of_rfc_3711() {
        let derivation = Derivation::new(
            &bytes("E1F97A0D3E018BE0D64FA32C06DE4139"),
            &bytes("0EC675AD498AFEEBB6960B3AABE6"),
        );
        assert_eq!(
            derivation.derive::<16>(Label::RtpEncryption)[..],
            bytes("C61E7A93744F39EE10734AFE3FF7A087")
        );
        assert_eq!(derivation.derive::<14>(Label::RtpSalt)[..], bytes("30CBBC08863D8C85D49DB34A9AE1"));
        assert_eq!(
            derivation.derive::<20>(Label::RtpAuthentication)[..],
            bytes("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4")
        );
    }
}
