//! The interface of every back end.
//!
//! Policy (the order of sending, what remains to be sent) is above, in `group.rs` and `sender.rs`;
//! a back end hands datagrams to the network and returns an outcome for each.

#[cfg(all(target_os = "linux", feature = "af-xdp"))]
mod af_xdp;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod io_uring;
#[cfg(target_os = "linux")]
pub(crate) mod mmsg;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod segmentation;
#[cfg(all(target_os = "linux", feature = "tc-clone"))]
mod tc_clone;

#[cfg(target_os = "linux")]
use self::mmsg as plain;
#[cfg(not(target_os = "linux"))]
use self::portable as plain;
use crate::config::{BackendKind, Config, SetupError};
use crate::error::SendError;
use crate::group::{self, Recipient, Slot};
use socket2::SockRef;
use std::net::SocketAddr;

/// Datagrams handed to a back end in one call, at most. Bounds its buffers; the kernel takes up to
/// 1024 messages.
pub(crate) const CHUNK: usize = 256;

/// One datagram, gathered from up to three slices; empty ones are allowed.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'a> {
    pub(crate) destination: &'a SocketAddr,
    pub(crate) parts: [&'a [u8]; 3],
    /// Departure time, in nanoseconds of the clock that the socket was given (`SO_TXTIME`); 0 for
    /// at once.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only Linux knows such times"))]
    pub(crate) departure_ns: u64,
}

impl Datagram<'_> {
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// The result for one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not tried, or the kernel had no room at that moment.
    Unsent,
    Sent,
    Failed(SendError),
}

/// How datagrams reach the network. The contract is at each function.
pub(crate) trait Backend: Send {
    fn kind(&self) -> BackendKind;

    /// Sends datagrams that are in recipient-major order: all of one recipient adjacent, in the
    /// order they should arrive. At most [`CHUNK`]; `outcomes` is as long and all
    /// [`Outcome::Unsent`]. Outcomes are filled in order; when there is no room it stops and leaves
    /// the rest `Unsent`. A recipient's failure never stops the others.
    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]);

    /// Sends a group, and returns whether it stopped because there was no room. The default hands
    /// it to [`Backend::send`] in chunks.
    fn send_group(&mut self, packets: &[&[u8]], recipients: &[Recipient<'_>], slots: &mut [Slot]) -> bool {
        group::flatten(packets, recipients, slots, |datagrams, outcomes| self.send(datagrams, outcomes))
    }

    /// Reads ICMP errors for earlier datagrams from the caller's socket, and says whether there
    /// were any.
    fn read_refusals(&mut self) -> bool {
        false
    }

    /// Datagrams that were reported as sent and did not leave, as far as the back end learns of it.
    fn lost(&self) -> u64 {
        0
    }
}

/// A back end over the socket, or the reason why it does not work here.
///
/// # Errors
/// The socket itself is unusable.
pub(crate) fn open(
    kind: BackendKind,
    socket: &SockRef<'_>,
    config: &Config,
) -> Result<Result<Box<dyn Backend>, String>, SetupError> {
    let _ = config;
    Ok(match kind {
        BackendKind::Sendmsg | BackendKind::Sendmmsg | BackendKind::Gso => {
            plain::open(kind, socket)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "af-xdp"))]
        BackendKind::AfXdp => {
            af_xdp::open(socket, config)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "io-uring"))]
        BackendKind::IoUring => {
            io_uring::open(socket, &config.io_uring)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[cfg(all(target_os = "linux", feature = "tc-clone"))]
        BackendKind::TcClone => {
            tc_clone::open(socket, config)?.map(|backend| Box::new(backend) as Box<dyn Backend>)
        }
        #[allow(unreachable_patterns, reason = "a build may have them all")]
        _ => Err("this build is without it".to_owned()),
    })
}
