//! Session keys ready for use, and the groups in which they serve a stream.
//!
//! A key schedule costs more than a packet, so it is made once per master key: all streams of a
//! context that share its template keys share these. SRTP and SRTCP have separate session keys (RFC
//! 3711 section 4.3).

use crate::cipher::cm::CmKey;
use crate::cipher::gcm::GcmKey;
use crate::key_derivation::{Derivation, Label};
use crate::{Backend, MasterKey, Profile, SetupError};

/// One cipher with its session key and salt: half of a [`SessionKey`], for SRTP or for SRTCP.
///
/// In the order of use: with thousands of contexts every packet finds them outside the nearest cache.
#[repr(C)]
pub(crate) struct Transform {
    /// Session salt, where it is XORed in: the low 96 bits (GCM), or the high 112 bits (counter mode).
    salt: u128,
    /// Packets this key may still serve (RFC 3711 section 9.2).
    packets_left: u64,
    pub(crate) cipher: Cipher,
}

/// The session key itself, in place: keys never move.
#[allow(
    clippy::large_enum_variant,
    reason = "keys of one kind fill a context; the other kind's size is not paid"
)]
pub(crate) enum Cipher {
    Gcm(GcmKey),
    Cm(CmKey),
}

impl Transform {
    /// Nonce of AEAD_AES_*_GCM: salt XOR (0 || SSRC || index), 12 bytes (RFC 7714 sections 8.1 and 9.1).
    #[inline]
    pub(crate) fn nonce(&self, ssrc: u32, index: u64) -> [u8; 12] {
        let nonce = (self.salt ^ u128::from(ssrc) << 48 ^ u128::from(index)).to_be_bytes();
        *nonce.last_chunk().expect("16 bytes end in 12")
    }

    /// First counter block of AES-CM: (salt * 2^16) XOR (SSRC * 2^64) XOR (index * 2^16) (RFC 3711
    /// section 4.1.1).
    #[inline]
    pub(crate) fn initial_counter(&self, ssrc: u32, index: u64) -> [u8; 16] {
        (self.salt ^ u128::from(ssrc) << 64 ^ u128::from(index) << 16).to_be_bytes()
    }

    /// Whether the key may serve one more packet.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.packets_left > 0
    }

    /// Counts one packet served.
    #[inline]
    pub(crate) fn spend(&mut self) {
        self.packets_left = self.packets_left.saturating_sub(1);
    }

    fn derive(
        derivation: &Derivation,
        profile: Profile,
        backend: Backend,
        labels: [Label; 3],
        packets: u64,
    ) -> Self {
        let [encryption, authentication, salt] = labels;
        let key_256;
        let key_128;
        let key: &[u8] = if profile.key_len() == 32 {
            key_256 = derivation.derive::<32>(encryption);
            key_256.as_slice()
        } else {
            key_128 = derivation.derive::<16>(encryption);
            key_128.as_slice()
        };
        if profile.is_aead() {
            Self::gcm(key, &derivation.derive::<12>(salt), backend, packets)
        } else {
            let authentication = derivation.derive::<20>(authentication);
            Self::cm(key, &authentication, &derivation.derive::<14>(salt), backend, packets)
        }
    }

    fn gcm(key: &[u8], salt: &[u8; 12], backend: Backend, packets_left: u64) -> Self {
        let mut wide = [0; 16];
        wide[4..].copy_from_slice(salt);
        Self { cipher: Cipher::Gcm(GcmKey::new(key, backend)), salt: u128::from_be_bytes(wide), packets_left }
    }

    fn cm(
        key: &[u8],
        authentication: &[u8; 20],
        salt: &[u8; 14],
        backend: Backend,
        packets_left: u64,
    ) -> Self {
        let mut wide = [0; 16];
        wide[..14].copy_from_slice(salt);
        let cipher = Cipher::Cm(CmKey::new(key, authentication, backend));
        Self { cipher, salt: u128::from_be_bytes(wide), packets_left }
    }
}

/// Everything derived from one master key.
pub(crate) struct SessionKey {
    pub(crate) rtp: Transform,
    /// Apart, because it is needed a hundred times less often than the SRTP key.
    pub(crate) rtcp: Box<Transform>,
    pub(crate) mki: Box<[u8]>,
}

impl SessionKey {
    fn new(master: &MasterKey, backend: Backend) -> Self {
        let derivation = Derivation::new(master.key(), master.salt());
        let derive =
            |labels, packets| Transform::derive(&derivation, master.profile(), backend, labels, packets);
        Self {
            rtp: derive([Label::RtpEncryption, Label::RtpAuthentication, Label::RtpSalt], RTP_PACKETS_MAX),
            rtcp: Box::new(derive(
                [Label::RtcpEncryption, Label::RtcpAuthentication, Label::RtcpSalt],
                RTCP_PACKETS_MAX,
            )),
            mki: master.mki().into(),
        }
    }
}

/// Keys of one profile of which each packet uses one: the only one, or the one its MKI names.
pub(crate) struct KeyGroup {
    pub(crate) profile: Profile,
    /// That of the profile.
    pub(crate) rtp_tag_len: u8,
    /// Bytes of the MKI in every packet; 0 without.
    pub(crate) mki_len: usize,
    /// The one that protects; receiving, all do.
    active: usize,
    keys: Box<[SessionKey]>,
}

impl KeyGroup {
    pub(crate) fn new(masters: &[MasterKey], backend: Backend) -> Result<Self, SetupError> {
        let first = masters.first().ok_or(SetupError::NoKeys)?;
        let (profile, mki_len) = (first.profile(), first.mki().len());
        let same_shape =
            masters.iter().all(|master| master.profile() == profile && master.mki().len() == mki_len);
        let distinct = masters
            .iter()
            .enumerate()
            .all(|(at, master)| masters[..at].iter().all(|earlier| earlier.mki() != master.mki()));
        if !same_shape || !distinct {
            return Err(SetupError::KeysDoNotFit);
        }
        let keys = masters.iter().map(|master| SessionKey::new(master, backend)).collect();
        Ok(Self { profile, rtp_tag_len: profile.rtp_tag_len() as u8, mki_len, active: 0, keys })
    }

    /// A group of one key whose session keys are given.
    #[cfg(feature = "internals")]
    pub(crate) fn from_session_keys(
        profile: Profile,
        keys: &crate::internals::SessionKeys,
        backend: Backend,
    ) -> Self {
        let transform = |encryption: &[u8], authentication, salt: &[u8], packets| {
            if profile.is_aead() {
                Transform::gcm(encryption, salt.try_into().expect("12 bytes"), backend, packets)
            } else {
                let salt = salt.try_into().expect("14 bytes");
                Transform::cm(encryption, authentication, salt, backend, packets)
            }
        };
        let rtp = transform(&keys.rtp_encryption, &keys.rtp_authentication, &keys.rtp_salt, RTP_PACKETS_MAX);
        let rtcp =
            transform(&keys.rtcp_encryption, &keys.rtcp_authentication, &keys.rtcp_salt, RTCP_PACKETS_MAX);
        let key = SessionKey { rtp, rtcp: Box::new(rtcp), mki: Box::default() };
        Self {
            profile,
            rtp_tag_len: profile.rtp_tag_len() as u8,
            mki_len: 0,
            active: 0,
            keys: Box::new([key]),
        }
    }

    /// Leaves every key this many packets.
    #[cfg(feature = "internals")]
    pub(crate) fn limit(&mut self, rtp_packets: u64, rtcp_packets: u64) {
        for key in &mut self.keys {
            (key.rtp.packets_left, key.rtcp.packets_left) = (rtp_packets, rtcp_packets);
        }
    }

    /// Makes the key named `mki` the one that protects.
    pub(crate) fn select(&mut self, mki: &[u8]) -> Result<(), SetupError> {
        self.active = self.position(mki).ok_or(SetupError::UnknownMki)?;
        Ok(())
    }

    /// The key that protects.
    #[inline]
    pub(crate) fn active(&self) -> &SessionKey {
        &self.keys[self.active]
    }

    #[inline]
    pub(crate) fn active_mut(&mut self) -> &mut SessionKey {
        &mut self.keys[self.active]
    }

    /// Which key is named `mki`.
    #[inline]
    pub(crate) fn position(&self, mki: &[u8]) -> Option<usize> {
        if self.mki_len == 0 && mki.is_empty() {
            return Some(0);
        }
        self.keys.iter().position(|key| *key.mki == *mki)
    }

    #[inline]
    pub(crate) fn key(&self, position: usize) -> &SessionKey {
        &self.keys[position]
    }

    #[inline]
    pub(crate) fn key_mut(&mut self, position: usize) -> &mut SessionKey {
        &mut self.keys[position]
    }
}

/// Most SRTP packets of one key, and most SRTCP packets (RFC 3711 section 9.2).
const RTP_PACKETS_MAX: u64 = 1 << 48;
const RTCP_PACKETS_MAX: u64 = 1 << 31;
