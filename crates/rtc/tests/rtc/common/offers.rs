//! Offers of real peers, and a server's side to answer them with.
//!
//! `chromium_*` were recorded from Chromium 156; the others are written by hand in the style of
//! their peer.

#![allow(dead_code, reason = "each test file uses a part")]

use std::net::SocketAddr;
use std::sync::LazyLock;

use rtc::dtls::Fingerprint;
use rtc::sdp::{Candidate, IceCredentials, LocalDescription, Transport};

/// Name and text, lines ended by CR LF.
pub(crate) struct Sample {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

macro_rules! samples {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../offers/", $name, ".sdp")))),*]
    };
}

/// All samples.
pub(crate) static SAMPLES: LazyLock<Vec<Sample>> = LazyLock::new(|| {
    let files = samples![
        "aiortc_play",
        "aiortc_publish",
        "chromium_play",
        "chromium_publish",
        "chromium_simulcast",
        "ffmpeg_publish",
        "firefox_play",
        "firefox_publish",
        "firefox_simulcast",
        "gstreamer_play",
        "gstreamer_publish",
        "janus_stream",
        "obs_publish",
        "pion_play",
        "pion_publish",
        "safari_play",
        "safari_publish",
    ];
    files.into_iter().map(|(name, text)| Sample { name, text: text.replace('\n', "\r\n") }).collect()
});

/// The text of a sample.
pub(crate) fn sample(name: &str) -> &'static str {
    &SAMPLES.iter().find(|sample| sample.name == name).expect("a sample of that name").text
}

/// A server with one UDP address of each kind, and TCP.
pub(crate) fn server() -> LocalDescription {
    let address = |text: &str| -> SocketAddr { text.parse().expect("an address") };
    LocalDescription {
        ice: IceCredentials::new("srvUfrag", "serverPassword0123456789").expect("well-formed"),
        fingerprint: Fingerprint::of(rtc::dtls::FingerprintHash::Sha256, b"certificate of the server"),
        candidates: vec![
            Candidate::host(address("203.0.113.5:8189"), Transport::Udp, 65535),
            Candidate::host(address("[2001:db8::5]:8189"), Transport::Udp, 65534),
            Candidate::host(address("203.0.113.5:8189"), Transport::Tcp, 65535),
        ],
        ice_lite: true,
        session_id: 0x1234_5678_9abc_def0,
        first_ssrc: 0x4d53_0000,
        stream_id: "live/camera".to_owned(),
    }
}
