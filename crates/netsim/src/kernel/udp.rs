//! UDP: datagrams that are lost, late, doubled, changed, or find no room.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::{Event, Kernel, Socket, SocketId, with, with_any};

/// Most by which a datagram that is overtaken comes later.
const REORDER_MAX: Duration = Duration::from_millis(50);
/// Most by which the second of a doubled one comes later.
const DUPLICATE_MAX: Duration = Duration::from_millis(10);
/// One of so many first bytes of a datagram is changed.
const CORRUPT_SPAN: usize = 64;
/// Datagrams a socket keeps, unless the faults say otherwise.
const QUEUE_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct UdpState {
    address: SocketAddr,
    pub(super) received: VecDeque<(SocketAddr, Vec<u8>)>,
}

impl Kernel {
    /// Sends one datagram.
    fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, mut bytes: Vec<u8>) {
        self.totals.datagrams += 1;
        let path = self.path(from.ip(), to.ip()).clone();
        if self.random.chance(path.loss) {
            self.totals.datagrams_lost += 1;
            return;
        }
        if path.corrupt > 0.0 && self.random.chance(path.corrupt) && !bytes.is_empty() {
            // Where, whatever its length: that of a handshake's datagram is random.
            let span = bytes.len().min(CORRUPT_SPAN);
            let (at, bit) = (self.random.next_u64() as usize % span, self.random.below(8));
            bytes[at] ^= 1 << bit;
        }
        let mut at = self.clock.now() + path.delay + self.random.up_to(path.jitter);
        if path.reorder > 0.0 && self.random.chance(path.reorder) {
            at += self.random.up_to(REORDER_MAX);
        }
        if path.duplicate > 0.0 && self.random.chance(path.duplicate) {
            let again = at + self.random.up_to(DUPLICATE_MAX);
            self.at(again, Event::Datagram { to, from, bytes: bytes.clone() });
        }
        self.at(at, Event::Datagram { to, from, bytes });
    }

    pub(super) fn datagram(&mut self, to: SocketAddr, from: SocketAddr, bytes: Vec<u8>) {
        self.note(u64::from(to.port()) << 16 | u64::from(from.port()));
        let most = self.faults.receive_queue.unwrap_or(QUEUE_MAX);
        let socket = self.udp_at.get(&to).copied();
        let state = socket.and_then(|socket| self.udp.get_mut(&socket));
        let Some((socket, state)) = socket.zip(state).filter(|(_, state)| state.received.len() < most) else {
            self.totals.datagrams_lost += 1;
            return;
        };
        let was_empty = state.received.is_empty();
        state.received.push_back((from, bytes));
        if was_empty || self.random.chance(0.5) {
            self.report(socket, true, false, false);
        }
    }
}

/// A UDP socket. Never blocks.
#[derive(Debug)]
pub struct UdpSocket(SocketId);

impl UdpSocket {
    /// Binds `address`; port 0 is a free one.
    pub fn bind(mut address: SocketAddr) -> io::Result<Self> {
        with(|kernel| {
            if address.port() == 0 {
                address.set_port(kernel.free_port());
            }
            if kernel.udp_at.contains_key(&address) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            let socket = kernel.new_socket(Socket::Udp);
            kernel.udp.insert(socket, UdpState { address, received: VecDeque::new() });
            kernel.udp_at.insert(address, socket);
            *kernel.descriptors.entry(address.ip()).or_default() += 1;
            Ok(Self(socket))
        })
    }

    /// The socket's number, for an event queue.
    pub fn id(&self) -> SocketId {
        self.0
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        with(|kernel| kernel.udp.get(&self.0).map(|state| state.address))
            .ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Sends a datagram; the network may do anything with it.
    pub fn send_to(&self, bytes: Vec<u8>, to: SocketAddr) {
        with(|kernel| {
            let Some(from) = kernel.udp.get(&self.0).map(|state| state.address) else { return };
            kernel.send_datagram(from, to, bytes);
        });
    }

    /// How many of `count` datagrams there is room for now.
    pub fn room(&self, count: usize) -> usize {
        with(|kernel| {
            let refuses = kernel.faults.no_buffers > 0.0 && kernel.random.chance(kernel.faults.no_buffers);
            if refuses { kernel.random.below(count as u64) as usize } else { count }
        })
    }

    /// Whether the next datagram is refused for good.
    pub fn refuses(&self) -> bool {
        with(|kernel| kernel.faults.refuse_send > 0.0 && kernel.random.chance(kernel.faults.refuse_send))
    }

    /// Takes up to `most` datagrams; says whether there are more.
    pub fn receive(&self, most: usize, out: &mut Vec<(SocketAddr, Vec<u8>)>) -> io::Result<bool> {
        with(|kernel| {
            kernel.disturb(self.0)?;
            let state = kernel.udp.get_mut(&self.0).ok_or(io::ErrorKind::InvalidInput)?;
            if state.received.is_empty() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = state.received.len().min(most);
            out.extend(state.received.drain(..count));
            Ok(!state.received.is_empty())
        })
    }
}

impl Drop for UdpSocket {
    fn drop(&mut self) {
        with_any(|kernel| {
            kernel.forget_socket(self.0);
            let Some(state) = kernel.udp.remove(&self.0) else { return };
            kernel.udp_at.remove(&state.address);
            if let Some(count) = kernel.descriptors.get_mut(&state.address.ip()) {
                *count -= 1;
            }
        });
    }
}
