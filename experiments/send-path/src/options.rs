//! Socket options of the sending side.

use socket2::Socket;

use crate::machine;

/// `None` and `false` leave the system's default, except that TCP_NODELAY is set unless `nagle`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SenderOptions {
    pub(crate) nagle: bool,
    /// SO_SNDBUF, bytes; the kernel doubles it and no longer adapts it.
    pub(crate) send_buffer: Option<usize>,
    /// TCP_NOTSENT_LOWAT, bytes.
    pub(crate) not_sent_low: Option<u32>,
    /// TCP_CONGESTION.
    pub(crate) congestion: Option<&'static str>,
    /// SO_ZEROCOPY.
    pub(crate) zero_copy: bool,
}

impl SenderOptions {
    pub(crate) fn apply(&self, socket: &Socket) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        socket.set_tcp_nodelay(!self.nagle).map_err(text)?;
        if let Some(bytes) = self.send_buffer {
            socket.set_send_buffer_size(bytes).map_err(text)?;
        }
        if let Some(bytes) = self.not_sent_low {
            socket.set_tcp_notsent_lowat(bytes).map_err(text)?;
        }
        if let Some(name) = self.congestion {
            socket.set_tcp_congestion(name.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
        }
        if self.zero_copy {
            machine::set_option(socket, nix::libc::SOL_SOCKET, nix::libc::SO_ZEROCOPY, 1)?;
        }
        Ok(())
    }
}
