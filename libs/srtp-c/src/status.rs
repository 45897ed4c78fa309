//! Errors by the numbers of `srtp_err_status_t`.

use srtp::{ProtectError, SetupError, UnprotectError};
use std::ffi::c_int;

/// `srtp_err_status_t`, without those that are never returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Status {
    Ok = 0,
    Fail = 1,
    BadParam = 2,
    AllocFail = 3,
    AuthFail = 7,
    ReplayFail = 9,
    ReplayOld = 10,
    NoCtx = 13,
    CantCheck = 14,
    KeyExpired = 15,
    ParseErr = 21,
    BadMki = 25,
}

impl Status {
    pub(crate) fn number(self) -> c_int {
        self as c_int
    }
}

impl From<SetupError> for Status {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::TooManyStreams => Self::AllocFail,
            SetupError::UnknownSsrc => Self::NoCtx,
            SetupError::UnknownMki => Self::BadMki,
            _ => Self::BadParam,
        }
    }
}

impl From<ProtectError> for Status {
    fn from(error: ProtectError) -> Self {
        match error {
            ProtectError::TooShort | ProtectError::TooLong | ProtectError::BufferTooSmall => Self::BadParam,
            ProtectError::BadVersion | ProtectError::BadHeader => Self::ParseErr,
            ProtectError::UnknownSsrc => Self::NoCtx,
            ProtectError::TooManyStreams => Self::AllocFail,
            ProtectError::IndexUsed | ProtectError::NotTheSame => Self::ReplayFail,
            ProtectError::TooOld => Self::ReplayOld,
            ProtectError::KeyExpired => Self::KeyExpired,
            ProtectError::UnknownContext => Self::Fail,
        }
    }
}

impl From<UnprotectError> for Status {
    fn from(error: UnprotectError) -> Self {
        match error {
            UnprotectError::TooShort | UnprotectError::TooLong => Self::BadParam,
            UnprotectError::BadVersion | UnprotectError::BadHeader => Self::ParseErr,
            UnprotectError::UnknownSsrc => Self::NoCtx,
            UnprotectError::UnknownMki => Self::BadMki,
            UnprotectError::TooManyStreams => Self::AllocFail,
            UnprotectError::NotEncrypted => Self::CantCheck,
            UnprotectError::Replayed => Self::ReplayFail,
            UnprotectError::TooOld => Self::ReplayOld,
            UnprotectError::AuthFailed => Self::AuthFail,
            UnprotectError::KeyExpired => Self::KeyExpired,
            UnprotectError::UnknownContext => Self::Fail,
        }
    }
}
