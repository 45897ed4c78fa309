//! The entry point: one sender per socket, and the choice of its back end.

use crate::backend::{self, Backend};
use crate::batch::SendBatch;
use crate::config::{BackendKind, Config, NotChosen, SetupError};
use crate::group::{Progress, Recipient, Slot};
use socket2::SockRef;
use std::fmt;

/// Sends groups and batches through one UDP socket. It holds a duplicate of the caller's socket;
/// the caller continues to receive, poll and set options on the original. Nothing here waits: when
/// the socket's buffer is full, a call says how far it got.
pub struct Sender {
    backend: Box<dyn Backend>,
    not_chosen: Vec<NotChosen>,
    twin_refused: Option<String>,
}

impl Sender {
    /// A sender over `socket`, a reference to a UDP socket of `std`, `mio`, `tokio`, or anything
    /// else that has a descriptor. It uses the first of `config.backends` that works here.
    ///
    /// Options that are set on the socket afterwards hold at once with the back ends that send
    /// through it. Those that do not ([`BackendKind::IoUring`], [`BackendKind::AfXdp`],
    /// [`BackendKind::TcClone`]) read options here and now: after changing one, the type of service
    /// for example, make a new sender.
    ///
    /// # Errors
    /// [`SetupError`]: not a UDP socket, or none of the back ends works.
    pub fn new<'s>(socket: impl Into<SockRef<'s>>, config: &Config) -> Result<Self, SetupError> {
        let socket = socket.into();
        let mut not_chosen = Vec::new();
        for &kind in &config.backends {
            match backend::open(kind, &socket, config)? {
                Ok(mut backend) => {
                    let twin_refused =
                        config.twin.then(|| backend.use_twin(&socket, config.steered).err()).flatten();
                    return Ok(Self { backend, not_chosen, twin_refused });
                }
                Err(why) => not_chosen.push(NotChosen { backend: kind, why }),
            }
        }
        Err(SetupError::NoBackend(not_chosen))
    }

    /// Over this back end.
    #[cfg(all(target_os = "linux", feature = "internals"))]
    pub(crate) fn over(backend: Box<dyn Backend>) -> Self {
        Self { backend, not_chosen: Vec::new(), twin_refused: None }
    }

    /// Sends each of `packets` to each recipient, recipient by recipient, with the recipient's
    /// private bytes around it, and fills each one's slot. A recipient's failure does not affect
    /// the others.
    ///
    /// Pass the packets of a whole video frame together: a recipient's packets of equal length then
    /// cost little more than one. Called again with the same arguments, it continues where the
    /// slots say it stopped. To send datagrams written into a slab, see [`Sender::flush`]. An
    /// address that is in the group twice gets the packets of each entry in order; which entry
    /// comes first is up to the back end.
    ///
    /// # Panics
    /// If there are not as many slots as recipients, or more than 2^32 - 1 packets.
    pub fn send_group(
        &mut self,
        packets: &[&[u8]],
        recipients: &[Recipient<'_>],
        slots: &mut [Slot],
    ) -> Progress {
        send_counted(packets, recipients, slots, |packets, recipients, slots| {
            self.backend.send_group(packets, recipients, slots)
        })
    }

    /// Sends what is ready in `batch`, recipient by recipient, up to `budget_bytes` bytes of
    /// datagrams in all, for a caller that paces what leaves in one turn; `usize::MAX` for no
    /// limit. The first datagram goes even if it is longer than the budget, unless that is 0. What
    /// remains stays in the batch and goes first next time.
    pub fn flush(&mut self, batch: &mut SendBatch, budget_bytes: usize) -> Progress {
        batch.drain(budget_bytes, |datagrams, outcomes| self.backend.send(datagrams, outcomes))
    }

    /// Reads ICMP errors for earlier datagrams, so that the next one for such a recipient fails,
    /// and says whether there were any. For sockets with
    /// [`report_refusals`](crate::socket::report_refusals): call it when the socket polls as having
    /// an error (`EPOLLERR`), which it does until this is done. Sending does it too when it meets
    /// such an error.
    pub fn read_refusals(&mut self) -> bool {
        self.backend.read_refusals()
    }

    /// Datagrams that were reported as sent but dropped by the device, or lost with it, so far.
    /// Only [`BackendKind::AfXdp`] learns of these. A socket does not, so with other back ends it
    /// is always 0: see the interface's counters.
    pub fn lost(&self) -> u64 {
        self.backend.lost()
    }

    /// The back end in use.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// Why there is no twin although [`Config::twin`] asked for one.
    pub fn twin_refused(&self) -> Option<&str> {
        self.twin_refused.as_deref()
    }

    /// The back ends that were preferred to it, and why each is not used.
    pub fn not_chosen(&self) -> &[NotChosen] {
        &self.not_chosen
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("backend", &self.backend())
            .field("not_chosen", &self.not_chosen)
            .finish()
    }
}

/// Checks the arguments of a group's call, sends, and says what that did.
pub(crate) fn send_counted(
    packets: &[&[u8]],
    recipients: &[Recipient<'_>],
    slots: &mut [Slot],
    send: impl FnOnce(&[&[u8]], &[Recipient<'_>], &mut [Slot]) -> bool,
) -> Progress {
    assert_eq!(recipients.len(), slots.len(), "one slot for each recipient");
    assert!(u32::try_from(packets.len()).is_ok(), "packets are counted in 32 bits");
    let before = totals(slots);
    let blocked = send(packets, recipients, slots);
    let after = totals(slots);
    Progress { sent: after.0 - before.0, failed: after.1 - before.1, blocked }
}

fn totals(slots: &[Slot]) -> (usize, usize) {
    slots
        .iter()
        .fold((0, 0), |(sent, failed), slot| (sent + slot.sent as usize, failed + slot.failed as usize))
}
