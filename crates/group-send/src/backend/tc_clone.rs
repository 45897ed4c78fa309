//! Groups that the kernel multiplies: one frame enters it for each packet, and a program makes those of the others.
//!
//! For payload that is the same for all recipients, so plain or encrypted with a shared key. What a datagram costs is
//! its headers, private bytes and checksum, written to memory that the program reads (30 ns), and in the kernel a clone
//! of the frame: no system call, no route, no socket buffer accounting. Routes come from `route.rs`, headers from
//! `frame.rs`; what runs in the kernel is `replicator.rs`' part.
//!
//! Through the socket, by the back end over it, goes everything else: whatever is not a group ([`Backend::send`]),
//! recipients without a next hop on the interface, datagrams that do not fit the path or the program's memory, and
//! recipients whose private bytes are not as long as those of their family's first: copies of one frame are of one
//! length. A group with few recipients goes there as well, since one frame's way costs as much as two datagrams'.
//!
//! **Order.** Within a call packets leave one after the other, each to all recipients. A recipient goes by frames or by
//! the socket for a whole call, and changes from socket to frames only when the kernel holds nothing of the socket.
//! Copies belong to no socket, so nobody can tell whether the device still has some: a recipient that changes from
//! frames to the socket may be overtaken there if the interface has several queues.
//!
//! **Room.** Copies are not counted against the socket's send buffer. What the interface's queue drops is
//! [`SendError::NoBuffers`] for that datagram, and nothing waits.

mod copies;
mod link;
mod replicator;
#[cfg(test)]
mod tests;

pub(crate) use link::open;

use crate::backend::{Backend, Datagram, Outcome};
use crate::config::BackendKind;
use crate::error::SendError;
use crate::frame::{HEADER_MAX, Header, Sum};
use crate::group::{Recipient, Slot};
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::recipients::{Path, Recipients};
use crate::route::NextHop;
use copies::Copies;
use link::Link;
use replicator::{COPIES_MAX, Shape};
use std::net::SocketAddr;

/// What stands between this file and the kernel, so that tests can be a kernel that refuses.
pub(crate) trait Kernel: Send {
    /// Takes up changes of routes and neighbours; the result changes when an answer that was given may be wrong.
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
    /// Takes in errors that have come back for earlier datagrams.
    fn drain_errors(&mut self, errors: &mut PendingErrors);
}

/// Groups by one frame for each packet, with a back end over the socket for what frames cannot do.
pub(crate) struct TcClone<K = Link> {
    kernel: K,
    fallback: Box<dyn Backend>,
    origin: Origin,
    recipients: Recipients,
    recipients_min: usize,
    errors: PendingErrors,
    /// Datagrams since the socket was asked for errors.
    unasked: usize,
    generation: u64,
    /// Whether the kernel holds nothing of the socket, once asked in a call.
    socket_idle: Option<bool>,
    /// Datagrams outside of groups went by the socket, and it has not been seen idle since.
    socket_used: bool,
    /// Whom frames reach: IPv4, IPv6.
    classes: [Class; 2],
    copies: Copies,
}

/// Recipients of one family whose datagrams are equally long.
#[derive(Default)]
struct Class {
    members: Vec<Member>,
    /// Of each packet of the call, once there is a member.
    shapes: Vec<Shape>,
    /// Bytes of the longest datagram.
    longest: usize,
}

struct Member {
    /// The recipient's place in the group.
    index: u32,
    header: Header,
}

/// The arguments of a call.
struct Group<'g> {
    packets: &'g [&'g [u8]],
    recipients: &'g [Recipient<'g>],
    slots: &'g mut [Slot],
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
            unasked: 0,
            generation: 0,
            socket_idle: None,
            socket_used: false,
            classes: Default::default(),
            copies: Copies::new(),
        }
    }

    /// Takes up what has happened since the last call.
    fn begin(&mut self, datagrams: usize) {
        self.generation = self.kernel.refresh();
        self.socket_idle = None;
        self.unasked = self.unasked.saturating_add(datagrams);
        if self.unasked >= DATAGRAMS_PER_QUESTION {
            self.unasked = 0;
            self.kernel.drain_errors(&mut self.errors);
        }
    }

    /// Finds out whom frames reach.
    fn classify(&mut self, group: &mut Group<'_>) {
        self.classes.iter_mut().for_each(|class| class.members.clear());
        for (index, recipient) in group.recipients.iter().enumerate() {
            let slot = &mut group.slots[index];
            if slot.done() >= group.packets.len() || !recipient.is_well_formed(group.packets.len()) {
                continue;
            }
            if let Some(error) = self.errors.take(&recipient.destination) {
                slot.note(Outcome::Failed(error));
            }
            let Some((header, payload_max)) = self.way_by_frames(&recipient.destination) else { continue };
            let class = &mut self.classes[usize::from(header.len() == HEADER_MAX)];
            if class.admits(recipient, group.packets, &header, payload_max) {
                class.members.push(Member { index: index as u32, header });
            }
        }
        for class in &mut self.classes {
            if class.members.len() < self.recipients_min {
                class.members.clear();
            }
        }
    }

    /// The recipient's headers and longest payload, if there is a next hop and nothing may be overtaken.
    fn way_by_frames(&mut self, destination: &SocketAddr) -> Option<(Header, usize)> {
        let Self { kernel, recipients, origin, generation, .. } = self;
        let entry = recipients.find(destination);
        if entry.generation != *generation {
            entry.set(header(kernel, origin, destination), *generation);
        }
        let way = (entry.header?, entry.payload_max()?);
        if entry.path != Path::Frames || self.socket_used {
            if !*self.socket_idle.get_or_insert_with(|| kernel.socket_is_idle()) {
                return None;
            }
            self.socket_used = false;
            entry.path = Path::Frames;
        }
        Some(way)
    }

    /// Sends one packet to those of a class who are due for it. If the kernel makes no copies, the class is dissolved
    /// and its members keep their slots.
    fn replicate(&mut self, class: usize, packet: usize, group: &mut Group<'_>) {
        let Self { kernel, classes, copies, .. } = self;
        let Class { members, shapes, .. } = &mut classes[class];
        let (payload, mut next) = (group.packets[packet], 0);
        let sum = Sum::of(payload);
        while next < members.len() {
            copies.clear();
            while let Some(member) = members.get(next).filter(|_| !copies.is_full()) {
                next += 1;
                let index = member.index as usize;
                if group.slots[index].done() == packet {
                    let parts = group.recipients[index].datagram(group.packets, packet).parts;
                    copies.push(member.index, &member.header, parts, sum, shapes[packet]);
                }
            }
            let owners = copies.owners();
            if owners.is_empty() {
                return;
            }
            let results = &mut [0; COPIES_MAX][..owners.len()];
            if kernel.replicate(shapes[packet], copies.records(), payload, results).is_err() {
                return members.clear();
            }
            for (&owner, &result) in owners.iter().zip(&*results) {
                group.slots[owner as usize].note(outcome(result));
            }
        }
    }

    /// Sends by the socket what has not been sent, and returns whether that stopped for want of room.
    fn send_rest(&mut self, group: &mut Group<'_>) -> bool {
        let mut is_any = false;
        for (recipient, slot) in group.recipients.iter().zip(&*group.slots) {
            if slot.done() < group.packets.len() {
                self.recipients.find(&recipient.destination).path = Path::Socket;
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

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        self.socket_used = true;
        self.fallback.send(datagrams, outcomes);
    }

    fn send_group(&mut self, packets: &[&[u8]], recipients: &[Recipient<'_>], slots: &mut [Slot]) -> bool {
        if recipients.len() < self.recipients_min {
            self.socket_used = true;
            return self.fallback.send_group(packets, recipients, slots);
        }
        self.begin(packets.len().saturating_mul(recipients.len()));
        let mut group = Group { packets, recipients, slots };
        self.classify(&mut group);
        for packet in 0..packets.len() {
            for class in 0..self.classes.len() {
                self.replicate(class, packet, &mut group);
            }
        }
        self.send_rest(&mut group)
    }
}

impl Class {
    /// Whether copies can be this recipient's datagrams. The first one decides how long those of all are.
    fn admits(
        &mut self,
        recipient: &Recipient<'_>,
        packets: &[&[u8]],
        header: &Header,
        payload_max: usize,
    ) -> bool {
        let datagrams = (0..packets.len()).map(|packet| recipient.datagram(packets, packet));
        let shape = |datagram: &Datagram<'_>| {
            let [before, _, after] = datagram.parts;
            Shape { head: header.len() + before.len(), tail: after.len() }
        };
        if self.members.is_empty() {
            self.longest = datagrams.clone().map(|datagram| datagram.len()).max().unwrap_or(0);
            self.shapes.clear();
            self.shapes.extend(datagrams.map(|datagram| shape(&datagram)));
            return self.longest <= payload_max && self.shapes.iter().all(|shape| shape.fits());
        }
        self.longest <= payload_max
            && datagrams.zip(&self.shapes).all(|(datagram, is)| shape(&datagram) == *is)
    }
}

/// The recipient's headers and the longest payload, if there is a way to it through the interface.
fn header(kernel: &mut impl Kernel, origin: &Origin, destination: &SocketAddr) -> Option<(Header, usize)> {
    if !origin.reaches(destination) {
        return None;
    }
    let hop = kernel.resolve(destination)?;
    let header = Header::new(&origin.flow(destination, &hop))?;
    let packet_max = (hop.mtu as usize + Header::LINK_BYTES).min(usize::from(u16::MAX));
    Some((header, packet_max.checked_sub(header.len())?))
}

/// What the kernel said of a copy: the result of `dev_queue_xmit` or a negative `errno`.
fn outcome(result: i32) -> Outcome {
    /// A queue is filling up, but took it (linux/netdevice.h).
    const NET_XMIT_CN: i32 = 2;
    match result {
        0 | NET_XMIT_CN => Outcome::Sent,
        1.. => Outcome::Failed(SendError::NoBuffers),
        _ => Outcome::Failed(SendError::from_errno(result.saturating_neg())),
    }
}

/// Datagrams between two questions for errors that have come back: one costs as much as sending half a datagram.
const DATAGRAMS_PER_QUESTION: usize = 64;
