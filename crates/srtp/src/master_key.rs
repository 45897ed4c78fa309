//! Master keys: what signalling or the DTLS handshake hands to SRTP.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::{Profile, SetupError};

/// A profile with master key and master salt, and the MKI that names them in packets, if any (RFC
/// 3711 section 3.1).
///
/// Wiped from memory when dropped; `Debug` shows the profile only.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey {
    #[zeroize(skip)]
    profile: Profile,
    key: [u8; 32],
    salt: [u8; 14],
    mki: Vec<u8>,
}

impl MasterKey {
    /// Longest MKI, in bytes.
    pub const MKI_MAX: usize = 128;

    /// A master key without MKI.
    ///
    /// # Errors
    /// [`SetupError::KeyLength`], [`SetupError::SaltLength`] when they are not as long as the profile asks.
    pub fn new(profile: Profile, key: &[u8], salt: &[u8]) -> Result<Self, SetupError> {
        if key.len() != profile.key_len() {
            return Err(SetupError::KeyLength);
        }
        if salt.len() != profile.salt_len() {
            return Err(SetupError::SaltLength);
        }
        let mut master = Self { profile, key: [0; 32], salt: [0; 14], mki: Vec::new() };
        master.key[..key.len()].copy_from_slice(key);
        master.salt[..salt.len()].copy_from_slice(salt);
        Ok(master)
    }

    /// The same key, named by `mki` in every packet.
    ///
    /// # Errors
    /// [`SetupError::MkiLength`] unless it has 1 to 128 bytes.
    pub fn with_mki(mut self, mki: &[u8]) -> Result<Self, SetupError> {
        if mki.is_empty() || mki.len() > Self::MKI_MAX {
            return Err(SetupError::MkiLength);
        }
        self.mki = mki.to_vec();
        Ok(self)
    }

    /// The keys of client and server, in this order, from what DTLS has exported with the label
    /// `EXTRACTOR-dtls_srtp` (RFC 5764 section 4.2): client key, server key, client salt, server salt.
    ///
    /// A DTLS client protects with the first and unprotects with the second; a server the other way round.
    ///
    /// # Errors
    /// [`SetupError::KeyingMaterialLength`] unless it has `2 * (key_len + salt_len)` bytes.
    pub fn from_dtls(profile: Profile, exported: &[u8]) -> Result<(Self, Self), SetupError> {
        let (key, salt) = (profile.key_len(), profile.salt_len());
        if exported.len() != 2 * (key + salt) {
            return Err(SetupError::KeyingMaterialLength);
        }
        let (keys, salts) = exported.split_at(2 * key);
        let client = Self::new(profile, &keys[..key], &salts[..salt])?;
        let server = Self::new(profile, &keys[key..], &salts[salt..])?;
        Ok((client, server))
    }

    /// Its profile.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// The key, to be handed to another process. A secret.
    pub fn key(&self) -> &[u8] {
        &self.key[..self.profile.key_len()]
    }

    /// The salt, to be handed to another process with the key.
    pub fn salt(&self) -> &[u8] {
        &self.salt[..self.profile.salt_len()]
    }

    pub(crate) fn mki(&self) -> &[u8] {
        &self.mki
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKey").field("profile", &self.profile).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let key = MasterKey::new(Profile::AeadAes128Gcm, &[0xab; 16], &[0xcd; 12]).unwrap();
        assert_eq!(format!("{key:?}"), "MasterKey { profile: AeadAes128Gcm, .. }");
    }

    #[test]
    fn lengths_are_those_of_the_profile() {
        for profile in Profile::ALL {
            let (key, salt) = (vec![1; profile.key_len()], vec![2; profile.salt_len()]);
            assert!(MasterKey::new(profile, &key, &salt).is_ok());
            assert_eq!(MasterKey::new(profile, &key[1..], &salt).unwrap_err(), SetupError::KeyLength);
            assert_eq!(MasterKey::new(profile, &key, &salt[1..]).unwrap_err(), SetupError::SaltLength);
        }
    }
}
