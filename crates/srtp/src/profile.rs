//! Protection profiles: which cipher, which key sizes, how long a tag.
//!
//! Names and numbers are those of the DTLS-SRTP registry (RFC 5764 section 4.1.2, RFC 7714 section
//! 14.2). The two AES-256 counter-mode profiles (RFC 6188) have no number there: they are for keys
//! from elsewhere (SDES, MIKEY).

use std::fmt;

/// How SRTP and SRTCP packets of one master key are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Profile {
    /// AES-128 in Galois/Counter Mode, 16-byte tag (RFC 7714).
    AeadAes128Gcm,
    /// AES-256 in Galois/Counter Mode, 16-byte tag (RFC 7714).
    AeadAes256Gcm,
    /// AES-128 in counter mode, HMAC-SHA1 cut to 10 bytes (RFC 3711).
    AesCm128HmacSha1_80,
    /// As [`Profile::AesCm128HmacSha1_80`] with 4 bytes in SRTP; SRTCP keeps 10 (RFC 5764 section 4.1.2).
    AesCm128HmacSha1_32,
    /// AES-256 in counter mode, HMAC-SHA1 cut to 10 bytes (RFC 6188).
    AesCm256HmacSha1_80,
    /// As [`Profile::AesCm256HmacSha1_80`] with 4 bytes in SRTP; SRTCP keeps 10 (RFC 6188 section 3.1).
    AesCm256HmacSha1_32,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 6] = [
        Self::AeadAes128Gcm,
        Self::AeadAes256Gcm,
        Self::AesCm128HmacSha1_80,
        Self::AesCm128HmacSha1_32,
        Self::AesCm256HmacSha1_80,
        Self::AesCm256HmacSha1_32,
    ];

    /// Name in the style of the registry, such as `AEAD_AES_128_GCM`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AeadAes128Gcm => "AEAD_AES_128_GCM",
            Self::AeadAes256Gcm => "AEAD_AES_256_GCM",
            Self::AesCm128HmacSha1_80 => "AES_CM_128_HMAC_SHA1_80",
            Self::AesCm128HmacSha1_32 => "AES_CM_128_HMAC_SHA1_32",
            Self::AesCm256HmacSha1_80 => "AES_CM_256_HMAC_SHA1_80",
            Self::AesCm256HmacSha1_32 => "AES_CM_256_HMAC_SHA1_32",
        }
    }

    /// Bytes of the master key and of the session encryption key: 16 or 32.
    pub const fn key_len(self) -> usize {
        match self {
            Self::AeadAes128Gcm | Self::AesCm128HmacSha1_80 | Self::AesCm128HmacSha1_32 => 16,
            Self::AeadAes256Gcm | Self::AesCm256HmacSha1_80 | Self::AesCm256HmacSha1_32 => 32,
        }
    }

    /// Bytes of the master salt and of the session salt: 12 (GCM) or 14.
    pub const fn salt_len(self) -> usize {
        if self.is_aead() { 12 } else { 14 }
    }

    /// Bytes an SRTP packet is longer than the RTP packet in it, not counting an MKI.
    pub const fn rtp_overhead(self) -> usize {
        self.rtp_tag_len()
    }

    /// Bytes an SRTCP packet is longer than the RTCP packet in it, not counting an MKI: the tag and the
    /// four bytes of E flag and index.
    pub const fn rtcp_overhead(self) -> usize {
        self.rtcp_tag_len() + 4
    }

    /// Number of the profile in the `use_srtp` extension of DTLS, if it has one.
    pub const fn dtls_id(self) -> Option<u16> {
        match self {
            Self::AesCm128HmacSha1_80 => Some(0x0001),
            Self::AesCm128HmacSha1_32 => Some(0x0002),
            Self::AeadAes128Gcm => Some(0x0007),
            Self::AeadAes256Gcm => Some(0x0008),
            Self::AesCm256HmacSha1_80 | Self::AesCm256HmacSha1_32 => None,
        }
    }

    /// The profile with this number in the `use_srtp` extension of DTLS.
    pub fn from_dtls_id(id: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.dtls_id() == Some(id))
    }

    pub(crate) const fn is_aead(self) -> bool {
        matches!(self, Self::AeadAes128Gcm | Self::AeadAes256Gcm)
    }

    pub(crate) const fn rtp_tag_len(self) -> usize {
        match self {
            Self::AeadAes128Gcm | Self::AeadAes256Gcm => 16,
            Self::AesCm128HmacSha1_80 | Self::AesCm256HmacSha1_80 => 10,
            Self::AesCm128HmacSha1_32 | Self::AesCm256HmacSha1_32 => 4,
        }
    }

    pub(crate) const fn rtcp_tag_len(self) -> usize {
        if self.is_aead() { 16 } else { 10 }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtls_numbers_are_read_back() {
        for profile in Profile::ALL {
            if let Some(id) = profile.dtls_id() {
                assert_eq!(Profile::from_dtls_id(id), Some(profile));
            }
        }
        assert_eq!(Profile::from_dtls_id(0x0005), None, "NULL_HMAC_SHA1_80 is not offered");
    }
}
