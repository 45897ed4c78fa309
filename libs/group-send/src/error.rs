//! Why a datagram was not sent, as a small value per recipient.
//!
//! The names say what the caller can do about it; the kernel's numbers are in the documentation of
//! each. Set-up has an error of its own that explains itself in text.

use std::fmt;
use std::io;

/// Why a datagram, or the rest of a recipient's datagrams, was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The socket's send buffer is full (`EAGAIN`), or a device's ring. The only error that is not
    /// final: see [`Progress::blocked`](crate::Progress::blocked).
    WouldBlock,
    /// The kernel or the device had no memory or no room for this datagram (`ENOBUFS`, `ENOMEM`).
    NoBuffers,
    /// An earlier datagram to this recipient was answered by "port unreachable" (`ECONNREFUSED`).
    /// Reported only when the socket asks for it: see
    /// [`socket::report_refusals`](crate::socket::report_refusals).
    Refused,
    /// A packet filter or a missing right forbids it (`EPERM`, `EACCES`; the latter also for
    /// broadcast addresses).
    NotPermitted,
    /// There is no route to the recipient (`ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`).
    Unreachable,
    /// The datagram is longer than UDP or the path allows (`EMSGSIZE`): more than 65,507 bytes to
    /// an IPv4 address.
    TooLong,
    /// The recipient's address is of a family that the socket cannot reach: IPv6 on an IPv4 socket,
    /// or IPv4 on a socket that is limited to IPv6 (`EAFNOSUPPORT`).
    WrongFamily,
    /// The number of `prepend` or `append` slices is neither 0, nor 1, nor the number of packets.
    BadPrivate,
    /// The kernel does not take this address, port 0 for example, or not from the address that the
    /// socket is bound to: a loopback address reaches this machine only (`EINVAL`,
    /// `EADDRNOTAVAIL`).
    BadAddress,
    /// Any other number of the kernel (`errno`).
    Kernel(i32),
}

impl SendError {
    /// Whether another call may succeed without anything else changing: true for
    /// [`SendError::WouldBlock`] only.
    pub fn is_retryable(self) -> bool {
        self == Self::WouldBlock
    }

    /// What the kernel's number for a send means.
    #[cfg(unix)]
    pub(crate) fn from_errno(errno: i32) -> Self {
        match errno {
            libc::EAGAIN => Self::WouldBlock,
            libc::ENOBUFS | libc::ENOMEM => Self::NoBuffers,
            libc::ECONNREFUSED => Self::Refused,
            libc::EPERM | libc::EACCES => Self::NotPermitted,
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN => Self::Unreachable,
            libc::EMSGSIZE => Self::TooLong,
            libc::EAFNOSUPPORT => Self::WrongFamily,
            libc::EINVAL | libc::EADDRNOTAVAIL | libc::EDESTADDRREQ => Self::BadAddress,
            errno => Self::Kernel(errno),
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("the socket's send buffer is full"),
            Self::NoBuffers => f.write_str("the kernel or the device has no room"),
            Self::Refused => f.write_str("port unreachable"),
            Self::NotPermitted => f.write_str("not permitted"),
            Self::Unreachable => f.write_str("no route to the recipient"),
            Self::TooLong => f.write_str("datagram too long"),
            Self::WrongFamily => f.write_str("address family that the socket cannot reach"),
            Self::BadPrivate => f.write_str("neither none, nor one, nor one private part for each packet"),
            Self::BadAddress => f.write_str("not an address one can send to"),
            Self::Kernel(errno) => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for SendError {}
