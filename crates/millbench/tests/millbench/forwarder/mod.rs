//! A WHIP and WHEP server of the simplest kind, which can be made to do one thing wrong.
//!
//! One publisher's packets go to every viewer as they are. One thread owns the UDP socket and all
//! peers; a thread for each HTTP connection hands offers to it. It is what `millbench rtc` is
//! compared with, and shares only `rtc` with it.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rtc::demux::{self, Kind};
use rtc::dtls::{self, Certificate, DtlsRole};
use rtc::sdp::{self, LocalDescription, Policy, TrackDescription};
use rtc::{Candidate, Event, IceCredentials, Path, Peer, PeerConfig, Side, Timeouts, Transport};
use rtp::rtcp::Pli;
use srtp::{Config, InboundContext, OutboundContext};

/// What the server does wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// A packet is not forwarded, and never retransmitted.
    Drop,
    /// A packet is not forwarded, and the following ones are renumbered to hide it.
    Hide,
    /// A bit of a packet is changed.
    Corrupt,
    /// After some packets nothing is forwarded any more.
    Stop,
    /// Offers are answered 503, with the reason as JSON.
    Refuse,
}

/// The running server; its threads end with the test's process.
pub(crate) struct Forwarder {
    /// Where it listens for HTTP.
    pub(crate) http: SocketAddr,
}

struct Posted {
    publishes: bool,
    sdp: String,
    reply: Sender<String>,
}

struct Session {
    peer: Peer,
    publishes: bool,
    keys: Option<(InboundContext, OutboundContext)>,
    sent: u64,
}

struct Server {
    fault: Fault,
    socket: UdpSocket,
    address: SocketAddr,
    certificate: Arc<Certificate>,
    sessions: Vec<Session>,
    by_ufrag: HashMap<String, usize>,
    by_address: HashMap<SocketAddr, usize>,
    published: Vec<TrackDescription>,
}

impl Forwarder {
    pub(crate) fn start(fault: Fault) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let http = listener.local_addr().expect("it is bound");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_read_timeout(Some(Duration::from_millis(2))).expect("a timeout");
        let (posts, posted) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let posts = posts.clone();
                thread::spawn(move || serve(stream, &posts, fault == Fault::Refuse));
            }
        });
        let mut server = Server {
            fault,
            address: socket.local_addr().expect("it is bound"),
            socket,
            certificate: Arc::new(Certificate::generate().expect("random numbers")),
            sessions: Vec::new(),
            by_ufrag: HashMap::new(),
            by_address: HashMap::new(),
            published: Vec::new(),
        };
        thread::spawn(move || server.run(&posted));
        Forwarder { http }
    }
}

#[expect(clippy::disallowed_methods, reason = "a server on real sockets")]
fn now() -> Instant {
    Instant::now()
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, posts: &Sender<Posted>, refuse: bool) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        if body.len() < length.parse::<usize>().expect("a number") {
            continue;
        }
        bytes.clear();
        let (reply, answer) = mpsc::channel();
        let answer = match head.split(' ').next() {
            _ if refuse => {
                let body = r#"{"error":{"code":"full","message":"the server is full"}}"#;
                format!("HTTP/1.1 503 Busy\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            }
            Some("POST") => {
                let posted = Posted { publishes: head.contains("/whip/"), sdp: body.to_owned(), reply };
                posts.send(posted).expect("the server runs");
                let sdp = answer.recv().expect("it answers");
                let head = "HTTP/1.1 201 Created\r\nLocation: /session\r\nContent-Type: application/sdp";
                format!("{head}\r\nContent-Length: {}\r\n\r\n{sdp}", sdp.len())
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(),
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
}

impl Server {
    fn run(&mut self, posted: &Receiver<Posted>) {
        let mut buffer = [0; 2048];
        loop {
            while let Ok(post) = posted.try_recv() {
                let answer = self.answer(&post);
                let _ = post.reply.send(answer);
            }
            if let Ok((length, source)) = self.socket.recv_from(&mut buffer) {
                self.take(source, &mut buffer[..length]);
            }
            for index in 0..self.sessions.len() {
                self.sessions[index].peer.handle_timeout(now());
                self.pump(index);
            }
        }
    }

    fn answer(&mut self, post: &Posted) -> String {
        let index = self.sessions.len();
        let ice = IceCredentials::new(&format!("ufrag{index:04}"), &format!("{index:032}")).expect("valid");
        let local = LocalDescription {
            ice: ice.clone(),
            fingerprint: self.certificate.fingerprint(),
            candidates: vec![Candidate::host(self.address, Transport::Udp, 1)],
            ice_lite: true,
            session_id: index as u64,
            first_ssrc: 1000,
            stream_id: "test".to_owned(),
        };
        let offer = sdp::parse_offer(&post.sdp).expect("millbench offers well");
        let answer = match post.publishes {
            true => sdp::answer_publish(&offer, &local, &Policy::publish()),
            false => sdp::answer_play(&offer, &local, &Policy::play(), &self.published),
        };
        let answer = answer.expect("something in common");
        if post.publishes {
            self.published.clone_from(&answer.tracks);
        }
        let config = PeerConfig {
            side: Side::Lite,
            local_ice: ice.clone(),
            remote_ice: answer.remote.ice.clone(),
            local_addresses: Vec::new(),
            remote_candidates: Vec::new(),
            dtls: dtls::Config::new(Arc::clone(&self.certificate), answer.remote.fingerprints.clone()),
            dtls_role: DtlsRole::Server,
            timeouts: Timeouts::default(),
        };
        let peer = Peer::new(config, now()).expect("a peer");
        self.sessions.push(Session { peer, publishes: post.publishes, keys: None, sent: 0 });
        self.by_ufrag.insert(ice.ufrag, index);
        answer.sdp
    }

    fn take(&mut self, source: SocketAddr, datagram: &mut [u8]) {
        let kind = demux::classify(datagram);
        if kind == Kind::Stun
            && let Some(&index) = demux::stun_local_ufrag(datagram).and_then(|ufrag| self.by_ufrag.get(ufrag))
        {
            self.by_address.insert(source, index);
        }
        let Some(&index) = self.by_address.get(&source) else { return };
        if matches!(kind, Kind::Stun | Kind::Dtls) {
            let path = Path::udp(self.address, source);
            let _ = self.sessions[index].peer.handle_signal(now(), path, datagram);
            return self.pump(index);
        }
        let session = &mut self.sessions[index];
        let (true, Kind::Rtp, Some((inbound, _))) = (session.publishes, kind, &mut session.keys) else {
            return;
        };
        let Ok(length) = inbound.unprotect_rtp(datagram) else { return };
        self.forward(&datagram[..length]);
    }

    fn pump(&mut self, index: usize) {
        let session = &mut self.sessions[index];
        while let Some(transmit) = session.peer.poll_transmit() {
            let _ = self.socket.send_to(&transmit.bytes, transmit.path.remote);
        }
        while let Some(event) = session.peer.poll_event() {
            let Event::Connected(keys) = event else { continue };
            let inbound = InboundContext::new(&Config::default(), std::slice::from_ref(&keys.inbound));
            let outbound = OutboundContext::new(&Config::default(), std::slice::from_ref(&keys.outbound));
            session.keys = Some((inbound.expect("keys"), outbound.expect("keys")));
        }
        if !self.sessions[index].publishes
            && self.sessions[index].keys.is_some()
            && self.sessions[index].sent == 0
        {
            self.ask_for_key_frame();
        }
    }

    fn ask_for_key_frame(&mut self) {
        let (Some(ssrc), mut plain) =
            (self.published.iter().find_map(|track| track.sources.last()), Vec::new())
        else {
            return;
        };
        Pli { sender_ssrc: 1, media_ssrc: ssrc.ssrc }.write(&mut plain);
        for session in self.sessions.iter_mut().filter(|session| session.publishes) {
            let (Some((_, outbound)), Some(path)) = (&mut session.keys, session.peer.path()) else {
                continue;
            };
            let mut out = [0; 200];
            let length = outbound.protect_rtcp_from(&plain, &mut out).expect("room");
            let _ = self.socket.send_to(&out[..length], path.remote);
        }
    }

    fn forward(&mut self, packet: &[u8]) {
        let (fault, socket) = (self.fault, &self.socket);
        for session in self.sessions.iter_mut().filter(|session| !session.publishes) {
            let (Some((_, outbound)), Some(path)) = (&mut session.keys, session.peer.path()) else {
                continue;
            };
            if fault == Fault::Stop && session.sent == STOP_AT {
                continue;
            }
            session.sent += 1;
            let is_video = packet[1] & 0x7f == 102;
            let spoil = session.sent == FAULT_AT;
            if spoil && matches!(fault, Fault::Drop | Fault::Hide) {
                session.sent -= u64::from(!is_video);
                if is_video {
                    continue;
                }
            }
            let mut out = [0; 2048];
            out[..packet.len()].copy_from_slice(packet);
            if fault == Fault::Hide && is_video && session.sent > FAULT_AT {
                let sequence = u16::from_be_bytes([out[2], out[3]]).wrapping_sub(1);
                out[2..4].copy_from_slice(&sequence.to_be_bytes());
            }
            let length = outbound.protect_rtp(&mut out, packet.len()).expect("room and an index of its own");
            if fault == Fault::Corrupt && spoil {
                out[length - 1] ^= 1;
            }
            let _ = socket.send_to(&out[..length], path.remote);
        }
    }
}

/// Late enough that the first key frame has arrived.
const FAULT_AT: u64 = 60;
/// Where [`Fault::Stop`] stops: after more than the 242 packets between two key frames, so that a
/// viewer that joins at any time has one.
const STOP_AT: u64 = 300;
