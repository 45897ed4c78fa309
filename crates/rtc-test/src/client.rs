//! A client without sockets and clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use rtc::demux::{Kind, classify};
use rtc::dtls::Config;
use rtc::sdp::{Candidate, OfferConfig, RemoteAnswer, Source, Transport};
use rtc::{Event, FailReason, LocalAddress, Path, Peer, PeerConfig, Side, Timeouts, Transmit};
use rtp::HeaderFields;
use rtp::payload::MediaKind;
use srtp::{InboundContext, OutboundContext, Profile};

use crate::{OPUS, certificate};

/// Room for a packet and what SRTP appends.
pub const DATAGRAM_MAX: usize = 2048;

/// A publisher or viewer after offer and answer.
///
/// **To be driven like this:** [`Client::handle_datagram`] for what arrives,
/// [`Client::handle_timeout`] at [`Client::next_timeout`], and [`Client::poll_transmit`] until it
/// is empty after each.
pub struct Client {
    /// Its ICE and DTLS.
    pub peer: Peer,
    /// Its offer.
    pub offer: OfferConfig,
    /// The server's answer.
    pub answer: RemoteAnswer,
    local: SocketAddr,
    /// SRTP profiles that it offers instead of all.
    srtp_profiles: Option<Vec<Profile>>,
    /// See [`Config::seed`].
    dtls_seed: Option<u64>,
    timeouts: Timeouts,
    inbound: Option<InboundContext>,
    outbound: Option<OutboundContext>,
    /// Decrypted RTP in order of arrival.
    pub media: VecDeque<Vec<u8>>,
    /// Decrypted RTCP in order of arrival.
    pub reports: VecDeque<Vec<u8>>,
    /// Datagrams of any kind that arrived.
    pub received: u64,
    /// Of these, those that were RTP or RTCP and did not decrypt.
    pub bad: u64,
    /// Why the connection failed.
    pub failed: Option<FailReason>,
    /// The server has closed it.
    pub closed: bool,
}

impl Client {
    /// A client at `local` whose offer was answered.
    ///
    /// # Panics
    /// If no peer can be made of the answer.
    pub fn new(now: Instant, local: SocketAddr, offer: OfferConfig, answer: RemoteAnswer) -> Self {
        Self {
            peer: peer(now, local, &offer, &answer, (None, None), Timeouts::default()),
            offer,
            answer,
            local,
            srtp_profiles: None,
            dtls_seed: None,
            timeouts: Timeouts::default(),
            inbound: None,
            outbound: None,
            media: VecDeque::new(),
            reports: VecDeque::new(),
            received: 0,
            bad: 0,
            failed: None,
            closed: false,
        }
    }

    /// Reaches the server at another address than its answer says: that of a relay.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn set_server(&mut self, now: Instant, address: SocketAddr) {
        self.answer.remote.candidates = vec![Candidate::host(address, Transport::Udp, 65_535)];
        self.remake_peer(now);
    }

    /// Offers only these SRTP profiles in its handshake, which has not begun.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn set_srtp_profiles(&mut self, now: Instant, profiles: &[Profile]) {
        self.srtp_profiles = Some(profiles.to_vec());
        self.remake_peer(now);
    }

    fn remake_peer(&mut self, now: Instant) {
        let dtls = (self.srtp_profiles.as_deref(), self.dtls_seed);
        self.peer = peer(now, self.local, &self.offer, &self.answer, dtls, self.timeouts);
    }

    /// Sends every datagram of its handshake, which has not begun, at a time that follows from this.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn set_dtls_seed(&mut self, now: Instant, seed: u64) {
        self.dtls_seed = Some(seed);
        self.remake_peer(now);
    }

    /// Waits for the server, which it has not reached yet, for as long as this.
    ///
    /// # Panics
    /// As [`Client::new`].
    pub fn set_timeouts(&mut self, now: Instant, timeouts: Timeouts) {
        self.timeouts = timeouts;
        self.remake_peer(now);
    }

    /// Takes a datagram that arrived; media is decrypted in place and queued.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.received += 1;
        match classify(datagram) {
            Kind::Stun | Kind::Dtls => {
                let _ = self.peer.handle_signal(now, Path::udp(self.local, from), datagram);
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
        self.handle_events();
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|timeout| timeout <= now) {
            self.peer.handle_timeout(now);
        }
        self.handle_events();
    }

    /// When to call [`Client::handle_timeout`].
    pub fn next_timeout(&mut self) -> Option<Instant> {
        self.peer.next_timeout()
    }

    /// The next datagram of ICE or DTLS to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.peer.poll_transmit()
    }

    fn handle_events(&mut self) {
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

    /// Whether there are keys and a path.
    pub fn is_connected(&self) -> bool {
        self.outbound.is_some() && self.peer.path().is_some()
    }

    /// Where media goes.
    ///
    /// # Panics
    /// Before a path is selected.
    pub fn remote(&self) -> SocketAddr {
        self.peer.path().expect("a selected path").remote
    }

    /// The SRTP packet of this header and payload.
    ///
    /// # Panics
    /// Before it is connected.
    pub fn protect(&mut self, fields: HeaderFields, payload: &[u8]) -> Vec<u8> {
        self.protect_with(fields, &[], payload)
    }

    /// The same with a block of header extensions ([`rtp::extension::BlockWriter`]).
    ///
    /// # Panics
    /// Before it is connected.
    pub fn protect_with(&mut self, fields: HeaderFields, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; DATAGRAM_MAX];
        let header = fields.write(extensions, &mut packet);
        packet[header..header + payload.len()].copy_from_slice(payload);
        let outbound = self.outbound.as_mut().expect("connected");
        let len = outbound.protect_rtp(&mut packet, header + payload.len()).expect("room and keys");
        packet.truncate(len);
        packet
    }

    /// The SRTCP packet of a compound packet.
    ///
    /// # Panics
    /// Before it is connected.
    pub fn protect_rtcp(&mut self, compound: &[u8]) -> Vec<u8> {
        let mut packet = compound.to_vec();
        packet.resize(compound.len() + 64, 0);
        let outbound = self.outbound.as_mut().expect("connected");
        let len = outbound.protect_rtcp(&mut packet, compound.len()).expect("room and keys");
        packet.truncate(len);
        packet
    }

    /// Numbers of the audio packets ([`audio_payload`](crate::audio_payload)) that arrived since
    /// the last call, in order of arrival.
    pub fn take_audio(&mut self) -> Vec<u32> {
        let packets = self.media.drain(..);
        let numbers = packets.filter_map(|packet| {
            let packet = rtp::Packet::parse(&packet).ok().filter(|packet| packet.payload_type() == OPUS)?;
            Some(u32::from_be_bytes(packet.payload().get(4..8)?.try_into().ok()?))
        });
        numbers.collect()
    }

    /// SSRC of the server's media of a kind towards this viewer, and of its retransmissions.
    ///
    /// # Panics
    /// If the answer has no such track.
    pub fn source(&self, kind: MediaKind) -> Source {
        let mut tracks = self.answer.tracks.iter().flatten().filter(|track| track.kind == kind);
        tracks.next().expect("a track of the kind").sources[0]
    }
}

/// The client's ICE and DTLS after offer and answer.
fn peer(
    now: Instant,
    local: SocketAddr,
    offer: &OfferConfig,
    answer: &RemoteAnswer,
    (srtp_profiles, seed): (Option<&[Profile]>, Option<u64>),
    timeouts: Timeouts,
) -> Peer {
    let mut dtls = Config::new(certificate(), answer.remote.fingerprints.clone());
    dtls.seed = seed;
    dtls.handshake_timeout = timeouts.dtls;
    if let Some(profiles) = srtp_profiles {
        dtls.srtp_profiles = profiles.to_vec();
    }
    let config = PeerConfig {
        side: Side::Full,
        local_ice: offer.ice.clone(),
        remote_ice: answer.remote.ice.clone(),
        local_addresses: vec![LocalAddress { transport: Transport::Udp, address: local }],
        remote_candidates: answer.remote.candidates.clone(),
        dtls,
        dtls_role: answer.remote.setup.offerer_role(),
        timeouts,
    };
    Peer::new(config, now).expect("a peer")
}
