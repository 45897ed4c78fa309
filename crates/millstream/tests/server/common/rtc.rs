//! A WebRTC client that can be scripted: `rtc::Peer` on a UDP socket, WHIP and WHEP by plain HTTP, SRTP in the open.
//!
//! It does what a browser does to connect and nothing on its own afterwards: what is sent, and to whom, is the test's
//! affair. Real time and blocking sockets; [`Client::turn`] never waits, [`Client::until`] waits for an event.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rtc::demux::{Kind, classify};
use rtc::dtls::{Certificate, Config, DtlsRole, Fingerprint};
use rtc::sdp::{
    Candidate, Direction, Feedback, Format, IceCredentials, OfferConfig, OfferMedia, RemoteAnswer, Setup,
    Source, Transport, make_offer, read_answer,
};
use rtc::{Event, FailReason, LocalAddress, Path, Peer, PeerConfig, Side, Timeouts};
use rtp::HeaderFields;
use rtp::extension::Extension;
use rtp::payload::{Codec, MediaKind};
use srtp::{InboundContext, OutboundContext};

use super::http::{self, Response};
use super::server::Server;
use super::{PATIENCE, eventually};

/// Payload types and SSRCs of every publisher here.
pub(crate) const OPUS: u8 = 111;
pub(crate) const VP8: u8 = 96;
pub(crate) const VP8_RTX: u8 = 97;
pub(crate) const AUDIO_SSRC: u32 = 0x0a00_0001;
pub(crate) const VIDEO_SSRC: u32 = 0x0a00_0002;
pub(crate) const VIDEO_RTX_SSRC: u32 = 0x0a00_0003;

/// Any profile that browsers decode, in packets of RFC 6184's mode 1.
const H264_FMTP: &str = "level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=64001f";

/// Room for a packet and what SRTP appends.
const DATAGRAM_MAX: usize = 2048;

/// What a client is told to do besides the usual.
#[derive(Clone, Default)]
pub(crate) struct Options {
    /// Signal this fingerprint in place of one's own.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Headers of the POST, as `("authorization", "Bearer x")`.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Offer this in place of VP8, under the same payload types.
    pub(crate) video: Option<Codec>,
    /// Offer this in place of Opus, under the same payload type.
    pub(crate) sound: Option<Codec>,
    /// Offer no video.
    pub(crate) sound_only: bool,
}

/// A WHIP or WHEP client with its session.
pub(crate) struct Client {
    pub(crate) peer: Peer,
    pub(crate) socket: UdpSocket,
    local: SocketAddr,
    pub(crate) offer: OfferConfig,
    pub(crate) answer: RemoteAnswer,
    http: SocketAddr,
    /// Path of the session's URL.
    pub(crate) session: String,
    inbound: Option<InboundContext>,
    outbound: Option<OutboundContext>,
    /// Decrypted RTP as it came.
    pub(crate) media: VecDeque<Vec<u8>>,
    /// Decrypted RTCP as it came.
    pub(crate) reports: VecDeque<Vec<u8>>,
    /// Datagrams of any kind that came.
    pub(crate) received: u64,
    /// Those that were RTP or RTCP and did not decrypt.
    pub(crate) bad: u64,
    /// How the connection ended.
    pub(crate) failed: Option<FailReason>,
    pub(crate) closed: bool,
}

impl Client {
    /// Publishes `stream` (`app/name`) and waits until it is connected.
    pub(crate) fn publish(server: &Server, stream: &str) -> Self {
        let mut client = Self::open(server, &format!("/whip/{stream}"), Direction::Send, &Options::default());
        client.connect();
        client
    }

    /// Plays `stream` and waits until it is connected.
    pub(crate) fn play(server: &Server, stream: &str) -> Self {
        let mut client =
            Self::open(server, &format!("/whep/{stream}"), Direction::Receive, &Options::default());
        client.connect();
        client
    }

    /// As [`Client::play`], with H.264, and again as long as the stream is not ready.
    pub(crate) fn play_h264(server: &Server, stream: &str) -> Self {
        Self::play_when_ready(server, stream, &Options { video: Some(Codec::H264), ..Options::default() })
    }

    /// As [`Client::play`], and again as long as the stream is not ready: what it has is known some time after its
    /// publisher.
    pub(crate) fn play_when_ready(server: &Server, stream: &str, options: &Options) -> Self {
        let path = format!("/whep/{stream}");
        let mut client = eventually(&format!("{stream} can be played"), || {
            match Self::try_open(server, &path, Direction::Receive, options) {
                Ok(client) => Some(client),
                Err(response) if response.status == 409 => None,
                Err(response) => panic!("POST {path}: {} {}", response.status, response.text()),
            }
        });
        client.connect();
        client
    }

    /// Signals, without sending a datagram yet.
    pub(crate) fn open(server: &Server, path: &str, direction: Direction, options: &Options) -> Self {
        Self::try_open(server, path, direction, options)
            .unwrap_or_else(|response| panic!("POST {path}: {} {}", response.status, response.text()))
    }

    /// As [`Client::open`]; the response when it is not 201.
    pub(crate) fn try_open(
        server: &Server,
        path: &str,
        direction: Direction,
        options: &Options,
    ) -> Result<Self, Response> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a UDP socket");
        let local = socket.local_addr().expect("its address");
        let certificate = certificate();
        let fingerprint = options.fingerprint.unwrap_or_else(|| certificate.fingerprint());
        let mut offer = offer(direction, local, fingerprint);
        for (media, codec) in offer.media.iter_mut().zip([options.sound, options.video]) {
            if let Some(codec) = codec {
                instead(&mut media.formats[0], codec);
            }
        }
        offer.media.truncate(if options.sound_only { 1 } else { 2 });
        let headers: Vec<(&str, &str)> =
            options.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = post(server.http, path, &make_offer(&offer), &headers).expect("a response");
        if response.status != 201 {
            return Err(response);
        }
        let answer = read_answer(&response.text(), &offer).expect("an answer that can be read");
        let location = response.header("location").expect("the session's URL").to_owned();
        let config = PeerConfig {
            side: Side::Full,
            local_ice: offer.ice.clone(),
            remote_ice: answer.remote.ice.clone(),
            local_addresses: vec![LocalAddress { transport: Transport::Udp, address: local }],
            remote_candidates: answer.remote.candidates.clone(),
            dtls: Config::new(certificate, answer.remote.fingerprints.clone()),
            dtls_role: if answer.remote.setup == Setup::Passive {
                DtlsRole::Client
            } else {
                DtlsRole::Server
            },
            timeouts: Timeouts::default(),
        };
        Ok(Self {
            peer: Peer::new(config, Instant::now()).expect("a peer"),
            socket,
            local,
            offer,
            answer,
            http: server.http,
            session: path_of(&location),
            inbound: None,
            outbound: None,
            media: VecDeque::new(),
            reports: VecDeque::new(),
            received: 0,
            bad: 0,
            failed: None,
            closed: false,
        })
    }

    /// Runs until media can flow.
    pub(crate) fn connect(&mut self) {
        self.until("connected", |client| client.is_connected());
    }

    /// Whether there are keys and a path.
    pub(crate) fn is_connected(&self) -> bool {
        self.outbound.is_some() && self.peer.path().is_some()
    }

    /// Runs until `check` holds; panics with `what` after [`PATIENCE`].
    pub(crate) fn until(&mut self, what: &str, check: impl FnMut(&mut Self) -> bool) {
        assert!(
            self.until_within(PATIENCE, check),
            "not within {PATIENCE:?}: {what} (failed: {:?})",
            self.failed
        );
    }

    /// Runs until `check` holds or `limit` is over; whether it did.
    pub(crate) fn until_within(&mut self, limit: Duration, mut check: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            self.turn();
            if check(self) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            self.wait(deadline);
        }
    }

    /// Waits for a datagram, the peer's next timer or `deadline`, at most 20 ms.
    fn wait(&mut self, deadline: Instant) {
        let next = self.peer.next_timeout().map_or(deadline, |timeout| timeout.min(deadline));
        let wait = next.saturating_duration_since(Instant::now()).min(Duration::from_millis(20));
        self.socket.set_nonblocking(false).expect("a socket option");
        self.socket.set_read_timeout(Some(wait.max(Duration::from_millis(1)))).expect("a socket option");
        let mut datagram = [0; DATAGRAM_MAX];
        if let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.take(from, &mut datagram[..len]);
        }
    }

    /// Takes what has come and runs what is due, without waiting.
    pub(crate) fn turn(&mut self) {
        self.socket.set_nonblocking(true).expect("a socket option");
        let mut datagram = [0; DATAGRAM_MAX];
        while let Ok((len, from)) = self.socket.recv_from(&mut datagram) {
            self.take(from, &mut datagram[..len]);
        }
        let now = Instant::now();
        if self.peer.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.peer.handle_timeout(now);
        }
        self.pump();
    }

    fn take(&mut self, from: SocketAddr, datagram: &mut [u8]) {
        self.received += 1;
        match classify(datagram) {
            Kind::Stun | Kind::Dtls => {
                let path = Path::udp(self.local, from);
                let _ = self.peer.handle_signal(Instant::now(), path, datagram);
            }
            Kind::Rtp => {
                let len = self.inbound.as_mut().and_then(|inbound| inbound.unprotect_rtp(datagram).ok());
                self.bad += u64::from(len.is_none());
                self.media.extend(len.map(|len| datagram[..len].to_vec()));
            }
            Kind::Rtcp => {
                let len = self.inbound.as_mut().and_then(|inbound| inbound.unprotect_rtcp(datagram).ok());
                self.bad += u64::from(len.is_none());
                self.reports.extend(len.map(|len| datagram[..len].to_vec()));
            }
            Kind::Other => self.bad += 1,
        }
        self.pump();
    }

    fn pump(&mut self) {
        while let Some(transmit) = self.peer.poll_transmit() {
            self.send_raw(transmit.path.remote, &transmit.bytes);
        }
        while let Some(event) = self.peer.poll_event() {
            match event {
                Event::Connected(keys) => {
                    let config = srtp::Config::default();
                    self.inbound = Some(InboundContext::new(&config, &[keys.inbound]).expect("keys"));
                    self.outbound = Some(OutboundContext::new(&config, &[keys.outbound]).expect("keys"));
                }
                Event::Failed(reason) => self.failed = Some(reason),
                Event::Closed(_) => self.closed = true,
                Event::PathSelected(_) | Event::ConsentLost => {}
            }
        }
    }

    /// Where media goes.
    pub(crate) fn remote(&self) -> SocketAddr {
        self.peer.path().expect("a selected path").remote
    }

    /// Sends bytes as they are. A full socket buffer loses them, as a network would.
    pub(crate) fn send_raw(&self, to: SocketAddr, bytes: &[u8]) {
        match self.socket.send_to(bytes, to) {
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => {}
            Err(error) => panic!("send to {to}: {error}"),
        }
    }

    /// The SRTP packet of this header and payload.
    pub(crate) fn protect(&mut self, fields: HeaderFields, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; DATAGRAM_MAX];
        let header = fields.write(&[], &mut packet);
        packet[header..header + payload.len()].copy_from_slice(payload);
        let outbound = self.outbound.as_mut().expect("connected");
        let len = outbound.protect_rtp(&mut packet, header + payload.len()).expect("room and keys");
        packet.truncate(len);
        packet
    }

    /// Sends one RTP packet.
    pub(crate) fn send_rtp(&mut self, fields: HeaderFields, payload: &[u8]) {
        let packet = self.protect(fields, payload);
        self.send_raw(self.remote(), &packet);
    }

    /// Sends a compound RTCP packet.
    pub(crate) fn send_rtcp(&mut self, compound: &[u8]) {
        let mut packet = compound.to_vec();
        packet.resize(compound.len() + 64, 0);
        let outbound = self.outbound.as_mut().expect("connected");
        let len = outbound.protect_rtcp(&mut packet, compound.len()).expect("room and keys");
        self.send_raw(self.remote(), &packet[..len]);
    }

    /// The SRTP packet `number` of an audio stream of 50 packets a second.
    pub(crate) fn protect_audio(&mut self, number: u32) -> Vec<u8> {
        let fields = HeaderFields {
            marker: number == 0,
            payload_type: OPUS,
            sequence_number: number as u16,
            timestamp: number.wrapping_mul(960),
            ssrc: AUDIO_SSRC,
        };
        // Configuration 31 (CELT, full band, 20 ms), mono, one frame; what follows names the packet.
        let mut payload = [0xf8; 60];
        payload[4..8].copy_from_slice(&number.to_be_bytes());
        self.protect(fields, &payload)
    }

    /// Sends it.
    pub(crate) fn send_audio(&mut self, number: u32) {
        let packet = self.protect_audio(number);
        self.send_raw(self.remote(), &packet);
    }

    /// Numbers of the audio packets that came since the last call, in their order.
    pub(crate) fn take_audio(&mut self) -> Vec<u32> {
        let packets = self.media.drain(..);
        let numbers = packets.filter_map(|packet| {
            let packet = rtp::Packet::parse(&packet).ok().filter(|packet| packet.payload_type() == OPUS)?;
            Some(u32::from_be_bytes(packet.payload().get(4..8)?.try_into().ok()?))
        });
        numbers.collect()
    }

    /// Sends frame `number` of a VP8 stream of 30 frames a second, `len` bytes in one packet.
    pub(crate) fn send_video(&mut self, number: u32, key: bool, len: usize) {
        let fields = HeaderFields {
            marker: true,
            payload_type: VP8,
            sequence_number: number as u16,
            timestamp: number.wrapping_mul(3000),
            ssrc: VIDEO_SSRC,
        };
        self.send_rtp(fields, &vp8_frame(number, key, len));
    }

    /// SSRC of the server's media of a kind towards this viewer, and of its retransmissions.
    pub(crate) fn source(&self, kind: MediaKind) -> Source {
        let tracks = self.answer.tracks.iter().flatten();
        tracks
            .filter(|track| track.kind == kind)
            .map(|track| track.sources[0])
            .next()
            .expect("a track of the kind")
    }

    /// DELETE of the session.
    pub(crate) fn delete(&self) -> u16 {
        http::request(self.http, "DELETE", &self.session, &[]).expect("a response").status
    }

    /// PATCH of the session with a fragment.
    pub(crate) fn patch(&self, body: &str, headers: &[(&str, &str)]) -> Response {
        let mut all = vec![("Content-Type", "application/trickle-ice-sdpfrag")];
        all.extend(headers);
        send_body(self.http, "PATCH", &self.session, body, &all).expect("a response")
    }
}

/// Sends audio packets of these numbers, one at a time, and waits until the viewer has each.
pub(crate) fn exchange(publisher: &mut Client, viewer: &mut Client, numbers: std::ops::Range<u32>) {
    for number in numbers {
        publisher.turn();
        publisher.send_audio(number);
        viewer.until("an audio packet", |viewer| !viewer.media.is_empty());
        assert_eq!(viewer.take_audio(), [number]);
    }
}

/// A VP8 frame in one packet (RFC 7741): descriptor, frame tag, and for a key frame start code and size.
pub(crate) fn vp8_frame(number: u32, key: bool, len: usize) -> Vec<u8> {
    let mut payload = vec![0x10];
    if key {
        payload.extend([0x10, 0x02, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x01, 0xf0, 0x00]);
    } else {
        payload.extend([0x11, 0x02, 0x00]);
    }
    payload.extend(number.to_be_bytes());
    payload.resize(len.max(payload.len()), 0x5a);
    payload
}

/// Waits until the server has no viewer left.
pub(crate) fn eventually_no_viewers(server: &Server) {
    eventually("the server has no viewer left", || server.sessions("role=player").is_empty().then_some(()));
}

/// Waits until the server has no WebRTC session left.
pub(crate) fn wait_for_no_sessions(server: &Server) {
    eventually("the server has no session left", || (server.session_count() == 0).then_some(()));
}

/// POST of an offer.
pub(crate) fn post(
    address: SocketAddr,
    path: &str,
    sdp: &str,
    headers: &[(&str, &str)],
) -> io::Result<Response> {
    let mut all = vec![("Content-Type", "application/sdp")];
    all.extend(headers);
    send_body(address, "POST", path, sdp, &all)
}

fn send_body(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
    headers: &[(&str, &str)],
) -> io::Result<Response> {
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    let mut streaming = http::send(address, request.as_bytes())?;
    let mut body = Vec::new();
    io::Read::read_to_end(&mut streaming, &mut body)?;
    Ok(Response { status: streaming.status, headers: streaming.headers, body })
}

/// An offer of audio and video; to send with SSRCs, to receive without.
pub(crate) fn offer(direction: Direction, local: SocketAddr, fingerprint: Fingerprint) -> OfferConfig {
    let feedback = Feedback { nack: true, pli: true, fir: true, transport_cc: false, remb: false };
    let format = |codec: Codec, payload_type, rtx_payload_type, feedback| Format {
        payload_type,
        codec,
        clock_rate: rtp::payload::clock_rate(codec),
        channels: if codec == Codec::Opus { 2 } else { 1 },
        fmtp: String::new(),
        rtx_payload_type,
        feedback,
    };
    let media = |mid: &str, kind, format, source| OfferMedia {
        mid: mid.to_owned(),
        kind,
        direction,
        formats: vec![format],
        extensions: [(1, Extension::Mid)].into_iter().collect(),
        sources: if direction.sends() { vec![source] } else { Vec::new() },
        rids: Vec::new(),
    };
    let audio = Source { ssrc: AUDIO_SSRC, rtx_ssrc: None };
    let video = Source { ssrc: VIDEO_SSRC, rtx_ssrc: Some(VIDEO_RTX_SSRC) };
    OfferConfig {
        ice: credentials(),
        fingerprint,
        setup: Setup::ActPass,
        candidates: vec![Candidate::host(local, Transport::Udp, 65535)],
        trickle: true,
        session_id: random(),
        stream_id: "test".to_owned(),
        media: vec![
            media("0", MediaKind::Audio, format(Codec::Opus, OPUS, None, Feedback::default()), audio),
            media("1", MediaKind::Video, format(Codec::Vp8, VP8, Some(VP8_RTX), feedback), video),
        ],
    }
}

/// Makes a format one of another codec.
fn instead(format: &mut Format, codec: Codec) {
    (format.codec, format.clock_rate) = (codec, rtp::payload::clock_rate(codec));
    format.channels = if codec == Codec::Opus { 2 } else { 1 };
    format.fmtp = if codec == Codec::H264 { H264_FMTP.to_owned() } else { String::new() };
}

/// Credentials nobody else has.
pub(crate) fn credentials() -> IceCredentials {
    let (ufrag, password) =
        (format!("{:08x}", random() as u32), format!("{:016x}{:016x}", random(), random()));
    IceCredentials::new(&ufrag, &password).expect("hexadecimal digits")
}

/// One certificate for all clients of a test: making it is not what is tested.
pub(crate) fn certificate() -> Arc<Certificate> {
    static CERTIFICATE: OnceLock<Arc<Certificate>> = OnceLock::new();
    CERTIFICATE.get_or_init(|| Arc::new(Certificate::generate().expect("random bytes"))).clone()
}

/// Different on every call.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The path of a URL that may be absolute.
fn path_of(location: &str) -> String {
    match location.split_once("://") {
        Some((_, rest)) => rest[rest.find('/').unwrap_or(rest.len())..].to_owned(),
        None => location.to_owned(),
    }
}

/// Lets audio flow from packet `number` on: sends until the viewer, which may not be quite connected on the server's
/// side, gets some. Returns the number of the next packet.
pub(crate) fn start_flow(publisher: &mut Client, viewer: &mut Client, mut number: u32) -> u32 {
    viewer.until("audio begins", |viewer| {
        publisher.turn();
        publisher.send_audio(number);
        number += 1;
        !viewer.media.is_empty()
    });
    viewer.until("the last of it", |viewer| viewer.take_audio().contains(&(number - 1)));
    number
}

/// A counter of `/metrics`, summed over workers. It is as old as the last report of a worker, about a second.
pub(crate) fn counter(server: &Server, name: &str) -> u64 {
    let text = http::get(server.http, "/metrics").expect("GET /metrics").text();
    let name = format!("millstream_rtc_{name}");
    let values = text.lines().filter(|line| {
        line.strip_prefix(&name)
            .is_some_and(|rest| rest.starts_with([' ', '{']) || rest.starts_with("_total"))
    });
    values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
}

/// Whether to run at the sizes of the specification in place of those that fit into every day's test run.
pub(crate) fn full_size() -> bool {
    std::env::var_os("TEST_AT_FULL_SIZE").is_some()
}
