//! Callers by SRT that may not come in, come too often, or send what makes no sense.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use srt::{
    Call, CallError, Caller, CipherMode, Connection, DATAGRAM_BYTES_MAX, End, KeyLength, Limits, Passphrase,
    Reject, SequenceNumber, SocketId,
};

use crate::common::server::Server;
use crate::common::{TIMEOUT, eventually};

#[expect(clippy::disallowed_methods, reason = "a client has a clock of its own")]
fn now() -> Instant {
    Instant::now()
}

/// A client of one socket.
pub(crate) struct Client {
    socket: UdpSocket,
    connection: Connection,
}

fn socket(server: &Server) -> UdpSocket {
    socket_to(server.srt.expect("SRT is on"))
}

fn socket_to(address: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(5))).expect("a socket");
    socket
}

pub(crate) fn call(server: &Server, stream_id: &str, passphrase: Option<&str>) -> Result<Client, CallError> {
    call_at(server.srt.expect("SRT is on"), stream_id, passphrase)
}

/// Calls a listener at this address.
pub(crate) fn call_at(
    address: SocketAddr,
    stream_id: &str,
    passphrase: Option<&str>,
) -> Result<Client, CallError> {
    let socket = socket_to(address);
    let passphrase = passphrase.map(|text| Passphrase::new(text).expect("a length"));
    let call = Call {
        socket: SocketId::random(),
        initial: SequenceNumber::random(),
        stream_id: stream_id.to_owned(),
        receive_latency: Duration::from_millis(20),
        send_latency: Duration::from_millis(20),
        latency_max: Duration::from_secs(1),
        encryption: passphrase.map(|passphrase| (passphrase, KeyLength::Aes128, CipherMode::Ctr)),
        timeout: TIMEOUT,
        limits: Limits::default(),
    };
    let mut caller = Caller::new(now(), call);
    let (mut out, mut input) = ([0; DATAGRAM_BYTES_MAX], [0; DATAGRAM_BYTES_MAX]);
    loop {
        if let Some(len) = caller.poll_transmit(now(), &mut out)? {
            socket.send(&out[..len]).expect("it is sent");
        }
        let Ok(len) = socket.recv(&mut input) else { continue };
        if let Some(connection) = caller.handle_packet(now(), &input[..len])? {
            return Ok(Client { socket, connection });
        }
    }
}

impl Client {
    /// Has a payload sent.
    pub(crate) fn send(&mut self, payload: &[u8]) {
        assert!(self.connection.send(now(), payload), "there is room");
    }

    /// Says goodbye.
    pub(crate) fn close(&mut self) {
        self.connection.close(now());
        self.turn();
    }

    /// Sends and receives for a moment.
    pub(crate) fn turn(&mut self) {
        let (mut out, mut input) = ([0; DATAGRAM_BYTES_MAX], [0; DATAGRAM_BYTES_MAX]);
        while let Some(len) = self.connection.poll_transmit(now(), &mut out) {
            let _ = self.socket.send(&out[..len]);
        }
        if let Ok(len) = self.socket.recv(&mut input) {
            let _ = self.connection.handle_packet(now(), &input[..len]);
        }
        self.connection.handle_timeout(now());
    }
}

pub(crate) fn rejected(server: &Server, stream_id: &str, passphrase: Option<&str>) -> u32 {
    match call(server, stream_id, passphrase).err() {
        Some(CallError::Rejected(code)) => code,
        other => panic!("{stream_id}: {other:?}"),
    }
}

#[test]
fn who_may_not_come_in_is_told_why() {
    let mut server = Server::start(
        "[auth]\npublish_token = \"sesame\"\n[stream]\nwait_for_publisher_seconds = 0\n\
         [[srt.stream]]\nstream = \"secret/*\"\npublish_passphrase = \"correct horse\"\n",
    );
    let cases = [
        ("", None, Reject::BadRequest),
        ("live/cam", None, Reject::BadRequest),
        ("publish:cam", None, Reject::BadRequest),
        ("publish:live/../cam", None, Reject::BadRequest),
        ("publish:live/cam", None, Reject::Unauthorized),
        ("publish:live/cam?token=wrong", None, Reject::Unauthorized),
        ("#!::m=publish,r=live/cam,t=wrong", None, Reject::Unauthorized),
        ("read:live/cam", None, Reject::NotFound),
        ("publish:secret/cam?token=sesame", None, Reject::Unsecure),
        ("publish:secret/cam?token=sesame", Some("wrong horse"), Reject::BadSecret),
        ("publish:live/cam?token=sesame", Some("correct horse"), Reject::Unsecure),
    ];
    for (stream_id, passphrase, reject) in cases {
        assert_eq!(rejected(&server, stream_id, passphrase), reject.code(), "{stream_id}");
    }
    assert_eq!(server.counter("millstream_srt_callers_refused_total"), cases.len() as u64);
    assert_eq!(server.session_count(), 0);
    let mut one = call(&server, "publish:secret/cam?token=sesame", Some("correct horse")).expect("let in");
    let code = rejected(&server, "publish:secret/cam?token=sesame", Some("correct horse"));
    assert_eq!(code, Reject::Conflict.code());
    assert!(!server.log().contains("sesame") && !server.log().contains("horse"));
    // Its end is told at once, and leaves the name free.
    one.connection.close(now());
    one.turn();
    server.wait_for_publisher("secret/cam", false);
    call(&server, "publish:secret/cam?token=sesame", Some("correct horse")).expect("the name is free");
    server.assert_healthy();
}

#[test]
fn sessions_and_handshakes_are_limited() {
    let server = Server::start("[srt]\nsessions_per_worker = 3\nhandshakes_per_second = 0\n");
    let mut clients: Vec<Client> =
        (0..3).map(|at| call(&server, &format!("publish:live/{at}"), None).expect("room")).collect();
    assert_eq!(rejected(&server, "publish:live/x", None), Reject::Overload.code());
    // Those that say nothing any more make room.
    drop(clients.pop());
    eventually("there is room again", || {
        clients.iter_mut().for_each(Client::turn);
        call(&server, "publish:live/x", None).ok()
    });
    let silent = "millstream_sessions_ended_total{worker=\"0\",cause=\"silent\"}";
    eventually("it ended because it was silent", || (server.counter(silent) >= 1).then_some(()));

    let server = Server::start("[srt]\nhandshakes_per_second = 2\n");
    let codes: Vec<u32> = (0..20)
        .filter_map(|at| match call(&server, &format!("publish:live/{at}"), None) {
            Err(CallError::Rejected(code)) => Some(code),
            _ => None,
        })
        .collect();
    assert!(!codes.is_empty() && codes.iter().all(|code| *code == Reject::Overload.code()));

    let server = Server::start("[srt]\npending_per_worker = 2\n");
    let _silent = [0, 1].map(|at| call(&server, &format!("publish:live/{at}"), None).expect("room"));
    assert_eq!(rejected(&server, "publish:live/x", None), Reject::Overload.code());

    // Of one address: what has sent something is not counted any more.
    let server = Server::start_workers(2, "[srt]\npending_per_address = 2\nhandshakes_per_second = 0\n");
    let mut silent = [0, 1].map(|at| call(&server, &format!("publish:live/{at}"), None).expect("room"));
    assert_eq!(rejected(&server, "publish:live/x", None), Reject::Overload.code());
    eventually("one has said something", || {
        silent[0].turn();
        call(&server, "publish:live/x", None).ok()
    });
}

#[test]
fn a_kicked_session_is_told_and_ends_once() {
    let server = Server::start("");
    let mut client = call(&server, "publish:live/cam", None).expect("let in");
    client.turn();
    let id = server.sessions("")[0]["id"].as_str().expect("an id").to_owned();
    let kicked = crate::common::http::request(server.http, "DELETE", &format!("/api/v1/sessions/{id}"), &[]);
    assert_eq!(kicked.expect("an answer").status, 204);
    eventually("it is told", || {
        client.turn();
        (client.connection.end() == Some(End::Shutdown)).then_some(())
    });
    assert_eq!(server.counter("millstream_sessions_ended_total{worker=\"0\",cause=\"kicked\"}"), 1);
}

#[test]
fn floods_and_nonsense_leave_nothing_behind() {
    let mut server = Server::spawn("");
    let mut client = call(&server, "publish:live/cam", None).expect("let in");
    let before = server.resident_bytes();
    let socket = socket(&server);
    let mut induction = [0; 64];
    (induction[0], induction[19], induction[39]) = (0x80, 4, 1);
    let mut answers = 0;
    let mut input = [0; DATAGRAM_BYTES_MAX];
    socket.set_nonblocking(true).expect("a socket");
    for count in 0..20_000u32 {
        induction[40..44].copy_from_slice(&count.to_be_bytes());
        let _ = socket.send(&induction);
        while let Ok(len) = socket.recv(&mut input) {
            answers += 1;
            assert_eq!(len, 64);
        }
        // A conclusion with a cookie that was never given, and data for a socket that nobody has.
        let mut conclusion = induction;
        conclusion[19] = 5;
        conclusion[36..40].fill(0xff);
        let _ = socket.send(&conclusion);
        let mut noise = vec![count as u8; (count % 1472) as usize];
        noise.iter_mut().take(1).for_each(|byte| *byte = if count % 2 == 0 { 0x80 } else { 0 });
        let _ = socket.send(&noise);
        if count % 100 == 0 {
            client.turn();
        }
    }
    assert!(answers > 100, "{answers}");
    assert_eq!(server.session_count(), 1);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    client.turn();
    assert_eq!(client.connection.end(), None);
    server.assert_healthy();
}

/// A control packet of a type and length, for a socket, of content that differs.
fn control(kind: u16, subtype: u16, len: usize, to: SocketId) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
    let first = 0x8000_0000 | u32::from(kind) << 16 | u32::from(subtype);
    for (at, word) in [(0, first), (12, to.0)] {
        if len >= at + 4 {
            packet[at..at + 4].copy_from_slice(&word.to_be_bytes());
        }
    }
    packet
}

/// Types that there are and some that there are not, with subtypes of those that the user defines.
const CONTROLS: [(u16, u16); 15] = [
    (0, 0),
    (1, 0),
    (2, 0),
    (3, 0),
    (4, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (0x7ffe, 0),
    (0x7fff, 0),
    (0x7fff, 3),
    (0x7fff, 4),
    (0x7fff, 5),
    (0x7fff, 0xffff),
];
/// The one that ends a session.
const SHUTDOWN: u16 = 5;

#[test]
fn control_packets_of_every_type_and_length_end_nothing() {
    let mut server = Server::spawn("[srt]\nhandshakes_per_second = 0\n");
    let mut attacked = call(&server, "publish:live/attacked", None).expect("let in");
    let mut other = call(&server, "publish:live/other", None).expect("let in");
    let before = server.resident_bytes();
    for len in 0..=1500 {
        for (kind, subtype) in CONTROLS {
            let to = attacked.connection.peer();
            let _ = attacked.socket.send(&control(kind, subtype, len, to));
        }
        let _ = attacked.socket.send(&control(0, 0, len, SocketId(0)));
        if len % 50 == 0 {
            attacked.turn();
            other.turn();
        }
    }
    assert_eq!(server.session_count(), 2);
    // What is said afterwards is heard as ever.
    for client in [&mut attacked, &mut other] {
        client.connection.close(now());
        client.turn();
    }
    eventually("both have ended", || (server.session_count() == 0).then_some(()));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    server.assert_healthy();
}

/// The number of a session's socket is not enough: what it says has to come from its address.
#[test]
fn what_others_send_in_the_name_of_a_session_is_not_heard() {
    let mut server = Server::start("");
    let mut client = call(&server, "publish:live/cam", None).expect("let in");
    let (to, forger) = (client.connection.peer(), socket(&server));
    let unknown = server.counter("millstream_srt_unknown_datagrams_total");
    let mut sent = 0;
    for len in (16..=1500).step_by(53) {
        for (kind, subtype) in CONTROLS.into_iter().chain([(SHUTDOWN, 0)]) {
            sent += u64::from(forger.send(&control(kind, subtype, len, to)).is_ok());
        }
        let mut data = control(0, 0, len, to);
        data[0] = 0;
        sent += u64::from(forger.send(&data).is_ok());
    }
    eventually("some of it has come", || {
        client.turn();
        (server.counter("millstream_srt_unknown_datagrams_total") > unknown + sent / 2).then_some(())
    });
    assert_eq!(server.session_count(), 1);
    let session = &server.sessions("")[0];
    assert_eq!(session["srt"]["packets"], 0, "{session}");
    // From its own address the end is one.
    client.socket.send(&control(SHUTDOWN, 0, 20, to)).expect("it is sent");
    eventually("it has ended", || (server.session_count() == 0).then_some(()));
    server.assert_healthy();
}

/// Callers that are let in and say nothing any more: a thousand of them hold no more than the limits.
#[test]
fn handshakes_half_done_by_the_thousand_are_refused_and_forgotten() {
    const CALLERS: u32 = 2_000;
    let limits = "handshakes_per_second = 0\npending_per_address = 64\nsilence_timeout_ms = 5000\n";
    let mut server = Server::spawn(&format!("[srt]\n{limits}"));
    let socket = socket(&server);
    let cookie = cookie(&socket);
    let before = server.resident_bytes();
    let mut refused = 0;
    for count in 0..CALLERS {
        let id = format!("publish:live/{count}");
        let conclusion = conclusion(count + 1, cookie, &id);
        socket.send(&conclusion).expect("it is sent");
        let mut answer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = socket.recv(&mut answer) {
            assert!(len <= 128, "an answer of {len} bytes");
            refused += u32::from(answer[36..40] == Reject::Overload.code().to_be_bytes());
            if len == 64 || answer[36..40] == [255; 4] {
                break;
            }
        }
        assert!(server.session_count() <= 64);
    }
    assert!(refused > CALLERS / 2, "{refused} of {CALLERS}");
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    eventually("they are forgotten", || (server.session_count() == 0).then_some(()));
    call(&server, "publish:live/cam", None).expect("an honest one is let in");
    server.assert_healthy();
}

/// A conclusion of a socket, as it should be.
fn conclusion(socket: u32, cookie: [u8; 4], stream_id: &str) -> Vec<u8> {
    let mut id = stream_id.as_bytes().to_vec();
    id.resize(id.len().next_multiple_of(4), 0);
    id.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    let words = [0x8000_0000, 0, 0, 0, 5, 5, 1, 1500, 8192, u32::MAX, socket];
    let mut packet: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    packet.extend(cookie);
    packet.extend([0; 16]);
    // HSREQ: version 1.5.0, times in both directions, 120 ms; then the stream id.
    let words = [0x0001_0003, 0x0001_0500, 0x3f, 0x0078_0078, 5 << 16 | (id.len() / 4) as u32];
    packet.extend(words.iter().flat_map(|word: &u32| word.to_be_bytes()));
    packet.extend(id);
    packet
}

/// The cookie for a caller from this socket.
fn cookie(socket: &UdpSocket) -> [u8; 4] {
    let mut induction = [0; 64];
    (induction[0], induction[19], induction[39]) = (0x80, 4, 1);
    induction[40..44].copy_from_slice(&7u32.to_be_bytes());
    eventually("the induction is answered", || {
        socket.send(&induction).expect("it is sent");
        let mut answer = [0; DATAGRAM_BYTES_MAX];
        let len = socket.recv(&mut answer).ok()?;
        (len == 64).then(|| answer[44..48].try_into().expect("four bytes"))
    })
}

/// With a cookie that was given: what follows the handshake says that it is longer than it is, is of no
/// kind, or is missing.
#[test]
fn malformed_conclusions_leave_nothing_behind() {
    let mut server = Server::spawn("[srt]\nhandshakes_per_second = 0\n");
    let socket = socket(&server);
    let cookie = cookie(&socket);
    let before = server.resident_bytes();
    socket.set_nonblocking(true).expect("a socket");
    let mut random = 1u32;
    for count in 0..30_000u32 {
        let mut conclusion = vec![0; 64];
        (conclusion[0], conclusion[19]) = (0x80, 5);
        // Conclusion, with extensions.
        conclusion[36..40].fill(0xff);
        (conclusion[22], conclusion[23]) = (0, 7);
        conclusion[40..44].copy_from_slice(&(count + 1).to_be_bytes());
        conclusion[44..48].copy_from_slice(&cookie);
        let extensions = (count % 120) as usize * 4;
        for _ in 0..extensions / 4 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Kinds from 0 to 9, and lengths in words up to the largest.
            let kind = (random >> 8) % 10;
            let words = if random & 1 == 0 { 0xffff } else { (random >> 16) & 7 };
            conclusion.extend(((kind << 16) | words).to_be_bytes());
        }
        let _ = socket.send(&conclusion);
        let mut answer = [0; DATAGRAM_BYTES_MAX];
        while let Ok(len) = socket.recv(&mut answer) {
            assert!(len <= 64, "an answer of {len} bytes");
        }
    }
    assert_eq!(server.session_count(), 0);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    server.assert_healthy();
}

/// They are accepted, and say nothing any more: what they do not acknowledge is kept within limits.
#[test]
fn a_hundred_silent_players_cost_little() {
    const PLAYERS: usize = 100;
    let limits = "handshakes_per_second = 0\npending_per_address = 100\n";
    let mut server = Server::spawn(&format!("[srt]\n{limits}silence_timeout_ms = 60000\n"));
    let _publisher = crate::common::tools::publish_repeated(&server.rtmp_url("live/cam"), 8, 20);
    server.wait_for_publisher("live/cam", true);
    let before = server.resident_bytes();
    let players: Vec<Client> =
        (0..PLAYERS).map(|_| call(&server, "read:live/cam", None).expect("let in")).collect();
    let sent = || server.api("/api/v1/streams/live/cam")["bytes_in"].as_u64().unwrap_or(0);
    let at_first = sent();
    // Much more than any of them may hold has been published.
    eventually("four megabytes are published", || (sent() > at_first + (4 << 20)).then_some(()));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{} MiB for {PLAYERS} players", grown >> 20);
    drop(players);
    server.assert_healthy();
}
