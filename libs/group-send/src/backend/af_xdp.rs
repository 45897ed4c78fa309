//! Frames handed to the device, past the kernel's UDP stack (`AF_XDP`).
//!
//! A datagram costs a copy behind headers that are kept for each recipient, and its share of one system call; payload
//! that many recipients share is summed once. What frames cannot do goes through the socket, by the back end over it:
//! recipients without a next hop on the interface, datagrams that do not fit a frame or the path, or that shall leave
//! at a time of their own. Headers are `frame.rs`, the recipients' state `recipients.rs`, the sending socket's part
//! in headers `origin.rs`, ring and routes `link.rs`, and what happens
//! without room or device `room.rs`.
//!
//! **Order.** A recipient may go by the ring now and by the socket then. It leaves one for the other only when nothing
//! is under way where it was: the ring when the device has given all frames back, the socket when `SIOCOUTQ` says that
//! the kernel holds nothing of it. Until then it stays with the socket, or waits to leave the ring. So datagrams of a
//! recipient reach the wire in the order they were given, as far as this host decides it.
//!
//! **Room.** A frame that the ring has is sent as far as the caller is concerned, like a datagram in the socket's
//! buffer. What the device drops then (`EBUSY`) is dropped as it is below a socket, whose callers do not hear of it
//! either; it is counted. A ring that gives nothing back for long, or whose device is gone, is given up and its frames are lost; all
//! goes by the socket, and another ring is tried now and then.

mod link;
mod room;
mod sums;

pub(crate) use link::open;

use crate::backend::{Backend, CHUNK, Datagram, Outcome};
use crate::config::BackendKind;
use crate::frame::{Header, Sum};
use crate::group::{self, Slot};
use crate::linux::xsk::FRAME_MAX;
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::recipients::{Path, Recipient, Recipients};
use crate::route::NextHop;
use std::net::SocketAddr;
use sums::SharedSums;

/// What stands between this file and the kernel, so that tests can be a kernel that refuses.
pub(crate) trait Kernel: Send {
    /// Takes up changes of routes and neighbours; the result changes when an answer that was given may be wrong.
    fn refresh(&mut self) -> u64;
    /// The next hop, if it leads through the interface.
    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop>;
    /// Writes a frame of `len` bytes; false without room or ring.
    fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool;
    /// Has the kernel send what is written: `errno` as of `Transmitter::kick`.
    fn kick(&mut self) -> Result<(), i32>;
    /// Takes back frames that are done with, and returns how many are still under way.
    fn reclaim(&mut self) -> usize;
    /// Gives the ring up, and says how many frames were under way.
    fn close(&mut self) -> usize;
    /// Tries for a ring where there is none.
    fn reopen(&mut self) -> bool;
    /// Whether the kernel holds no datagram of the socket.
    fn socket_is_idle(&self) -> bool;
    /// Whether the socket's owner wants to know of errors that come back. Sending by the socket meets them; sending
    /// by the ring has to ask.
    fn reports_errors(&self) -> bool;
    /// Takes in errors that have come back for earlier datagrams, and says whether there were any.
    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool;
    /// Frames that the kernel threw away as malformed.
    fn invalid_descriptors(&self) -> u64;
}

/// Datagrams through a ring of an interface, with a back end over the socket for what the ring cannot take.
pub(crate) struct AfXdp<K = link::Link> {
    kernel: K,
    fallback: Box<dyn Backend>,
    origin: Origin,
    recipients: Recipients,
    sums: SharedSums,
    errors: PendingErrors,
    generation: u64,
    ring: Ring,
    socket: SocketState,
    /// Frames written since the last kick.
    written: usize,
    /// The last kick left frames in the ring.
    behind: bool,
    /// Calls in a row that ended because the ring had no room or would not become empty.
    waits: u32,
    /// Datagrams since the socket was asked for errors.
    unasked: usize,
    /// Frames that the device dropped, or that were lost with a ring.
    lost: u64,
    /// Of the next IPv4 datagram that routers may fragment (RFC 6864 section 4.1).
    identification: u16,
}

/// Whether frames may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Open,
    /// The device drops what it is given. Used again after so many calls.
    Resting(u32),
    /// Given up. A new one is tried after so many calls.
    Closed(u32),
}

/// What is known in this call of the datagrams that the socket was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    Unknown,
    /// The kernel holds none.
    Idle,
    Busy,
    /// Some are about to be given to it.
    InUse,
}

/// How a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Ring,
    Socket,
    /// Not now: by the socket once the ring is empty, or by the ring if the socket turns out to be idle.
    Wait,
}

impl<K: Kernel> AfXdp<K> {
    pub(crate) fn new(kernel: K, fallback: Box<dyn Backend>, origin: Origin) -> Self {
        Self {
            kernel,
            fallback,
            origin,
            recipients: Recipients::new(),
            sums: SharedSums::default(),
            errors: PendingErrors::default(),
            generation: 0,
            ring: Ring::Open,
            socket: SocketState::Unknown,
            written: 0,
            behind: false,
            waits: 0,
            unasked: 0,
            lost: 0,
            identification: 0,
        }
    }

    /// Takes up what has happened since the last call.
    fn begin(&mut self, datagrams: usize) {
        self.generation = self.kernel.refresh();
        self.sums.forget();
        self.socket = SocketState::Unknown;
        self.look_after_ring();
        self.errors.age(datagrams);
        self.unasked += datagrams;
        if self.unasked >= DATAGRAMS_PER_QUESTION {
            self.unasked = 0;
            if self.kernel.reports_errors() {
                self.kernel.drain_errors(&mut self.errors);
            }
        }
    }

    /// How the next datagram of its recipient goes. Asked again it says the same, until something is sent.
    #[inline]
    fn way(&mut self, datagram: &Datagram<'_>) -> Way {
        if self.goes_as_before(datagram) { Way::Ring } else { self.unusual_way(datagram) }
    }

    /// Whether this one goes by the ring as the recipient's latest did.
    #[inline]
    fn goes_as_before(&mut self, datagram: &Datagram<'_>) -> bool {
        let recipient = self.recipients.find(datagram.destination);
        let is_known = recipient.path == Path::Frames && recipient.generation == self.generation;
        is_known && recipient.takes(datagram) && self.ring == Ring::Open
    }

    #[cold]
    #[inline(never)]
    fn unusual_way(&mut self, datagram: &Datagram<'_>) -> Way {
        let recipient = self.recipients.find(datagram.destination);
        if recipient.generation != self.generation {
            recipient.set(header(&mut self.kernel, &self.origin, datagram.destination), self.generation);
        }
        if recipient.takes(datagram) && self.ring == Ring::Open {
            if recipient.path == Path::Frames {
                return Way::Ring;
            }
            if self.socket == SocketState::Unknown {
                let idle = self.kernel.socket_is_idle();
                self.socket = if idle { SocketState::Idle } else { SocketState::Busy };
            }
            match self.socket {
                SocketState::Idle => {
                    recipient.path = Path::Frames;
                    return Way::Ring;
                }
                SocketState::InUse => return Way::Wait,
                SocketState::Busy | SocketState::Unknown => {}
            }
        }
        self.way_by_socket(datagram.destination)
    }

    fn way_by_socket(&mut self, destination: &SocketAddr) -> Way {
        if self.recipients.find(destination).path != Path::Socket {
            if self.kernel.reclaim() > 0 {
                self.flush_all();
            }
            if self.kernel.reclaim() > 0 {
                return Way::Wait;
            }
            self.recipients.find(destination).path = Path::Socket;
        }
        Way::Socket
    }

    /// Sends to recipients as long as there is nothing to be said about them but that they go by the ring, and returns
    /// how many were sent everything: most groups as a whole, and without a list of their datagrams.
    fn send_usual(
        &mut self,
        packets: &[&[u8]],
        recipients: &[group::Recipient<'_>],
        slots: &mut [Slot],
    ) -> usize {
        self.begin(packets.len() * recipients.len());
        let mut done = 0;
        for (recipient, slot) in recipients.iter().zip(slots) {
            if !self.send_recipient(packets, recipient, slot) {
                break;
            }
            done += 1;
            if self.written >= CHUNK {
                self.flush(self.written);
                self.kernel.reclaim();
            }
        }
        if self.written > 0 {
            self.flush(self.written);
        }
        done
    }

    /// Sends a recipient the packets that it lacks; false when that is not done and nothing said about the rest.
    #[inline]
    fn send_recipient(
        &mut self,
        packets: &[&[u8]],
        recipient: &group::Recipient<'_>,
        slot: &mut Slot,
    ) -> bool {
        if !recipient.is_well_formed(packets.len()) || self.errors.contains(&recipient.destination) {
            return false;
        }
        for index in slot.done()..packets.len() {
            let datagram = recipient.datagram(packets, index);
            if !self.goes_as_before(&datagram) || !self.push(&datagram) {
                return false;
            }
            slot.note(Outcome::Sent);
        }
        true
    }

    /// Writes a datagram's frame; false without room.
    #[inline]
    fn push(&mut self, datagram: &Datagram<'_>) -> bool {
        let Self { kernel, recipients, sums, identification, .. } = self;
        let Some(header) = &recipients.find(datagram.destination).header else { return false };
        *identification = identification.wrapping_add(1);
        let pushed = kernel.push(header.len() + datagram.len(), |frame| {
            let mut at = header.len();
            let mut sum = Sum::default();
            for part in datagram.parts.iter().filter(|part| !part.is_empty()) {
                frame[at..at + part.len()].copy_from_slice(part);
                // Headers are of even length, so this offset is as odd as the payload's.
                sum = sum.followed_by(at, sums.of(part));
                at += part.len();
            }
            header.write(*identification, datagram.len(), sum, frame);
        });
        self.written += usize::from(pushed);
        pushed
    }

    /// Like [`Self::push`], and when there is no room, after what is written has been sent.
    #[inline]
    fn push_or_make_room(&mut self, datagram: &Datagram<'_>) -> bool {
        // The device may be gone after the second.
        self.push(datagram) || self.make_room() && self.push(datagram)
    }

    /// Sends by the socket what goes by it at the front, and returns how many datagrams that dealt with.
    fn send_by_socket(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) -> usize {
        // Nobody leaves the socket for the ring until these are given to it and it has been asked again.
        self.socket = SocketState::InUse;
        let more = datagrams[1..].iter().take_while(|datagram| self.way(datagram) == Way::Socket);
        let run = 1 + more.count();
        self.fallback.send(&datagrams[..run], &mut outcomes[..run]);
        self.socket = SocketState::Unknown;
        outcomes[..run].iter().position(|outcome| *outcome == Outcome::Unsent).unwrap_or(run)
    }
}

impl<K: Kernel> Backend for AfXdp<K> {
    fn kind(&self) -> BackendKind {
        BackendKind::AfXdp
    }

    /// For recipients by the ring and by the socket alike: each datagram is held against these first.
    fn read_refusals(&mut self) -> bool {
        self.kernel.drain_errors(&mut self.errors)
    }

    fn lost(&self) -> u64 {
        self.lost + self.kernel.invalid_descriptors()
    }

    fn send_group(
        &mut self,
        packets: &[&[u8]],
        recipients: &[group::Recipient<'_>],
        slots: &mut [Slot],
    ) -> bool {
        let done = self.send_usual(packets, recipients, slots);
        let (recipients, slots) = (&recipients[done..], &mut slots[done..]);
        !recipients.is_empty()
            && group::flatten(packets, recipients, slots, |datagrams, outcomes| {
                self.send(datagrams, outcomes)
            })
    }

    fn send(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) {
        self.begin(datagrams.len());
        let mut done = 0;
        while let Some(datagram) = datagrams.get(done) {
            if let Some(error) = self.errors.take(datagram.destination) {
                outcomes[done] = Outcome::Failed(error);
                done += 1;
                continue;
            }
            match self.way(datagram) {
                Way::Ring if self.push_or_make_room(datagram) => {
                    outcomes[done] = Outcome::Sent;
                    done += 1;
                }
                Way::Socket => {
                    let sent = self.send_by_socket(&datagrams[done..], &mut outcomes[done..]);
                    done += sent;
                    if sent == 0 {
                        break;
                    }
                }
                Way::Ring | Way::Wait => {
                    self.wait();
                    break;
                }
            }
        }
        if done > 0 {
            self.waits = 0;
        }
        if self.written > 0 {
            self.flush(self.written);
        }
    }
}

impl Recipient {
    /// Whether a frame can carry the datagram.
    #[inline]
    fn takes(&self, datagram: &Datagram<'_>) -> bool {
        self.payload_max().is_some_and(|max| datagram.len() <= max) && datagram.departure_ns == 0
    }
}

/// The recipient's headers and the longest payload, if there is a way to it through the ring.
fn header(kernel: &mut impl Kernel, origin: &Origin, destination: &SocketAddr) -> Option<(Header, usize)> {
    if !origin.reaches(destination) {
        return None;
    }
    let hop = kernel.resolve(destination)?;
    let header = Header::new(&origin.flow(destination, &hop))?;
    let frame = FRAME_MAX.min(hop.mtu as usize + Header::LINK_BYTES);
    Some((header, frame.checked_sub(header.len())?))
}

/// Datagrams between two questions for errors that have come back: one costs as much as sending half a datagram.
const DATAGRAMS_PER_QUESTION: usize = 64;

#[cfg(test)]
mod tests;
