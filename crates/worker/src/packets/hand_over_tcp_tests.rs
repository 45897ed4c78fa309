//! Sessions by ICE-TCP that go on in another process: with half a frame that has come, what their
//! socket has not taken, and a connection that one process has at a time.

use std::io::{ErrorKind, Read, Write};

use rtc::Path;
use rtc::tcp_framing::{Deframer, frame_header};
use rtc_test::stun::{Check, SUCCESS, transaction};

use super::hand_over::tests::{hand_over, session};
use super::panic_tests::worker;
use crate::event_loop::Worker;
use crate::ids::{IceTcpId, PeerId};
use crate::net::tests::connected;
use crate::net::{Readiness, TcpSocket, Token};
use worker_api::EndReason;
use worker_api::hand_over::{HandedIceTcp, HandedOver, IceTcpSocket};
use worker_api::rtc::RtcRole;
use worker_api::snapshot::SessionId;

const PASSWORD: &str = "0123456789012345678901234567";

/// A publisher by TCP as another process hands it over, and the client's end of its connection.
fn publisher(worker: &Worker, received: &[u8], unsent: &[u8]) -> (HandedOver, TcpSocket) {
    let (server, client) = connected();
    client.set_nonblocking(true).expect("a socket");
    let mut session = session(worker, RtcRole::Publish, 5);
    let path = Path::tcp(server.local_addr().expect("bound"), server.peer_addr().expect("connected"));
    (session.ice.path, session.ice.proven) = (path, Some(path));
    let (received, unsent) = (received.to_vec(), unsent.to_vec());
    let connection = HandedIceTcp { session: session.id, received, unsent };
    let ice_tcp = vec![IceTcpSocket { connection, socket: server.into() }];
    (HandedOver { sessions: vec![session], ice_tcp, ..HandedOver::default() }, client.into())
}

/// A worker that has taken this, and does not go on with it yet.
fn taken(handed: HandedOver) -> (Worker, Vec<SessionId>) {
    let (mut worker, noted) = worker();
    // What it reports goes nowhere.
    drop(noted);
    worker.await_sessions(8);
    let ids = worker.resume(handed);
    (worker, ids)
}

fn go_on(worker: &mut Worker, ended: &[SessionId]) {
    worker.go_on_with_sessions(ended);
    worker.datagrams_wait_until_ms = 0;
}

/// A worker that goes on with a publisher by TCP.
fn begun() -> (Worker, Vec<SessionId>, TcpSocket) {
    let (handed, client) = publisher(&worker().0, &[], &[]);
    let (mut worker, ids) = taken(handed);
    assert_eq!(ids.len(), 1);
    go_on(&mut worker, &[]);
    (worker, ids, client)
}

/// Turns with what the system reports.
fn turn(worker: &mut Worker) {
    let mut ready = Vec::new();
    worker.ctx.events.wait(&mut ready, std::time::Duration::from_millis(1));
    worker.turn(&ready);
}

/// Turns until this is true: the system takes its time.
fn turn_until(worker: &mut Worker, mut is_it: impl FnMut(&Worker) -> bool) {
    for _ in 0..100_000 {
        turn(worker);
        if is_it(worker) {
            return;
        }
    }
    panic!("it does not come to pass");
}

fn connection(worker: &Worker, id: SessionId) -> (PeerId, IceTcpId) {
    let peer = worker.packets.find(id).expect("the session is there");
    let of_session = worker.packets.sockets.tcp.of_session(peer);
    assert_eq!(of_session.len(), 1);
    (peer, of_session[0])
}

/// Takes what has come to the client. Whether it goes on.
fn take(client: &mut TcpSocket, into: &mut Vec<u8>) -> bool {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match client.read(&mut buffer) {
            Ok(0) => return false,
            Ok(bytes) => into.extend_from_slice(&buffer[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) => panic!("the connection has failed: {error}"),
        }
    }
}

/// Nothing has come to the client, which goes on.
fn assert_silent(client: &mut TcpSocket) {
    let mut came = Vec::new();
    assert!(take(client, &mut came));
    assert_eq!(came, b"");
}

/// Turns until the connection of the client has ended.
fn assert_ends(worker: &mut Worker, client: &mut TcpSocket) {
    turn_until(worker, |_| !take(client, &mut Vec::new()));
}

/// Turns until the client has so many frames, of which each is this.
fn assert_frames(
    worker: &mut Worker,
    client: &mut TcpSocket,
    frames: usize,
    mut is_it: impl FnMut(usize, &[u8]) -> bool,
) {
    let (mut deframer, mut next) = (Deframer::default(), 0);
    turn_until(worker, |_| {
        let mut came = Vec::new();
        assert!(take(client, &mut came), "it goes on");
        deframer.push(&came);
        while let Some(datagram) = deframer.pop().expect("frames") {
            assert!(is_it(next, datagram), "frame {next}: {datagram:?}");
            next += 1;
        }
        next >= frames
    });
    assert_eq!((next, deframer.rest()), (frames, &b""[..]));
}

/// A check of the client, framed.
fn check(number: u64) -> Vec<u8> {
    let check = Check::new("local5:remote", PASSWORD, transaction(number)).bytes();
    [&frame_header(check.len())[..], &check].concat()
}

/// The check of the client is answered, and nothing else comes.
fn assert_answered(worker: &mut Worker, client: &mut TcpSocket) {
    assert_frames(worker, client, 1, |_, datagram| datagram[..2] == SUCCESS.to_be_bytes());
}

#[test]
fn half_a_frame_that_has_come_is_made_whole_in_the_other_process() {
    let check = check(1);
    for at in [0, 1, 2, 7, check.len() - 1] {
        let (mut old, ids, mut client) = begun();
        client.write_all(&check[..at]).expect("room");
        let (_, connection) = connection(&old, ids[0]);
        let rest =
            |worker: &Worker| worker.packets.sockets.tcp.get(connection).map(|tcp| tcp.deframer.rest().len());
        turn_until(&mut old, |worker| rest(worker) == Some(at));
        let handed = hand_over(&mut old);
        assert_eq!(handed.ice_tcp[0].connection.received, check[..at]);
        let (mut new, resumed) = taken(handed);
        assert_eq!(resumed, ids);
        client.write_all(&check[at..]).expect("room");
        old.let_go(&ids);
        go_on(&mut new, &[]);
        assert_answered(&mut new, &mut client);
    }
}

/// Has frames with numbers wait for the client until its socket takes no more. How many there are.
fn fill(worker: &mut Worker, id: SessionId) -> usize {
    let (_, connection) = connection(worker, id);
    let tcp = &mut worker.packets.sockets.tcp;
    let path = tcp.get(connection).expect("it is there").path;
    let mut frames = 0;
    // A frame is in the socket in part, or will be.
    while tcp.get(connection).is_some_and(|tcp| tcp.unsent().len() < 10_000) {
        let write = |out: &mut [u8]| {
            out[..8].copy_from_slice(&u64::to_be_bytes(frames as u64));
            Some(1_200)
        };
        assert_eq!(tcp.datagram(connection, &path, 1_200, write), Some(1_200));
        assert!(tcp.flush().is_empty());
        frames += 1;
    }
    frames
}

#[test]
fn what_the_socket_has_not_taken_leaves_once_whichever_process_has_it() {
    for takes_over in [true, false] {
        let (mut old, ids, mut client) = begun();
        let frames = fill(&mut old, ids[0]);
        let handed = hand_over(&mut old);
        assert!(handed.ice_tcp[0].connection.unsent.len() >= 10_000);
        let (mut new, _) = taken(handed);
        let mut goes_on = if takes_over {
            old.let_go(&ids);
            go_on(&mut new, &[]);
            new
        } else {
            drop(new);
            old.let_go(&[]);
            old
        };
        assert_frames(&mut goes_on, &mut client, frames, |at, datagram| {
            datagram.len() == 1_200 && datagram[..8] == u64::to_be_bytes(at as u64)
        });
        client.write_all(&check(1)).expect("room");
        assert_answered(&mut goes_on, &mut client);
    }
}

#[test]
fn nothing_is_read_or_written_until_it_is_decided() {
    let (handed, mut client) = publisher(&worker().0, &[], b"last");
    let (mut old, ids) = taken(handed);
    let token = Token::IceTcp(connection(&old, ids[0]).1);
    let has_room = [Readiness { token, readable: false, writable: true, closed: false }];
    old.turn(&has_room);
    assert_silent(&mut client);
    go_on(&mut old, &[]);
    let mut came = Vec::new();
    turn_until(&mut old, |_| take(&mut client, &mut came) && came == b"last");
    let (mut new, _) = taken(hand_over(&mut old));
    client.write_all(&check(1)).expect("room");
    for worker in [&mut old, &mut new] {
        // Whatever comes to pass: what it has to say is dropped, and not put between two frames.
        let (peer, connection) = connection(worker, ids[0]);
        worker.packets.read_tcp(&mut worker.ctx, connection);
        let path = worker.packets.sockets.tcp.get(connection).expect("it is there").path;
        assert_eq!(worker.packets.sockets.tcp.datagram(connection, &path, 9, |_| Some(9)), None);
        worker.packets.flush(&mut worker.ctx);
        (0..5).for_each(|_| turn(worker));
        assert!(worker.packets.transports.get(peer).is_some_and(|transport| transport.paused));
        assert_eq!(worker.packets.sockets.tcp.get(connection).map(|tcp| tcp.deframer.rest().len()), Some(0));
    }
    assert_silent(&mut client);
    // It is said that the other one has it, and then that it has failed after all.
    old.let_go(&ids);
    (0..5).for_each(|_| turn(&mut old));
    old.let_go(&[]);
    drop(new);
    assert_answered(&mut old, &mut client);
}

#[test]
fn who_has_let_go_ends_and_the_connection_does_not() {
    let (mut old, ids, mut client) = begun();
    let (mut new, _) = taken(hand_over(&mut old));
    old.let_go(&ids);
    old.drain(std::time::Duration::from_secs(2));
    assert!(old.is_drained());
    drop(old);
    go_on(&mut new, &[]);
    client.write_all(&check(1)).expect("room");
    assert_answered(&mut new, &mut client);
    assert!(new.packets.close(&mut new.ctx, ids[0], EndReason::Kicked));
    assert_ends(&mut new, &mut client);
}

#[test]
fn a_session_that_is_ended_meanwhile_ends_with_its_connection() {
    let (mut old, ids, mut client) = begun();
    let (mut new, _) = taken(hand_over(&mut old));
    assert!(old.packets.close(&mut old.ctx, ids[0], EndReason::Kicked));
    assert_silent(&mut client);
    let ended = old.let_go(&ids);
    assert_eq!(ended, ids);
    drop(old);
    go_on(&mut new, &ended);
    assert_ends(&mut new, &mut client);
}

#[test]
fn a_client_that_has_gone_meanwhile_is_missed_by_whoever_goes_on() {
    let (mut old, ids, client) = begun();
    let (mut new, _) = taken(hand_over(&mut old));
    drop(client);
    old.let_go(&ids);
    drop(old);
    go_on(&mut new, &[]);
    let peer = new.packets.find(ids[0]).expect("the session stays, as when any connection ends");
    turn_until(&mut new, |new| new.packets.sockets.tcp.of_session(peer).is_empty());
    assert!(new.packets.transports.get(peer).is_some_and(|transport| transport.paused));
}

#[test]
fn a_session_whose_connection_does_not_come_is_refused() {
    let (mut handed, mut client) = publisher(&worker().0, &[], &[]);
    handed.ice_tcp.clear();
    let (mut worker, ids) = taken(handed);
    assert_eq!((ids, worker.packets.sessions.len()), (Vec::new(), 0));
    assert_ends(&mut worker, &mut client);
    // And one that was broken when it was to be said.
    let (handed, client) = publisher(&worker, &[], &[]);
    let ids = worker.resume(handed);
    go_on(&mut worker, &[]);
    let (_, connection) = connection(&worker, ids[0]);
    worker.packets.close_tcp(&mut worker.ctx, connection);
    assert!(hand_over(&mut worker).sessions.is_empty());
    drop(client);
}
