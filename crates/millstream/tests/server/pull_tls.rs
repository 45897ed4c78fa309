//! Pulls by HTTPS and RTMPS: certificates are checked, and a private authority can be trusted.

use crate::common::flv::sample_tags;
use crate::common::origin::{LOCAL, add_pull, wait_for_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tls;
use rtmp::MediaKind;
use rtmp::flv::Tag;

#[test]
fn certificates_decide_and_a_private_authority_can_be_trusted() {
    let (origin, _, files) = tls::server(1, "");
    let certificate = files.path().join("chain.pem").display().to_string();
    let (https, rtmps) = (origin.https.expect("HTTPS").port(), origin.rtmps.expect("RTMPS").port());
    let trusting = Server::start(&format!("{LOCAL}ca_file = \"{certificate}\"\n"));
    let strict = Server::start(LOCAL);
    let urls = [
        ("by-https", format!("https://localhost:{https}/live/mill.flv")),
        ("by-rtmps", format!("rtmps://localhost:{rtmps}/live/mill")),
    ];
    for (name, url) in &urls {
        add_pull(&strict, name, url);
        let pull = wait_for_pull(&strict, name, "refused", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains("certificate"), "{pull}");
        add_pull(&trusting, name, url);
        // The same certificate, but it is not for this name.
        add_pull(&trusting, &format!("{name}-address"), &url.replace("localhost", "127.0.0.1"));
    }
    let mut players: Vec<_> =
        urls.iter().map(|(name, _)| RtmpClient::play(trusting.rtmp, &format!("live/{name}"))).collect();
    urls.iter().for_each(|(name, _)| trusting.wait_for_players(&format!("live/{name}"), 1));
    origin.wait_for_players("live/mill", 2);
    let tags = sample_tags();
    let frames: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut publisher = RtmpClient::publish(origin.rtmp, "live/mill");
    publisher.send_tags(&tags);
    for player in &mut players {
        let played = player.take_frames(frames.len());
        assert!(played.iter().zip(&frames).all(|(played, sent)| played.payload == sent.body));
    }
    for (name, _) in &urls {
        let name = format!("{name}-address");
        let pull = wait_for_pull(&trusting, &name, "refused", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains("certificate"), "{pull}");
    }
}
