//! WebRTC sessions, signalled as the control side does it.

use rtc::dtls::DtlsRole;
use rtc::sdp::{
    Answer, Candidate, Direction, LocalDescription, Policy, Setup, Transport, answer_play, answer_publish,
    make_offer, parse_offer, read_answer,
};
use rtc::{PeerConfig, Side, Timeouts};
use rtc_test::{OfferOptions, UdpClient, certificate, credentials, random};
use rtp::payload::Codec;
use tokio::sync::oneshot;
use worker_api::rtc::{RtcOpen, RtcRefusal, RtcRole};
use worker_api::streams::{Published, WebrtcAvailability};

use super::{Node, until};

/// Publishes Opus and VP8 on a worker, connected.
pub(crate) async fn publish(node: &Node, worker: usize, name: &str) -> Result<UdpClient, RtcRefusal> {
    open(node, worker, name, RtcRole::Publish, None).await
}

/// Plays on a worker, connected; video is VP8 unless the stream has another.
pub(crate) async fn play(
    node: &Node,
    worker: usize,
    name: &str,
    video: Option<Codec>,
) -> Result<UdpClient, RtcRefusal> {
    open(node, worker, name, RtcRole::Play, video).await
}

async fn open(
    node: &Node,
    worker: usize,
    name: &str,
    role: RtcRole,
    video: Option<Codec>,
) -> Result<UdpClient, RtcRefusal> {
    let socket = UdpClient::bind();
    let local = socket.local_addr().expect("its address");
    let direction = if role == RtcRole::Publish { Direction::Send } else { Direction::Receive };
    let offer = rtc_test::offer(direction, local, &OfferOptions { video, ..OfferOptions::default() });
    let parsed = parse_offer(&make_offer(&offer)).expect("an offer");
    let ice = credentials();
    let description = LocalDescription {
        ice: ice.clone(),
        fingerprint: certificate().fingerprint(),
        candidates: vec![Candidate::host(node.rtc[worker].udp[0], Transport::Udp, 65_535)],
        ice_lite: true,
        session_id: random() >> 1,
        first_ssrc: 0x5000_0001,
        stream_id: name.to_owned(),
    };
    let answer = match role {
        RtcRole::Publish => answer_publish(&parsed, &description, &Policy::publish()),
        RtcRole::Play => match (node.published)(&format!("live/{name}")) {
            Published::Packets(tracks) | Published::Frames(WebrtcAvailability::Tracks(tracks, _)) => {
                answer_play(&parsed, &description, &Policy::play(), &tracks)
            }
            other => panic!("{other:?}: nothing to answer by"),
        },
    };
    let answer = answer.expect("a codec that both have");
    let remote = read_answer(&answer.sdp, &offer).expect("an answer");
    let (reply, answered) = oneshot::channel();
    let open = RtcOpen {
        role,
        app: "live".to_owned(),
        stream: name.to_owned(),
        address: local,
        user_agent: None,
        peer: peer(ice, &answer),
        tracks: answer.tracks.clone(),
        published: answer.published.clone(),
        reply,
    };
    node.link.rtc_open(worker, open, answered).await.expect("an answer")?;
    let mut client = UdpClient::new(socket, offer, remote);
    turn_until(&mut client, "connected", |client| client.is_connected()).await;
    Ok(client)
}

fn peer(ice: rtc::sdp::IceCredentials, answer: &Answer) -> PeerConfig {
    let dtls = rtc::dtls::Config::new(certificate(), answer.remote.fingerprints.clone());
    PeerConfig {
        side: Side::Lite,
        local_ice: ice,
        remote_ice: answer.remote.ice.clone(),
        local_addresses: Vec::new(),
        remote_candidates: answer.remote.candidates.clone(),
        dtls,
        dtls_role: if answer.setup == Setup::Active { DtlsRole::Client } else { DtlsRole::Server },
        timeouts: Timeouts::default(),
    }
}

/// Runs a client until something holds.
pub(crate) async fn turn_until(
    client: &mut UdpClient,
    what: &str,
    mut check: impl FnMut(&mut UdpClient) -> bool,
) {
    until(what, async || {
        client.turn();
        check(client).then_some(())
    })
    .await;
}
