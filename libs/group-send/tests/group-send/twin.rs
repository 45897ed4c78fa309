//! A second socket at the caller's address sends, and takes nothing away from the caller's.
#![cfg(target_os = "linux")]

use group_send::{BatchLimits, Config, SendBatch, Sender, socket};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn bound(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).expect("loopback has free ports");
    socket.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    socket
}

fn with_twin(socket: &UdpSocket) -> Sender {
    let sender = Sender::new(socket, &Config { twin: true, ..Config::default() }).expect("a plain socket");
    assert_eq!(sender.twin_refused(), None);
    sender
}

fn send(sender: &mut Sender, to: SocketAddr, datagrams: &[&[u8]]) {
    let mut batch = SendBatch::new(BatchLimits::default());
    for datagram in datagrams {
        batch.push(to, datagram).unwrap();
    }
    let progress = sender.flush(&mut batch, usize::MAX);
    assert_eq!((progress.sent, progress.failed, progress.blocked), (datagrams.len(), 0, false));
}

#[test]
fn datagrams_come_from_the_callers_address_and_answers_go_to_its_socket() {
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
        let socket = bound(address);
        let mut sender = with_twin(&socket);
        let port = socket.local_addr().unwrap().port();
        // Without the program about a half would go to the twin.
        for number in 0..100u8 {
            let host = if address.starts_with('[') { "[::1]" } else { "127.0.0.1" };
            let peer = bound(&format!("{host}:0"));
            send(&mut sender, peer.local_addr().unwrap(), &[&[number; 300], &[number; 300], &[number; 3]]);
            let mut bytes = [0; 400];
            for length in [300, 300, 3] {
                let (received, source) = peer.recv_from(&mut bytes).expect("a datagram");
                assert_eq!((received, source.port()), (length, port));
                assert_eq!(bytes[..length], [number; 300][..length]);
            }
            peer.send_to(&[number], format!("{host}:{port}")).unwrap();
            let (received, source) = socket.recv_from(&mut bytes).expect("the answer");
            assert_eq!((&bytes[..received], source), (&[number][..], peer.local_addr().unwrap()));
        }
    }
}

#[test]
fn the_address_stays_taken() {
    let socket = bound("127.0.0.1:0");
    let sender = with_twin(&socket);
    let again = UdpSocket::bind(socket.local_addr().unwrap());
    assert_eq!(again.expect_err("it is taken").kind(), ErrorKind::AddrInUse);
    drop(sender);
    let address = socket.local_addr().unwrap();
    drop(socket);
    UdpSocket::bind(address).expect("nothing of it is left");
}

#[test]
fn without_a_port_or_with_options_that_need_it_the_caller_sends_itself() {
    let timed = bound("127.0.0.1:0");
    socket::enable_txtime(&timed, socket::DepartureClock::Monotonic).expect("Linux has it");
    let reports = bound("127.0.0.1:0");
    socket::report_refusals(&reports).expect("Linux has it");
    let unbound = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    let config = Config { twin: true, ..Config::default() };
    let peer = bound("127.0.0.1:0");
    let senders =
        [Sender::new(&timed, &config), Sender::new(&reports, &config), Sender::new(&unbound, &config)];
    for mut sender in senders.map(Result::unwrap) {
        assert!(sender.twin_refused().is_some());
        send(&mut sender, peer.local_addr().unwrap(), &[b"x"]);
        assert_eq!(peer.recv(&mut [0; 8]).expect("it came"), 1);
    }
}
