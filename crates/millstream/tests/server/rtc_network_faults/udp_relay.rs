//! A UDP relay with bad links: what a NAT and a bad network between a client and the server are.
//!
//! `netsim`'s links with the real time. One thread each way; both end with the relay.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use netsim::{Link, LinkConfig};

/// A relay between one client and the server.
pub(crate) struct UdpRelay {
    shared: Arc<Shared>,
    front: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Towards the client, and towards the server.
    sockets: Mutex<[Arc<UdpSocket>; 2]>,
    /// Who is at the other end of each, once known.
    peers: Mutex<[Option<SocketAddr>; 2]>,
    links: [Mutex<Link>; 2],
    ends: AtomicBool,
}

/// The side of the client, and of the server.
const CLIENT: usize = 0;
const SERVER: usize = 1;

impl UdpRelay {
    /// A relay to the server's address `server`, over a link like `config` each way.
    pub(crate) fn start(server: SocketAddr, config: &LinkConfig, seed: u64) -> Self {
        let front = socket();
        let address = front.local_addr().expect("its address");
        let link = |seed| Mutex::new(Link::new(config.clone(), seed));
        let shared = Arc::new(Shared {
            sockets: Mutex::new([front, socket()]),
            peers: Mutex::new([None, Some(server)]),
            links: [link(seed), link(seed + 1)],
            ends: AtomicBool::new(false),
        });
        let threads = [CLIENT, SERVER].map(|from| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.carry(from))
        });
        Self { shared, front: address, threads: threads.into() }
    }

    /// The address the client takes for the server's.
    pub(crate) fn front(&self) -> SocketAddr {
        self.front
    }

    /// Makes the links better or worse.
    pub(crate) fn set_links(&self, config: &LinkConfig) {
        self.shared.links.iter().for_each(|link| lock(link).set_config(config.clone()));
    }

    /// The client appears at the server with another port from now on.
    pub(crate) fn rebind(&self) {
        lock(&self.shared.sockets)[SERVER] = socket();
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().expect("a relay that did not panic"));
    }
}

impl Shared {
    /// Carries what comes in on the side `from` to the other one, until the relay ends.
    fn carry(&self, from: usize) {
        let mut buffer = [0; 2048];
        while !self.ends.load(Ordering::Relaxed) {
            let socket = lock(&self.sockets)[from].clone();
            if let Ok((len, sender)) = socket.recv_from(&mut buffer) {
                if from == CLIENT {
                    lock(&self.peers)[CLIENT] = Some(sender);
                }
                lock(&self.links[from]).send(Instant::now(), buffer[..len].to_vec());
            }
            let (socket, to) = (lock(&self.sockets)[1 - from].clone(), lock(&self.peers)[1 - from]);
            while let Some(datagram) = lock(&self.links[from]).poll(Instant::now()) {
                if let Some(to) = to {
                    // Whoever has gone loses it.
                    let _ = socket.send_to(&datagram, to);
                }
            }
        }
    }
}

/// A socket that waits a millisecond: the accuracy of the links.
fn socket() -> Arc<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
    socket.set_read_timeout(Some(Duration::from_millis(1))).expect("a socket option");
    Arc::new(socket)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
