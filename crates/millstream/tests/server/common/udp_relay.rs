//! A network between one UDP client and a server: it loses and delays datagrams.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Towards {
    Server,
    Client,
}

/// Whether a datagram is lost. Asked once for each, in the order they come.
pub(crate) type Loses = Box<dyn FnMut(Towards, &[u8]) -> bool + Send>;

/// A running one; it ends when it is dropped.
pub(crate) struct UdpRelay {
    /// Where clients send.
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    is_over: AtomicBool,
    passed: AtomicU64,
    lost: AtomicU64,
    client: Mutex<Option<SocketAddr>>,
    loses: Mutex<Loses>,
}

impl UdpRelay {
    /// To `server`, each way with this delay.
    pub(crate) fn start(server: SocketAddr, delay: Duration, loses: Loses) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let back = UdpSocket::bind("127.0.0.1:0").expect("a port");
        back.connect(server).expect("a peer");
        let address = front.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            client: Mutex::new(None),
            loses: Mutex::new(loses),
        });
        let threads = [Towards::Server, Towards::Client].map(|towards| {
            let (front, back) = (front.try_clone().expect("a handle"), back.try_clone().expect("a handle"));
            let shared = Arc::clone(&shared);
            thread::spawn(move || match towards {
                Towards::Server => shared.run(&front, &back, towards, delay),
                Towards::Client => shared.run(&back, &front, towards, delay),
            })
        });
        Self { address, shared, threads: threads.into() }
    }

    /// Of each of so many datagrams in a hundred, the same ones with the same seed.
    pub(crate) fn losing_percent(percent: u64, mut seed: u64) -> Loses {
        Box::new(move |_, _| {
            // xorshift64 (Marsaglia, "Xorshift RNGs").
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % 100 < percent
        })
    }

    /// Datagrams that passed, and those that were lost.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.shared.passed.load(Ordering::Relaxed), self.shared.lost.load(Ordering::Relaxed))
    }
}

impl Drop for UdpRelay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn run(&self, from: &UdpSocket, to: &UdpSocket, towards: Towards, delay: Duration) {
        let mut waiting: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        let mut buffer = [0; 2048];
        while !self.is_over.load(Ordering::Relaxed) {
            let now = Instant::now();
            while let Some((_, datagram)) = waiting.pop_front_if(|(due, _)| *due <= now) {
                // A port nobody has any more refuses, which is the loss of it.
                let _ = match (towards, *self.client.lock().expect("no panic")) {
                    (Towards::Server, _) => to.send(&datagram),
                    (Towards::Client, Some(client)) => to.send_to(&datagram, client),
                    (Towards::Client, None) => continue,
                };
            }
            let until = waiting.front().map_or(IDLE, |(due, _)| due.saturating_duration_since(now));
            from.set_read_timeout(Some(until.clamp(Duration::from_micros(100), IDLE))).expect("a timeout");
            let Ok((length, source)) = from.recv_from(&mut buffer) else { continue };
            if towards == Towards::Server {
                *self.client.lock().expect("no panic") = Some(source);
            }
            if self.loses.lock().expect("no panic")(towards, &buffer[..length]) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            } else {
                self.passed.fetch_add(1, Ordering::Relaxed);
                waiting.push_back((Instant::now() + delay, buffer[..length].to_vec()));
            }
        }
    }
}

/// After so long without a datagram it is looked whether it is over.
const IDLE: Duration = Duration::from_millis(20);
