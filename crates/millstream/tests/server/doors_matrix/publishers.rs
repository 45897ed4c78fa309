//! Publishers of a film, in real time, each by its protocol's own machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use media::{Codec, Frame, FrameRole};
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
use super::pcr;
use crate::common::origin::LOCAL;
use crate::common::rtc::{AUDIO_SSRC, Client, OPUS, Options, VIDEO_SSRC, VP8};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::udp_relay::UdpRelay;
use crate::common::{TIMEOUT, eventually, port_for_later, wait_for_udp_listener};

/// A door in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Publisher {
    Rtmp,
    Srt,
    /// Through a network that loses 10 % of the packets and has a round trip of 50 ms, with a latency of
    /// 400 ms.
    SrtLossy,
    /// With wrong PCRs.
    SrtWrongPcr,
    Rtsp,
    /// By UDP, beside others who forge its packets.
    RtspUdpForged,
    TsUdp,
    TsUdpWrongPcr,
    Whip,
}

impl Publisher {
    /// Whether it sends RTP, which has no decoding times.
    pub(crate) fn is_rtp(self) -> bool {
        matches!(self, Self::Rtsp | Self::RtspUdpForged | Self::Whip)
    }

    /// A server for it, and the port that it pulls from, if it does.
    pub(crate) fn server(self) -> (Server, Option<u16>) {
        let hls = format!("{LOCAL}[hls]\nwindow_segments = 100\nmode = \"always\"\n");
        if !matches!(self, Self::TsUdp | Self::TsUdpWrongPcr) {
            return (Server::start(&hls), None);
        }
        let port = port_for_later();
        let pull = format!("[[pull]]\nstream = \"live/film\"\nurl = \"udp://127.0.0.1:{port}\"\n");
        (Server::start(&format!("{hls}{pull}")), Some(port))
    }

    /// Sends all of it, and leaves.
    pub(crate) fn publish(self, server: &Server, stream: &str, film: &Film, port: Option<u16>) {
        match self {
            Self::Rtmp => rtmp(server, stream, film),
            Self::Srt => srt(server.srt.expect("SRT is on"), 120, stream, film, Ts::default()),
            Self::SrtWrongPcr => srt(server.srt.expect("SRT is on"), 120, stream, film, Ts::with_wrong_pcr()),
            Self::SrtLossy => {
                let relay = lossy_network(server, 1);
                srt(relay.address, LOSSY_LATENCY_MS, stream, film, Ts::default());
                assert_lossy(&relay);
            }
            Self::Rtsp => rtsp(server, stream, film),
            Self::RtspUdpForged => rtsp_udp_forged(server, stream, film),
            Self::TsUdp => ts_udp(film, port.expect("it is pulled"), Ts::default()),
            Self::TsUdpWrongPcr => ts_udp(film, port.expect("it is pulled"), Ts::with_wrong_pcr()),
            Self::Whip => whip(server, stream, film),
        }
    }
}

/// Calls `send` with each frame when it is due, and `wait` in between.
pub(crate) fn in_time(film: &Film, mut wait: impl FnMut(), mut send: impl FnMut(&Frame)) {
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
            let body = match frame.codec {
                // 44 kHz, which readers of MP3 do not rely on, 16 bits, two channels.
                Codec::Mp3 => [&[0x2f], frame.data()].concat(),
                // Enhanced RTMP v2: coded frames.
                Codec::Ac3 => [&b"\x91ac-3"[..], frame.data()].concat(),
                _ => TagBody::of(frame).expect("FLV has a place for it").parts().concat(),
            };
            client.send(frame.track.kind, frame.dts.millis() as u32, &body);
        },
    );
    client.end();
}

/// Between a client by SRT and the server.
pub(crate) fn lossy_network(server: &Server, seed: u64) -> UdpRelay {
    let address = server.srt.expect("SRT is on");
    UdpRelay::start(address, Duration::from_millis(25), UdpRelay::losing_percent(10, seed))
}

/// Fails unless it has lost about as much as it should.
pub(crate) fn assert_lossy(relay: &UdpRelay) {
    let (passed, lost) = relay.counts();
    println!("network: {passed} datagrams passed, {lost} were lost");
    assert!(lost > 100 && (5..20).contains(&(100 * lost / (passed + lost))), "{passed} {lost}");
}

/// Through that network: what is lost is sent again several times, also by a machine that has more to do.
pub(crate) const LOSSY_LATENCY_MS: u32 = 1_200;

/// A program written frame by frame.
#[derive(Default)]
struct Ts {
    muxer: Muxer,
    bytes: Vec<u8>,
    has_wrong_pcr: bool,
}

impl Ts {
    fn with_wrong_pcr() -> Self {
        Self { has_wrong_pcr: true, ..Self::default() }
    }

    /// Payloads of the datagrams of a frame.
    fn write(&mut self, frame: &Frame, mut send: impl FnMut(&[u8])) {
        self.bytes.clear();
        self.muxer.write(&mut self.bytes, frame, frame.dts, frame.is_key()).expect("it is carried");
        if self.has_wrong_pcr {
            pcr::break_pcrs(frame.dts.millis(), &mut self.bytes);
        }
        self.bytes.chunks(7 * mpegts::PACKET_BYTES).for_each(&mut send);
    }
}

fn srt(address: SocketAddr, latency_ms: u32, stream: &str, film: &Film, mut ts: Ts) {
    let url: SrtUrl =
        format!("srt://{address}?streamid=publish:{stream}&latency={latency_ms}").parse().expect("a URL");
    let mut link = SrtLink::open(&url, address, Instant::now()).expect("a socket");
    let mut counters = Counters::default();
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
    let until = Instant::now() + Duration::from_millis(u64::from(latency_ms) + 80);
    while Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
        turn(&mut link);
    }
    link.close(Instant::now(), &mut Counters::default());
}

fn ts_udp(film: &Film, port: u16, mut ts: Ts) {
    wait_for_udp_listener(port);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(("127.0.0.1", port)).expect("a peer");
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
pub(crate) struct Packets {
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
        // G.711 has no configuration, and is described all the same.
        let is_g711 = |frame: &&Frame| matches!(frame.codec, Codec::Pcma | Codec::Pcmu);
        if let Some(Frame { track, codec, dts, pts, .. }) = film.frames.iter().find(is_g711) {
            packets.make(&Frame::new(*track, FrameRole::Config, *codec, (*dts, *pts), Vec::new()));
        }
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
) -> Result<String, u16> {
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
    let code: u16 = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
    if code == 200 { Ok(answer) } else { Err(code) }
}

/// A publisher by RTSP that records.
pub(crate) struct RtspPublisher {
    socket: TcpStream,
    packets: Packets,
    url: String,
    session: String,
    sequence: u32,
    /// By UDP: of each track, our ports of RTP and RTCP, connected to the server's.
    udp: Vec<[UdpSocket; 2]>,
}

impl RtspPublisher {
    /// Records what `film` begins with, described as `change` leaves it. The code of the answer that
    /// refuses it, if one does.
    pub(crate) fn open(
        server: &Server,
        stream: &str,
        film: &Film,
        by_udp: bool,
        change: impl Fn(String) -> String,
    ) -> Result<Self, u16> {
        let socket = TcpStream::connect(server.rtsp.expect("RTSP is on")).expect("a connection");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        socket.set_nodelay(true).expect("an option");
        let mut packets = Packets::new(film);
        let text = packets.outgoing.description("film").expect("a description");
        let controls: Vec<String> = text
            .lines()
            .filter_map(|line| line.strip_prefix("a=control:"))
            .filter(|control| *control != "*")
            .map(str::to_owned)
            .collect();
        let url = server.rtsp_url(&format!("/{stream}"));
        let tracks: Vec<usize> = packets.outgoing.tracks().collect();
        let (session, udp) = (String::new(), Vec::new());
        let mut publisher = Self { socket, packets, url: url.clone(), session, sequence: 0, udp };
        publisher.ask("ANNOUNCE", &url, "Content-Type: application/sdp\r\n", &change(text))?;
        for (control, track) in controls.iter().zip(tracks) {
            let ports = by_udp.then(|| [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")));
            let transport = match &ports {
                Some(ports) => {
                    let [rtp, rtcp] = ports.each_ref().map(|port| port.local_addr().expect("bound").port());
                    format!("RTP/AVP;unicast;client_port={rtp}-{rtcp}")
                }
                None => format!("RTP/AVP/TCP;unicast;interleaved={}-{}", 2 * track, 2 * track + 1),
            };
            let fields = format!("Transport: {transport};mode=record\r\n");
            let answer = publisher.ask("SETUP", &format!("{url}/{control}"), &fields, "")?;
            let named = answer.lines().find_map(|line| line.strip_prefix("Session: ")).expect("a session");
            publisher.session = format!("Session: {}\r\n", named.split(';').next().expect("a name"));
            if let Some(ports) = ports {
                let theirs = answer.split("server_port=").nth(1).expect("ports");
                let first = theirs.split(['-', ';', '\r']).next().and_then(|port| port.parse().ok());
                let first: u16 = first.expect("a port");
                for (port, to) in ports.iter().zip([first, first + 1]) {
                    port.connect(("127.0.0.1", to)).expect("a peer");
                }
                publisher.udp.push(ports);
            }
        }
        publisher.ask("RECORD", &url, "", "")?;
        Ok(publisher)
    }

    /// Asks, and gives the answer's head, or its code.
    pub(crate) fn ask(&mut self, method: &str, url: &str, fields: &str, body: &str) -> Result<String, u16> {
        let fields = format!("{fields}{}", self.session);
        ask(&mut self.socket, &mut self.sequence, method, url, &fields, body)
    }

    /// Sends a frame as it is due in the film. Of datagrams, `see` gets each before it is sent, with the
    /// socket that it leaves by and whether it is RTCP.
    pub(crate) fn send(&mut self, frame: &Frame, mut see: impl FnMut(&UdpSocket, bool, &[u8])) {
        self.packets.make(frame);
        if self.udp.is_empty() {
            return self.socket.write_all(&self.packets.bytes).expect("the server reads");
        }
        let udp = &self.udp;
        interleaved(&self.packets.bytes, |channel, packet| {
            let socket = &udp[usize::from(channel / 2)][usize::from(channel % 2)];
            see(socket, channel % 2 == 1, packet);
            socket.send(packet).expect("it is sent");
        });
    }

    /// Sends a frame without the packets that `loses` says are lost.
    pub(crate) fn send_losing(&mut self, frame: &Frame, mut loses: impl FnMut(bool, &[u8]) -> bool) {
        self.packets.make(frame);
        let (udp, mut socket) = (&self.udp, &self.socket);
        interleaved(&self.packets.bytes, |channel, packet| {
            if loses(channel % 2 == 1, packet) {
                return;
            }
            // The first track is the one with the lowest channels.
            if let Some(ports) = udp.first() {
                ports[usize::from(channel % 2)].send(packet).expect("it is sent");
            } else {
                let [high, low] = (packet.len() as u16).to_be_bytes();
                socket.write_all(&[&[b'$', channel, high, low], packet].concat()).expect("the server reads");
            }
        });
    }

    /// The next report of the server.
    pub(crate) fn report(&mut self) -> Vec<u8> {
        let mut packet = vec![0; 2048];
        if let Some([_, rtcp]) = self.udp.first() {
            rtcp.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            let length = rtcp.recv(&mut packet).expect("a report");
            packet.truncate(length);
            return packet;
        }
        let mut framing = [0; 4];
        self.socket.read_exact(&mut framing).expect("a report");
        assert_eq!(framing[0], b'$', "a packet, and no answer");
        packet.truncate(usize::from(u16::from_be_bytes([framing[2], framing[3]])));
        self.socket.read_exact(&mut packet).expect("a report");
        packet
    }

    /// Asks, and says whether there was an answer.
    pub(crate) fn try_ask(&mut self, method: &str, url: &str) -> std::io::Result<()> {
        self.sequence += 1;
        let request = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{}\r\n", self.sequence, self.session);
        self.socket.write_all(request.as_bytes())?;
        match self.socket.read(&mut [0; 4096])? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Ends the session.
    pub(crate) fn end(mut self) {
        let url = self.url.clone();
        self.ask("TEARDOWN", &url, "", "").expect("it is ended");
    }
}

fn rtsp(server: &Server, stream: &str, film: &Film) {
    let opened = RtspPublisher::open(server, stream, film, false, |text| text);
    let publisher = std::cell::RefCell::new(opened.expect("it is taken"));
    in_time(film, || {}, |frame| publisher.borrow_mut().send(frame, |_, _, _| {}));
    thread::sleep(Duration::from_millis(300));
    publisher.into_inner().end();
}

/// By UDP, while others send the same packets with other content ahead of it: from another port of its
/// address, and from its port at another address. None of it is taken, and all of it is counted.
fn rtsp_udp_forged(server: &Server, stream: &str, film: &Film) {
    let opened = RtspPublisher::open(server, stream, film, true, |text| text);
    let mut publisher = opened.expect("it is taken");
    let other_port = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let other_addresses: Vec<UdpSocket> = publisher
        .udp
        .iter()
        .flatten()
        .map(|own| {
            let port = own.local_addr().expect("bound").port();
            UdpSocket::bind(("127.0.0.2", port)).expect("the same port elsewhere")
        })
        .collect();
    let mut forged = 0;
    in_time(
        film,
        || {},
        |frame| {
            publisher.send(frame, |own, is_rtcp, packet| {
                let to = own.peer_addr().expect("connected");
                let port = own.local_addr().expect("bound").port();
                let has_port = |socket: &&UdpSocket| socket.local_addr().expect("bound").port() == port;
                let mut packet = packet.to_vec();
                if is_rtcp {
                    // A goodbye of its source (RFC 3550 section 6.6).
                    packet = [&[0x81, 203, 0, 1], &packet[4..8]].concat();
                } else {
                    packet[12..].iter_mut().for_each(|byte| *byte ^= 0x55);
                }
                for socket in other_addresses.iter().filter(has_port).chain([&other_port]) {
                    socket.send_to(&packet, to).expect("it is sent");
                    forged += 1;
                }
            });
        },
    );
    eventually("what was forged is counted", || {
        let counted = server.counter("millstream_rtsp_unknown_packets");
        // A socket that has no room loses some.
        (counted >= forged - forged / 10).then(|| println!("{counted} of {forged} forged packets counted"))
    });
    publisher.end();
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
