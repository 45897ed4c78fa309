//! Frames handed to the device, past the kernel's UDP stack (`AF_XDP`).
//!
//! A datagram costs one copy has_backlog headers that are cached per recipient, and its share of
//! one system call; payload that many recipients share is summed once. What frames cannot carry
//! goes through the socket, by the fallback back end: recipients without a next hop on the
//! interface, datagrams too long for a frame or the path, and those with a departure time. Headers
//! are built in `frame.rs`, per-recipient state is in `recipients.rs`, the socket's part of the
//! headers in `origin.rs`, ring and routes in `link.rs`, full rings and lost devices in `room.rs`.
//!
//! **Order.** A recipient may switch between ring and socket, but only when nothing is in flight on
//! the one it leaves: the ring once the device has returned all frames, the socket once `SIOCOUTQ`
//! says that the kernel holds nothing of it. Until then it stays on the socket, or is blocked on
//! the ring. So a recipient's datagrams reach the wire in the order they were given, as far as this
//! host determines it.
//!
//! **Room.** A frame in the ring counts as sent, like a datagram in the socket's buffer. What the
//! device drops after that (`EBUSY`) is dropped silently, as below a socket, and counted. A ring
//! that returns no frames for long, or whose device has disappeared, is abandoned with its frames;
//! everything goes through the socket, and a new ring is tried from time to time.

mod link;
mod room;
mod sums;

pub(crate) use link::open;

use crate::backend::Backend;
use crate::config::BackendKind;
use crate::datagram::{CHUNK, Datagram, Outcome};
use crate::frame::{Header, Sum};
use crate::group::{self, Slot};
use crate::linux::xsk::FRAME_MAX;
use crate::origin::Origin;
use crate::pending_errors::PendingErrors;
use crate::recipients::{Path, Recipient, Recipients};
use crate::recv::Ecn;
use crate::route::NextHop;
use std::net::SocketAddr;
use sums::SharedSums;

/// The kernel as this file sees it; tests substitute one that refuses.
pub(crate) trait Kernel: Send {
    /// Reads changes of routes and neighbours; the result changes when an earlier answer may be
    /// wrong.
    fn refresh(&mut self) -> u64;
    /// The next hop, if it leads through the interface.
    fn resolve(&mut self, destination: &SocketAddr) -> Option<NextHop>;
    /// Writes a frame of `len` bytes; false without room or ring.
    fn push(&mut self, len: usize, write: impl FnOnce(&mut [u8])) -> bool;
    /// Makes the kernel send what is written: `errno` as of `Transmitter::kick`.
    fn kick(&mut self) -> Result<(), i32>;
    /// Takes back completed frames, and returns how many are still in flight.
    fn reclaim(&mut self) -> usize;
    /// Closes the ring, and returns how many frames were in flight.
    fn close(&mut self) -> usize;
    /// Tries to open a ring again.
    fn reopen(&mut self) -> bool;
    /// Whether the kernel holds no datagram of the socket.
    fn socket_is_idle(&self) -> bool;
    /// Whether the socket's owner wants ICMP errors reported. A send through the socket returns
    /// them; with the ring they have to be polled for.
    fn reports_errors(&self) -> bool;
    /// Reads errors that came back for earlier datagrams, and says whether there were any.
    fn drain_errors(&mut self, errors: &mut PendingErrors) -> bool;
    /// Frames that the kernel threw away as malformed.
    fn invalid_descriptors(&self) -> u64;
}

/// Datagrams through a ring of an interface, with a back end over the socket for what the ring
/// cannot take.
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
    /// Whether the last kick left frames in the ring.
    has_backlog: bool,
    /// Consecutive calls that ended because the ring was full or would not drain.
    stalls: u32,
    /// Datagrams since the socket was polled for errors.
    since_error_poll: usize,
    /// Frames that the device dropped, or that were lost with a ring.
    lost: u64,
    /// Of the next IPv4 datagram that routers may fragment (RFC 6864 section 4.1).
    identification: u16,
}

/// Whether frames may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ring {
    Open,
    /// The device drops most frames. Used again after this many calls.
    Resting(u32),
    /// Abandoned. A new one is tried after this many calls.
    Closed(u32),
}

/// What this call knows of the datagrams queued in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketState {
    Unknown,
    /// The kernel holds none.
    Idle,
    Busy,
    /// Some are about to be queued.
    InUse,
}

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Ring,
    Socket,
    /// Not now: through the socket once the ring is empty, or by the ring once the socket is idle.
    Blocked,
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
            has_backlog: false,
            stalls: 0,
            since_error_poll: 0,
            lost: 0,
            identification: 0,
        }
    }

    /// Brings state up to date at the start of a call.
    fn begin(&mut self, datagrams: usize) {
        self.generation = self.kernel.refresh();
        self.sums.forget();
        self.socket = SocketState::Unknown;
        self.maintain_ring();
        self.errors.age(datagrams);
        self.since_error_poll += datagrams;
        if self.since_error_poll >= DATAGRAMS_PER_ERROR_POLL {
            self.since_error_poll = 0;
            if self.kernel.reports_errors() {
                self.kernel.drain_errors(&mut self.errors);
            }
        }
    }

    /// The route of the recipient's next datagram. The answer stays the same until something is
    /// sent.
    #[inline]
    fn route(&mut self, datagram: &Datagram<'_>) -> Route {
        if self.stays_on_ring(datagram) { Route::Ring } else { self.resolve_route(datagram) }
    }

    /// Whether this datagram goes by the ring as the recipient's previous one did.
    #[inline]
    fn stays_on_ring(&mut self, datagram: &Datagram<'_>) -> bool {
        let recipient = self.recipients.find(datagram.destination);
        let is_known = recipient.path == Path::Frames && recipient.generation == self.generation;
        is_known && recipient.takes(datagram) && self.ring == Ring::Open
    }

    #[cold]
    #[inline(never)]
    fn resolve_route(&mut self, datagram: &Datagram<'_>) -> Route {
        let recipient = self.recipients.find(datagram.destination);
        if recipient.generation != self.generation {
            recipient.set(header(&mut self.kernel, &self.origin, datagram.destination), self.generation);
        }
        if recipient.takes(datagram) && self.ring == Ring::Open {
            if recipient.path == Path::Frames {
                return Route::Ring;
            }
            if self.socket == SocketState::Unknown {
                let idle = self.kernel.socket_is_idle();
                self.socket = if idle { SocketState::Idle } else { SocketState::Busy };
            }
            match self.socket {
                SocketState::Idle => {
                    recipient.path = Path::Frames;
                    return Route::Ring;
                }
                SocketState::InUse => return Route::Blocked,
                SocketState::Busy | SocketState::Unknown => {}
            }
        }
        self.route_by_socket(datagram.destination)
    }

    fn route_by_socket(&mut self, destination: &SocketAddr) -> Route {
        if self.recipients.find(destination).path != Path::Socket {
            if self.kernel.reclaim() > 0 {
                self.flush_all();
            }
            if self.kernel.reclaim() > 0 {
                return Route::Blocked;
            }
            self.recipients.find(destination).path = Path::Socket;
        }
        Route::Socket
    }

    /// The fast path: sends to recipients for as long as each goes by the ring, and returns how
    /// many were sent everything. Most groups are done here, without building a list of datagrams.
    fn send_by_ring(
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

    /// Sends a recipient the packets that it still lacks; false if it needs the general path.
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
            if !self.stays_on_ring(&datagram) || !self.push(&datagram) {
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

    /// Like [`Self::push`]; if the ring is full, sends what is written first.
    #[inline]
    fn push_or_make_room(&mut self, datagram: &Datagram<'_>) -> bool {
        // The device may have disappeared during `make_room`.
        self.push(datagram) || self.make_room() && self.push(datagram)
    }

    /// Sends the run of datagrams at the front that go through the socket; returns how many were
    /// handled.
    fn send_by_socket(&mut self, datagrams: &[Datagram<'_>], outcomes: &mut [Outcome]) -> usize {
        // No recipient moves to the ring until these are queued and the socket's state was read
        // again.
        self.socket = SocketState::InUse;
        let more = datagrams[1..].iter().take_while(|datagram| self.route(datagram) == Route::Socket);
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

    /// For recipients on the ring and on the socket alike: each datagram is checked against these.
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
        let done = self.send_by_ring(packets, recipients, slots);
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
            match self.route(datagram) {
                Route::Ring if self.push_or_make_room(datagram) => {
                    outcomes[done] = Outcome::Sent;
                    done += 1;
                }
                Route::Socket => {
                    let sent = self.send_by_socket(&datagrams[done..], &mut outcomes[done..]);
                    done += sent;
                    if sent == 0 {
                        break;
                    }
                }
                Route::Ring | Route::Blocked => {
                    self.note_stall();
                    break;
                }
            }
        }
        if done > 0 {
            self.stalls = 0;
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
        self.payload_max().is_some_and(|max| datagram.len() <= max)
            && datagram.departure_ns == 0
            && datagram.ecn == Ecn::NotEct
    }
}

/// The recipient's headers and longest payload, if the ring reaches it.
fn header(kernel: &mut impl Kernel, origin: &Origin, destination: &SocketAddr) -> Option<(Header, usize)> {
    if !origin.reaches(destination) {
        return None;
    }
    let hop = kernel.resolve(destination)?;
    let header = Header::new(&origin.flow(destination, &hop))?;
    let frame = FRAME_MAX.min(hop.mtu as usize + Header::LINK_BYTES);
    Some((header, frame.checked_sub(header.len())?))
}

/// Datagrams between two polls for errors: one costs as much as sending half a datagram.
const DATAGRAMS_PER_ERROR_POLL: usize = 64;

#[cfg(test)]
mod tests;
