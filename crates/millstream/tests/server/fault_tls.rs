//! TLS peers that break the rules of TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::server::Server;
use crate::common::tls::credulous;
use rustls::ClientConnection;

#[test]
fn bytes_behind_close_notify_end_only_their_own_session() {
    let mut server = Server::spawn("[tls]\nself_signed = true\n");
    for address in [server.https.expect("HTTPS"), server.rtmps.expect("RTMPS")] {
        let (mut tls, mut socket) = connect(address);
        let mut burst = Vec::new();
        tls.writer().write_all(b"GET /").expect("plaintext is taken");
        tls.send_close_notify();
        while tls.wants_write() {
            tls.write_tls(&mut burst).expect("into memory");
        }
        burst.extend([0x17, 3, 3, 0x10, 0]);
        burst.extend([0x5a; 12_000]);
        socket.write_all(&burst).expect("send");
        server.assert_healthy();
        assert!(
            crate::common::raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(),
            "the connection is closed"
        );
    }
    // A loop that spins makes thousands of turns during each of these requests.
    let first = server.counter("millstream_loop_turns");
    let mut requests = 0;
    let turns = crate::common::eventually("the worker has reported its turns since", || {
        (0..20).for_each(|_| server.assert_healthy());
        requests += 21;
        Some(server.counter("millstream_loop_turns") - first).filter(|turns| *turns > 0)
    });
    assert!(turns <= 20 * requests, "{turns} turns for {requests} requests: the loop spins");
    server.assert_healthy();
}

#[test]
fn records_that_do_not_decrypt_end_only_their_own_session() {
    let mut server = Server::start("[tls]\nself_signed = true\n");
    for address in [server.https.expect("HTTPS"), server.rtmps.expect("RTMPS")] {
        for garbage in [&[0x17, 3, 3, 0, 4, 1, 2, 3, 4][..], &[0; 64], &[0xff; 20_000]] {
            let (_tls, mut socket) = connect(address);
            socket.write_all(garbage).expect("send");
            assert!(
                crate::common::raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(),
                "closed"
            );
        }
    }
    server.assert_healthy();
}

/// A connection whose handshake is complete.
fn connect(address: SocketAddr) -> (ClientConnection, TcpStream) {
    let mut tls = credulous();
    let mut socket = TcpStream::connect(address).expect("connect");
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("set a timeout");
    while tls.is_handshaking() {
        while tls.wants_write() {
            tls.write_tls(&mut socket).expect("send");
        }
        let mut bytes = [0; 16 << 10];
        let got = socket.read(&mut bytes).expect("receive");
        tls.read_tls(&mut &bytes[..got]).expect("there is room");
        tls.process_new_packets().expect("the server speaks TLS");
    }
    while tls.wants_write() {
        tls.write_tls(&mut socket).expect("send");
    }
    (tls, socket)
}
