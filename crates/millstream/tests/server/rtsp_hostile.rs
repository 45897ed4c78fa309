//! Clients by RTSP that may not come in, or send what makes no sense.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::common::beside::Beside;
use crate::common::server::Server;
use crate::common::tools::publish;
use crate::common::{TIMEOUT, eventually};

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=audio 0 RTP/AVP 0\r\na=control:track0\r\n";

/// A client of one connection.
pub(crate) struct Client {
    socket: TcpStream,
    number: u32,
    url: String,
    /// Interleaved packets that have come ahead of answers.
    pub(crate) strays: usize,
}

impl Client {
    pub(crate) fn connect(server: &Server, path: &str) -> Self {
        let socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        Self { socket, number: 0, url: server.rtsp_url(path), strays: 0 }
    }

    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("it is sent");
    }

    /// An interleaved packet behind its first byte: its channel and content.
    fn packet(&mut self) -> (u8, Vec<u8>) {
        let mut framing = [0; 3];
        self.socket.read_exact(&mut framing).expect("a packet");
        let mut packet = vec![0; usize::from(u16::from_be_bytes([framing[1], framing[2]]))];
        self.socket.read_exact(&mut packet).expect("a packet");
        (framing[0], packet)
    }

    /// The next interleaved packet.
    pub(crate) fn interleaved(&mut self) -> (u8, Vec<u8>) {
        let mut magic = [0];
        self.socket.read_exact(&mut magic).expect("a packet");
        assert_eq!(magic, *b"$", "a packet, and no answer");
        self.packet()
    }

    /// One answer: head and body.
    fn answer(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match self.socket.read_exact(&mut byte) {
                Ok(()) if head.is_empty() && byte == *b"$" => {
                    self.packet();
                    self.strays += 1;
                }
                Ok(()) => head.push(byte[0]),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
                Err(error) => panic!("an answer in time: {error}"),
            }
        }
        let head = String::from_utf8(head).expect("text");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |text| text.trim().parse().expect("a number"))];
        self.socket.read_exact(&mut body).expect("a body");
        head + &String::from_utf8(body).expect("text")
    }

    pub(crate) fn ask(&mut self, method: &str, control: &str, fields: &str, body: &str) -> String {
        self.number += 1;
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let (url, number) = (self.url.clone(), self.number);
        self.send(&format!(
            "{method} {url}{control} RTSP/1.0\r\nCSeq: {number}\r\n{fields}{length}\r\n{body}"
        ));
        self.answer()
    }

    fn announce(&mut self, sdp: &str) -> String {
        self.ask("ANNOUNCE", "", "Content-Type: application/sdp\r\n", sdp)
    }

    /// Whether the server closes the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        self.socket.read_to_end(&mut rest).is_ok()
    }

    /// The session that an answer names.
    pub(crate) fn session(answer: &str) -> String {
        let field = answer.lines().find_map(|line| line.strip_prefix("Session: ")).expect("a session");
        format!("Session: {}\r\n", field.split(';').next().unwrap_or_default())
    }
}

pub(crate) fn code(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn field<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    answer.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

#[test]
fn requests_out_of_order_get_the_answers_of_the_standard() {
    let server = Server::start("[stream]\nwait_for_publisher_seconds = 0\n");
    let mut client = Client::connect(&server, "/live/cam");
    assert_eq!(code(&client.ask("OPTIONS", "", "", "")), "200");
    assert_eq!(code(&client.ask("DESCRIBE", "", "", "")), "404", "nobody publishes it");
    assert_eq!(code(&client.ask("SETUP", "/trackID=0", "Transport: RTP/AVP/TCP\r\n", "")), "455");
    assert_eq!(code(&client.ask("PLAY", "", "", "")), "455");
    assert_eq!(code(&client.ask("PLAY", "", "Session: 1\r\n", "")), "454");
    assert_eq!(code(&client.ask("TEARDOWN", "", "", "")), "454");
    assert_eq!(code(&client.ask("REDIRECT", "", "", "")), "501");
    assert_eq!(code(&client.ask("OPTIONS", "", "Require: x\r\n", "")), "551");
    assert_eq!(code(&client.ask("ANNOUNCE", "", "Content-Type: text/plain\r\n", SDP)), "415");
    let opus = SDP.replace("AVP 0", "AVP 97").replace("a=control", "a=rtpmap:97 L16/44100\r\na=control");
    let answer = client.announce(&opus);
    assert_eq!(code(&answer), "415");
    assert!(answer.contains("the audio codec is not carried"), "{answer}");
    assert_eq!(code(&client.announce("v=0\r\n")), "400");
    assert_eq!(code(&client.announce(SDP)), "200");
    let multicast = "Transport: RTP/AVP;multicast\r\n";
    assert_eq!(code(&client.ask("SETUP", "/track0", multicast, "")), "461");
    let channels = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n";
    let answer = client.ask("SETUP", "/track0", channels, "");
    assert_eq!(code(&answer), "200");
    let session = Client::session(&answer);
    assert_eq!(code(&client.ask("PLAY", "", &session, "")), "455", "it has announced");
    assert_eq!(code(&client.ask("RECORD", "", &session, "")), "200");
    server.wait_for_publisher("live/cam", true);
    let mut second = Client::connect(&server, "/live/cam");
    assert_eq!(code(&second.announce(SDP)), "200");
    let answer = second.ask("SETUP", "/track0", channels, "");
    let answer = second.ask("RECORD", "", &Client::session(&answer), "");
    assert_eq!(code(&answer), "403");
    assert!(answer.contains("already being published"), "{answer}");
    assert_eq!(code(&client.ask("GET_PARAMETER", "", &session, "")), "200");
    assert_eq!(code(&client.ask("TEARDOWN", "", &session, "")), "200");
    server.wait_for_publisher("live/cam", false);
    assert_eq!(code(&client.ask("OPTIONS", "", "", "")), "200", "the connection stays");
}

#[test]
fn tokens_open_by_the_url_and_by_basic_and_by_digest() {
    let server = Server::start("[auth]\npublish_token = \"sesame\"\n");
    let mut client = Client::connect(&server, "/live/cam");
    let answer = client.announce(SDP);
    assert_eq!(code(&answer), "401");
    let challenges = field(&answer, "WWW-Authenticate");
    assert!(challenges.iter().any(|field| field.starts_with("Basic ")), "{answer}");
    let digest = challenges.iter().find(|field| field.starts_with("Digest ")).expect("a challenge");
    let basic = |token: &str| {
        let shown = STANDARD.encode(format!("me:{token}"));
        format!("Content-Type: application/sdp\r\nAuthorization: Basic {shown}\r\n")
    };
    assert_eq!(code(&client.ask("ANNOUNCE", "", &basic("wrong"), SDP)), "401");
    assert_eq!(code(&client.ask("ANNOUNCE", "", &basic("sesame"), SDP)), "200");
    let mut by_url = Client::connect(&server, "/live/cam?token=sesame");
    assert_eq!(code(&by_url.announce(SDP)), "200");
    let mut wrong = Client::connect(&server, "/live/cam?token=open");
    assert_eq!(code(&wrong.announce(SDP)), "401");
    let nonce = digest.split("nonce=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a nonce");
    let hash = |text: String| {
        use md5::Digest;
        md5::Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let url = client.url.clone();
    for (token, expected) in [("open", "401"), ("sesame", "200")] {
        let known = hash(format!("me:millstream:{token}"));
        let asked = hash(format!("ANNOUNCE:{url}"));
        let response = hash(format!("{known}:{nonce}:{asked}"));
        let fields = format!(
            "Content-Type: application/sdp\r\nAuthorization: Digest username=\"me\", realm=\"millstream\", \
             nonce=\"{nonce}\", uri=\"{url}\", response=\"{response}\"\r\n"
        );
        assert_eq!(code(&client.ask("ANNOUNCE", "", &fields, SDP)), expected, "{token}");
        // What was heard of one connection opens no other.
        let mut other = Client::connect(&server, "/live/cam");
        assert_eq!(code(&other.ask("ANNOUNCE", "", &fields, SDP)), "401");
    }
    assert!(!server.log().contains("sesame"));
}

#[test]
fn heads_that_are_huge_or_smuggle_are_refused_and_the_connection_is_closed() {
    let mut server = Server::start("");
    let head = |fields: &str| format!("OPTIONS rtsp://h/live/a RTSP/1.0\r\nCSeq: 1\r\n{fields}\r\n");
    let many = "X: 1\r\n".repeat(100);
    for (text, expected) in [
        (head(&format!("X: {}\r\n", "a".repeat(10_000))), "400"),
        ("a".repeat(20_000), "400"),
        (head(&many), "400"),
        (head("Content-Length: 5\r\nContent-Length: 50\r\n"), "400"),
        (head("Content-Length: -1\r\n"), "400"),
        (head("Content-Length: +1\r\n"), "400"),
        (head("Content-Length: 99999999999999999999\r\n"), "400"),
        (head("Content-Length: 1000000\r\n"), "413"),
        (head("Transfer-Encoding: chunked\r\n"), "400"),
        (head("X: 1\r\n Content-Length: 5\r\n"), "400"),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "400"),
        (head("").replace("RTSP/1.0", "RTSP/2.0"), "505"),
        ("$\0\0\u{4}abcd".to_owned(), "400"),
    ] {
        let mut client = Client::connect(&server, "/live/a");
        client.send(&text);
        let answer = client.answer();
        assert_eq!(code(&answer), expected, "{text:.80}: {answer}");
        assert!(client.is_closed(), "{text:.80}");
    }
    // A thousand requests at once are answered in order, or the client is cut off when it does not read.
    let mut client = Client::connect(&server, "/live/a");
    client.send(
        &(1..=200).map(|number| format!("OPTIONS * RTSP/1.0\r\nCSeq: {number}\r\n\r\n")).collect::<String>(),
    );
    for number in 1..=200 {
        assert_eq!(field(&client.answer(), "CSeq"), [number.to_string()]);
    }
    server.assert_healthy();
}

#[test]
fn slow_heads_and_clients_that_never_play_are_closed() {
    let server = Server::start("[limits]\nhandshake_timeout_ms = 300\n");
    let _publisher = publish(&server.rtmp_url("live/mill"), 1);
    server.wait_for_publisher("live/mill", true);
    let mut silent = Client::connect(&server, "/live/mill");
    let mut begun = Client::connect(&server, "/live/mill");
    begun.send("OPTIONS rtsp://h/live/mill RTSP/1.0\r\nCSe");
    let mut drips = Client::connect(&server, "/live/mill");
    let mut described = Client::connect(&server, "/live/mill");
    assert_eq!(code(&described.ask("DESCRIBE", "", "", "")), "200");
    // A byte now and then keeps nothing open.
    eventually("it is closed", || drips.socket.write_all(b"a").is_err().then_some(()));
    assert!(silent.is_closed());
    assert!(begun.is_closed());
    assert!(described.is_closed());
    eventually("no player is left", || server.sessions("role=player").is_empty().then_some(()));
}

#[test]
fn an_address_has_only_so_many_connections_that_do_nothing_yet() {
    let server = Server::start_workers(2, "[rtsp]\npending_per_address = 2\n");
    let mut first = Client::connect(&server, "/live/mill");
    let mut second = Client::connect(&server, "/live/other");
    assert_eq!(code(&first.ask("OPTIONS", "", "", "")), "200");
    assert_eq!(code(&second.ask("OPTIONS", "", "", "")), "200");
    assert!(Client::connect(&server, "/live/mill").is_closed());
    // One that publishes is not counted any more, whatever it does afterwards.
    let _ = first.announce(SDP);
    let answer = first.ask("SETUP", "/track0", "Transport: RTP/AVP/TCP;interleaved=0-1\r\n", "");
    let session = Client::session(&answer);
    assert_eq!(code(&first.ask("RECORD", "", &session, "")), "200");
    let mut third = Client::connect(&server, "/live/mill");
    assert_eq!(code(&third.ask("OPTIONS", "", "", "")), "200");
    assert!(Client::connect(&server, "/live/mill").is_closed());
    drop(second);
    eventually("there is room again", || {
        let mut client = Client::connect(&server, "/live/mill");
        client.socket.write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").ok()?;
        client.socket.read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0).then_some(())
    });
}

#[test]
fn a_client_that_has_a_stream_described_again_and_again_is_closed() {
    let server = Server::start("[limits]\nhandshake_timeout_ms = 300\n");
    let _publisher = publish(&server.rtmp_url("live/mill"), 1);
    server.wait_for_publisher("live/mill", true);
    let mut client = Client::connect(&server, "/live/mill");
    assert_eq!(code(&client.ask("DESCRIBE", "", "", "")), "200");
    eventually("it is closed", || {
        let request = format!("DESCRIBE {} RTSP/1.0\r\nCSeq: 9\r\n\r\n", client.url);
        let is_sent = client.socket.write_all(request.as_bytes()).is_ok();
        let is_answered = is_sent && client.socket.read(&mut [0; 4_096]).is_ok_and(|bytes| bytes > 0);
        (!is_answered).then_some(())
    });
    eventually("no player is left", || server.sessions("role=player").is_empty().then_some(()));
}

#[test]
fn channels_that_nobody_set_up_and_broken_packets_disturb_nothing() {
    let mut server = Server::start("");
    let beside = Beside::start(&server);
    let mut client = Client::connect(&server, "/live/cam");
    assert_eq!(code(&client.announce(SDP)), "200");
    let answer = client.ask("SETUP", "/track0", "Transport: RTP/AVP/TCP;unicast;interleaved=4-5\r\n", "");
    let session = Client::session(&answer);
    assert_eq!(code(&client.ask("RECORD", "", &session, "")), "200");
    for channel in 0..=255u8 {
        for packet in [&[][..], &[0x80], &[0x80; 12], &[0xff; 40], &[0x80, 0xc8, 0, 6, 1, 2, 3]] {
            let framing = [b'$', channel, 0, packet.len() as u8];
            client.socket.write_all(&[&framing[..], packet].concat()).expect("it is sent");
        }
    }
    assert_eq!(code(&client.ask("GET_PARAMETER", "", &session, "")), "200");
    assert_eq!(code(&client.ask("TEARDOWN", "", &session, "")), "200");
    drop(client);
    // Each of those that nobody set up, once.
    let strays = 254 * 5;
    eventually("they are counted", || {
        (server.counter("millstream_rtsp_unknown_packets") == strays).then_some(())
    });
    beside.finish();
    server.assert_healthy();
}

#[test]
fn a_thousand_connections_that_hold_half_a_request_cost_little() {
    const COUNT: usize = 1_000;
    let _turn = crate::common::many_descriptors(2 * COUNT as u64 + 200);
    let mut server = Server::spawn("[limits]\nhandshake_timeout_ms = 60000\n");
    let before = server.resident_bytes();
    let media = "m=audio 0 RTP/AVP 0\r\na=control:t\r\n".repeat(300);
    let bomb = format!("{SDP}{media}");
    let half = format!("OPTIONS rtsp://h/a/b RTSP/1.0\r\nCSeq: 1\r\nX: {}", "a".repeat(6_000));
    let clients: Vec<Client> = (0..COUNT)
        .map(|at| {
            let mut client = Client::connect(&server, "/live/cam");
            if at % 2 == 0 {
                assert_eq!(code(&client.announce(&bomb)), "400");
            }
            client.send(&half);
            client
        })
        .collect();
    eventually("all have come", || (server.session_count() >= COUNT as u64).then_some(()));
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown <= 50 << 20, "{} MiB for {COUNT} connections", grown >> 20);
    drop(clients);
    server.assert_healthy();
}
