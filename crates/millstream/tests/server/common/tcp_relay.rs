//! What makes a client by UDP one by ICE-TCP for the server: a connection of its own, over which
//! its datagrams go framed (RFC 4571).

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rtc::sdp::{Direction, Transport};
use rtc::tcp_framing::{Deframer, frame_header};

use super::rtc::{Client, Options};
use super::server::Server;

/// A running one; it ends when it is dropped.
pub(crate) struct TcpRelay {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    is_over: AtomicBool,
    /// Where the client sends to.
    front: UdpSocket,
    client: Mutex<Option<SocketAddr>>,
    /// Towards the server.
    back: Mutex<TcpStream>,
}

/// After so long without a datagram it is looked whether it is over.
const IDLE: Duration = Duration::from_millis(20);

impl TcpRelay {
    /// A client of `path` that is connected, and its relay.
    pub(crate) fn connect(server: &Server, path: &str, direction: Direction) -> (Client, Self) {
        let mut client = Client::open(server, path, direction, &Options::default());
        let at = candidates(&client, Transport::Tcp)[0];
        let relay = Self::start(at);
        client.set_server(Instant::now(), relay.shared.front.local_addr().expect("bound"));
        client.connect();
        (client, relay)
    }

    fn start(server: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a port");
        front.set_read_timeout(Some(IDLE)).expect("a timeout");
        let back = TcpStream::connect(server).expect("a connection");
        back.set_read_timeout(Some(IDLE)).expect("a timeout");
        back.set_nodelay(true).expect("a socket option");
        let from_server = back.try_clone().expect("a handle");
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            front,
            client: Mutex::new(None),
            back: Mutex::new(back),
        });
        let (up, down) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads =
            vec![thread::spawn(move || up.run_up()), thread::spawn(move || down.run_down(from_server))];
        Self { shared, threads }
    }

    /// The connection to the server, on which nothing else is sent as long as this is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, TcpStream> {
        self.shared.back.lock().expect("no panic")
    }
}

impl Drop for TcpRelay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn run_up(&self) {
        let mut buffer = [0; 2048];
        while !self.is_over.load(Ordering::Relaxed) {
            let Ok((length, source)) = self.front.recv_from(&mut buffer) else { continue };
            *self.client.lock().expect("no panic") = Some(source);
            // A connection that the server has closed loses it.
            let _ = self.back.lock().expect("no panic").write_all(&framed(&buffer[..length]));
        }
    }

    fn run_down(&self, mut from_server: TcpStream) {
        let (mut deframer, mut buffer) = (Deframer::default(), vec![0; 1 << 16]);
        while !self.is_over.load(Ordering::Relaxed) {
            match from_server.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => deframer.push(&buffer[..length]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
                Err(_) => return,
            }
            while let Some(datagram) = deframer.pop().expect("whole frames") {
                let client = self.client.lock().expect("no panic").expect("it has spoken first");
                self.front.send_to(datagram, client).expect("it is sent");
            }
        }
    }
}

/// A datagram as it goes over a connection.
pub(crate) fn framed(datagram: &[u8]) -> Vec<u8> {
    [&frame_header(datagram.len())[..], datagram].concat()
}

/// Addresses of the answer's candidates by a transport.
pub(crate) fn candidates(client: &Client, transport: Transport) -> Vec<SocketAddr> {
    let all = client.answer.remote.candidates.iter();
    all.filter(|candidate| candidate.transport == transport).map(|candidate| candidate.address).collect()
}
