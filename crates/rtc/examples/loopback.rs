//! Two peers in one program: an offer, its answer, the checks of ICE, the handshake of DTLS, and a
//! packet under its keys.
//!
//! No socket is opened: datagrams are passed from one peer to the other. With sockets, the loop of
//! `connect` would call `recv_from` and `send_to`. Signalling over HTTP (WHIP) and waiting for
//! timers are left out.
//!
//! Run: `cargo run -p rtc --example loopback`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rtc::dtls::{self, Certificate, DtlsRole, Fingerprint};
use rtc::sdp::{
    Direction, Feedback, Format, LocalDescription, OfferConfig, OfferMedia, Policy, Setup, Source, Transport,
    answer_publish, make_offer, parse_offer, read_answer,
};
use rtc::{
    Candidate, Event, IceCredentials, LocalAddress, Path, Peer, PeerConfig, Side, Signal, SrtpKeys, Timeouts,
};
use rtp::HeaderFields;
use rtp::extension::ExtensionMap;
use rtp::payload::{Codec, MediaKind};
use srtp::{InboundContext, OutboundContext};

/// Where the server would listen, and from where the client would send.
const SERVER: &str = "192.0.2.1:8189";
const CLIENT: &str = "192.0.2.2:50000";

fn main() -> Result<(), Box<dyn Error>> {
    let (server, client) = (Arc::new(Certificate::generate()?), Arc::new(Certificate::generate()?));

    // The client offers a track; a program would post this text to a WHIP server.
    let ours = offer(&client)?;
    let text = make_offer(&ours);
    println!("the client offers\n\n{text}");

    // The server reads it, answers, and knows what its peer needs.
    let local = LocalDescription {
        ice: credentials("server", "a-server-password-is-long")?,
        fingerprint: server.fingerprint(),
        candidates: vec![Candidate::host(SERVER.parse()?, Transport::Udp, 65_535)],
        ice_lite: true,
        session_id: 1,
        first_ssrc: 1,
        stream_id: "loopback".to_owned(),
    };
    let answer = answer_publish(&parse_offer(&text)?, &local, &Policy::publish())?;
    println!("the server answers\n\n{}", answer.sdp);
    let server_peer = PeerConfig {
        side: Side::Lite,
        local_ice: local.ice,
        remote_ice: answer.remote.ice,
        local_addresses: Vec::new(),
        remote_candidates: answer.remote.candidates,
        dtls: dtls::Config::new(server, answer.remote.fingerprints),
        dtls_role: DtlsRole::Server,
        timeouts: Timeouts::default(),
    };

    // The client reads the answer.
    let agreed = read_answer(&answer.sdp, &ours)?;
    let client_peer = PeerConfig {
        side: Side::Full,
        local_ice: ours.ice,
        remote_ice: agreed.remote.ice,
        local_addresses: vec![LocalAddress { transport: Transport::Udp, address: CLIENT.parse()? }],
        remote_candidates: agreed.remote.candidates,
        dtls: dtls::Config::new(client, agreed.remote.fingerprints),
        dtls_role: DtlsRole::Client,
        timeouts: Timeouts::default(),
    };

    let [sender, receiver] = connect(client_peer, server_peer)?;
    println!("both have keys for {:?}", sender.profile);
    send_one(&sender, &receiver)
}

/// An offer to publish H.264.
fn offer(certificate: &Certificate) -> Result<OfferConfig, Box<dyn Error>> {
    let format = Format {
        payload_type: 96,
        codec: Codec::H264,
        clock_rate: rtp::payload::clock_rate(Codec::H264),
        channels: 1,
        fmtp: "packetization-mode=1;profile-level-id=42e01f".to_owned(),
        rtx_payload_type: None,
        feedback: Feedback { nack: true, pli: true, ..Feedback::default() },
    };
    let video = OfferMedia {
        mid: "0".to_owned(),
        kind: MediaKind::Video,
        direction: Direction::Send,
        formats: vec![format],
        extensions: ExtensionMap::default(),
        sources: vec![Source { ssrc: 42, rtx_ssrc: None }],
        rids: Vec::new(),
        fec_payload_type: None,
    };
    let fingerprint: Fingerprint = certificate.fingerprint();
    Ok(OfferConfig {
        ice: credentials("client", "a-client-password-is-long")?,
        fingerprint,
        setup: Setup::ActPass,
        candidates: Vec::new(), // the server answers, and needs to know none
        trickle: false,
        session_id: 2,
        stream_id: "loopback".to_owned(),
        media: vec![video],
    })
}

/// Credentials of ICE. Those of a real program are random and new for each session.
fn credentials(ufrag: &str, password: &str) -> Result<IceCredentials, &'static str> {
    IceCredentials::new(ufrag, password).ok_or("not as RFC 8839 section 5.4 has them")
}

/// Carries datagrams between both, and lets time pass whenever there are none, until both have keys.
fn connect(client: PeerConfig, server: PeerConfig) -> Result<[Box<SrtpKeys>; 2], Box<dyn Error>> {
    #[expect(clippy::disallowed_methods, reason = "time begins somewhere; from here on it is counted")]
    let mut now = Instant::now();
    let end = now + Duration::from_secs(15);
    let mut peers = [Peer::new(client, now)?, Peer::new(server, now)?];
    let mut keys = [None, None];
    while now < end {
        let mut quiet = true;
        for at in [0, 1] {
            while let Some(transmit) = peers[at].poll_transmit() {
                quiet = false;
                // What is "from here to there" for one is "from there to here" for the other.
                let path = Path::udp(transmit.path.remote, transmit.path.local);
                if let Signal::Refused(reason) = peers[1 - at].handle_signal(now, path, &transmit.bytes) {
                    println!("refused: {reason:?}");
                }
            }
            while let Some(event) = peers[at].poll_event() {
                match event {
                    Event::Connected(found) => keys[at] = Some(found),
                    Event::PathSelected(path) => println!("path: {} to {}", path.local, path.remote),
                    other => return Err(format!("not connected: {other:?}").into()),
                }
            }
        }
        if let [Some(_), Some(_)] = keys {
            break;
        }
        if quiet {
            let due =
                peers.iter_mut().filter_map(Peer::next_timeout).min().ok_or("nobody waits for anything")?;
            now = now.max(due);
            peers.iter_mut().for_each(|peer| peer.handle_timeout(now));
        }
    }
    let [Some(client), Some(server)] = keys else { return Err("no keys in 15 s".into()) };
    Ok([client, server])
}

/// Protects a packet with the keys of one, and reads it with those of the other.
fn send_one(sender: &SrtpKeys, receiver: &SrtpKeys) -> Result<(), Box<dyn Error>> {
    let config = srtp::Config::default();
    let mut outbound = OutboundContext::new(&config, std::slice::from_ref(&sender.outbound))?;
    let mut inbound = InboundContext::new(&config, std::slice::from_ref(&receiver.inbound))?;
    let mut packet = [0; 1500];
    let fields =
        HeaderFields { marker: true, payload_type: 96, sequence_number: 1, timestamp: 90_000, ssrc: 42 };
    let header = fields.write(&[], &mut packet);
    packet[header..header + 5].copy_from_slice(b"hello");
    let sent = outbound.protect_rtp(&mut packet, header + 5)?;
    let read = inbound.unprotect_rtp(&mut packet[..sent])?;
    println!(
        "{sent} bytes sent, read: {:?}",
        rtp::Packet::parse(&packet[..read])?.payload().escape_ascii().to_string()
    );
    Ok(())
}
