//! What the tests against a running server share: the server process, clients that can be scripted, and the
//! real programs (ffmpeg, rtmpdump) with the comparison of what they received.
//!
//! Every test starts its own server on free loopback ports with its own configuration file and directory.
//! Tests wait for conditions (`eventually`), never for a fixed time; the deadlines are only there to fail.

// These are programs at the edge: they may read the clock.
#![allow(clippy::disallowed_methods, reason = "a test waits in real time for a real process")]

pub(crate) mod beside;
pub(crate) mod bridge;
pub(crate) mod channel;
pub(crate) mod cluster;
pub(crate) mod flv;
pub(crate) mod hook;
pub(crate) mod http;
pub(crate) mod key_server;
#[cfg(feature = "moq")]
pub(crate) mod moq;
pub(crate) mod openapi;
pub(crate) mod origin;
pub(crate) mod raw;
pub(crate) mod rtc;
pub(crate) mod rtmp;
pub(crate) mod server;
pub(crate) mod stats;
pub(crate) mod tcp_relay;
pub(crate) mod tls;
pub(crate) mod tools;
pub(crate) mod udp_relay;
pub(crate) mod web;
pub(crate) mod websocket;
pub(crate) mod wire;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// Longest time any single expectation may take, also on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(90);

/// Calls `check` until it gives a value; panics with `what` after [`TIMEOUT`].
pub(crate) fn eventually<T>(what: &str, check: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, check)
}

/// Calls `check` until it gives a value; panics with `what` after `limit`.
pub(crate) fn eventually_within<T>(limit: Duration, what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether `check` became true within [`TIMEOUT`].
pub(crate) fn within_patience(mut check: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + TIMEOUT;
    while !check() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// A free loopback address for a server that goes and comes back. Its port is below those that the
/// system gives to outgoing connections (from 32768 on), and below those of nginx (from 20000 on):
/// another test's client, or its nginx, would have it in the meantime.
pub(crate) fn lasting_address() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 10_000 + (number % 10_000) as u16));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// Listens where another listener has just been. A process that some test is starting has copies of
/// this one's sockets until it runs its program: a listener that is closed listens on until then.
pub(crate) fn listen_at(address: SocketAddr) -> TcpListener {
    eventually(&format!("{address} is free"), || match TcpListener::bind(address) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        listener => Some(listener.expect("listen")),
    })
}

/// A port, of UDP or TCP, for something that is started later. It is below those that the kernel
/// chooses from, so that no other test, asking for any port meanwhile, is given it.
pub(crate) fn port_for_later() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    // Another run of these tests, beside this one, begins elsewhere.
    let first = std::process::id() as u16;
    let below_the_kernels = || 16_384 + (first.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed)) & 0x3FFF);
    std::iter::repeat_with(below_the_kernels)
        .take(1000)
        .find(|&port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .expect("one of a thousand ports is free")
}

/// Waits until some process has a UDP socket at `port`. A pull by UDP says that it is connecting before
/// it has: what is sent meanwhile is refused and lost.
pub(crate) fn wait_for_udp_listener(port: u16) {
    let at_port = format!(":{port:04X}");
    eventually(&format!("a socket at UDP port {port}"), || {
        let sockets = std::fs::read_to_string("/proc/net/udp").expect("the kernel's list");
        let mut locals = sockets.lines().filter_map(|line| line.split_whitespace().nth(1));
        locals.any(|local| local.ends_with(&at_port)).then_some(())
    });
}

/// An address where connections are refused as long as the socket lives, which keeps others from
/// listening there.
pub(crate) fn nobody_listens() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("its address");
    (socket, address)
}

/// Lets this process, and the servers it starts, open as many descriptors as the system permits. Tests that
/// need many take turns, as they are threads of one process: this one's lasts until the guard is dropped.
pub(crate) fn many_descriptors(needed: u64) -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("read the limit");
    assert!(hard >= needed, "this test opens {needed} descriptors and the hard limit (ulimit -Hn) is {hard}");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("raise the soft limit to the hard one");
    // One that failed has left nothing open.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
