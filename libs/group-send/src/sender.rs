//! The caller's way in: one sender a socket, and the choice of its back end.

use crate::backend::{self, Backend};
use crate::batch::SendBatch;
use crate::config::{BackendKind, Config, NotChosen, SetupError};
use crate::group::{Progress, Recipient, Slot};
use socket2::SockRef;
use std::fmt;

/// Sends groups and batches through one UDP socket.
///
/// It holds a duplicate of the caller's socket, who goes on receiving, polling and setting options on the original.
/// Nothing here waits: without room in the socket's buffer a call says how far it came.
pub struct Sender {
    backend: Box<dyn Backend>,
    not_chosen: Vec<NotChosen>,
}

impl Sender {
    /// A sender over `socket`, a reference to a UDP socket of `std`, `mio`, `tokio`, or anything else that has a
    /// descriptor. It uses the first of `config.backends` that works here.
    ///
    /// Options that are set on the socket afterwards hold at once with the back ends that send through it. Those that do
    /// not ([`BackendKind::IoUring`], [`BackendKind::AfXdp`], [`BackendKind::TcClone`]) read options here and now: after
    /// changing one, the type of service for example, make a new sender.
    ///
    /// # Errors
    /// [`SetupError`]: not a UDP socket, or none of the back ends works.
    pub fn new<'s>(socket: impl Into<SockRef<'s>>, config: &Config) -> Result<Self, SetupError> {
        let socket = socket.into();
        let mut not_chosen = Vec::new();
        for &kind in &config.backends {
            match backend::open(kind, &socket, config)? {
                Ok(backend) => return Ok(Self { backend, not_chosen }),
                Err(why) => not_chosen.push(NotChosen { backend: kind, why }),
            }
        }
        Err(SetupError::NoBackend(not_chosen))
    }

    /// Sends each of `packets` to each recipient, recipient by recipient, with the recipient's private bytes around it,
    /// and fills each one's slot. A recipient's failure stops nobody else.
    ///
    /// Hand over the packets of a whole video frame together: a recipient's equally long packets then cost little more
    /// than one. Called again with the same arguments, it goes on where the slots say it stopped. Of the groups that a
    /// server sends from a slab, see [`Sender::flush`]. An address that is in the group twice gets the packets of each entry in
    /// order; which entry's come first is for the back end to choose.
    ///
    /// # Panics
    /// If there are not as many slots as recipients, or more than 2^32 - 1 packets.
    pub fn send_group(
        &mut self,
        packets: &[&[u8]],
        recipients: &[Recipient<'_>],
        slots: &mut [Slot],
    ) -> Progress {
        assert_eq!(recipients.len(), slots.len(), "one slot for each recipient");
        assert!(u32::try_from(packets.len()).is_ok(), "packets are counted in 32 bits");
        let before = totals(slots);
        let blocked = self.backend.send_group(packets, recipients, slots);
        let after = totals(slots);
        Progress { sent: after.0 - before.0, failed: after.1 - before.1, blocked }
    }

    /// Sends what is ready in `batch`, recipient by recipient, up to `budget_bytes` bytes of datagrams in all, for a
    /// caller that paces what leaves in one turn; `usize::MAX` for no limit. The first datagram goes even if
    /// it is longer than the budget, unless that is 0. What remains stays in the batch, those that did not go first to go next.
    pub fn flush(&mut self, batch: &mut SendBatch, budget_bytes: usize) -> Progress {
        batch.drain(budget_bytes, |datagrams, outcomes| self.backend.send(datagrams, outcomes))
    }

    /// Takes in what the network answered to earlier datagrams, so that the next one for such a recipient fails, and
    /// says whether there was anything. For sockets with
    /// [`report_refusals`](crate::socket::report_refusals): to be called when the socket is polled as having an error
    /// (`EPOLLERR`), which it has until this is done. Sending does it as well when it meets such an error.
    pub fn read_refusals(&mut self) -> bool {
        self.backend.read_refusals()
    }

    /// Datagrams that were reported as sent and that the device dropped nevertheless, or that were lost with it; so far.
    /// [`BackendKind::AfXdp`] hears of these. A socket does not, so with other back ends it is always 0: see the
    /// interface's counters.
    pub fn lost(&self) -> u64 {
        self.backend.lost()
    }

    /// The back end in use.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// The back ends that were preferred to it, and why each is not the one.
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

fn totals(slots: &[Slot]) -> (usize, usize) {
    slots
        .iter()
        .fold((0, 0), |(sent, failed), slot| (sent + slot.sent as usize, failed + slot.failed as usize))
}
