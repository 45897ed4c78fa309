//! The transport of one session: ICE, DTLS and SRTP of a client.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rtc::demux::{Kind, classify};
use rtc::sdp::{OfferConfig, RemoteAnswer, Transport};
use rtc::{Event, FailReason, LocalAddress, Path, Peer, PeerConfig, PeerError, Side, Timeouts, Transmit};
use srtp::{InboundContext, OutboundContext};

use crate::offer::Identity;

/// What SRTP appends at most, with room to spare.
const TAG_BYTES_MAX: usize = 64;

/// A packet in plaintext that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// RTP.
    Rtp(Vec<u8>),
    /// RTP that was sent before, byte for byte.
    Again(Vec<u8>),
    /// A compound of RTCP.
    Rtcp(Vec<u8>),
}

impl Outgoing {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Rtp(bytes) | Self::Again(bytes) | Self::Rtcp(bytes) => bytes,
        }
    }
}

/// What a datagram was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// RTP: so many bytes of it are plaintext now.
    Rtp(usize),
    /// RTCP: so many bytes of it are plaintext now.
    Rtcp(usize),
    /// ICE, DTLS, or nothing that makes sense.
    Nothing,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The server has closed it.
    Closed,
    /// None of the server's addresses answers.
    NoPath,
    /// The server does not answer the DTLS handshake.
    NoHandshake,
    /// The DTLS handshake failed.
    BadHandshake,
    /// The server answers no longer.
    Silent,
}

impl Ended {
    /// One sentence for the log and the API.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Closed => "the server ended the session",
            Self::NoPath => "none of the server's addresses for media answers",
            Self::NoHandshake => "the server does not answer the DTLS handshake",
            Self::BadHandshake => "the DTLS handshake failed",
            Self::Silent => "the server answers no longer",
        }
    }
}

/// One session after offer and answer.
///
/// **To be driven like this:** [`handle_datagram`](Self::handle_datagram) for what arrives,
/// [`handle_timeout`](Self::handle_timeout) at [`next_timeout`](Self::next_timeout), and
/// [`poll_transmit`](Self::poll_transmit) until it is empty after each.
pub struct Client {
    peer: Peer,
    inbound: Option<InboundContext>,
    outbound: Option<OutboundContext>,
    /// SSRCs whose packets may have to be sent again as they were.
    remembered: Vec<u32>,
    ended: Option<Ended>,
}

impl Client {
    /// A client that sends from these addresses. Both the path and the keys are waited for as long
    /// as `patience`.
    ///
    /// # Errors
    /// An answer that no peer can be made of.
    pub fn new(
        now: Instant,
        local: &[SocketAddr],
        identity: &Identity,
        offer: &OfferConfig,
        answer: &RemoteAnswer,
        patience: Duration,
    ) -> Result<Self, PeerError> {
        let mut dtls = identity.dtls(answer.remote.fingerprints.clone());
        dtls.handshake_timeout = patience;
        let local_address =
            |address: &SocketAddr| LocalAddress { transport: Transport::Udp, address: *address };
        let config = PeerConfig {
            side: Side::Full,
            local_ice: offer.ice.clone(),
            remote_ice: answer.remote.ice.clone(),
            local_addresses: local.iter().map(local_address).collect(),
            remote_candidates: answer.remote.candidates.clone(),
            dtls,
            dtls_role: answer.remote.setup.offerer_role(),
            timeouts: Timeouts { ice: patience, dtls: patience, ..Timeouts::default() },
        };
        let peer = Peer::new(config, now)?;
        Ok(Self { peer, inbound: None, outbound: None, remembered: Vec::new(), ended: None })
    }

    /// Packets of this SSRC may have to be sent again as they were: there is no RTX for them.
    pub fn remember_packets(&mut self, ssrc: u32) {
        self.remembered.push(ssrc);
        if let Some(outbound) = &mut self.outbound {
            // It fails for too many streams only, and then nothing is sent again.
            let _ = outbound.remember_packets(ssrc);
        }
    }

    /// Takes a datagram that came to `local` from `from`; media is decrypted in place. Media counts
    /// from paths that ICE has checked only.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        local: SocketAddr,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Received {
        let path = Path::udp(local, from);
        let received = match (classify(datagram), &mut self.inbound) {
            (Kind::Stun | Kind::Dtls, _) => {
                let _ = self.peer.handle_signal(now, path, datagram);
                Received::Nothing
            }
            (Kind::Rtp, Some(inbound)) if self.peer.is_valid(&path) => {
                inbound.unprotect_rtp(datagram).map_or(Received::Nothing, Received::Rtp)
            }
            (Kind::Rtcp, Some(inbound)) if self.peer.is_valid(&path) => {
                inbound.unprotect_rtcp(datagram).map_or(Received::Nothing, Received::Rtcp)
            }
            _ => Received::Nothing,
        };
        self.take_events();
        received
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.peer.handle_timeout(now);
        self.take_events();
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&mut self) -> Option<Instant> {
        self.peer.next_timeout()
    }

    /// The next datagram of ICE or DTLS to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.peer.poll_transmit()
    }

    fn take_events(&mut self) {
        while let Some(event) = self.peer.poll_event() {
            let ended = match event {
                Event::PathSelected(_) => continue,
                Event::Connected(keys) => {
                    let config = srtp::Config::default();
                    self.inbound = InboundContext::new(&config, &[keys.inbound]).ok();
                    self.outbound = OutboundContext::new(&config, &[keys.outbound]).ok();
                    for ssrc in std::mem::take(&mut self.remembered) {
                        self.remember_packets(ssrc);
                    }
                    continue;
                }
                Event::ConsentLost => Ended::Silent,
                Event::Closed(_) => Ended::Closed,
                Event::Failed(FailReason::IceTimeout) => Ended::NoPath,
                Event::Failed(FailReason::DtlsTimeout) => Ended::NoHandshake,
                Event::Failed(FailReason::Dtls(_)) => Ended::BadHandshake,
            };
            self.ended.get_or_insert(ended);
        }
    }

    /// Where media goes, once there is a path and keys.
    pub fn path(&self) -> Option<Path> {
        self.peer.path().filter(|_| self.outbound.is_some())
    }

    /// Why it is over, if it is.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Writes the datagram of a packet; `false` if it cannot be sent, before there are keys for
    /// example.
    pub fn protect(&mut self, packet: &Outgoing, datagram: &mut Vec<u8>) -> bool {
        let Some(outbound) = &mut self.outbound else { return false };
        let plain = packet.bytes();
        datagram.clear();
        datagram.extend_from_slice(plain);
        datagram.resize(plain.len() + TAG_BYTES_MAX, 0);
        let protected = match packet {
            Outgoing::Rtp(_) => outbound.protect_rtp(datagram, plain.len()),
            Outgoing::Again(_) => outbound.protect_rtp_again(datagram, plain.len()),
            Outgoing::Rtcp(_) => outbound.protect_rtcp(datagram, plain.len()),
        };
        datagram.truncate(protected.unwrap_or(0));
        protected.is_ok()
    }

    /// Says goodbye: a close_notify is left to send.
    pub fn close(&mut self, now: Instant) {
        self.peer.close(now);
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("ended", &self.ended).finish_non_exhaustive()
    }
}
