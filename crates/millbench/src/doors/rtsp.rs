//! An RTSP player: the connection is the session's; datagrams come to sockets that are kept here.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use group_send::RecvBatch;
use media::Frame;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use rtsp::{PlaySession, PlaySettings, TRACKS_MAX};

use super::udp;
use crate::counters::Counters;

/// A player.
#[derive(Debug)]
pub struct RtspPlayer {
    session: PlaySession,
    /// RTP and RTCP of each track; none when packets come in the connection.
    sockets: Vec<[UdpSocket; 2]>,
    server: SocketAddr,
}

impl RtspPlayer {
    /// One that is about to ask. Datagrams come to this host's loopback address, or to all of its addresses.
    ///
    /// # Errors
    /// When there are no ports.
    pub fn new(url: &str, server: SocketAddr, by_udp: bool, now: Instant) -> io::Result<RtspPlayer> {
        let local = if server.ip().is_loopback() { server.ip() } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        let sockets: Vec<_> = if by_udp {
            (0..TRACKS_MAX).map(|_| pair(local)).collect::<io::Result<_>>()?
        } else {
            Vec::new()
        };
        let mut ports = [[0; 2]; TRACKS_MAX];
        for (ports, pair) in ports.iter_mut().zip(&sockets) {
            *ports = [pair[0].local_addr()?.port(), pair[1].local_addr()?.port()];
        }
        let settings = PlaySettings {
            url: url.to_owned(),
            login: None,
            user_agent: concat!("millbench/", env!("CARGO_PKG_VERSION")).to_owned(),
            udp: by_udp.then_some(ports),
            reorder_max: if by_udp { REORDER_MAX } else { Duration::ZERO },
        };
        Ok(RtspPlayer { session: PlaySession::new(settings, now), sockets, server })
    }

    /// Bytes for the connection.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.session.output()
    }

    /// Registers the sockets under the session's token.
    ///
    /// # Errors
    /// As the kernel reports them.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.sockets
            .iter_mut()
            .flatten()
            .try_for_each(|socket| registry.register(socket, token, Interest::READABLE))
    }

    /// Takes bytes of the connection.
    ///
    /// # Errors
    /// Why nothing can be played.
    pub fn handle_input(&mut self, now: Instant, input: &[u8]) -> Result<(), String> {
        self.session.handle_input(now, input).map_err(|error| error.reason())
    }

    /// Reads datagrams until the sockets are empty.
    ///
    /// # Errors
    /// Why nothing can be played any more.
    pub fn receive(
        &mut self,
        now: Instant,
        batch: &mut RecvBatch,
        counters: &mut Counters,
    ) -> Result<(), String> {
        let RtspPlayer { session, sockets, server } = self;
        for (track, pair) in sockets.iter().enumerate() {
            // Reports first: the one that comes with the first packet says when that was captured.
            for (part, socket) in pair.iter().enumerate().rev() {
                udp::receive(socket, batch, counters, |counters, from, datagram| {
                    if from.ip() != server.ip() {
                        return Ok(());
                    }
                    counters.packets += u64::from(part == 0);
                    session.handle_datagram(now, track, part == 1, datagram).map_err(|error| error.reason())
                })?;
            }
        }
        Ok(())
    }

    /// Does what is due, and calls `on_frame` for each frame that is complete.
    pub fn drive(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        mut on_frame: impl FnMut(&mut Counters, &Frame),
    ) {
        self.session.poll(now);
        let mut reports = Vec::new();
        self.session.report(now, |track, report| reports.push((track, report.to_vec())));
        for (track, report) in reports {
            if let (Some(ports), Some(pair)) = (self.session.server_ports(track), self.sockets.get(track)) {
                // A report that is lost is followed by the next.
                let _ = pair[1].send_to(&report, SocketAddr::new(self.server.ip(), ports[1]));
                counters.writes += 1;
            }
        }
        while let Some(frame) = self.session.next_frame() {
            on_frame(counters, &frame);
        }
    }

    /// When to drive it next.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        // Receiver reports have no deadline of their own.
        let report = now + REPORT_INTERVAL;
        Some(self.session.next_timeout().map_or(report, |due| due.min(report)))
    }
}

/// Sockets for RTP, on an even port, and RTCP, on the next one (RFC 3550 section 11).
fn pair(local: IpAddr) -> io::Result<[UdpSocket; 2]> {
    for _ in 0..PORTS_TRIED_MAX {
        let rtp = udp::open(SocketAddr::new(local, 0))?;
        let port = rtp.local_addr()?.port();
        if port % 2 == 0
            && let Ok(rtcp) = udp::open(SocketAddr::new(local, port + 1))
        {
            return Ok([rtp, rtcp]);
        }
    }
    Err(io::Error::other("there are no two ports for RTP and RTCP"))
}

/// Longest a packet that is missing is waited for.
const REORDER_MAX: Duration = Duration::from_millis(200);
/// At least so often it is looked whether a report is due.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// How often it is looked for pairs of ports.
const PORTS_TRIED_MAX: usize = 64;
