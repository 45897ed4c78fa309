//! The group call: k shared packets to N recipients, each with private bytes around them.
//!
//! Turns the group into datagrams in recipient-major order, because segmentation offload joins only
//! consecutive packets of one recipient, and records what each recipient got.

use crate::datagram::{CHUNK, Datagram, Outcome};
use crate::error::SendError;
use crate::recv::Ecn;
use arrayvec::ArrayVec;
use std::net::SocketAddr;

/// A recipient of a group's packets, and its private bytes.
#[derive(Clone, Copy, Debug)]
pub struct Recipient<'a> {
    /// Where to send. IPv4 and IPv6 may be mixed if the socket reaches both.
    pub destination: SocketAddr,
    /// Bytes before the shared payload: no slice for none, one for the same before every packet, or
    /// as many as there are packets. Anything else is [`SendError::BadPrivate`].
    pub prepend: &'a [&'a [u8]],
    /// Bytes after the shared payload, in the same form as `prepend`.
    pub append: &'a [&'a [u8]],
}

impl<'a> Recipient<'a> {
    /// A recipient that gets the packets as they are.
    pub fn plain(destination: SocketAddr) -> Self {
        Self { destination, prepend: &[], append: &[] }
    }

    /// The `index`-th of the `packets` as this recipient gets it.
    pub(crate) fn datagram(&'a self, packets: &[&'a [u8]], index: usize) -> Datagram<'a> {
        let parts = [private(self.prepend, index), packets[index], private(self.append, index)];
        Datagram { destination: &self.destination, parts, departure_ns: 0, ecn: Ecn::NotEct }
    }

    /// Whether there is none, one, or one for each of `packets` before and after.
    pub(crate) fn is_well_formed(&self, packets: usize) -> bool {
        [self.prepend.len(), self.append.len()].iter().all(|&n| n <= 1 || n == packets)
    }
}

/// The result for one recipient, in datagrams. Input as well: a call goes on after the first `sent
/// + failed` packets. Start with `Slot::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Packets handed to the network.
    pub sent: u32,
    /// Packets that failed for good.
    pub failed: u32,
    /// Why: of the failed packets the latest, or [`SendError::WouldBlock`] when packets remain to
    /// be sent.
    pub error: Option<SendError>,
}

impl Slot {
    /// Packets that are dealt with: the first ones, whether sent or failed.
    pub fn done(&self) -> usize {
        self.sent as usize + self.failed as usize
    }

    pub(crate) fn fail_rest(&mut self, packets: usize, error: SendError) {
        // Never fewer than before: slots may come from a call with more packets.
        self.failed = self.failed.max(packets.saturating_sub(self.sent as usize) as u32);
        self.error = Some(error);
    }

    pub(crate) fn note(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Sent => {
                self.sent += 1;
                self.error = self.error.filter(|error| !error.is_retryable());
            }
            Outcome::Failed(error) => {
                self.failed += 1;
                self.error = Some(error);
            }
            Outcome::Unsent => self.error = Some(SendError::WouldBlock),
        }
    }
}

/// What a call did, in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Progress {
    /// Handed to the network by this call.
    pub sent: usize,
    /// Failed for good in this call.
    pub failed: usize,
    /// There was no room for the rest. Call again when the socket is writable, or drop what is too
    /// old.
    ///
    /// With [`BackendKind::IoUring`](crate::BackendKind::IoUring),
    /// [`BackendKind::AfXdp`](crate::BackendKind::AfXdp) and
    /// [`BackendKind::TcClone`](crate::BackendKind::TcClone) it may be the device's ring that is
    /// full, one recipient's own socket, or a recipient that is blocked until its earlier datagrams
    /// have left by another path, while the socket stays writable: a poller would return
    /// immediately every time. With these back ends, retry by timer after a millisecond.
    pub blocked: bool,
}

/// Hands a group to `send` in recipient-major chunks, and returns whether it stopped because there
/// was no room.
pub(crate) fn flatten(
    packets: &[&[u8]],
    recipients: &[Recipient<'_>],
    slots: &mut [Slot],
    mut send: impl FnMut(&[Datagram<'_>], &mut [Outcome]),
) -> bool {
    if let ([_], [recipient], [slot]) = (packets, recipients, &mut *slots)
        && recipient.is_well_formed(1)
        && slot.done() == 0
    {
        // The cost of a call shows most with a single datagram: skip setting up a chunk.
        let mut outcomes = [Outcome::Unsent];
        send(&[recipient.datagram(packets, 0)], &mut outcomes);
        slot.note(outcomes[0]);
        return outcomes[0] == Outcome::Unsent;
    }
    let mut chunk = ArrayVec::<Datagram<'_>, CHUNK>::new();
    let mut owners = ArrayVec::<u32, CHUNK>::new();
    for (owner, recipient) in recipients.iter().enumerate() {
        if !recipient.is_well_formed(packets.len()) {
            slots[owner].fail_rest(packets.len(), SendError::BadPrivate);
            continue;
        }
        for index in slots[owner].done()..packets.len() {
            if chunk.is_full() && send_chunk(&mut chunk, &mut owners, slots, &mut send) {
                mark_blocked(&mut slots[owner..], packets.len());
                return true;
            }
            chunk.push(recipient.datagram(packets, index));
            owners.push(owner as u32);
        }
    }
    !chunk.is_empty() && send_chunk(&mut chunk, &mut owners, slots, &mut send)
}

fn send_chunk(
    chunk: &mut ArrayVec<Datagram<'_>, CHUNK>,
    owners: &mut ArrayVec<u32, CHUNK>,
    slots: &mut [Slot],
    send: &mut impl FnMut(&[Datagram<'_>], &mut [Outcome]),
) -> bool {
    let mut outcomes = ArrayVec::<Outcome, CHUNK>::new();
    chunk.iter().for_each(|_| outcomes.push(Outcome::Unsent));
    send(chunk, &mut outcomes);
    for (&owner, &outcome) in owners.iter().zip(&outcomes) {
        slots[owner as usize].note(outcome);
    }
    chunk.clear();
    owners.clear();
    outcomes.contains(&Outcome::Unsent)
}

/// The recipients that were not reached at all.
fn mark_blocked(slots: &mut [Slot], packets: usize) {
    for slot in slots.iter_mut().filter(|slot| slot.done() < packets) {
        slot.error = Some(SendError::WouldBlock);
    }
}

fn private<'a>(slices: &'a [&'a [u8]], index: usize) -> &'a [u8] {
    match slices {
        [] => &[],
        [same] => same,
        each => each[index],
    }
}
