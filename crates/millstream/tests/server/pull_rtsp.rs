//! Streams pulled by RTSP: from this server, with credentials, by TCP, UDP and TLS, and from scripted cameras.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::beside::Beside;
use crate::common::eventually;
use crate::common::origin::{LOCAL, add_pull, wait_for_pull};
use crate::common::server::Server;
use crate::common::tools::{Frames, Player, frames_of, publish_repeated, sample};

/// Fails unless what was played begins with a run of the source's frames, in its order; by UDP, which loses
/// packets where the machine is busy, unless it has such a run.
fn assert_runs(played: &Frames, source: &Frames, least: usize, is_udp: bool) {
    for (name, played, source) in
        [("video", &played.video, &source.video), ("audio", &played.audio, &source.audio)]
    {
        let content = |packet: &crate::common::tools::Packet| (packet.size, packet.checksum.clone());
        let played: Vec<_> = played.iter().map(content).collect();
        // The film is published again and again.
        let source: Vec<_> = source.iter().chain(source).map(content).collect();
        assert!(played.len() >= least, "{name}: {} packets", played.len());
        let count = least.min(source.len() / 2);
        let begins = if is_udp { played.len() - count + 1 } else { 1 };
        let mut runs = played.windows(count).take(begins);
        let is_run = runs.any(|run| source.windows(count).any(|window| window == run));
        assert!(is_run, "{name} is no run of the source's, UDP: {is_udp}");
    }
}

#[test]
fn what_another_server_plays_by_rtsp_arrives_unchanged() {
    let origin = Server::start_workers(2, "[auth]\nplay_token = \"sesame\"\n");
    let _publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 9);
    origin.wait_for_publisher("live/mill", true);
    let source = frames_of(&sample());
    for transport in ["tcp", "udp"] {
        let server = Server::start_workers(2, LOCAL);
        let url = origin.rtsp_url("/live/mill").replace("rtsp://", "rtsp://me:sesame@");
        let flv = Player::start(&server.flv_url("live/cam"), server.dir.path().join("flv"));
        server.wait_for_players("live/cam", 1);
        add_pull(&server, "cam", &format!("{url}?transport={transport}"));
        let pull = wait_for_pull(&server, "cam", "live", |pull| {
            pull["state"] == "live" && pull["bytes"].as_u64() > Some(300_000)
        });
        let session = &server.sessions("stream=live/cam&role=publisher")[0];
        assert_eq!(session["protocol"], "pull", "{pull}");
        for shown in [pull.to_string(), session.to_string(), server.log()] {
            assert!(!shown.contains("sesame"), "{shown}");
        }
        let path = "/api/v1/pulls/live/cam";
        let removed = crate::common::http::request(server.http, "DELETE", path, &[]).expect("an answer");
        assert_eq!(removed.status, 204);
        assert_runs(&flv.frames_after_end(), &source, 50, transport == "udp");
        eventually("the origin has no player left", || {
            origin.sessions("role=player").is_empty().then_some(())
        });
    }
}

#[test]
fn credentials_that_are_wrong_or_missing_are_said_and_not_shown() {
    let origin = Server::start("[auth]\nplay_token = \"sesame\"\n");
    let server = Server::start(LOCAL);
    for (name, login, reason) in
        [("none", "", "wants a user name"), ("wrong", "me:hunter2@", "does not accept the user name")]
    {
        let url = origin.rtsp_url("/live/mill").replace("rtsp://", &format!("rtsp://{login}"));
        add_pull(&server, name, &url);
        let pull = wait_for_pull(&server, name, "refused", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains(reason), "{pull}");
        assert!(!pull.to_string().contains("hunter2") && !server.log().contains("hunter2"));
    }
}

/// A camera that a test plays.
struct Camera(TcpListener);

impl Camera {
    fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").expect("listen"))
    }

    fn url(&self) -> String {
        format!("rtsp://{}/cam", self.0.local_addr().expect("an address"))
    }

    /// Answers the next client until it plays, with this description.
    fn play(&self, sdp: &str) -> TcpStream {
        let (socket, is_playing) = self.answer(sdp);
        assert!(is_playing, "it leaves");
        socket
    }

    /// The connection, and whether it plays, and does not leave because of the description.
    fn answer(&self, sdp: &str) -> (TcpStream, bool) {
        let (mut socket, _) = self.0.accept().expect("a client");
        let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
        loop {
            let (mut head, mut number) = (String::new(), String::new());
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).expect("a request") == 0 {
                    return (socket, false);
                }
                if line == "\r\n" {
                    break;
                }
                if let Some(value) = line.strip_prefix("CSeq: ") {
                    number = value.trim().to_owned();
                }
                head += &line;
            }
            let body = if head.starts_with("DESCRIBE") { sdp } else { "" };
            let fields = if head.starts_with("SETUP") { "Session: 1;timeout=2\r\n" } else { "" };
            let length = body.len();
            let answer = format!(
                "RTSP/1.0 200 OK\r\nCSeq: {number}\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
            );
            socket.write_all(answer.as_bytes()).expect("the client reads");
            if head.starts_with("PLAY") {
                return (socket, true);
            }
        }
    }
}

/// 20 ms of G.711 in the connection.
fn sound(sequence: u16) -> Vec<u8> {
    let mut packet = vec![b'$', 0, 0, 172, 0x80, 0];
    packet.extend(sequence.to_be_bytes());
    packet.extend((u32::from(sequence) * 160).to_be_bytes());
    packet.extend(7u32.to_be_bytes());
    packet.extend([0xd5; 160]);
    packet
}

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n";

#[test]
fn a_camera_without_a_control_is_heard_and_comes_back() {
    let server = Server::start(&format!("{LOCAL}stall_timeout_ms = 1500\n"));
    let camera = Camera::start();
    add_pull(&server, "cam", &camera.url());
    for round in 0..2 {
        let mut socket = camera.play(SDP);
        for sequence in 0..100 {
            socket.write_all(&sound(sequence)).expect("the server reads");
        }
        wait_for_pull(&server, "cam", "live", |pull| pull["state"] == "live");
        let is_stopped = round == 1;
        if is_stopped {
            // It is given up although the connection stays.
            let pull = wait_for_pull(&server, "cam", "stalled", |pull| pull["failures"] == 2);
            assert!(pull["last_error"].as_str().is_some_and(|text| text.contains("sends nothing")), "{pull}");
        }
    }
    drop(camera);
}

#[test]
fn cameras_that_answer_garbage_disturb_nothing() {
    let mut server = Server::start(LOCAL);
    let camera = Camera::start();
    add_pull(&server, "cam", &camera.url());
    let bomb =
        format!("RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 900000000\r\n\r\n{}", "v=0\r\n".repeat(9));
    let endless = format!("RTSP/1.0 200 OK\r\nX: {}", "a".repeat(1 << 20));
    for garbage in ["HTTP/1.1 200 OK\r\n\r\n", "\0\u{1}\u{2}\r\n\r\n", &bomb, &endless] {
        let (mut socket, _) = camera.0.accept().expect("a client");
        let _ = socket.write_all(garbage.as_bytes());
        socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("a timeout");
        // The server leaves.
        let _ = socket.read_to_end(&mut Vec::new());
    }
    let pull = wait_for_pull(&server, "cam", "failed", |pull| pull["failures"].as_u64() >= Some(4));
    assert!(pull["last_error"].is_string(), "{pull}");
    server.assert_healthy();
}

/// Cameras that say what is not so: another clock rate, channels, payload type, parameter sets, or media that
/// never come; then they send what they have, and garbage.
#[test]
fn cameras_that_lie_disturb_nothing() {
    let mut server = Server::start(&format!("{LOCAL}stall_timeout_ms = 1000\n"));
    let beside = Beside::start(&server);
    let camera = Camera::start();
    add_pull(&server, "cam", &camera.url());
    let head = SDP.split("m=audio").next().expect("a head");
    let media = [
        "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/44100/2\r\n\
         a=fmtp:97 mode=AAC-hbr;config=1210;sizelength=13;indexlength=3;indexdeltalength=3\r\n",
        "m=audio 0 RTP/AVP 0\r\na=rtpmap:0 opus/48000/2\r\n",
        "m=audio 0 RTP/AVP 0\r\na=rtpmap:0 PCMU/16000\r\n",
        "m=audio 0 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000/255\r\n",
        "m=audio 0 RTP/AVP 0\r\na=rtpmap:0 PCMU/0\r\n",
        "m=video 0 RTP/AVP 0\r\na=rtpmap:0 H264/1000\r\na=framerate:1000000\r\n\
         a=fmtp:0 packetization-mode=1;sprop-parameter-sets=Z0IAKeKQFAe2AtwEBAaQeJEV,aM48gA==\r\n",
        "m=video 0 RTP/AVP 0\r\na=rtpmap:0 H265/1000000\r\na=fmtp:0 sprop-sps=AAAA\r\n",
        "m=video 0 RTP/AVP 0\r\na=rtpmap:0 AV1/90000\r\n",
    ];
    for (failures, lie) in (1..).zip(media) {
        let (mut socket, _) = camera.answer(&format!("{head}{lie}"));
        for sequence in 0..100 {
            // It may have left.
            let _ = socket.write_all(&sound(sequence));
            let mut garbage = sound(sequence.wrapping_mul(777));
            garbage[4..].iter_mut().enumerate().for_each(|(at, byte)| *byte ^= (at * 31) as u8);
            let _ = socket.write_all(&garbage);
        }
        drop(socket);
        let pull = wait_for_pull(&server, "cam", "it has failed", |pull| {
            pull["failures"].as_u64() >= Some(failures) || pull["reconnects"].as_u64() >= Some(failures)
        });
        println!("{lie:.70}: {}", pull["last_error"]);
    }
    beside.finish();
    server.assert_healthy();
}
