//! Players, each by its protocol's own machine: everything that came, as frames.

use std::io::{Cursor, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, RecvConfig};
use media::{Frame, MediaKind};
use millbench::counters::Counters;
use millbench::doors::rtsp::RtspPlayer;
use millbench::doors::srt::SrtLink;
use millbench::doors::ts::TsInput;
use millbench::srt_url::SrtUrl;
use mp4::{Limits, Mp4};
use rtmp::flv::{FlvReader, read_frames};
use rtp::payload::Codec as PayloadCodec;
use rtsp::{Incoming, IncomingSettings, announced};
use serde_json::json;
use tungstenite::Message;

use super::publishers::{LOSSY_LATENCY_MS, assert_lossy, lossy_network};
use crate::common::origin::post;
use crate::common::rtc::{Client, OPUS, Options, VP8};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::{TIMEOUT, eventually, http, port_for_later, wait_for_udp_listener, websocket};

/// A door out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Player {
    Rtmp,
    HttpFlv,
    WebSocketFlv,
    HttpTs,
    Srt,
    /// Through a network as the publisher's.
    SrtLossy,
    RtspTcp,
    RtspUdp,
    Hls,
    Whep,
    /// By RTMP at another server, which the stream is pushed to.
    Pushed(PushedBy),
}

/// How a stream is pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushedBy {
    Rtmp,
    Srt,
    Rtsp,
    Whip,
    Udp,
}

impl Player {
    /// Whether it plays by RTSP, or what came by it.
    pub(crate) fn is_rtsp(self) -> bool {
        matches!(self, Self::RtspTcp | Self::RtspUdp | Self::Pushed(PushedBy::Rtsp))
    }

    /// Whether it plays what went by WebRTC.
    pub(crate) fn is_webrtc(self) -> bool {
        matches!(self, Self::Whep | Self::Pushed(PushedBy::Whip))
    }

    /// Plays until `over`. Where a stream has to be there first, it is waited for.
    pub(crate) fn play(self, server: &Server, stream: &str, over: &AtomicBool) -> Vec<Frame> {
        let is_over = || over.load(Ordering::Relaxed);
        match self {
            Self::Rtmp => rtmp(server, stream, is_over),
            Self::HttpFlv => flv(&body(server, &format!("/{stream}.flv"), is_over)),
            Self::WebSocketFlv => flv(&messages(server, stream, is_over)),
            Self::HttpTs => ts(&body(server, &format!("/{stream}.ts"), is_over)),
            Self::Srt => srt(server.srt.expect("SRT is on"), 120, stream, is_over),
            Self::SrtLossy => {
                let relay = lossy_network(server, 2);
                let frames = srt(relay.address, LOSSY_LATENCY_MS, stream, is_over);
                assert_lossy(&relay);
                frames
            }
            Self::RtspTcp => rtsp(server, stream, false, is_over),
            Self::RtspUdp => rtsp(server, stream, true, is_over),
            Self::Hls => hls(server, stream, is_over),
            Self::Whep => whep(server, stream, is_over),
            Self::Pushed(by) => pushed(server, stream, by, is_over),
        }
    }
}

fn rtmp(server: &Server, stream: &str, is_over: impl Fn() -> bool) -> Vec<Frame> {
    let mut client = RtmpClient::play(server.rtmp, stream);
    client.socket().set_read_timeout(Some(POLL)).expect("a timeout");
    let mut frames = Vec::new();
    while !is_over() {
        while let Some(message) = client.poll_media() {
            frames.push(read_frames(message).expect("a frame").0);
        }
    }
    frames
}

/// What comes by HTTP/1.0, which has no chunks.
fn body(server: &Server, path: &str, is_over: impl Fn() -> bool) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.http).expect("a connection");
    socket.set_read_timeout(Some(POLL)).expect("a timeout");
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).expect("a request");
    let mut bytes = Vec::new();
    read_until(&mut socket, &mut bytes, is_over);
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    assert!(bytes.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&bytes[..head]));
    bytes.split_off(head + 4)
}

fn read_until(source: &mut impl Read, bytes: &mut Vec<u8>, is_over: impl Fn() -> bool) {
    let mut buffer = vec![0; 64 << 10];
    while !is_over() {
        match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(got) => bytes.extend_from_slice(&buffer[..got]),
            Err(error) if is_for_later(error.kind()) => {}
            Err(error) => panic!("reading: {error}"),
        }
    }
}

fn is_for_later(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn messages(server: &Server, stream: &str, is_over: impl Fn() -> bool) -> Vec<u8> {
    let mut socket = websocket::connect(server, stream);
    socket.get_ref().set_read_timeout(Some(POLL)).expect("a timeout");
    let mut bytes = Vec::new();
    while !is_over() {
        match socket.read() {
            Ok(Message::Binary(payload)) => bytes.extend_from_slice(&payload),
            Ok(Message::Close(_)) => break,
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if is_for_later(error.kind()) => {}
            Err(error) => panic!("reading: {error}"),
        }
    }
    bytes
}

fn flv(bytes: &[u8]) -> Vec<Frame> {
    let mut reader = FlvReader::new(16 << 20);
    reader.push(bytes);
    std::iter::from_fn(|| reader.next_tag().expect("well-formed FLV"))
        .map(|tag| read_frames(tag.into()).expect("a frame").0)
        .collect()
}

fn ts(bytes: &[u8]) -> Vec<Frame> {
    let (mut input, mut frames) = (TsInput::new(), Vec::new());
    input.push(bytes, |frame| frames.push(frame.clone()));
    frames
}

fn srt(address: SocketAddr, latency_ms: u32, stream: &str, is_over: impl Fn() -> bool) -> Vec<Frame> {
    let url = format!("srt://{address}?streamid=read:{stream}&latency={latency_ms}");
    let url: SrtUrl = url.parse().expect("a URL");
    let mut link = SrtLink::open(&url, address, Instant::now()).expect("a socket");
    let (mut counters, mut batch) = (Counters::default(), RecvBatch::new(RecvConfig::default()));
    let (mut input, mut frames) = (TsInput::new(), Vec::new());
    while !is_over() {
        thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        link.receive(now, &mut batch, &mut counters).expect("the listener is there");
        let driven = link.drive(now, &mut counters, |_, payload| {
            input.push(payload, |frame| frames.push(frame.clone()));
        });
        driven.expect("the connection goes on");
    }
    link.close(Instant::now(), &mut counters);
    frames
}

fn rtsp(server: &Server, stream: &str, by_udp: bool, is_over: impl Fn() -> bool) -> Vec<Frame> {
    let (url, address) = (server.rtsp_url(&format!("/{stream}")), server.rtsp.expect("RTSP is on"));
    let (mut counters, mut batch) = (Counters::default(), RecvBatch::new(RecvConfig::default()));
    let (mut buffer, mut frames) = (vec![0; 64 << 10], Vec::new());
    let deadline = Instant::now() + TIMEOUT;
    // Until the stream is there, the answer is 404.
    while frames.is_empty() && !is_over() {
        assert!(Instant::now() < deadline, "RTSP does not play");
        thread::sleep(Duration::from_millis(20));
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_nonblocking(true).expect("an option");
        let mut player = RtspPlayer::new(&url, address, by_udp, Instant::now()).expect("ports");
        let mut goes_on = true;
        while goes_on && !is_over() {
            thread::sleep(Duration::from_millis(1));
            let now = Instant::now();
            goes_on = match socket.read(&mut buffer) {
                Ok(0) => false,
                Ok(got) => player.handle_input(now, &buffer[..got]).is_ok(),
                Err(error) => is_for_later(error.kind()),
            };
            goes_on &= player.receive(now, &mut batch, &mut counters).is_ok();
            player.drive(now, &mut counters, |_, frame| frames.push(frame.clone()));
            socket.write_all(player.output()).expect("the server reads");
            player.output().clear();
        }
    }
    frames
}

/// Has the stream pushed to another server, and plays it there.
fn pushed(server: &Server, stream: &str, by: PushedBy, is_over: impl Fn() -> bool) -> Vec<Frame> {
    let port = port_for_later();
    let pull = format!("[[pull]]\nstream = \"{stream}\"\nurl = \"udp://127.0.0.1:{port}\"\n");
    let target = Server::start(if by == PushedBy::Udp { &pull } else { "" });
    let url = match by {
        PushedBy::Rtmp => target.rtmp_url(stream),
        PushedBy::Srt => format!("srt://{}?streamid=publish:{stream}", target.srt.expect("SRT is on")),
        PushedBy::Rtsp => target.rtsp_url(&format!("/{stream}")),
        PushedBy::Whip => format!("whip://{}/whip/{stream}", target.http),
        PushedBy::Udp => {
            wait_for_udp_listener(port);
            format!("udp://127.0.0.1:{port}")
        }
    };
    let body = json!({ "stream": stream, "url": url });
    let added = post(server, "/api/v1/pushes", &body.to_string());
    assert_eq!(added.status, 201, "{}", added.text());
    let frames = rtmp(&target, stream, is_over);
    if frames.is_empty() {
        println!("nothing was played of what is pushed to {url}:\n{}", target.log());
    }
    frames
}

/// What is sent to a viewer, by the server's own way from packets to frames.
fn whep(server: &Server, stream: &str, is_over: impl Fn() -> bool) -> Vec<Frame> {
    server.wait_for_publisher(stream, true);
    let options = Options { video: Some(PayloadCodec::H264), ..Options::default() };
    let mut client = Client::play_when_ready(server, stream, &options);
    let sdp = format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\nm=video 0 RTP/AVP {VP8}\r\n\
         a=rtpmap:{VP8} H264/90000\r\na=fmtp:{VP8} packetization-mode=1\r\nm=audio 0 RTP/AVP {OPUS}\r\n\
         a=rtpmap:{OPUS} opus/48000/2\r\n"
    );
    let tracks = announced(sdp.as_bytes()).expect("a description");
    let settings = IncomingSettings { delay_max: Duration::from_millis(200) };
    let mut incoming = Incoming::new(&tracks, settings, Instant::now());
    let mut frames = Vec::new();
    let mut sources = [None; 2];
    while !is_over() {
        client.turn();
        thread::sleep(Duration::from_millis(1));
        let now = Instant::now();
        while let Some(packet) = client.media.pop_front() {
            let read = rtp::Packet::parse(&packet).expect("RTP");
            // Retransmissions and padding have types, and no content, of their own.
            let track = match read.payload_type() {
                VP8 if !read.payload().is_empty() => 0,
                OPUS => 1,
                _ => continue,
            };
            sources[track] = Some(read.ssrc());
            incoming.rtp(now, track, &packet).expect("a packet");
        }
        while let Some(report) = client.reports.pop_front() {
            let of = report.get(4..8).map(|ssrc| u32::from_be_bytes([ssrc[0], ssrc[1], ssrc[2], ssrc[3]]));
            if let Some(track) = sources.iter().position(|source| source.is_some() && *source == of) {
                incoming.rtcp(now, track, &report).expect("a report");
            }
        }
        incoming.poll(now);
        frames.extend(std::iter::from_fn(|| incoming.next_frame()).map(std::sync::Arc::unwrap_or_clone));
    }
    frames
}

/// What the playlists list at the end: video, then audio.
fn hls(server: &Server, stream: &str, is_over: impl Fn() -> bool) -> Vec<Frame> {
    server.wait_for_publisher(stream, true);
    let get = |path: &str| http::get(server.http, path).expect("an answer");
    let master = eventually("the stream is cut", || {
        let answer = get(&format!("/{stream}.m3u8"));
        (answer.status == 200).then(|| answer.text())
    });
    while !is_over() {
        thread::sleep(POLL);
    }
    let folder = format!("/{}", stream.rsplit_once('/').expect("an application").0);
    let video = master.lines().find(|line| !line.starts_with('#') && !line.is_empty());
    let audio = master.lines().find(|line| line.starts_with("#EXT-X-MEDIA:TYPE=AUDIO")).and_then(uri);
    let mut frames = Vec::new();
    for playlist in [video, audio].into_iter().flatten() {
        let path = format!("{folder}/{playlist}");
        let text = get(&path).text();
        let map = text.lines().find(|line| line.starts_with("#EXT-X-MAP:")).and_then(uri).expect("a map");
        let segments = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let behind = text.rsplit("#EXTINF").next().unwrap_or_default();
        let parts = behind.lines().filter(|line| line.starts_with("#EXT-X-PART:")).filter_map(uri);
        let folder = path.split('?').next().and_then(|path| path.rsplit_once('/')).expect("a path").0;
        let mut file = Vec::new();
        for uri in [map].into_iter().chain(segments).chain(parts) {
            let answer = get(&format!("{folder}/{uri}"));
            assert_eq!(answer.status, 200, "{uri} of {text}");
            file.extend(answer.body);
        }
        let mut file = Mp4::open(Cursor::new(file), Limits::default()).expect("an MP4 file");
        while let Some(sample) = file.next_sample().expect("a sample") {
            frames.push(sample.frame);
        }
    }
    assert!(frames.iter().any(|frame| frame.track.kind == MediaKind::Video), "{master}");
    frames
}

fn uri(line: &str) -> Option<&str> {
    line.split("URI=\"").nth(1)?.split('"').next()
}

/// Longest that what comes is waited for before it is looked whether it is over.
const POLL: Duration = Duration::from_millis(100);
