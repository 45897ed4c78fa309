//! The interface of every back end.
//!
//! Policy (the order of sending, what remains to be sent) is above, in `group.rs` and `sender.rs`;
//! a back end hands datagrams to the network and returns an outcome for each.

#[cfg(all(target_os = "linux", feature = "af-xdp"))]
mod af_xdp;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod io_uring;
#[cfg(target_os = "linux")]
mod mmsg;
mod open;
#[cfg(any(test, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod segmentation;
#[cfg(all(target_os = "linux", feature = "internals"))]
pub(crate) mod substitute;
#[cfg(all(target_os = "linux", feature = "tc-clone"))]
mod tc_clone;

#[cfg(target_os = "linux")]
pub use mmsg::{LentSender, SendFlags};
pub(crate) use open::open;

use crate::config::BackendKind;
use crate::datagram::{Datagram, Outcome};
use crate::group::{self, Recipient, Slot};
use socket2::SockRef;

/// How datagrams reach the network. The contract is at each function.
pub(crate) trait Backend: Send {
    fn kind(&self) -> BackendKind;

    /// Sends datagrams that are in recipient-major order: all of one recipient adjacent, in the
    /// order they should arrive. At most [`CHUNK`](crate::datagram::CHUNK); `outcomes` is as long and all
    /// [`Outcome::Unsent`]. Outcomes are filled in order; when there is no room it stops and leaves
    /// the rest `Unsent`. A recipient's failure never stops the others.
    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]);

    /// Sends a group, and returns whether it stopped because there was no room. The default hands
    /// it to [`Backend::send`] in chunks.
    fn send_group(&mut self, packets: &[&[u8]], recipients: &[Recipient<'_>], slots: &mut [Slot]) -> bool {
        group::flatten(packets, recipients, slots, |datagrams, outcomes| self.send(datagrams, outcomes))
    }

    /// Sends by a twin of the caller's socket from now on ([`Config::twin`](crate::Config::twin)).
    ///
    /// # Errors
    /// Why there is none; then nothing changes.
    fn use_twin(&mut self, _caller: &SockRef<'_>, _steered: bool) -> Result<(), String> {
        Err("this back end sends by the caller's socket, or without one".to_owned())
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
