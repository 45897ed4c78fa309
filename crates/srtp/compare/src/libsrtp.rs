//! Debian's libsrtp2 as a safe type: sessions, streams, protect and unprotect in place.
//!
//! Only what the tests and the benchmark call. The structures of libsrtp are filled in `policy.c`;
//! here are functions with plain arguments. One [`Session`] has one direction, as libsrtp's
//! documentation asks.
#![expect(unsafe_code, reason = "calls into a C library")]

use std::ffi::{c_int, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::Once;

use srtp::Profile;

/// What libsrtp may write behind a packet: tag, MKI and the index of SRTCP (`SRTP_MAX_TRAILER_LEN` and 4).
pub const TRAILER_MAX: usize = 16 + 128 + 4;

/// Why libsrtp refused; its `srtp_err_status_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub i32);

impl Status {
    pub const BAD_PARAM: Self = Self(2);
    pub const AUTH_FAIL: Self = Self(7);
    pub const REPLAY_FAIL: Self = Self(9);
    pub const REPLAY_OLD: Self = Self(10);
    pub const NO_CONTEXT: Self = Self(13);
    pub const KEY_EXPIRED: Self = Self(15);
    pub const BAD_MKI: Self = Self(25);
    pub const INDEX_OLD: Self = Self(26);

    fn check(status: c_int) -> Result<(), Self> {
        if status == 0 { Ok(()) } else { Err(Self(status)) }
    }
}

/// Which packets a stream's keys are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ssrc {
    Only(u32),
    AnyInbound,
    AnyOutbound,
}

/// A master key with its salt, and the MKI that names it (empty for none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub key: Vec<u8>,
    pub salt: Vec<u8>,
    pub mki: Vec<u8>,
}

/// A libsrtp session of one direction.
pub struct Session {
    raw: *mut c_void,
    with_mki: bool,
}

// SAFETY: a session is reached through `&mut` only, and libsrtp ties none to the thread that made it.
unsafe impl Send for Session {}

impl Session {
    /// A session with one stream; see [`add_stream`](Self::add_stream).
    ///
    /// # Errors
    /// What libsrtp says of profile and keys.
    pub fn new(profile: Profile, ssrc: Ssrc, keys: &[Key], window: usize) -> Result<Self, Status> {
        static INIT: Once = Once::new();
        INIT.call_once(|| {
            // SAFETY: takes nothing; `Once` keeps other threads out of the library until it has returned.
            let status = unsafe { srtp_init() };
            assert_eq!(status, 0, "srtp_init");
        });
        let mut session = Self { raw: ptr::null_mut(), with_mki: false };
        session.add_stream(profile, ssrc, keys, window)?;
        Ok(session)
    }

    /// Gives keys to an SSRC, or to all that have none of their own. `window` is in packets.
    ///
    /// # Errors
    /// What libsrtp says of profile and keys.
    pub fn add_stream(
        &mut self,
        profile: Profile,
        ssrc: Ssrc,
        keys: &[Key],
        window: usize,
    ) -> Result<(), Status> {
        let mki_len = keys.first().map_or(0, |key| key.mki.len());
        if keys.iter().any(|key| {
            key.mki.len() != mki_len
                || key.key.len() != profile.key_len()
                || key.salt.len() != profile.salt_len()
        }) {
            return Err(Status::BAD_PARAM);
        }
        let mut salted: Vec<Vec<u8>> =
            keys.iter().map(|key| [&key.key[..], &key.salt[..]].concat()).collect();
        let mut mkis: Vec<Vec<u8>> = keys.iter().map(|key| key.mki.clone()).collect();
        let salted: Vec<*mut u8> = salted.iter_mut().map(|key| key.as_mut_ptr()).collect();
        let mkis: Vec<*mut u8> = mkis.iter_mut().map(|mki| mki.as_mut_ptr()).collect();
        let (kind, value) = match ssrc {
            Ssrc::Only(ssrc) => (1, ssrc),
            Ssrc::AnyInbound => (2, 0),
            Ssrc::AnyOutbound => (3, 0),
        };
        // SAFETY: `raw` is null or a session of ours. Both arrays have `keys.len()` pointers, each
        // to as many bytes as the profile or `mki_len` requires, all alive until the call returns;
        // libsrtp keeps copies.
        let status = unsafe {
            srtp_compare_add_stream(
                &mut self.raw,
                profile_code(profile),
                kind,
                value,
                window as c_ulong,
                salted.as_ptr(),
                mkis.as_ptr(),
                mki_len as c_uint,
                keys.len(),
            )
        };
        self.with_mki |= mki_len > 0;
        Status::check(status)
    }

    /// Protects `packet[..len]` in place with the key of number `key`, and returns the protected length.
    ///
    /// # Errors
    /// What libsrtp says.
    ///
    /// # Panics
    /// When `packet` has not [`TRAILER_MAX`] bytes more than `len`.
    pub fn protect_rtp(&mut self, packet: &mut [u8], len: usize, key: usize) -> Result<usize, Status> {
        let mut length = checked(packet, len, TRAILER_MAX);
        // SAFETY: `packet` is aligned, has `length` bytes and room for any trailer; the session is alive.
        let status = unsafe {
            srtp_protect_mki(
                self.raw,
                packet.as_mut_ptr().cast(),
                &mut length,
                self.with_mki.into(),
                key as c_uint,
            )
        };
        Status::check(status).map(|()| length as usize)
    }

    /// Protects the compound packet `packet[..len]` in place, and returns the protected length.
    ///
    /// # Errors
    /// What libsrtp says.
    ///
    /// # Panics
    /// When `packet` has not [`TRAILER_MAX`] bytes more than `len`.
    pub fn protect_rtcp(&mut self, packet: &mut [u8], len: usize, key: usize) -> Result<usize, Status> {
        let mut length = checked(packet, len, TRAILER_MAX);
        // SAFETY: `packet` is aligned, has `length` bytes and room for any trailer; the session is alive.
        let status = unsafe {
            srtp_protect_rtcp_mki(
                self.raw,
                packet.as_mut_ptr().cast(),
                &mut length,
                self.with_mki.into(),
                key as c_uint,
            )
        };
        Status::check(status).map(|()| length as usize)
    }

    /// Checks and decrypts in place, and returns the plaintext's length.
    ///
    /// # Errors
    /// What libsrtp says; `packet` may be changed then.
    pub fn unprotect_rtp(&mut self, packet: &mut [u8]) -> Result<usize, Status> {
        let mut length = checked(packet, packet.len(), 0);
        // SAFETY: `packet` is aligned and has `length` bytes, which libsrtp does not go beyond; the
        // session is alive.
        let status = unsafe {
            srtp_unprotect_mki(self.raw, packet.as_mut_ptr().cast(), &mut length, self.with_mki.into())
        };
        Status::check(status).map(|()| length as usize)
    }

    /// Checks and decrypts in place, and returns the plaintext's length.
    ///
    /// # Errors
    /// What libsrtp says; `packet` may be changed then.
    pub fn unprotect_rtcp(&mut self, packet: &mut [u8]) -> Result<usize, Status> {
        let mut length = checked(packet, packet.len(), 0);
        // SAFETY: `packet` is aligned and has `length` bytes, which libsrtp does not go beyond; the
        // session is alive.
        let status = unsafe {
            srtp_unprotect_rtcp_mki(self.raw, packet.as_mut_ptr().cast(), &mut length, self.with_mki.into())
        };
        Status::check(status).map(|()| length as usize)
    }

    /// Sets the rollover counter with which the next packet of `ssrc` is read. The stream must exist.
    ///
    /// # Errors
    /// What libsrtp says.
    pub fn set_roc(&mut self, ssrc: u32, roc: u32) -> Result<(), Status> {
        // SAFETY: takes numbers; the session is alive.
        Status::check(unsafe { srtp_set_stream_roc(self.raw, ssrc, roc) })
    }

    /// The rollover counter of `ssrc`.
    ///
    /// # Errors
    /// What libsrtp says, as when there is no such stream.
    pub fn roc(&mut self, ssrc: u32) -> Result<u32, Status> {
        let mut roc = 0;
        // SAFETY: `roc` is writable; the session is alive.
        Status::check(unsafe { srtp_get_stream_roc(self.raw, ssrc, &mut roc) }).map(|()| roc)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: made by `srtp_create`, and not used after this.
            unsafe { srtp_dealloc(self.raw) };
        }
    }
}

/// `len` as libsrtp wants it, once `packet` is known to be aligned to a word and to have `spare`
/// bytes behind it.
fn checked(packet: &[u8], len: usize, spare: usize) -> c_int {
    assert!(packet.as_ptr().addr().is_multiple_of(4), "libsrtp wants packets aligned to a word");
    assert!(len <= 0xffff && len + spare <= packet.len(), "libsrtp needs {spare} bytes behind {len}");
    len as c_int
}

/// As `set_crypto` in policy.c counts.
fn profile_code(profile: Profile) -> c_int {
    match profile {
        Profile::AeadAes128Gcm => 0,
        Profile::AeadAes256Gcm => 1,
        Profile::AesCm128HmacSha1_80 => 2,
        Profile::AesCm128HmacSha1_32 => 3,
        Profile::AesCm256HmacSha1_80 => 4,
        Profile::AesCm256HmacSha1_32 => 5,
    }
}

unsafe extern "C" {
    fn srtp_init() -> c_int;
    fn srtp_compare_add_stream(
        session: *mut *mut c_void,
        profile: c_int,
        ssrc_type: c_int,
        ssrc: c_uint,
        window: c_ulong,
        keys: *const *mut u8,
        mkis: *const *mut u8,
        mki_len: c_uint,
        count: usize,
    ) -> c_int;
    fn srtp_protect_mki(
        session: *mut c_void,
        packet: *mut c_void,
        len: *mut c_int,
        mki: c_uint,
        key: c_uint,
    ) -> c_int;
    fn srtp_protect_rtcp_mki(
        session: *mut c_void,
        packet: *mut c_void,
        len: *mut c_int,
        mki: c_uint,
        key: c_uint,
    ) -> c_int;
    fn srtp_unprotect_mki(session: *mut c_void, packet: *mut c_void, len: *mut c_int, mki: c_uint) -> c_int;
    fn srtp_unprotect_rtcp_mki(
        session: *mut c_void,
        packet: *mut c_void,
        len: *mut c_int,
        mki: c_uint,
    ) -> c_int;
    fn srtp_set_stream_roc(session: *mut c_void, ssrc: u32, roc: u32) -> c_int;
    fn srtp_get_stream_roc(session: *mut c_void, ssrc: u32, roc: *mut u32) -> c_int;
    fn srtp_dealloc(session: *mut c_void) -> c_int;
}
