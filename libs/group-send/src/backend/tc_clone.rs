//! Groups copied in the kernel: one frame enters it for each packet, and an eBPF program copies it
//! for every recipient.
//!
//! For payload that is the same for all recipients, so plain or encrypted with a shared key. What a
//! datagram costs is its headers, private bytes and checksum, written to memory that the program
//! reads (30 ns), and in the kernel a clone of the frame: no system call, no route, no socket
//! buffer accounting. Routes come from `route.rs`, headers from `frame.rs`; what runs in the kernel
//! is `replicator.rs`' part.
//!
//! Everything else goes through the socket, by the fallback back end: whatever is not a group
//! ([`Backend::send`]), recipients without a next hop on the interface, datagrams too long for the
//! path or the program's memory, and recipients whose private bytes differ in length from those of
//! their family's first, because all copies of a frame have one length. So do small groups, since
//! one frame costs as much as two datagrams.
//!
//! **Order.** Within a call packets leave one after the other, each to all recipients. A recipient
//! uses frames or the socket for a whole call, and changes from socket to frames only when the
//! kernel holds nothing of the socket. Copies belong to no socket, so it is unknown whether the
//! device still has some: a recipient that changes from frames to the socket may be overtaken there
//! if the interface has several queues.
//!
//! **Room.** Copies are not counted against the socket's send buffer. What the interface's queue
//! drops is [`SendError::NoBuffers`] for that datagram, and nothing waits.

mod copies;
mod link;
mod members;
mod replicator;
#[cfg(test)]
mod tests;

pub(crate) use link::open;

use crate::backend::Backend;
use crate::config::BackendKind;
use crate::datagram::{Datagram, Outcome};
use crate::error::SendError;
use crate::frame::{HEADER_MAX, Header, Sum};
use crate::group::{Recipient, Slot};
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::recipients::{Path, Recipients};
use crate::route::NextHop;
use copies::Copies;
use link::Link;
use members::{Class, Group, Member};
use replicator::{COPIES_MAX, Shape};
use std::net::SocketAddr;

/// The kernel as this file sees it; tests substitute one that refuses.
pub(crate) trait Kernel: Send {
    /// Reads changes of routes and neighbours; the result changes when an earlier answer may be
    /// wrong.
    fn refresh(&mut self) -> u64;
    /// The next hop, if it leads through the interface.
    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop>;
    /// Sends a payload between head and tail of each record: `Replicator::replicate`.
    fn replicate(
        &mut self,
        shape: Shape,
        records: &[u8],
        payload: &[u8],
        results: &mut [i32],
    ) -> Result<(), i32>;
    /// Whether the kernel holds no datagram of the socket.
    fn socket_is_idle(&self) -> bool;
    /// Reads pending errors of earlier datagrams; returns whether there were any.
    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool;
}

/// Groups by one frame for each packet, with a fallback over the socket for what frames cannot
/// carry.
pub(crate) struct TcClone<K = Link> {
    kernel: K,
    fallback: Box<dyn Backend>,
    origin: Origin,
    recipients: Recipients,
    recipients_min: usize,
    errors: PendingErrors,
    /// Datagrams since the socket was polled for errors.
    since_error_poll: usize,
    generation: u64,
    /// Changes when anything cached in `members` may be wrong.
    epoch: u64,
    /// Whether the kernel holds nothing of the socket, once read in a call.
    socket_idle: Option<bool>,
    /// Datagrams outside of groups went by the socket, and it has not been seen idle since.
    socket_used: bool,
    /// The latest group, by the recipient's index: the next one is mostly the same, and read in
    /// order.
    members: Vec<Member>,
    /// The recipients reached by frames in this call: IPv4, IPv6.
    classes: [Class; 2],
    copies: Copies,
}

impl<K: Kernel> TcClone<K> {
    pub(crate) fn new(kernel: K, fallback: Box<dyn Backend>, origin: Origin, recipients_min: usize) -> Self {
        Self {
            kernel,
            fallback,
            origin,
            recipients: Recipients::new(),
            recipients_min,
            errors: PendingErrors::default(),
            since_error_poll: 0,
            generation: 0,
            epoch: 1,
            socket_idle: None,
            socket_used: false,
            members: Vec::new(),
            classes: Default::default(),
            copies: Copies::new(),
        }
    }

    /// Brings state up to date at the start of a call.
    fn begin(&mut self, datagrams: usize) {
        let generation = self.kernel.refresh();
        if self.generation != generation {
            (self.generation, self.epoch) = (generation, self.epoch + 1);
        }
        self.socket_idle = None;
        self.errors.age(datagrams);
        self.since_error_poll = self.since_error_poll.saturating_add(datagrams);
        if self.since_error_poll >= DATAGRAMS_PER_ERROR_POLL {
            self.since_error_poll = 0;
            self.kernel.drain_errors(&mut self.errors);
        }
        self.socket_used = self.socket_used && !self.is_socket_idle();
    }

    fn is_socket_idle(&mut self) -> bool {
        *self.socket_idle.get_or_insert_with(|| self.kernel.socket_is_idle())
    }

    /// Fails the first datagram due for a recipient with the error that came back for an earlier
    /// one.
    fn report_errors(&mut self, group: &mut Group<'_>) {
        if self.errors.is_empty() {
            return;
        }
        for index in 0..group.recipients.len() {
            if group.is_due(index)
                && let Some(error) = self.errors.take(&group.recipients[index].destination)
            {
                group.slots[index].note(Outcome::Failed(error));
            }
        }
    }

    /// Finds the recipients that frames reach.
    fn classify(&mut self, group: &Group<'_>) {
        self.classes.iter_mut().for_each(|class| class.count = 0);
        self.members.resize_with(group.recipients.len().max(self.members.len()), Member::vacant);
        for (index, recipient) in group.recipients.iter().enumerate() {
            self.members[index].class = None;
            if !group.is_due(index) {
                continue;
            }
            if self.reaches(index, &recipient.destination) {
                let member = &mut self.members[index];
                let Some(header) = &member.header else { continue };
                let class = u8::from(header.len() == HEADER_MAX);
                let class_of = &mut self.classes[usize::from(class)];
                let is_in = class_of.admits(recipient, group.packets, header.len(), member.payload_max);
                member.class = is_in.then_some(class);
            }
        }
        for class in &mut self.classes {
            if class.count < self.recipients_min {
                class.count = 0;
            }
        }
    }

    /// Whether frames reach a recipient, which then is the member at this index.
    #[inline]
    fn reaches(&mut self, index: usize, destination: &SocketAddr) -> bool {
        let member = &self.members[index];
        let is_known = member.epoch == self.epoch && member.destination == *destination && !self.socket_used;
        is_known || self.resolve(index, destination)
    }

    /// Makes the recipient the member at this index, if it has a next hop and nothing can be
    /// overtaken.
    fn resolve(&mut self, index: usize, destination: &SocketAddr) -> bool {
        let Self { kernel, recipients, origin, generation, .. } = self;
        let entry = recipients.find(destination);
        if entry.generation != *generation {
            entry.set(header(kernel, origin, destination), *generation);
        }
        let (header, Some(payload_max)) = (entry.header, entry.payload_max()) else { return false };
        if entry.path != Path::Frames || self.socket_used {
            if !self.is_socket_idle() {
                return false;
            }
            self.recipients.find(destination).path = Path::Frames;
        }
        self.members[index] =
            Member { destination: *destination, epoch: self.epoch, header, payload_max, class: None };
        true
    }

    /// Sends one packet to the members of a class that are due for it. If the kernel makes no
    /// copies, the class is emptied and its members keep their slots.
    fn replicate(&mut self, class: usize, packet: usize, group: &mut Group<'_>) {
        let Self { kernel, members, classes, copies, .. } = self;
        let Class { shapes, count, .. } = &mut classes[class];
        let (payload, mut next) = (group.packets[packet], 0);
        let sum = Sum::of(payload);
        while *count > 0 {
            copies.clear();
            while next < group.slots.len() && !copies.is_full() {
                let member = &members[next];
                if let Some(header) = &member.header
                    && member.class == Some(class as u8)
                    && group.slots[next].done() == packet
                {
                    let parts = group.recipients[next].datagram(group.packets, packet).parts;
                    copies.push(next as u32, header, parts, sum, shapes[packet]);
                }
                next += 1;
            }
            let owners = copies.owners();
            if owners.is_empty() {
                return;
            }
            let results = &mut [0; COPIES_MAX][..owners.len()];
            if kernel.replicate(shapes[packet], copies.records(), payload, results).is_err() {
                *count = 0;
                return;
            }
            for (&owner, &result) in owners.iter().zip(&*results) {
                group.slots[owner as usize].note(outcome(result));
            }
        }
    }

    /// Sends the rest through the socket, and returns whether that stopped because there was no
    /// room.
    fn send_rest(&mut self, group: &mut Group<'_>) -> bool {
        let mut is_any = false;
        for (recipient, slot) in group.recipients.iter().zip(&*group.slots) {
            if slot.done() < group.packets.len() {
                let entry = self.recipients.find(&recipient.destination);
                self.epoch += u64::from(entry.path != Path::Socket);
                entry.path = Path::Socket;
                is_any = true;
            }
        }
        is_any && self.fallback.send_group(group.packets, group.recipients, group.slots)
    }
}

impl<K: Kernel> Backend for TcClone<K> {
    fn kind(&self) -> BackendKind {
        BackendKind::TcClone
    }

    fn read_refusals(&mut self) -> bool {
        self.kernel.drain_errors(&mut self.errors)
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        self.socket_used = true;
        let mut done = 0;
        while done < datagrams.len() {
            let mut rest = datagrams[done..].iter();
            let error = rest.find_map(|datagram| self.errors.take(datagram.destination));
            let end = datagrams.len() - rest.len() - usize::from(error.is_some());
            self.fallback.send(&datagrams[done..end], &mut outcomes[done..end]);
            let Some(error) = error else { return };
            if outcomes[done..end].contains(&Outcome::Unsent) {
                return self.errors.add(*datagrams[end].destination, error);
            }
            outcomes[end] = Outcome::Failed(error);
            done = end + 1;
        }
    }

    fn send_group(&mut self, packets: &[&[u8]], recipients: &[Recipient<'_>], slots: &mut [Slot]) -> bool {
        let mut group = Group { packets, recipients, slots };
        if recipients.len() < self.recipients_min {
            self.report_errors(&mut group);
            self.socket_used = true;
            return self.fallback.send_group(packets, recipients, group.slots);
        }
        self.begin(packets.len().saturating_mul(recipients.len()));
        self.report_errors(&mut group);
        self.classify(&group);
        for packet in 0..packets.len() {
            for class in 0..self.classes.len() {
                if self.classes[class].count > 0 {
                    self.replicate(class, packet, &mut group);
                }
            }
        }
        self.send_rest(&mut group)
    }
}

/// The recipient's headers and longest payload, if the interface reaches it.
fn header(kernel: &mut impl Kernel, origin: &Origin, destination: &SocketAddr) -> Option<(Header, usize)> {
    if !origin.reaches(destination) {
        return None;
    }
    let hop = kernel.resolve(destination)?;
    let header = Header::new(&origin.flow(destination, &hop))?;
    let packet_max = (hop.mtu as usize + Header::LINK_BYTES).min(usize::from(u16::MAX));
    Some((header, packet_max.checked_sub(header.len())?))
}

/// The result for a copy: that of `dev_queue_xmit` or a negative `errno`.
fn outcome(result: i32) -> Outcome {
    /// A queue is filling up, but accepted it (linux/netdevice.h).
    const NET_XMIT_CN: i32 = 2;
    match result {
        0 | NET_XMIT_CN => Outcome::Sent,
        1.. => Outcome::Failed(SendError::NoBuffers),
        _ => Outcome::Failed(SendError::from_errno(result.saturating_neg())),
    }
}

/// Datagrams between two polls for errors: one costs as much as half a copy.
const DATAGRAMS_PER_ERROR_POLL: usize = 256;
