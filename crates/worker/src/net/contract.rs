//! What `net/` promises, as tests that run on both of its implementations: a test below has them on the
//! operating system, and `sim` on the kernel of a simulation.
#![cfg_attr(not(feature = "simulated"), expect(unreachable_pub, reason = "`sim` reaches them in sim-worker"))]

use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use group_send::{BatchLimits, Config, Recipient, RecvConfig, SendBatch, Slot};

use super::system::peer::{Peer, begin, pass_time};
use super::{
    BindOptions, Clock, EventQueue, Interest, Readiness, ReceivedBatch, TcpListener, TcpSocket, Token,
    UdpSocket,
};
use crate::ids::{ConnId, PortId};

/// A promise: its name, and what shows that it is kept.
pub type Promise = (&'static str, fn());

/// All promises.
pub const ALL: [Promise; 14] = [
    ("a listener is reported, and gives each connection once", accepts),
    ("what arrives is reported, and again after it was read", reads),
    ("a peer's end is reported as closed, and can still be written to", half_closes),
    ("a reset is reported as closed, and is an error", resets),
    ("a full socket would block, and is reported when there is room", fills),
    ("adding and changing report what is ready already", reports_on_adding),
    ("what was removed is not reported", removes),
    ("closing with bytes unread resets the peer", resets_unread),
    ("wake-ups merge and none is lost", wakes),
    ("datagrams come with their sender, in order, and a call for more would block", datagrams),
    ("datagrams of any lengths arrive as they were sent, in order per recipient", runs),
    ("a group arrives at each recipient behind its own bytes, in order", groups),
    ("what comes joined counts as its datagrams, and fills a batch by messages", joined),
    ("a batch that is not full has left nothing", full),
];

const CONN: Token = Token::Connection(ConnId(7));

/// Waits for a report of which this is true.
fn report(queue: &mut EventQueue, is_it: impl Fn(&Readiness) -> bool) -> Readiness {
    let mut ready = Vec::new();
    for _ in 0..200 {
        pass_time();
        queue.wait(&mut ready, Duration::from_millis(50));
        if let Some(found) = ready.iter().find(|report| is_it(report)) {
            return *found;
        }
    }
    panic!("it is never reported");
}

/// A listener and its address.
fn listener() -> (TcpListener, SocketAddr) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let listener = TcpListener::bind(any, BindOptions::default()).expect("a port");
    listener.listen(16).expect("it listens");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

/// A connection, its peer, and a queue that has nothing in it.
fn connection() -> (EventQueue, TcpSocket, Peer) {
    begin();
    let (listener, address) = listener();
    let mut queue = EventQueue::new().expect("a queue");
    queue.add(&listener, Token::Listener(0), Interest::Read).expect("it is added");
    let peer = Peer::connect(address);
    report(&mut queue, |report| report.token == Token::Listener(0));
    let (socket, _) = accept(&listener);
    (queue, socket, peer)
}

fn accept(listener: &TcpListener) -> (TcpSocket, SocketAddr) {
    loop {
        match listener.accept() {
            Ok(accepted) => return accepted,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        pass_time();
    }
}

/// Reads until there is no more; says whether the end was met.
fn drain(socket: &mut TcpSocket, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(len) => into.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn accepts() {
    begin();
    let (listener, address) = listener();
    let mut queue = EventQueue::new().expect("a queue");
    queue.add(&listener, Token::Listener(3), Interest::Read).expect("it is added");
    assert_eq!(listener.accept().err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    let peer = Peer::connect(address);
    assert!(report(&mut queue, |report| report.token == Token::Listener(3)).readable);
    let (_socket, from) = accept(&listener);
    assert_eq!(Some(from), peer.local_addr());
    assert_eq!(listener.accept().err().map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
    let _other = Peer::connect(address);
    report(&mut queue, |report| report.token == Token::Listener(3));
}

fn reads() {
    let (mut queue, mut socket, mut peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    let mut got = Vec::new();
    for text in [&b"first"[..], b"second"] {
        peer.write(text);
        assert!(report(&mut queue, |report| report.token == CONN && report.readable).readable);
        assert!(!drain(&mut socket, &mut got).expect("no error"));
    }
    assert_eq!(got, b"firstsecond");
}

fn half_closes() {
    let (mut queue, mut socket, mut peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    peer.write(b"last");
    peer.finish();
    report(&mut queue, |report| report.token == CONN && report.closed);
    let mut got = Vec::new();
    assert!(drain(&mut socket, &mut got).expect("no error"), "there is an end");
    assert_eq!(got, b"last");
    assert_eq!(socket.write(b"answer").expect("it can be written to"), 6);
    socket.shutdown_write().expect("it is finished");
    assert_eq!(peer.read_to_end().expect("an end"), b"answer");
}

fn resets() {
    let (mut queue, mut socket, peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    peer.reset();
    report(&mut queue, |report| report.token == CONN && report.closed);
    let error = drain(&mut socket, &mut Vec::new()).expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    let error = socket.write(b"x").expect_err("it is gone");
    assert!(matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
}

fn fills() {
    let (mut queue, mut socket, mut peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    report(&mut queue, |report| report.token == CONN && report.writable);
    let piece = [7; 10_000];
    let mut written = 0;
    loop {
        match socket.write_vectored(&[IoSlice::new(&piece), IoSlice::new(&piece)]) {
            Ok(len) => written += len,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                break;
            }
        }
    }
    let mut read = 0;
    while read < written {
        pass_time();
        read += peer.read_some();
    }
    report(&mut queue, |report| report.token == CONN && report.writable);
    assert!(socket.write(&piece).is_ok());
}

fn reports_on_adding() {
    let (mut queue, mut socket, mut peer) = connection();
    peer.write(b"early");
    (0..50).for_each(|_| pass_time());
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    report(&mut queue, |report| report.token == CONN && report.readable);
    queue.change(&socket, CONN, Interest::Write).expect("it is changed");
    queue.change(&socket, CONN, Interest::ReadWrite).expect("it is changed");
    report(&mut queue, |report| report.token == CONN && report.readable && report.writable);
    assert!(!drain(&mut socket, &mut Vec::new()).expect("no error"));
}

fn removes() {
    let (mut queue, socket, mut peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    queue.remove(&socket);
    peer.write(b"unheard");
    let mut ready = Vec::new();
    for _ in 0..20 {
        pass_time();
        queue.wait(&mut ready, Duration::from_millis(1));
        assert!(ready.iter().all(|report| report.token != CONN));
    }
}

fn resets_unread() {
    let (mut queue, socket, mut peer) = connection();
    queue.add(&socket, CONN, Interest::ReadWrite).expect("it is added");
    peer.write(b"unread");
    report(&mut queue, |report| report.token == CONN && report.readable);
    drop(socket);
    let error = peer.read_to_end().expect_err("a reset");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

fn wakes() {
    begin();
    let mut queue = EventQueue::new().expect("a queue");
    let waker = queue.waker().expect("a waker");
    let mut ready = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| waker.wake_by_ref()));
    });
    // One that was lost would be waited for until the test runner gives up.
    queue.wait(&mut ready, Duration::from_secs(3600));
    assert_eq!(ready, []);
    waker.wake_by_ref();
    queue.wait(&mut ready, Duration::from_secs(3600));
    let began = Clock::now();
    queue.wait(&mut ready, Duration::ZERO);
    assert!(Clock::now() >= began);
}

fn datagrams() {
    begin();
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let sockets = [(); 2].map(|()| UdpSocket::bind(any).expect("a port"));
    let addresses = [0, 1].map(|index: usize| sockets[index].local_addr().expect("its address"));
    let mut queue = EventQueue::new().expect("a queue");
    let token = Token::Port(PortId(1));
    queue.add(&sockets[1], token, Interest::Read).expect("it is added");
    let mut received = ReceivedBatch::new(RecvConfig::default());
    let empty = sockets[1].receive(&mut received).err().map(|error| error.kind());
    assert_eq!(empty, Some(io::ErrorKind::WouldBlock));
    let mut sender = sockets[0].sender(&Config::default()).expect("a sender");
    let mut batch = SendBatch::new(BatchLimits { bytes: 1 << 16, datagrams: 64 });
    for number in 0..10_u8 {
        let id = batch.reserve(addresses[1], 100).expect("room");
        batch.buffer(id)[..3].copy_from_slice(&[number; 3]);
        batch.set_len(id, 3);
    }
    let progress = sender.flush(&mut batch, usize::MAX);
    assert_eq!((progress.sent, progress.failed, progress.blocked), (10, 0, false));
    assert!(batch.is_empty());
    let mut got = Vec::new();
    while got.len() < 10 {
        report(&mut queue, |report| report.token == token && report.readable);
        while let Ok(count) = sockets[1].receive(&mut received) {
            assert_eq!(count, received.len());
            for datagram in received.iter_mut() {
                assert_eq!((datagram.source, datagram.payload.len()), (addresses[0], 3));
                got.push(datagram.payload[0]);
            }
        }
    }
    assert_eq!(got, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// Sends datagrams of these lengths to recipients in turns, each with its number in front.
fn send(from: &UdpSocket, to: &[SocketAddr], lens: &[usize]) {
    let mut sender = from.sender(&Config::default()).expect("a sender");
    let mut batch = SendBatch::new(BatchLimits { bytes: 1 << 20, datagrams: 1024 });
    for (number, len) in lens.iter().enumerate() {
        for destination in to {
            let mut datagram = vec![0; *len];
            let number = (number as u16).to_be_bytes();
            datagram.iter_mut().zip(number).for_each(|(byte, number)| *byte = number);
            batch.push(*destination, &datagram).expect("room");
        }
    }
    let progress = sender.flush(&mut batch, usize::MAX);
    assert_eq!((progress.sent, progress.failed, progress.blocked), (to.len() * lens.len(), 0, false));
    assert!(batch.is_empty());
}

/// A sender and receivers that may get datagrams joined, each with its address.
fn ports<const N: usize>() -> (UdpSocket, [(UdpSocket, SocketAddr); N]) {
    begin();
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let receivers = [(); N].map(|()| {
        let socket = UdpSocket::bind(any).expect("a port");
        socket.enlarge().expect("options");
        let address = socket.local_addr().expect("its address");
        (socket, address)
    });
    (UdpSocket::bind(any).expect("a port"), receivers)
}

/// One call, after some time for what is on its way.
fn receive_later(socket: &UdpSocket, received: &mut ReceivedBatch) -> io::Result<usize> {
    (0..50).for_each(|_| pass_time());
    socket.receive(received)
}

fn runs() {
    let (sender, receivers) = ports::<2>();
    let addresses = [receivers[0].1, receivers[1].1];
    // Rows, some with a shorter one behind, one longer than a message takes, one beyond 64 KiB, and empty
    // ones.
    let rows = [(5, 300), (1, 200), (3, 300), (1, 301), (70, 40), (60, 1_200), (2, 0), (3, 7), (1, 2)];
    let lens: Vec<usize> = rows.iter().flat_map(|&(count, len)| vec![len; count]).collect();
    send(&sender, &addresses, &lens);
    let mut received = ReceivedBatch::new(RecvConfig::default());
    for (receiver, _) in &receivers {
        let mut got = 0;
        while got < lens.len() {
            let count = receive_later(receiver, &mut received).expect("datagrams");
            assert_eq!(count, received.len());
            assert_eq!(count, received.iter_mut().count());
            for datagram in received.iter_mut() {
                assert_eq!(datagram.source, sender.local_addr().expect("its address"));
                assert_eq!(datagram.payload.len(), lens[got], "datagram {got}");
                let number = (got as u16).to_be_bytes();
                assert!(datagram.payload.iter().zip(number).all(|(byte, number)| *byte == number));
                got += 1;
            }
        }
        assert_eq!(
            receiver.receive(&mut received).map_err(|error| error.kind()),
            Err(io::ErrorKind::WouldBlock)
        );
    }
}

fn groups() {
    let (sender, receivers) = ports::<2>();
    let mut network = sender.sender(&Config::default()).expect("a sender");
    let shared: [&[u8]; 3] = [&[7; 900], &[8; 900], &[9; 300]];
    let private: [[&[u8]; 3]; 2] = [[&[1; 16]; 3], [&[2; 16]; 3]];
    let recipients = [0, 1].map(|at: usize| Recipient {
        destination: receivers[at].1,
        prepend: &private[at],
        append: &[],
    });
    let progress = network.send_group(&shared, &recipients, &mut [Slot::default(); 2]);
    assert_eq!((progress.sent, progress.failed, progress.blocked), (6, 0, false));
    let mut received = ReceivedBatch::new(RecvConfig::default());
    for ((receiver, _), own) in receivers.iter().zip(1..) {
        let mut got = Vec::new();
        while got.len() < 3 {
            receive_later(receiver, &mut received).expect("datagrams");
            got.extend(received.iter_mut().map(|datagram| datagram.payload.to_vec()));
        }
        let expected: Vec<Vec<u8>> = shared.iter().map(|shared| [&[own; 16], *shared].concat()).collect();
        assert!(got == expected);
    }
}

fn joined() {
    let (sender, [(receiver, to)]) = ports::<1>();
    send(&sender, &[to], &[100; 192]);
    let mut received = ReceivedBatch::new(RecvConfig::default());
    let count = receive_later(&receiver, &mut received).expect("datagrams");
    // Joined, they are three messages of eight that the first call is for; else it is full before.
    assert!(count == 192 || received.is_full(), "{count} datagrams");
    let rest = std::iter::from_fn(|| receiver.receive(&mut received).ok());
    assert_eq!(count + rest.sum::<usize>(), 192);
}

fn full() {
    let (sender, [(receiver, to)]) = ports::<1>();
    // Each longer than the one before: nothing to be joined.
    let lens: Vec<usize> = (1..=100).collect();
    send(&sender, &[to], &lens);
    let mut received = ReceivedBatch::new(RecvConfig { messages: 16, ..RecvConfig::default() });
    let mut got = receive_later(&receiver, &mut received).expect("datagrams");
    while received.is_full() {
        assert!(received.len() <= 16);
        match receiver.receive(&mut received) {
            Ok(count) => got += count,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(got, 100);
    let nothing = receiver.receive(&mut received).map_err(|error| error.kind());
    assert_eq!(nothing, Err(io::ErrorKind::WouldBlock));
    assert!(!received.is_full());
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_operating_system_keeps_every_promise() {
        for (name, promise) in super::ALL {
            eprintln!("{name}");
            promise();
        }
    }
}
