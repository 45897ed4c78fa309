//! Connections that begin and do not go on.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::raw;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

#[test]
fn a_connection_that_stops_at_any_step_is_closed_at_the_deadline() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 700\n");
    let c0_c1 = raw::c0_c1();
    let connected = {
        let mut socket = raw::handshake(server.rtmp);
        socket.write_all(&raw::connect_and_create("live")).expect("send");
        socket
    };
    let mut sockets = vec![("connect without publish or play", connected)];
    sockets.push(("handshake without connect", raw::handshake(server.rtmp)));
    for (remark, bytes) in
        [("nothing", &c0_c1[..0]), ("C0", &c0_c1[..1]), ("half of C1", &c0_c1[..700]), ("C1", &c0_c1)]
    {
        let mut socket = TcpStream::connect(server.rtmp).expect("connect");
        socket.write_all(bytes).expect("send");
        sockets.push((remark, socket));
    }
    for (remark, socket) in &mut sockets {
        assert!(raw::read_until_closed(socket, crate::common::TIMEOUT).is_some(), "{remark}: closed");
    }
    server.assert_healthy();
}

#[test]
fn bytes_that_trickle_do_not_move_the_deadline() {
    let mut server = Server::start("[limits]\nhandshake_timeout_ms = 1000\n");
    let mut socket = TcpStream::connect(server.rtmp).expect("connect");
    let mut refused = None;
    // One byte every 20 ms would take half a minute for C1.
    for (index, byte) in raw::c0_c1().into_iter().enumerate() {
        if let Err(error) = socket.write_all(&[byte]) {
            refused = Some((index, error));
            break;
        }
        std::thread::sleep(Duration::from_millis(20)); // the trickle that is tested
    }
    assert!(refused.is_some(), "the server took all of C1 byte by byte");
    server.assert_healthy();
}

#[test]
fn a_wrong_version_is_closed_at_once() {
    let server = Server::start("[limits]\nhandshake_timeout_ms = 600000\n");
    for version in [0, 1, 6, 0x47, 0xff] {
        let mut bytes = raw::c0_c1();
        bytes[0] = version;
        let mut socket = TcpStream::connect(server.rtmp).expect("connect");
        socket.write_all(&bytes).expect("send");
        assert!(raw::read_until_closed(&mut socket, crate::common::TIMEOUT).is_some(), "version {version}");
    }
}

#[test]
fn five_thousand_half_open_handshakes_are_cheap_and_end() {
    const COUNT: usize = 5_000;
    let _turn = crate::common::many_descriptors(2 * COUNT as u64);
    let mut server = Server::spawn("[limits]\nhandshake_timeout_ms = 15000\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let tags = crate::common::flv::sample_tags();
    let before = server.resident_bytes();
    let half = &raw::c0_c1()[..800];
    let sockets: Vec<TcpStream> = (0..COUNT)
        .map(|_| {
            let mut socket = TcpStream::connect(server.rtmp).expect("connect");
            socket.write_all(half).expect("send half of C1");
            socket
        })
        .collect();
    crate::common::eventually("all are accepted", || (server.session_count() >= COUNT as u64).then_some(()));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown <= COUNT as u64 * 64 * 1024, "{} bytes each", grown / COUNT as u64);
    publisher.send_tags(&tags[..120]);
    player.take_frames(110);
    crate::common::eventually("all are closed at the deadline", || {
        (server.session_count() <= 2).then_some(())
    });
    drop(sockets);
    publisher.send_tags(&tags[120..240]);
    player.take_frames(110);
    server.assert_healthy();
}
