//! Policies as C has them, and what they say.
//!
//! Layouts and numbers are those of libsrtp 2.5; `tests/c/layout.c` compares them with the header, and
//! with libsrtp's own where that is installed.

use crate::status::Status;
use srtp::{MasterKey, Profile};
use std::ffi::{c_int, c_uchar, c_uint, c_ulong, c_void};
use std::slice;
use zeroize::Zeroizing;

/// How packets of one kind are protected: `srtp_crypto_policy_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CryptoPolicy {
    /// Number of the cipher.
    pub cipher_type: u32,
    /// Bytes of key and salt.
    pub cipher_key_len: c_int,
    /// Number of the authentication.
    pub auth_type: u32,
    /// Bytes of its key.
    pub auth_key_len: c_int,
    /// Bytes of the tag.
    pub auth_tag_len: c_int,
    /// `srtp_sec_serv_t`.
    pub sec_serv: c_int,
}

/// Which streams a policy is for: `srtp_ssrc_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Ssrc {
    /// `srtp_ssrc_type_t`.
    pub kind: c_int,
    /// The SSRC, if it is a specific one.
    pub value: c_uint,
}

/// One of several keys: `srtp_master_key_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMasterKey {
    /// Key and salt.
    pub key: *const c_uchar,
    /// What names it.
    pub mki_id: *const c_uchar,
    /// Bytes of that.
    pub mki_size: c_uint,
}

/// `srtp_policy_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Which streams it is for.
    pub ssrc: Ssrc,
    /// How RTP is protected.
    pub rtp: CryptoPolicy,
    /// How RTCP is protected.
    pub rtcp: CryptoPolicy,
    /// Key and salt, or NULL for several.
    pub key: *const c_uchar,
    /// Several keys.
    pub keys: *const *const RawMasterKey,
    /// Their number.
    pub num_master_keys: c_ulong,
    /// Not used.
    pub deprecated_ekt: *const c_void,
    /// Packets of the replay window.
    pub window_size: c_ulong,
    /// Whether a packet may be protected again.
    pub allow_repeat_tx: c_int,
    /// Not supported.
    pub enc_xtn_hdr: *const c_int,
    /// Not supported: 0.
    pub enc_xtn_hdr_count: c_int,
    /// The next one, or NULL.
    pub next: *const Policy,
}

const AES_ICM_128: u32 = 1;
const AES_ICM_256: u32 = 5;
const AES_GCM_128: u32 = 6;
const AES_GCM_256: u32 = 7;
const NULL_AUTH: u32 = 0;
const HMAC_SHA1: u32 = 3;
const CONF_AND_AUTH: c_int = 3;

/// Most keys of one stream (`SRTP_MAX_NUM_MASTER_KEYS`).
const KEYS_MAX: c_ulong = 16;

/// Most policies of one list; a list that is a circle ends here.
const POLICIES_MAX: usize = 65_536;

impl CryptoPolicy {
    /// For RTP by this profile.
    pub(crate) fn rtp(profile: Profile) -> Self {
        let (cipher_type, auth_type) = match profile {
            Profile::AeadAes128Gcm => (AES_GCM_128, NULL_AUTH),
            Profile::AeadAes256Gcm => (AES_GCM_256, NULL_AUTH),
            Profile::AesCm128HmacSha1_80 | Profile::AesCm128HmacSha1_32 => (AES_ICM_128, HMAC_SHA1),
            Profile::AesCm256HmacSha1_80 | Profile::AesCm256HmacSha1_32 => (AES_ICM_256, HMAC_SHA1),
        };
        Self {
            cipher_type,
            cipher_key_len: (profile.key_len() + profile.salt_len()) as c_int,
            auth_type,
            auth_key_len: if auth_type == HMAC_SHA1 { 20 } else { 0 },
            auth_tag_len: profile.rtp_overhead() as c_int,
            sec_serv: CONF_AND_AUTH,
        }
    }

    /// For RTCP: the tag is never cut to 4 bytes (RFC 5764 section 4.1.2).
    pub(crate) fn rtcp(profile: Profile) -> Self {
        Self { auth_tag_len: profile.rtcp_overhead() as c_int - 4, ..Self::rtp(profile) }
    }
}

/// Which streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    One(u32),
    AnyInbound,
    AnyOutbound,
}

/// A key with its salt, and what names it (empty for nothing).
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) bytes: Zeroizing<Vec<u8>>,
    pub(crate) mki: Vec<u8>,
}

/// A policy that has been read.
pub(crate) struct Checked {
    pub(crate) streams: Streams,
    pub(crate) profile: Profile,
    pub(crate) keys: Vec<Key>,
    pub(crate) window: usize,
    pub(crate) repeats: bool,
}

impl Checked {
    pub(crate) fn masters(&self) -> Result<Vec<MasterKey>, Status> {
        let key_len = self.profile.key_len();
        let masters = self.keys.iter().map(|Key { bytes, mki }| {
            let master = MasterKey::new(self.profile, &bytes[..key_len], &bytes[key_len..])?;
            if mki.is_empty() { Ok(master) } else { master.with_mki(mki) }
        });
        Ok(masters.collect::<Result<_, _>>()?)
    }

    pub(crate) fn mki_len(&self) -> usize {
        self.keys[0].mki.len()
    }
}

/// A list of policies, the first one first.
///
/// # Safety
/// `policy` is NULL or may be read, and so may what it and the next ones point to.
pub(crate) unsafe fn read_list(mut policy: *const Policy) -> Result<Vec<Checked>, Status> {
    let mut list = Vec::new();
    // SAFETY: the same contract as this function's.
    while let Some(current) = unsafe { policy.as_ref() } {
        if list.len() == POLICIES_MAX {
            return Err(Status::BadParam);
        }
        // SAFETY: the same contract as this function's.
        list.push(unsafe { read(current) }?);
        policy = current.next;
    }
    Ok(list)
}

/// # Safety
/// What the policy points to may be read.
unsafe fn read(policy: &Policy) -> Result<Checked, Status> {
    let streams = match policy.ssrc.kind {
        1 => Streams::One(policy.ssrc.value),
        2 => Streams::AnyInbound,
        3 => Streams::AnyOutbound,
        _ => return Err(Status::BadParam),
    };
    let profile = Profile::ALL
        .into_iter()
        .find(|&profile| is_alike(&policy.rtp, CryptoPolicy::rtp(profile)))
        .filter(|&profile| is_alike(&policy.rtcp, CryptoPolicy::rtcp(profile)))
        .ok_or(Status::BadParam)?;
    if policy.enc_xtn_hdr_count != 0 {
        return Err(Status::BadParam);
    }
    let window = match policy.window_size {
        0 => 128,
        size @ 64..=32_768 => (size as usize).next_multiple_of(64),
        _ => return Err(Status::BadParam),
    };
    let len = profile.key_len() + profile.salt_len();
    let key_at = |key: *const c_uchar| match key.is_null() {
        true => Err(Status::BadParam),
        // SAFETY: not NULL, and a key is as long as its policy says.
        false => Ok(Zeroizing::new(unsafe { slice::from_raw_parts(key, len) }.to_vec())),
    };
    let keys = if policy.key.is_null() {
        if policy.keys.is_null() || !(1..=KEYS_MAX).contains(&policy.num_master_keys) {
            return Err(Status::BadParam);
        }
        // SAFETY: not NULL, of the stated length, which was checked.
        let keys = unsafe { slice::from_raw_parts(policy.keys, policy.num_master_keys as usize) };
        let keys = keys.iter().map(|&key| {
            // SAFETY: each is NULL or may be read.
            let key = unsafe { key.as_ref() }.ok_or(Status::BadParam)?;
            if key.mki_size as usize > MasterKey::MKI_MAX || (key.mki_size > 0 && key.mki_id.is_null()) {
                return Err(Status::BadParam);
            }
            let mki = match key.mki_size {
                0 => Vec::new(),
                // SAFETY: not NULL, of the stated length, which was checked.
                size => unsafe { slice::from_raw_parts(key.mki_id, size as usize) }.to_vec(),
            };
            Ok(Key { bytes: key_at(key.key)?, mki })
        });
        keys.collect::<Result<Vec<_>, Status>>()?
    } else {
        vec![Key { bytes: key_at(policy.key)?, mki: Vec::new() }]
    };
    Ok(Checked { streams, profile, keys, window, repeats: policy.allow_repeat_tx != 0 })
}

/// The length of a key that the cipher does not have is not looked at.
fn is_alike(given: &CryptoPolicy, wanted: CryptoPolicy) -> bool {
    let ignored = wanted.auth_type == NULL_AUTH;
    let auth_key_len = if ignored { given.auth_key_len } else { wanted.auth_key_len };
    *given == CryptoPolicy { auth_key_len, ..wanted }
}
