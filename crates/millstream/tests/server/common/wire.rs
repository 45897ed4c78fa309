//! Ways that can be cut: to a server over TCP, whose bytes stop, and neither end hears that they do; and
//! between two nodes, whose datagrams are lost meanwhile.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// The way, until it is dropped.
pub(crate) struct Wire {
    /// Where to connect in place of the server.
    pub(crate) address: SocketAddr,
    gate: Arc<Gate>,
}

struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Cut,
    Over,
}

impl Wire {
    /// A way to `target`, where somebody may listen only later.
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let gate = Arc::new(Gate { state: Mutex::new(State::Open), changed: Condvar::new() });
        let opened = Arc::clone(&gate);
        thread::spawn(move || {
            for client in listener.incoming() {
                let gate = Arc::clone(&opened);
                if gate.state() == State::Over {
                    return;
                }
                thread::spawn(move || gate.carry(client.expect("a connection"), target));
            }
        });
        Self { address, gate }
    }

    /// Bytes stop, and new connections get none; or all go on.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.gate.set(if is_open { State::Open } else { State::Cut });
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.gate.set(State::Over);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
    }
}

/// The ways of two nodes to each other.
pub(crate) struct Between {
    /// Where the other one reaches each of them.
    pub(crate) addresses: [SocketAddr; 2],
    wires: [Wire; 2],
    sockets: [UdpSocket; 2],
    lost: Arc<AtomicUsize>,
}

impl Between {
    /// The ways between nodes that listen here.
    pub(crate) fn new(nodes: [SocketAddr; 2]) -> Self {
        // With the same ports over UDP, which others may have.
        let (wires, sockets) = std::iter::from_fn(|| {
            let wires = nodes.map(Wire::to);
            let [one, other] = wires.each_ref().map(|wire| UdpSocket::bind(wire.address));
            Some(one.and_then(|one| Ok((wires, [one, other?]))))
        })
        .find_map(Result::ok)
        .expect("free ports");
        let lost = Arc::<AtomicUsize>::default();
        for (from, to) in [(0, 1), (1, 0)] {
            let [socket, back] = [from, to].map(|at| sockets[at].try_clone().expect("a descriptor"));
            let (gate, lost) = (Arc::clone(&wires[from].gate), Arc::clone(&lost));
            thread::spawn(move || {
                let mut datagram = [0; 65_536];
                while let Ok(len) = socket.recv(&mut datagram) {
                    match gate.state() {
                        // It comes from where its node is known to be. A full buffer loses it.
                        State::Open => _ = back.send_to(&datagram[..len], nodes[from]),
                        State::Cut => _ = lost.fetch_add(1, Ordering::Relaxed),
                        State::Over => return,
                    }
                }
            });
        }
        Self { addresses: wires.each_ref().map(|wire| wire.address), wires, sockets, lost }
    }

    /// Cuts or heals both.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.wires.iter().for_each(|wire| wire.set_open(is_open));
    }

    /// Datagrams that were lost.
    pub(crate) fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        for (wire, socket) in self.wires.iter().zip(&self.sockets) {
            wire.gate.set(State::Over);
            // Wakes the thread that reads.
            let _ = socket.send_to(&[], wire.address);
        }
    }
}

impl Gate {
    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }

    fn state(&self) -> State {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the way is cut; says whether there still is one.
    fn pass(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.changed.wait_while(state, |state| *state == State::Cut);
        *state.unwrap_or_else(PoisonError::into_inner) == State::Open
    }

    /// Carries one connection to its end.
    fn carry(self: Arc<Self>, client: TcpStream, target: SocketAddr) {
        if !self.pass() {
            return;
        }
        let Ok(server) = TcpStream::connect(target) else { return };
        let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
        let back = Arc::clone(&self);
        thread::spawn(move || back.copy(from_server, client));
        self.copy(from_client, server);
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 16 << 10];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            if !self.pass() || to.write_all(&piece[..len]).is_err() {
                break;
            }
        }
        if self.pass() {
            let _ = to.shutdown(Shutdown::Write);
        } else {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        }
    }
}
