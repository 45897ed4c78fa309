//! What the kernel knows of a TCP connection: its round-trip time and the bytes that lie unread in
//! its buffer.
//!
//! A seek is cheaper skipped than requested again when the bytes between are here already, and only
//! the kernel knows that. The one place of this crate with `unsafe`: `getsockopt(TCP_INFO)` fills a
//! C structure.
//!
//! Linux says both, other Unix systems the unread bytes, Windows neither: there the plan of a seek
//! has only what the reader has measured itself.

#[cfg(unix)]
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A sample of `TCP_INFO` (tcp(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Smoothed round-trip time, measured on what this side has sent.
    pub(crate) round_trip: Duration,
    /// Bytes that the other side has acknowledged since the connection opened (Linux 4.1).
    pub(crate) acknowledged_bytes: u64,
}

/// The sample of this moment; `None` where the kernel has none, or has not measured yet.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate in the tree wraps TCP_INFO")]
pub(crate) fn sample(socket: &impl AsFd) -> Option<TcpInfo> {
    let socket = socket.as_fd();
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `socket` is open while it is borrowed; `info` is `length` writable bytes, and the
    // kernel writes no more.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return None;
    }
    // SAFETY: `tcp_info` is integers only, and all of it was zeroed before the kernel wrote a part
    // or the whole of it.
    let info = unsafe { info.assume_init() };
    (info.tcpi_rtt > 0).then(|| TcpInfo {
        round_trip: Duration::from_micros(u64::from(info.tcpi_rtt)),
        acknowledged_bytes: info.tcpi_bytes_acked,
    })
}

/// No sample on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sample<S>(_socket: &S) -> Option<TcpInfo> {
    None
}

/// Bytes in the receive buffer that have not been read (`SIOCINQ`); 0 if the kernel does not say.
#[cfg(unix)]
pub(crate) fn unread_bytes(socket: &impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap_or(0)
}

/// Not asked on this system.
#[cfg(not(unix))]
pub(crate) fn unread_bytes<S>(_socket: &S) -> u64 {
    0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connected_socket_has_a_round_trip_and_counts_what_is_unread() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut theirs, _) = listener.accept().unwrap();
        theirs.write_all(&[7; 1000]).unwrap();
        // Loopback: what was written is there when `write` returns.
        assert_eq!(unread_bytes(&ours), 1000);
        let info = sample(&ours).unwrap();
        assert!(info.round_trip < Duration::from_secs(1), "{info:?}");
    }

    #[test]
    fn what_is_no_tcp_socket_has_no_information() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(sample(&file), None);
        assert_eq!(unread_bytes(&file), 0);
    }
}
