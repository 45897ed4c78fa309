//! A way to a server over TCP that can be cut: bytes stop, and neither end hears that they do.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
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
                if gate.is_over() {
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

impl Gate {
    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) == State::Over
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
