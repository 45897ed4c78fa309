//! Publishers of a film, in real time, each by its protocol's own machine.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use media::Frame;
use millbench::counters::Counters;
use millbench::doors::srt::SrtLink;
use millbench::srt_url::SrtUrl;
use mpegts::Muxer;
use rtc::sdp::Direction;
use rtmp::flv::TagBody;
use rtp::payload::Codec as PayloadCodec;
use rtp::rtcp::NtpTime;
use rtsp::Outgoing;

use super::film::{self, Film};
use crate::common::TIMEOUT;
use crate::common::origin::wait_for_pull;
use crate::common::rtc::{AUDIO_SSRC, Client, OPUS, Options, VIDEO_SSRC, VP8};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;

/// A door in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publisher {
    Rtmp,
    Srt,
    Rtsp,
    TsUdp,
    Whip,
}

impl Publisher {
    /// A server for it, and the port that it pulls from, if it does.
    pub(super) fn server(self) -> (Server, Option<u16>) {
        let hls = "[hls]\nwindow_segments = 100\nmode = \"always\"\n";
        if self != Self::TsUdp {
            return (Server::start(hls), None);
        }
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("its address").port();
        drop(socket);
        let pull = format!("[[pull]]\nstream = \"live/film\"\nurl = \"udp://127.0.0.1:{port}\"\n");
        (Server::start(&format!("{hls}{pull}")), Some(port))
    }

    /// Sends all of it, and leaves.
    pub(super) fn publish(self, server: &Server, stream: &str, film: &Film, port: Option<u16>) {
        match self {
            Self::Rtmp => rtmp(server, stream, film),
            Self::Srt => srt(server, stream, film),
            Self::Rtsp => rtsp(server, stream, film),
            Self::TsUdp => ts_udp(server, film, port.expect("it is pulled")),
            Self::Whip => whip(server, stream, film),
        }
    }
}

/// Calls `send` with each frame when it is due, and `wait` in between.
fn in_time(film: &Film, mut wait: impl FnMut(), mut send: impl FnMut(&Frame)) {
    let began = Instant::now();
    for frame in &film.frames {
        let due = began + Duration::from_micros(frame.dts.micros().max(0) as u64);
        while film::is_media(frame) && Instant::now() < due {
            thread::sleep(due.saturating_duration_since(Instant::now()).min(Duration::from_millis(2)));
            wait();
        }
        send(frame);
    }
}

fn rtmp(server: &Server, stream: &str, film: &Film) {
    let mut client = RtmpClient::publish(server.rtmp, stream);
    in_time(
        film,
        || {},
        |frame| {
            let body = TagBody::of(frame).expect("FLV has a place for it");
            client.send(frame.track.kind, frame.dts.millis() as u32, &body.parts().concat());
        },
    );
    client.end();
}

/// A program written frame by frame.
#[derive(Default)]
struct Ts {
    muxer: Muxer,
    bytes: Vec<u8>,
}

impl Ts {
    /// Payloads of the datagrams of a frame.
    fn write(&mut self, frame: &Frame, mut send: impl FnMut(&[u8])) {
        self.bytes.clear();
        self.muxer.write(&mut self.bytes, frame, frame.dts, frame.is_key()).expect("it is carried");
        self.bytes.chunks(7 * mpegts::PACKET_BYTES).for_each(&mut send);
    }
}

fn srt(server: &Server, stream: &str, film: &Film) {
    let url: SrtUrl = server
        .srt_url(&format!("publish:{stream}"))
        .replace("&pkt_size=1316&latency=200000", "&latency=120")
        .parse()
        .expect("a URL");
    let address = server.srt.expect("SRT is on");
    let mut link = SrtLink::open(&url, address, Instant::now()).expect("a socket");
    let (mut counters, mut ts) = (Counters::default(), Ts::default());
    let mut batch = RecvBatch::new(RecvConfig::default());
    let mut turn = |link: &mut SrtLink| {
        let now = Instant::now();
        link.receive(now, &mut batch, &mut counters).expect("the listener is there");
        link.drive(now, &mut counters, |_, _| {}).expect("the connection goes on");
    };
    let deadline = Instant::now() + TIMEOUT;
    while !link.is_connected() {
        assert!(Instant::now() < deadline, "the listener does not accept");
        thread::sleep(Duration::from_millis(1));
        turn(&mut link);
    }
    let link = std::cell::RefCell::new(link);
    in_time(
        film,
        || turn(&mut link.borrow_mut()),
        |frame| {
            ts.write(frame, |payload| {
                let sent = link.borrow_mut().connection().is_some_and(|to| to.send(Instant::now(), payload));
                assert!(sent, "there is room");
            });
        },
    );
    let mut link = link.into_inner();
    while link.unacknowledged(Instant::now()) > 0 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
        turn(&mut link);
    }
    // What was acknowledged waits for its time at the listener.
    let until = Instant::now() + Duration::from_millis(200);
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
        turn(&mut link);
    }
    link.close(Instant::now(), &mut Counters::default());
}

fn ts_udp(server: &Server, film: &Film, port: u16) {
    wait_for_pull(server, "film", "connecting", |pull| pull["state"] == "connecting");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(("127.0.0.1", port)).expect("a peer");
    let mut ts = Ts::default();
    in_time(
        film,
        || {},
        |frame| {
            ts.write(frame, |payload| {
                socket.send(payload).expect("it is sent");
            });
        },
    );
}

/// RTP of a film with reports whose clock is the film's.
struct Packets {
    outgoing: Outgoing,
    began: Instant,
    bytes: Vec<u8>,
}

impl Packets {
    fn new(film: &Film) -> Self {
        let began = Instant::now();
        let mut packets = Self { outgoing: Outgoing::new([11, 12], began), began, bytes: Vec::new() };
        // They describe it.
        film.frames.iter().filter(|frame| !film::is_media(frame)).for_each(|frame| packets.make(frame));
        packets
    }

    fn make(&mut self, frame: &Frame) {
        self.bytes.clear();
        let at_us = frame.dts.micros().max(0) as u64;
        let ntp = NtpTime((3_900_000_000 << 32) + ((u128::from(at_us) << 32) / 1_000_000) as u64);
        let now = self.began + Duration::from_micros(at_us);
        self.outgoing.write(now, ntp, frame.dts, frame, &mut self.bytes);
    }
}

/// Interleaved packets: channel and bytes.
fn interleaved(mut bytes: &[u8], mut take: impl FnMut(u8, &[u8])) {
    while let [b'$', channel, high, low, behind @ ..] = bytes {
        let (packet, next) = behind.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        take(*channel, packet);
        bytes = next;
    }
}

/// Asks, and gives the answer's head.
fn ask(
    socket: &mut TcpStream,
    sequence: &mut u32,
    method: &str,
    url: &str,
    fields: &str,
    body: &str,
) -> String {
    *sequence += 1;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let request = format!("{method} {url} RTSP/1.0\r\nCSeq: {sequence}\r\n{fields}{length}\r\n{body}");
    socket.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("an answer");
        answer.push(byte[0]);
        if answer[..] == *b"$" {
            // Receiver reports stand ahead of it.
            let mut framing = [0; 3];
            socket.read_exact(&mut framing).expect("a packet");
            let mut packet = vec![0; usize::from(u16::from_be_bytes([framing[1], framing[2]]))];
            socket.read_exact(&mut packet).expect("a packet");
            answer.clear();
        }
    }
    let answer = String::from_utf8(answer).expect("text");
    assert!(answer.starts_with("RTSP/1.0 200 "), "{method}: {answer}");
    answer
}

fn rtsp(server: &Server, stream: &str, film: &Film) {
    let url = server.rtsp_url(&format!("/{stream}"));
    let mut socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    socket.set_nodelay(true).expect("an option");
    let mut packets = Packets::new(film);
    let text = packets.outgoing.description("film").expect("a description");
    let mut sequence = 0;
    let mut ask = |socket: &mut TcpStream, method: &str, url: &str, fields: &str, body: &str| {
        ask(socket, &mut sequence, method, url, fields, body)
    };
    ask(&mut socket, "ANNOUNCE", &url, "Content-Type: application/sdp\r\n", &text);
    let mut session = String::new();
    let controls =
        text.lines().filter_map(|line| line.strip_prefix("a=control:")).filter(|control| *control != "*");
    for (control, track) in controls.zip(packets.outgoing.tracks().collect::<Vec<_>>()) {
        let channels = format!("{}-{}", 2 * track, 2 * track + 1);
        let fields =
            format!("Transport: RTP/AVP/TCP;unicast;interleaved={channels};mode=record\r\n{session}");
        let answer = ask(&mut socket, "SETUP", &format!("{url}/{control}"), &fields, "");
        let named = answer.lines().find_map(|line| line.strip_prefix("Session: ")).expect("a session");
        session = format!("Session: {}\r\n", named.split(';').next().expect("a name"));
    }
    ask(&mut socket, "RECORD", &url, &session, "");
    in_time(
        film,
        || {},
        |frame| {
            packets.make(frame);
            socket.write_all(&packets.bytes).expect("the server reads");
        },
    );
    thread::sleep(Duration::from_millis(300));
    ask(&mut socket, "TEARDOWN", &url, &session, "");
}

fn whip(server: &Server, stream: &str, film: &Film) {
    let options = Options { video: Some(PayloadCodec::H264), ..Options::default() };
    let mut client = Client::open(server, &format!("/whip/{stream}"), Direction::Send, &options);
    client.connect();
    let mut packets = Packets::new(film);
    let client = std::cell::RefCell::new(client);
    in_time(
        film,
        || client.borrow_mut().turn(),
        |frame| {
            packets.make(frame);
            let mut client = client.borrow_mut();
            interleaved(&packets.bytes, |channel, packet| {
                let is_video = channel / 2 == 0;
                let ssrc = if is_video { VIDEO_SSRC } else { AUDIO_SSRC };
                if channel % 2 == 0 {
                    let packet = rtp::Packet::parse(packet).expect("RTP");
                    let mut fields = packet.fields();
                    fields.ssrc = ssrc;
                    fields.payload_type = if is_video { VP8 } else { OPUS };
                    client.send_rtp(fields, packet.payload());
                } else {
                    // The SSRC of a report, and of the description behind it, stands behind each header.
                    let mut report = packet.to_vec();
                    let length = 4 * (usize::from(u16::from_be_bytes([report[2], report[3]])) + 1);
                    report[4..8].copy_from_slice(&ssrc.to_be_bytes());
                    report[length + 4..length + 8].copy_from_slice(&ssrc.to_be_bytes());
                    client.send_rtcp(&report);
                }
            });
        },
    );
    assert!(client.borrow().failed.is_none());
    assert_eq!(client.borrow().delete(), 200);
}
