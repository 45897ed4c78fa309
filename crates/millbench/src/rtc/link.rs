//! One client's end of a connection: its own socket, the peer, and the SRTP keys.
//!
//! One socket per viewer, as in reality: the server distinguishes viewers by address, so each needs
//! its own port. (On loopback, one socket could serve many local addresses and save a system call
//! per frame.)
//!
//! A receiver of the floor has a socket and keys like any other, but neither ICE nor DTLS: it says
//! hello until media comes.
//!
//! Tests have another client, `rtc-test`, which says why there are two.
//!
//! `viewer.rs` and `publisher.rs` interpret the media. `--loss` and `--delay` are applied here, to
//! every datagram of both directions.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use group_send::{RecvBatch, socket};
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use rtc::demux::{self, Kind};
use rtc::{CloseReason, Event, FailReason, Path, Peer, PeerConfig};
use srtp::{InboundContext, OutboundContext, Profile};

use super::counters::Counters;
use super::hello::{self, Hello};
use super::impair::{Faults, Line};

/// A client's end.
pub struct Link {
    socket: UdpSocket,
    local: SocketAddr,
    handshake: Handshake,
    media: Option<Media>,
    lines: Option<Box<Lines>>,
    /// STUN or DTLS came since [`Link::run`].
    signalled: bool,
    /// Not reported yet.
    news: Option<News>,
}

/// How the connection is made and kept.
enum Handshake {
    /// ICE and DTLS.
    Peer(Box<Peer>),
    /// A datagram to the floor.
    Hello(Greeting),
}

/// A hello that is repeated until media comes.
struct Greeting {
    hello: Hello,
    to: SocketAddr,
    /// `None` once media came.
    again_at: Option<Instant>,
}

/// State of a connected link.
struct Media {
    profile: Profile,
    inbound: InboundContext,
    /// None for a receiver of the floor, which sends nothing.
    outbound: Option<OutboundContext>,
    /// The server's address; keys can be there before the path is chosen.
    remote: Option<SocketAddr>,
    announced: bool,
}

/// Datagrams delayed by faults.
struct Lines {
    incoming: Line<Held>,
    outgoing: Line<(SocketAddr, Vec<u8>)>,
}

struct Held {
    source: SocketAddr,
    at_ns: u64,
    bytes: Vec<u8>,
}

/// A datagram of media.
pub struct MediaDatagram<'a> {
    /// RTP, not RTCP.
    pub is_rtp: bool,
    /// Still encrypted.
    pub bytes: &'a mut [u8],
    /// When the kernel got it, wall clock nanoseconds.
    pub at_ns: u64,
}

/// State changes of the connection.
#[derive(Debug)]
pub enum News {
    /// There are keys; media may flow.
    Connected,
    /// It has ended, with the reason.
    Over(String),
}

impl Link {
    /// Opens a socket at `local` (port 0) for [`Link::begin`].
    ///
    /// # Errors
    /// As the system calls report them.
    pub fn bind(local: SocketAddr, timestamps: bool) -> io::Result<(UdpSocket, SocketAddr)> {
        let bound = std::net::UdpSocket::bind(local)?;
        bound.set_nonblocking(true)?;
        socket::enable_gro(&bound)?;
        if timestamps {
            socket::enable_timestamps(&bound)?;
        }
        // What is granted is enough for ordinary times; a burst that overflows it shows as loss.
        let _ = socket::size_buffers(&bound, BUFFER_BYTES)?;
        let local = bound.local_addr()?;
        Ok((UdpSocket::from_std(bound), local))
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// A text that is the same for all sessions that fail alike.
    pub fn begin(
        (socket, local): (UdpSocket, SocketAddr),
        config: PeerConfig,
        faults: Faults,
        seed: u64,
        registry: &Registry,
        token: Token,
        now: Instant,
    ) -> Result<Link, String> {
        let socket = register(socket, registry, token)?;
        let peer = Peer::new(config, now).map_err(|error| format!("peer: {error}"))?;
        let lines = (!faults.is_none()).then(|| {
            Box::new(Lines { incoming: Line::new(faults, seed), outgoing: Line::new(faults, !seed) })
        });
        let handshake = Handshake::Peer(Box::new(peer));
        Ok(Link { socket, local, handshake, media: None, lines, signalled: false, news: None })
    }

    /// Receives from the floor at `to`, under the key of receiver `number`.
    ///
    /// # Errors
    /// As for [`Link::begin`].
    pub fn to_floor(
        (socket, local): (UdpSocket, SocketAddr),
        (to, profile): (SocketAddr, Profile),
        number: u32,
        registry: &Registry,
        token: Token,
        now: Instant,
    ) -> Result<Link, String> {
        let socket = register(socket, registry, token)?;
        let inbound = InboundContext::new(&srtp::Config::default(), &[hello::key(profile, number)])
            .map_err(|error| format!("keys: {error}"))?;
        let greeting = Greeting { hello: Hello::Come { number }, to, again_at: Some(now) };
        let media = Media { profile, inbound, outbound: None, remote: Some(to), announced: true };
        Ok(Link {
            socket,
            local,
            handshake: Handshake::Hello(greeting),
            media: Some(media),
            lines: None,
            signalled: false,
            news: Some(News::Connected),
        })
    }

    /// The profile agreed on, once connected.
    pub fn profile(&self) -> Option<Profile> {
        self.media.as_ref().map(|media| media.profile)
    }

    /// Receives one batch; `media` gets the media from the selected address. Returns whether more
    /// may be waiting.
    ///
    /// # Errors
    /// A text for the session.
    pub fn receive(
        &mut self,
        batch: &mut RecvBatch,
        now: Instant,
        wall_ns: u64,
        counters: &mut Counters,
        mut media: impl FnMut(&mut Link, MediaDatagram<'_>, &mut Counters),
    ) -> Result<bool, String> {
        match batch.recv(&self.socket) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(format!("receive: {}", error.kind())),
        }
        counters.reads += 1;
        for datagram in batch.iter_mut() {
            let since = datagram.received_at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let at_ns = since.map_or(wall_ns, |since| since.as_nanos() as u64);
            match &mut self.lines {
                None => self.take(now, datagram.source, at_ns, datagram.payload, counters, &mut media),
                Some(lines) => {
                    let bytes = datagram.payload.to_vec();
                    lines.incoming.push(now, Held { source: datagram.source, at_ns, bytes });
                }
            }
        }
        Ok(batch.is_full())
    }

    /// Delivers datagrams whose delay is over.
    pub fn run_lines(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        mut media: impl FnMut(&mut Link, MediaDatagram<'_>, &mut Counters),
    ) {
        while let Some(mut held) = self.lines.as_mut().and_then(|lines| lines.incoming.pop(now)) {
            let delay_ns = self.lines.as_ref().map_or(0, |lines| lines.incoming.delay().as_nanos() as u64);
            self.take(now, held.source, held.at_ns + delay_ns, &mut held.bytes, counters, &mut media);
        }
        while let Some((to, bytes)) = self.lines.as_mut().and_then(|lines| lines.outgoing.pop(now)) {
            self.hand_over(to, &bytes, counters);
        }
    }

    /// Whether [`Link::run_lines`] has to be called.
    pub fn is_impaired(&self) -> bool {
        self.lines.is_some()
    }

    /// Datagrams dropped by faults so far, both directions.
    pub fn taken_away(&self) -> u64 {
        self.lines.as_ref().map_or(0, |lines| lines.incoming.lost + lines.outgoing.lost)
    }

    fn take(
        &mut self,
        now: Instant,
        source: SocketAddr,
        at_ns: u64,
        bytes: &mut [u8],
        counters: &mut Counters,
        media: &mut impl FnMut(&mut Link, MediaDatagram<'_>, &mut Counters),
    ) {
        let is_rtp = match demux::classify(bytes) {
            Kind::Stun | Kind::Dtls => {
                let Handshake::Peer(peer) = &mut self.handshake else { return counters.unknown += 1 };
                self.signalled = true;
                let path = Path::udp(self.local, source);
                // What it refuses changes nothing.
                let _ = peer.handle_signal(now, path, bytes);
                return self.poll_events();
            }
            Kind::Rtp => true,
            Kind::Rtcp => false,
            Kind::Other => return counters.unknown += 1,
        };
        if self.media.as_ref().is_some_and(|media| media.remote == Some(source)) {
            if let Handshake::Hello(greeting) = &mut self.handshake {
                greeting.again_at = None;
            }
            media(self, MediaDatagram { is_rtp, bytes, at_ns }, counters);
        } else {
            counters.early += 1;
        }
    }

    /// Whether STUN or DTLS came, so that [`Link::run`] should not wait for the next timer.
    pub fn is_signalled(&self) -> bool {
        self.signalled
    }

    /// Runs timers, sends what the peer has to send, and returns a state change of the connection.
    pub fn run(&mut self, now: Instant, counters: &mut Counters) -> Option<News> {
        self.signalled = false;
        match &mut self.handshake {
            Handshake::Peer(peer) => {
                if peer.next_timeout().is_some_and(|due| due <= now) {
                    peer.handle_timeout(now);
                }
                self.poll_events();
                self.send_signals(now, counters);
            }
            Handshake::Hello(greeting) => {
                if let Some(due) = greeting.again_at.as_mut().filter(|due| **due <= now) {
                    *due = now + HELLO_INTERVAL;
                    let (to, bytes) = (greeting.to, greeting.hello.to_bytes());
                    self.hand_over(to, &bytes, counters);
                }
            }
        }
        self.news.take()
    }

    /// Handles the peer's events: directly after each of its datagrams, because media may follow
    /// right after the keys.
    fn poll_events(&mut self) {
        while let Handshake::Peer(peer) = &mut self.handshake
            && let Some(event) = peer.poll_event()
        {
            match event {
                Event::PathSelected(path) => {
                    if let Some(media) = &mut self.media {
                        media.remote = Some(path.remote);
                    }
                }
                Event::Connected(keys) => self.take_keys(*keys),
                Event::ConsentLost => self.over("the server's consent was lost".to_owned()),
                Event::Closed(CloseReason::Local) => {}
                Event::Closed(CloseReason::Remote) => self.over("closed by the server".to_owned()),
                Event::Failed(reason) => self.over(fail_text(reason)),
            }
        }
        let media = self.media.as_mut().filter(|media| !media.announced && media.remote.is_some());
        if let (Some(media), None) = (media, &self.news) {
            media.announced = true;
            self.news = Some(News::Connected);
        }
    }

    fn over(&mut self, reason: String) {
        self.news = Some(News::Over(reason));
    }

    fn take_keys(&mut self, keys: rtc::SrtpKeys) {
        let config = srtp::Config { streams_max: STREAMS_MAX, ..srtp::Config::default() };
        let contexts =
            InboundContext::new(&config, std::slice::from_ref(&keys.inbound)).and_then(|inbound| {
                Ok((inbound, OutboundContext::new(&config, std::slice::from_ref(&keys.outbound))?))
            });
        let Ok((inbound, outbound)) = contexts else {
            return self.over("the keys cannot be used".to_owned());
        };
        let Handshake::Peer(peer) = &self.handshake else { return };
        let remote = peer.path().map(|path| path.remote);
        let (profile, outbound) = (keys.profile, Some(outbound));
        self.media = Some(Media { profile, inbound, outbound, remote, announced: false });
    }

    fn send_signals(&mut self, now: Instant, counters: &mut Counters) {
        while let Handshake::Peer(peer) = &mut self.handshake
            && let Some(transmit) = peer.poll_transmit()
        {
            self.send(now, transmit.path.remote, &transmit.bytes, counters);
        }
    }

    /// Decrypts in place; the plain packet, or `None` if it was not authentic.
    pub fn unprotect<'a>(
        &mut self,
        datagram: MediaDatagram<'a>,
        counters: &mut Counters,
    ) -> Option<&'a mut [u8]> {
        let media = self.media.as_mut()?;
        let MediaDatagram { is_rtp, bytes, .. } = datagram;
        let result =
            if is_rtp { media.inbound.unprotect_rtp(bytes) } else { media.inbound.unprotect_rtcp(bytes) };
        match result {
            Ok(length) => {
                counters.decrypted += 1;
                Some(&mut bytes[..length])
            }
            Err(srtp::UnprotectError::Replayed | srtp::UnprotectError::TooOld) => {
                counters.replayed += 1;
                None
            }
            Err(_) => {
                counters.not_authentic += 1;
                None
            }
        }
    }

    /// Encrypts and sends a packet of a header and a payload.
    pub fn send_rtp(&mut self, now: Instant, header: &[u8], payload: &[u8], counters: &mut Counters) {
        let Some(media) = &mut self.media else { return };
        let mut out = [0; PACKET_BYTES_MAX];
        let (Some(to), Some(outbound)) = (media.remote, &mut media.outbound) else { return };
        match outbound.protect_rtp_from(header, payload, &mut out) {
            Ok(length) => self.send(now, to, &out[..length], counters),
            Err(_) => counters.not_sent += 1,
        }
    }

    /// Encrypts and sends RTCP.
    pub fn send_rtcp(&mut self, now: Instant, plain: &[u8], counters: &mut Counters) {
        let Some(media) = &mut self.media else { return };
        let mut out = [0; PACKET_BYTES_MAX];
        let (Some(to), Some(outbound)) = (media.remote, &mut media.outbound) else { return };
        match outbound.protect_rtcp_from(plain, &mut out) {
            Ok(length) => self.send(now, to, &out[..length], counters),
            Err(_) => counters.not_sent += 1,
        }
    }

    /// Says goodbye.
    pub fn close(&mut self, now: Instant, counters: &mut Counters) {
        match &mut self.handshake {
            Handshake::Peer(peer) => {
                peer.close(now);
                self.send_signals(now, counters);
            }
            Handshake::Hello(greeting) => {
                let to = greeting.to;
                self.hand_over(to, &Hello::Go.to_bytes(), counters);
            }
        }
    }

    fn send(&mut self, now: Instant, to: SocketAddr, bytes: &[u8], counters: &mut Counters) {
        match &mut self.lines {
            None => self.hand_over(to, bytes, counters),
            Some(lines) => lines.outgoing.push(now, (to, bytes.to_vec())),
        }
    }

    fn hand_over(&self, to: SocketAddr, bytes: &[u8], counters: &mut Counters) {
        match self.socket.send_to(bytes, to) {
            Ok(_) => counters.writes += 1,
            Err(_) => counters.not_sent += 1,
        }
    }
}

fn register(mut socket: UdpSocket, registry: &Registry, token: Token) -> Result<UdpSocket, String> {
    let registered = registry.register(&mut socket, token, Interest::READABLE);
    registered.map(|()| socket).map_err(|error| format!("socket: {}", error.kind()))
}

fn fail_text(reason: FailReason) -> String {
    match reason {
        FailReason::IceTimeout => "ICE: no path to the server".to_owned(),
        FailReason::DtlsTimeout => "DTLS: no keys in time".to_owned(),
        FailReason::Dtls(error) => format!("DTLS: {error}"),
    }
}

/// Enough for a burst of one second.
const BUFFER_BYTES: usize = 512 * 1024;

/// A hello that found no room, or came before the floor listened, is said again.
const HELLO_INTERVAL: Duration = Duration::from_millis(200);

/// Larger than any packet sent here.
const PACKET_BYTES_MAX: usize = 1500;

/// 50 pairs of tracks with their retransmission streams, and as many for a publisher that
/// reconnects with others.
const STREAMS_MAX: usize = 400;
