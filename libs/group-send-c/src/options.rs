//! Options, names and texts between C and `group-send`.

use crate::{Failure, Options};
use group_send::{AfXdpConfig, BackendKind, Config, SetupError, TcCloneConfig, Traffic};
use libc::c_char;
use std::ffi::{CStr, CString};

/// # Safety
/// The strings of the options are NULL or end with a zero.
pub(crate) unsafe fn config(options: Option<&Options>) -> Result<Config, Failure> {
    let mut config = Config::default();
    let Some(options) = options else { return Ok(config) };
    // SAFETY: the same contract as this function's.
    match unsafe { text(options.backends) }? {
        None => {}
        // Its calls send groups.
        Some("auto") => config = Config::auto(Traffic::Groups),
        Some(names) => config.backends = names.split(',').map(kind).collect::<Result<_, _>>()?,
    }
    // SAFETY: the same contract as this function's.
    if let Some(interface) = unsafe { text(options.network_interface) }? {
        config.tc_clone = Some(TcCloneConfig::new(interface));
        config.af_xdp = Some(AfXdpConfig::new(interface));
    }
    if let Some(af_xdp) = &mut config.af_xdp {
        af_xdp.queue = options.queue;
    }
    Ok(config)
}

/// # Safety
/// `string` is NULL or ends with a zero, and must not be changed while the result is used.
unsafe fn text<'a>(string: *const c_char) -> Result<Option<&'a str>, Failure> {
    if string.is_null() {
        return Ok(None);
    }
    // SAFETY: it is not NULL, so it ends with a zero.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_str().map(Some).map_err(|error| Failure { errno: libc::EINVAL, why: error.to_string() })
}

fn kind(name: &str) -> Result<BackendKind, Failure> {
    let kinds = NAMES.iter().map(|&(kind, _)| kind);
    kinds
        .into_iter()
        .find(|kind| kind.name() == name.trim())
        .ok_or_else(|| Failure { errno: libc::EINVAL, why: format!("there is no back end named {name:?}") })
}

pub(crate) fn c_name(kind: BackendKind) -> &'static CStr {
    NAMES.iter().find(|&&(other, _)| other == kind).map_or(c"unknown", |&(_, name)| name)
}

/// With the zero that C wants; equal to `BackendKind::name`, see the test.
const NAMES: [(BackendKind, &CStr); 6] = [
    (BackendKind::Sendmsg, c"sendmsg"),
    (BackendKind::Sendmmsg, c"sendmmsg"),
    (BackendKind::Gso, c"gso"),
    (BackendKind::IoUring, c"io_uring"),
    (BackendKind::AfXdp, c"af_xdp"),
    (BackendKind::TcClone, c"tc_clone"),
];

/// A text for C: up to the first zero, should there be one in it.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

pub(crate) fn failure(error: SetupError) -> Failure {
    let errno = match &error {
        SetupError::Socket(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
        SetupError::NoBackend(_) => libc::EOPNOTSUPP,
    };
    Failure { errno, why: error.to_string() }
}

pub(crate) fn socket_failure(error: std::io::Error) -> Failure {
    Failure { errno: error.raw_os_error().unwrap_or(libc::EINVAL), why: error.to_string() }
}

/// Writes as much of `text` as there is room for, whole characters and a zero.
///
/// # Safety
/// `to` is NULL or `size` bytes there may be written to.
pub(crate) unsafe fn write_text(to: *mut c_char, size: usize, text: &str) {
    if to.is_null() || size == 0 {
        return;
    }
    let text = c_text(&text[..text.floor_char_boundary(size - 1)]);
    let bytes = text.as_bytes_with_nul();
    // SAFETY: they are at most `size` bytes, which may be written to and are no part of a string
    // made here.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_library() {
        for (kind, name) in NAMES {
            assert_eq!(kind.name(), name.to_str().unwrap());
            assert_eq!(c_name(kind), name);
            assert_eq!(super::kind(name.to_str().unwrap()).ok(), Some(kind));
        }
    }

    #[test]
    fn texts_are_cut_between_characters_and_always_end() {
        for (text, size, expected) in [
            ("abc", 9, c"abc"),
            ("abc", 4, c"abc"),
            ("abc", 3, c"ab"),
            ("aü", 3, c"a"),
            ("a\0b", 9, c"a"),
            ("a", 1, c""),
        ] {
            let mut room = [0x7f; 9];
            // SAFETY: the room is at least that long.
            unsafe { write_text(room.as_mut_ptr(), size, text) };
            let bytes = room.map(|byte: c_char| byte as u8);
            assert_eq!(CStr::from_bytes_until_nul(&bytes).unwrap(), expected, "{text:?} in {size}");
            assert!(bytes[size..].iter().all(|&byte| byte == 0x7f));
        }
        let mut room = [0x7f; 1];
        // SAFETY: nothing may be written to no bytes, and NULL is allowed.
        unsafe { write_text(room.as_mut_ptr(), 0, "a") };
        // SAFETY: NULL is allowed.
        unsafe { write_text(std::ptr::null_mut(), 9, "a") };
        assert_eq!(room, [0x7f]);
    }
}
