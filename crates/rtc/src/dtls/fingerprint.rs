//! Certificate fingerprints as signalled in SDP (RFC 8122 section 5): read, print, compare.
//!
//! SHA-1 and MD5 are refused: a second certificate with the same fingerprint can be made for them.

use std::fmt;

use aws_lc_rs::digest;
use subtle::{Choice, ConstantTimeEq};

/// A hash function of fingerprints, the stronger ones greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FingerprintHash {
    /// `sha-256`.
    Sha256,
    /// `sha-384`.
    Sha384,
    /// `sha-512`.
    Sha512,
}

/// The hash of a peer's certificate.
#[derive(Clone, Copy)]
pub struct Fingerprint {
    hash: FingerprintHash,
    /// The first [`FingerprintHash::len`] bytes; the rest is zero.
    bytes: [u8; 64],
}

/// Why a text is not a [`Fingerprint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FingerprintError {
    /// Not a hash name and pairs of hexadecimal digits with colons, or not as many as the hash has
    /// bytes.
    Malformed,
    /// A hash function that is broken (`sha-1`, `md5`) or unknown.
    RefusedHash,
}

impl FingerprintHash {
    /// Its name in SDP.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
        }
    }

    /// Bytes of a hash.
    #[expect(clippy::len_without_is_empty, reason = "the size of a kind, not of a container")]
    pub const fn len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Sha256, Self::Sha384, Self::Sha512]
            .into_iter()
            .find(|hash| name.eq_ignore_ascii_case(hash.name()))
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

impl Fingerprint {
    /// The fingerprint of `certificate`, in DER.
    pub fn of(hash: FingerprintHash, certificate: &[u8]) -> Self {
        let digest = digest::digest(hash.algorithm(), certificate);
        let mut bytes = [0; 64];
        bytes[..hash.len()].copy_from_slice(digest.as_ref());
        Self { hash, bytes }
    }

    /// Reads the value of an `a=fingerprint` line: `sha-256 AB:CD:...`, in either case.
    ///
    /// # Errors
    /// [`FingerprintError::RefusedHash`] for `sha-1`, `md5` and what is unknown,
    /// [`FingerprintError::Malformed`] otherwise.
    pub fn parse(text: &str) -> Result<Self, FingerprintError> {
        let (name, digits) = text.trim().split_once(' ').ok_or(FingerprintError::Malformed)?;
        let hash = FingerprintHash::from_name(name).ok_or(FingerprintError::RefusedHash)?;
        let mut bytes = [0; 64];
        let mut pairs = digits.trim().split(':');
        for byte in &mut bytes[..hash.len()] {
            let pair =
                pairs.next().filter(|pair| pair.len() == 2 && pair.bytes().all(|c| c.is_ascii_hexdigit()));
            let pair = pair.ok_or(FingerprintError::Malformed)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| FingerprintError::Malformed)?;
        }
        if pairs.next().is_some() {
            return Err(FingerprintError::Malformed);
        }
        Ok(Self { hash, bytes })
    }

    /// Its hash function.
    pub fn hash(&self) -> FingerprintHash {
        self.hash
    }

    /// The hash.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.hash.len()]
    }

    /// Whether `certificate` (DER) is one of those that were signalled: it must match a fingerprint
    /// of the strongest hash function among `signalled` (RFC 8122 section 5). Of none, nothing
    /// matches.
    ///
    /// Looks at all of them and at all of their bytes, whatever it finds.
    pub fn is_among(signalled: &[Self], certificate: &[u8]) -> bool {
        let Some(hash) = signalled.iter().map(|fingerprint| fingerprint.hash).max() else { return false };
        let found = Self::of(hash, certificate);
        let mut matches = Choice::from(0);
        for fingerprint in signalled.iter().filter(|fingerprint| fingerprint.hash == hash) {
            matches |= fingerprint.bytes.ct_eq(&found.bytes);
        }
        matches.into()
    }
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && bool::from(self.bytes.ct_eq(&other.bytes))
    }
}

impl Eq for Fingerprint {}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.hash.name())?;
        for (i, byte) in self.bytes().iter().enumerate() {
            write!(f, "{}{byte:02X}", if i == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "not a fingerprint",
            Self::RefusedHash => "fingerprints are taken of sha-256, sha-384 and sha-512",
        })
    }
}

impl std::error::Error for FingerprintError {}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "sha-256 BA:78:16:BF:8F:01:CF:EA:41:41:40:DE:5D:AE:22:23:\
                       B0:03:61:A3:96:17:7A:9C:B4:10:FF:61:F2:00:15:AD";

    #[test]
    fn the_hash_of_abc_is_that_of_fips_180() {
        let fingerprint = Fingerprint::of(FingerprintHash::Sha256, b"abc");
        assert_eq!(fingerprint.to_string(), ABC);
        assert_eq!(Fingerprint::parse(ABC), Ok(fingerprint));
        assert_eq!(Fingerprint::parse(&ABC.to_ascii_lowercase()), Ok(fingerprint));
        assert_eq!(Fingerprint::parse(&format!(" {} ", ABC.replace(' ', "  "))), Ok(fingerprint));
    }

    #[test]
    fn every_hash_is_read_as_it_is_printed() {
        for hash in [FingerprintHash::Sha256, FingerprintHash::Sha384, FingerprintHash::Sha512] {
            let fingerprint = Fingerprint::of(hash, b"certificate");
            assert_eq!(fingerprint.bytes().len(), hash.len());
            assert_eq!(Fingerprint::parse(&fingerprint.to_string()), Ok(fingerprint));
        }
    }

    #[test]
    fn what_is_not_a_fingerprint_is_refused() {
        use FingerprintError::{Malformed, RefusedHash};
        let cases = [
            ("", Malformed),
            ("sha-256", Malformed),
            ("sha-256 ", Malformed),
            ("sha-1 AA:BB", RefusedHash),
            ("md5 AA:BB", RefusedHash),
            ("sha-3 AA:BB", RefusedHash),
            ("sha-256 AA:BB", Malformed),                            // too short
            (&format!("{ABC}:00"), Malformed),                       // too long
            (&ABC.replace("BA:78", "+A:78"), Malformed),             // from_str_radix would take a sign
            (&ABC.replace("BA:78", "BA78"), Malformed),              // no colon
            (&ABC.replace("BA:78", "BA:7g"), Malformed),             // not a digit
            (&ABC.replace("sha-256", "sha-384"), Malformed),         // of another hash
            (&ABC.replace("BA:78", "BA:\u{660}\u{661}"), Malformed), // digits, but not ASCII
        ];
        for (text, error) in cases {
            assert_eq!(Fingerprint::parse(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn the_strongest_hash_decides_and_one_of_several_is_enough() {
        let weak = Fingerprint::of(FingerprintHash::Sha256, b"abc");
        let strong = Fingerprint::of(FingerprintHash::Sha512, b"abc");
        let other = Fingerprint::of(FingerprintHash::Sha512, b"other");
        assert!(Fingerprint::is_among(&[weak], b"abc"));
        assert!(Fingerprint::is_among(&[other, strong, weak], b"abc"));
        // A certificate whose strong hash is wrong is not accepted because of a weaker one that
        // matches.
        assert!(!Fingerprint::is_among(&[weak, other], b"abc"));
        assert!(!Fingerprint::is_among(&[weak], b"abd"));
        assert!(!Fingerprint::is_among(&[], b"abc"));
    }
}
