//! A path between two nodes that does with datagrams what its test says.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Which end of a path a datagram goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    /// The first node.
    One,
    /// The second node.
    Other,
}

/// What becomes of the `number`th datagram in a direction: what arrives in its place.
pub(crate) type Rule = dyn Fn(Towards, u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync;

/// Two sockets, one for each node to send to.
pub(crate) struct Path {
    ends: [Arc<UdpSocket>; 2],
    pub(crate) bytes: [Arc<AtomicU64>; 2],
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Path {
    /// A path between two relays.
    pub(crate) fn new(relays: [SocketAddr; 2], rule: Arc<Rule>) -> Self {
        let ends = [(); 2].map(|()| Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a port")));
        let bytes = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let mut path = Self { ends, bytes, stop, threads: Vec::new() };
        for (from, towards) in [(0, Towards::Other), (1, Towards::One)] {
            let to = 1 - from;
            let (from_end, to_end) = (Arc::clone(&path.ends[from]), Arc::clone(&path.ends[to]));
            let (stop, count, rule) =
                (Arc::clone(&path.stop), Arc::clone(&path.bytes[to]), Arc::clone(&rule));
            // Only so that it sees that it is to stop.
            from_end.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket option");
            path.threads.push(std::thread::spawn(move || {
                let (mut datagram, mut number) = ([0; 65_536], 0);
                while !stop.load(Ordering::Relaxed) {
                    let Ok(len) = from_end.recv(&mut datagram) else { continue };
                    for passed in rule(towards, number, &datagram[..len]) {
                        count.fetch_add(passed.len() as u64, Ordering::Relaxed);
                        // A full buffer loses it, as a network would.
                        let _ = to_end.send_to(&passed, relays[to]);
                    }
                    number += 1;
                }
            }));
        }
        path
    }

    /// Where the first node reaches the second, and the other way round: for
    /// [`link_over`](super::node::link_over).
    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        [1, 0].map(|end: usize| self.ends[end].local_addr().expect("its address"))
    }

    /// Sends a datagram to a node from where it knows the other one to be.
    pub(crate) fn inject(&self, towards: Towards, to: SocketAddr, datagram: &[u8]) {
        let end = &self.ends[usize::from(towards == Towards::Other)];
        end.send_to(datagram, to).expect("it is sent");
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("no panic on the path");
        }
    }
}
