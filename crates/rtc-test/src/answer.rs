//! What the control side of a server does with an offer, for tests of workers without one.

use std::net::SocketAddr;

use rtc::sdp::{
    Answer, Candidate, IceCredentials, LocalDescription, OfferConfig, Policy, RemoteAnswer, TrackDescription,
    Transport, answer_play, answer_publish, make_offer, parse_offer, read_answer,
};
use rtc::{PeerConfig, Side, Timeouts};

use crate::certificate;

/// An offer that was answered.
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// The same as the client reads it.
    pub remote: RemoteAnswer,
    /// The server's peer, with default timeouts.
    pub peer: PeerConfig,
}

/// Answers as a server with these UDP ports: a publisher, or a viewer of `viewed`. `None` if they have no
/// codec in common.
pub fn answer(
    offer: &OfferConfig,
    ice: IceCredentials,
    udp: &[SocketAddr],
    viewed: Option<&[TrackDescription]>,
) -> Option<Answered> {
    let parsed = parse_offer(&make_offer(offer)).expect("an offer");
    let local = LocalDescription {
        ice: ice.clone(),
        fingerprint: certificate().fingerprint(),
        candidates: udp.iter().map(|at| Candidate::host(*at, Transport::Udp, 65_535)).collect(),
        ice_lite: true,
        session_id: 1,
        first_ssrc: 0x5000_0001,
        stream_id: "test".to_owned(),
    };
    let answer = match viewed {
        None => answer_publish(&parsed, &local, &Policy::publish()),
        Some(tracks) => answer_play(&parsed, &local, &Policy::play(), tracks),
    };
    let answer = answer.ok()?;
    let remote = read_answer(&answer.sdp, offer).expect("an answer");
    let peer = PeerConfig {
        side: Side::Lite,
        local_ice: ice,
        remote_ice: answer.remote.ice.clone(),
        local_addresses: Vec::new(),
        remote_candidates: answer.remote.candidates.clone(),
        dtls: rtc::dtls::Config::new(certificate(), answer.remote.fingerprints.clone()),
        dtls_role: answer.setup.answerer_role(),
        timeouts: Timeouts::default(),
    };
    Some(Answered { answer, remote, peer })
}
