//! Why a DTLS session ended without keys, or after it had them.

use std::fmt;

/// Why a DTLS session has ended. Each is final: the session answers nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DtlsError {
    /// No certificate fingerprint was signalled, so no peer can be accepted. Fault of the caller.
    NoFingerprint,
    /// The peer showed no certificate.
    NoCertificate,
    /// The peer's certificate is not the one that was signalled.
    WrongFingerprint,
    /// The peer offers no SRTP profile that we allow, or none at all.
    NoSrtpProfile,
    /// The peer offers no DTLS version that we allow.
    NoVersion,
    /// The handshake went against the protocol, or a signature or Finished was wrong. Fault of the
    /// peer.
    Handshake,
    /// There were no keys in time.
    Timeout,
    /// The peer sent far more records than a handshake takes.
    TooMuch,
    /// A library refused its configuration or panicked. Fault of ours.
    Internal,
    /// The session had ended before.
    Ended,
}

impl DtlsError {
    /// A name for counters and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFingerprint => "no_fingerprint",
            Self::NoCertificate => "no_certificate",
            Self::WrongFingerprint => "wrong_fingerprint",
            Self::NoSrtpProfile => "no_srtp_profile",
            Self::NoVersion => "no_version",
            Self::Handshake => "handshake",
            Self::Timeout => "timeout",
            Self::TooMuch => "too_much",
            Self::Internal => "internal",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for DtlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFingerprint => "no certificate fingerprint was signalled",
            Self::NoCertificate => "the peer showed no certificate",
            Self::WrongFingerprint => "the peer's certificate is not the one that was signalled",
            Self::NoSrtpProfile => "no SRTP profile in common",
            Self::NoVersion => "no DTLS version in common",
            Self::Handshake => "the DTLS handshake failed",
            Self::Timeout => "the DTLS handshake took too long",
            Self::TooMuch => "too many datagrams for a DTLS handshake",
            Self::Internal => "the DTLS library failed",
            Self::Ended => "the DTLS session has ended",
        })
    }
}

impl std::error::Error for DtlsError {}
