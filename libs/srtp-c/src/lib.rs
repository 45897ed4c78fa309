//! `srtp` for C and C++ behind the calls of libsrtp 2: `include/srtp2/srtp.h`, `libsrtp_c.a`,
//! `libsrtp_c.so`.
//!
//! Names, numbers and layouts are those of libsrtp's public interface, so that a server tries this
//! library by linking it in libsrtp's place. The header is written by hand and compared by tests;
//! what C passes is read in `policy.rs`, a session is `session.rs`.
//!
//! A panic, which would be a bug, is answered by `srtp_err_status_fail` at the boundary and never
//! unwinds into C.

mod policy;
mod session;
mod status;

pub use policy::{CryptoPolicy, Policy, RawMasterKey, Ssrc};
pub use session::Session;

use srtp::Profile;
use status::Status;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::slice;
use std::sync::Mutex;

/// `srtp_event_data_t`.
#[repr(C)]
#[derive(Debug)]
pub struct EventData {
    session: *mut Session,
    ssrc: u32,
    event: c_int,
}

/// `srtp_event_handler_func_t`.
pub type EventHandler = unsafe extern "C" fn(*mut EventData);

/// `event_key_hard_limit`.
const KEY_HARD_LIMIT: c_int = 2;

static HANDLER: Mutex<Option<EventHandler>> = Mutex::new(None);

/// Nothing to prepare.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_init() -> c_int {
    Status::Ok.number()
}

/// Nothing to clean up.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_shutdown() -> c_int {
    Status::Ok.number()
}

/// Makes a session.
///
/// # Safety
/// `session` is NULL or may be written to; `policy` is NULL or may be read, and so may what it and the
/// next ones point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_create(session: *mut *mut Session, policy: *const Policy) -> c_int {
    guard(|| {
        // SAFETY: as the contract says.
        let session = unsafe { session.as_mut() }.ok_or(Status::BadParam)?;
        *session = ptr::null_mut();
        // SAFETY: the same contract as this function's.
        let made = Session::new(unsafe { policy::read_list(policy) }?)?;
        *session = Box::into_raw(Box::new(made));
        Ok(())
    })
}

/// Frees a session.
///
/// # Safety
/// `session` is NULL or a session that has not been freed, and is used by nothing else during the call
/// or afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_dealloc(session: *mut Session) -> c_int {
    guard(|| {
        if session.is_null() {
            return Err(Status::BadParam);
        }
        // SAFETY: by the contract it comes from `Box::into_raw` in `srtp_create`, and only once.
        drop(unsafe { Box::from_raw(session) });
        Ok(())
    })
}

/// Adds a stream.
///
/// # Safety
/// `session` is NULL or a session that is used by nothing else meanwhile; `policy` as for
/// [`srtp_create`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_add_stream(session: *mut Session, policy: *const Policy) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { with_policies(session, policy, false, Session::add) }
}

/// Gives other keys to all streams of a list of policies.
///
/// # Safety
/// As [`srtp_add_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_update(session: *mut Session, policy: *const Policy) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { with_policies(session, policy, true, Session::update) }
}

/// Gives other keys to the stream of a policy.
///
/// # Safety
/// As [`srtp_add_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_update_stream(session: *mut Session, policy: *const Policy) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { with_policies(session, policy, false, Session::update) }
}

/// Removes a stream of its own policy.
///
/// # Safety
/// `session` is NULL or a session that is used by nothing else meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_remove_stream(session: *mut Session, ssrc: c_uint) -> c_int {
    // SAFETY: the same contract as this function's.
    guard(|| unsafe { session.as_mut() }.ok_or(Status::BadParam)?.remove(ssrc))
}

/// Protects an RTP packet.
///
/// # Safety
/// `session` is NULL or a session that is used by nothing else meanwhile. `len` is NULL or may be read
/// and written; `packet` is NULL or points to that many bytes and room for the trailer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_protect(session: *mut Session, packet: *mut c_void, len: *mut c_int) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { srtp_protect_mki(session, packet, len, 0, 0) }
}

/// Protects an RTP packet by one of several keys.
///
/// # Safety
/// As [`srtp_protect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_protect_mki(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
    use_mki: c_uint,
    mki_index: c_uint,
) -> c_int {
    let mki = (use_mki != 0).then_some(mki_index as usize);
    // SAFETY: the same contract as this function's.
    unsafe {
        with_packet(session, packet, len, 8, Session::rtp_trailer, |session, packet, len| {
            session.protect(packet, len, mki)
        })
    }
}

/// Protects an RTCP packet.
///
/// # Safety
/// As [`srtp_protect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_protect_rtcp(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { srtp_protect_rtcp_mki(session, packet, len, 0, 0) }
}

/// Protects an RTCP packet by one of several keys.
///
/// # Safety
/// As [`srtp_protect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_protect_rtcp_mki(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
    use_mki: c_uint,
    mki_index: c_uint,
) -> c_int {
    let mki = (use_mki != 0).then_some(mki_index as usize);
    // SAFETY: the same contract as this function's.
    unsafe {
        with_packet(session, packet, len, 4, Session::rtcp_trailer, |session, packet, len| {
            session.protect_rtcp(packet, len, mki)
        })
    }
}

/// Unprotects an SRTP packet.
///
/// # Safety
/// As [`srtp_protect`]; no room behind the packet is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_unprotect(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { srtp_unprotect_mki(session, packet, len, 0) }
}

/// Unprotects an SRTP packet that may name its key.
///
/// # Safety
/// As [`srtp_unprotect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_unprotect_mki(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
    use_mki: c_uint,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe {
        with_packet(
            session,
            packet,
            len,
            8,
            |_| 0,
            |session, packet, _| session.unprotect(packet, use_mki != 0),
        )
    }
}

/// Unprotects an SRTCP packet.
///
/// # Safety
/// As [`srtp_unprotect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_unprotect_rtcp(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { srtp_unprotect_rtcp_mki(session, packet, len, 0) }
}

/// Unprotects an SRTCP packet that may name its key.
///
/// # Safety
/// As [`srtp_unprotect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_unprotect_rtcp_mki(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
    use_mki: c_uint,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe {
        with_packet(
            session,
            packet,
            len,
            4,
            |_| 0,
            |session, packet, _| session.unprotect_rtcp(packet, use_mki != 0),
        )
    }
}

/// Bytes that an RTP packet grows at most in this session.
///
/// # Safety
/// `session` is NULL or a session that is not changed meanwhile; `length` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_get_protect_trailer_length(
    session: *const Session,
    _use_mki: u32,
    _mki_index: u32,
    length: *mut u32,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { answer(session, length, |session| Ok(session.rtp_trailer() as u32)) }
}

/// Bytes that an RTCP packet grows at most in this session.
///
/// # Safety
/// As [`srtp_get_protect_trailer_length`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_get_protect_rtcp_trailer_length(
    session: *const Session,
    _use_mki: u32,
    _mki_index: u32,
    length: *mut u32,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { answer(session, length, |session| Ok(session.rtcp_trailer() as u32)) }
}

/// Rollover counter of a stream.
///
/// # Safety
/// As [`srtp_get_protect_trailer_length`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_get_stream_roc(session: *const Session, ssrc: u32, roc: *mut u32) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { answer(session, roc, |session| session.roc(ssrc)) }
}

/// Sets the rollover counter of a stream.
///
/// # Safety
/// As [`srtp_remove_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_set_stream_roc(session: *mut Session, ssrc: u32, roc: u32) -> c_int {
    // SAFETY: the same contract as this function's.
    guard(|| unsafe { session.as_mut() }.ok_or(Status::BadParam)?.set_roc(ssrc, roc))
}

/// Keeps a pointer of the caller's with the session.
///
/// # Safety
/// As [`srtp_remove_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_set_user_data(session: *mut Session, data: *mut c_void) {
    // SAFETY: the same contract as this function's.
    if let Some(session) = unsafe { session.as_mut() } {
        session.user_data = data;
    }
}

/// The pointer of the caller's; NULL at first.
///
/// # Safety
/// `session` is NULL or a session that is not changed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_get_user_data(session: *const Session) -> *mut c_void {
    // SAFETY: the same contract as this function's.
    unsafe { session.as_ref() }.map_or(ptr::null_mut(), |session| session.user_data)
}

/// Functions that fill a policy.
macro_rules! fill_policy {
    ($($name:ident, $make:ident, $profile:ident;)*) => { $(
        /// Fills a policy; does nothing for NULL.
        ///
        /// # Safety
        /// `policy` is NULL or may be written to.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(policy: *mut CryptoPolicy) {
            if !policy.is_null() {
                // SAFETY: it is not NULL, so it may be written to.
                unsafe { policy.write(CryptoPolicy::$make(Profile::$profile)) };
            }
        }
    )* };
}

fill_policy! {
    srtp_crypto_policy_set_rtp_default, rtp, AesCm128HmacSha1_80;
    srtp_crypto_policy_set_rtcp_default, rtcp, AesCm128HmacSha1_80;
    srtp_crypto_policy_set_aes_cm_128_hmac_sha1_32, rtp, AesCm128HmacSha1_32;
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_80, rtp, AesCm256HmacSha1_80;
    srtp_crypto_policy_set_aes_cm_256_hmac_sha1_32, rtp, AesCm256HmacSha1_32;
    srtp_crypto_policy_set_aes_gcm_128_16_auth, rtp, AeadAes128Gcm;
    srtp_crypto_policy_set_aes_gcm_256_16_auth, rtp, AeadAes256Gcm;
}

/// Fills a policy for RTP by the number of DTLS-SRTP.
///
/// # Safety
/// `policy` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_crypto_policy_set_from_profile_for_rtp(
    policy: *mut CryptoPolicy,
    profile: c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { fill_by_number(policy, profile, CryptoPolicy::rtp) }
}

/// Fills a policy for RTCP by the number of DTLS-SRTP.
///
/// # Safety
/// `policy` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_crypto_policy_set_from_profile_for_rtcp(
    policy: *mut CryptoPolicy,
    profile: c_int,
) -> c_int {
    // SAFETY: the same contract as this function's.
    unsafe { fill_by_number(policy, profile, CryptoPolicy::rtcp) }
}

/// Bytes of the key of a profile; 0 for one that is not supported.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_profile_get_master_key_length(profile: c_int) -> c_uint {
    by_number(profile).map_or(0, |profile| profile.key_len() as c_uint)
}

/// Bytes of the salt of a profile; 0 for one that is not supported.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_profile_get_master_salt_length(profile: c_int) -> c_uint {
    by_number(profile).map_or(0, |profile| profile.salt_len() as c_uint)
}

/// Writes the salt behind the key.
///
/// # Safety
/// `key` is NULL or has room for both, `salt` is NULL or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn srtp_append_salt_to_key(
    key: *mut c_uchar,
    key_len: c_uint,
    salt: *const c_uchar,
    salt_len: c_uint,
) {
    if !key.is_null() && !salt.is_null() {
        // SAFETY: there is room for both, and the salt may be read. They may overlap.
        unsafe { key.add(key_len as usize).copy_from(salt, salt_len as usize) };
    }
}

/// Sets what is called when a key has protected or accepted as many packets as it may.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_install_event_handler(handler: Option<EventHandler>) -> c_int {
    *HANDLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = handler;
    Status::Ok.number()
}

/// Version of the interface, and of this library. Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_get_version_string() -> *const c_char {
    concat!("libsrtp2 2.5.0 (srtp-c ", env!("CARGO_PKG_VERSION"), ")\0").as_ptr().cast()
}

/// Version of the interface: 2.5.0.
#[unsafe(no_mangle)]
pub extern "C" fn srtp_get_version() -> c_uint {
    2 << 24 | 5 << 16
}

/// # Safety
/// That of [`srtp_add_stream`].
unsafe fn with_policies(
    session: *mut Session,
    policy: *const Policy,
    all: bool,
    change: fn(&mut Session, policy::Checked) -> Result<(), Status>,
) -> c_int {
    guard(|| {
        // SAFETY: as the contract says.
        let session = unsafe { session.as_mut() }.ok_or(Status::BadParam)?;
        // SAFETY: as the contract says.
        let Some(first) = (unsafe { policy.as_ref() }) else { return Err(Status::BadParam) };
        let alone = Policy { next: ptr::null(), ..*first };
        // SAFETY: the same contract as this function's.
        let list = unsafe { policy::read_list(if all { policy } else { &raw const alone }) }?;
        list.into_iter().try_for_each(|policy| change(session, policy))
    })
}

/// # Safety
/// That of [`srtp_protect`]; behind the packet are as many bytes as `trailer` says.
unsafe fn with_packet(
    session: *mut Session,
    packet: *mut c_void,
    len: *mut c_int,
    ssrc_at: usize,
    trailer: impl FnOnce(&Session) -> usize,
    work: impl FnOnce(&mut Session, &mut [u8], usize) -> Result<usize, Status>,
) -> c_int {
    let mut ssrc = 0;
    let status = guard(|| {
        // SAFETY: as the contract says.
        let (made, out) = unsafe { (session.as_mut(), len.as_mut()) };
        let (session, out) = made.zip(out).ok_or(Status::BadParam)?;
        let len = usize::try_from(*out).map_err(|_| Status::BadParam)?;
        if packet.is_null() {
            return Err(Status::BadParam);
        }
        let room = len + trailer(session);
        // SAFETY: not NULL, and of that length by the contract.
        let packet = unsafe { slice::from_raw_parts_mut(packet.cast::<u8>(), room) };
        if let Some(bytes) = packet[..len].get(ssrc_at..ssrc_at + 4) {
            ssrc = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        *out = work(session, packet, len)? as c_int;
        Ok(())
    });
    if status == Status::KeyExpired.number() {
        let handler = *HANDLER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(handler) = handler {
            let mut event = EventData { session, ssrc, event: KEY_HARD_LIMIT };
            // SAFETY: the handler was given for this; it gets a structure that lives until it returns.
            unsafe { handler(&raw mut event) };
        }
    }
    status
}

/// # Safety
/// `session` is NULL or a session that is not changed meanwhile; `to` is NULL or may be written to.
unsafe fn answer(
    session: *const Session,
    to: *mut u32,
    value: impl FnOnce(&Session) -> Result<u32, Status>,
) -> c_int {
    guard(|| {
        // SAFETY: as the contract says.
        let (session, to) = unsafe { session.as_ref().zip(to.as_mut()) }.ok_or(Status::BadParam)?;
        *to = value(session)?;
        Ok(())
    })
}

/// # Safety
/// `policy` is NULL or may be written to.
unsafe fn fill_by_number(
    policy: *mut CryptoPolicy,
    profile: c_int,
    make: fn(Profile) -> CryptoPolicy,
) -> c_int {
    guard(|| {
        let profile = by_number(profile).ok_or(Status::BadParam)?;
        if policy.is_null() {
            return Err(Status::BadParam);
        }
        // SAFETY: it is not NULL, so it may be written to.
        unsafe { policy.write(make(profile)) };
        Ok(())
    })
}

fn by_number(profile: c_int) -> Option<Profile> {
    u16::try_from(profile).ok().and_then(Profile::from_dtls_id)
}

/// Runs `work`, and turns its error, or a panic, into a number.
fn guard(work: impl FnOnce() -> Result<(), Status>) -> c_int {
    // After a panic a session is memory-safe like any Rust value; the number says that it is a bug.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => Status::Ok.number(),
        Ok(Err(status)) => status.number(),
        Err(_) => Status::Fail.number(),
    }
}
