//! The sizes of a socket's buffers, and a warning when they are not granted.

#[cfg(target_os = "linux")]
use crate::linux;
use socket2::SockRef;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;

/// Socket buffers that a server of real-time media should have, in bytes: 16 MiB.
///
/// The kernel counts a datagram as two to three times its size, and while a worker does something
/// else for 10 ms, 1 Gbit/s brings 1.25 MB.
pub const BUFFER_BYTES: usize = 16 << 20;

/// What [`size_buffers`] got.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffers {
    /// Bytes of the receive buffer.
    pub receive_bytes: usize,
    /// Bytes of the send buffer.
    pub send_bytes: usize,
    /// For a log, if either is smaller than asked for: by how much, and what would change it.
    pub warning: Option<String>,
}

/// Asks for receive and send buffers of at least `bytes` ([`BUFFER_BYTES`] if nothing else is
/// known). One that is as large already stays as it is.
///
/// With `CAP_NET_ADMIN` a Linux kernel grants any size (`SO_RCVBUFFORCE`, `SO_SNDBUFFORCE`),
/// without it no more than `net.core.rmem_max` and `net.core.wmem_max` (`socket(7)`).
///
/// # Errors
/// Only if the sizes cannot be read. A smaller size than requested is a warning.
pub fn size_buffers<'s>(socket: impl Into<SockRef<'s>>, bytes: usize) -> io::Result<Buffers> {
    let socket = &socket.into();
    let receive_bytes = Side::Receive.grow(socket, bytes)?;
    let send_bytes = Side::Send.grow(socket, bytes)?;
    let short =
        [(Side::Receive, receive_bytes), (Side::Send, send_bytes)].into_iter().filter(|s| s.1 < bytes);
    let warnings: Vec<String> = short.map(|(side, granted)| side.warning(granted, bytes)).collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    Ok(Buffers { receive_bytes, send_bytes, warning })
}

/// One of a socket's two buffers.
#[derive(Clone, Copy)]
enum Side {
    Receive,
    Send,
}

impl Side {
    /// Returns the size the buffer has in the end.
    fn grow(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<usize> {
        let before = self.size(socket)?;
        if before >= bytes {
            return Ok(before);
        }
        // A refusal shows in the size afterwards, as does a limit that was applied in silence.
        let _ = self.force(socket, bytes).or_else(|_| self.set(socket, bytes));
        self.size(socket)
    }

    fn set(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<()> {
        match self {
            Self::Receive => socket.set_recv_buffer_size(bytes),
            Self::Send => socket.set_send_buffer_size(bytes),
        }
    }

    /// In the unit of [`Side::set`]: Linux doubles what it was asked for, for its own needs, and
    /// reports the double.
    fn size(self, socket: &SockRef<'_>) -> io::Result<usize> {
        let bytes = match self {
            Self::Receive => socket.recv_buffer_size(),
            Self::Send => socket.send_buffer_size(),
        }?;
        Ok(if cfg!(target_os = "linux") { bytes / 2 } else { bytes })
    }

    #[cfg(target_os = "linux")]
    fn force(self, socket: &SockRef<'_>, bytes: usize) -> io::Result<()> {
        let name = match self {
            Self::Receive => libc::SO_RCVBUFFORCE,
            Self::Send => libc::SO_SNDBUFFORCE,
        };
        let bytes = i32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        linux::recv::set_option(socket.as_fd(), libc::SOL_SOCKET, name, bytes)
    }

    #[cfg(not(target_os = "linux"))]
    fn force(self, _: &SockRef<'_>, _: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn warning(self, granted: usize, asked: usize) -> String {
        let (name, sysctl) = match self {
            Self::Receive => ("receive", "net.core.rmem_max"),
            Self::Send => ("send", "net.core.wmem_max"),
        };
        let cure = if cfg!(target_os = "linux") {
            format!(": `sysctl -w {sysctl}={asked}` allows it")
        } else {
            String::new()
        };
        format!("the socket's {name} buffer is {granted} bytes instead of {asked}{cure}")
    }
}
