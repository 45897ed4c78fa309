//! RTMPS in, RTMPS and HTTPS-FLV out, with a self-signed certificate: every packet arrives unchanged.

use crate::common::server::Server;
use crate::common::tools::{Player, frames_of, publish, sample};

#[test]
fn ffmpeg_publishes_and_plays_over_tls_with_identical_frames() {
    let source = frames_of(&sample());
    let server = Server::start("[tls]\nself_signed = true\n");
    let rtmps = format!("rtmps://{}/live/mill", server.rtmps.expect("an RTMPS address"));
    let https = format!("https://{}/live/mill.flv", server.https.expect("an HTTPS address"));
    let players = [&rtmps, &https].map(|url| {
        let listing = server.dir.path().join(url[..5].replace(':', ""));
        Player::start(url, listing)
    });
    server.wait_for_players("live/mill", 2);
    let publisher = publish(&rtmps, 4);
    server.wait_for_publisher("live/mill", true);
    let protocols: Vec<_> =
        server.sessions("stream=live/mill").iter().map(|s| s["protocol"].clone()).collect();
    assert!(protocols.contains(&"rtmps".into()) && protocols.contains(&"https-flv".into()), "{protocols:?}");
    publisher.finish();
    for player in players {
        player.frames_after_end().assert_same_as(&source);
    }
}

#[test]
fn plain_text_on_a_tls_port_harms_nobody() {
    let mut server = Server::start("[tls]\nself_signed = true\nself_signed_names = ['localhost']\n");
    for address in [server.rtmps.expect("RTMPS"), server.https.expect("HTTPS")] {
        let mut socket = std::net::TcpStream::connect(address).expect("connect");
        std::io::Write::write_all(&mut socket, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("send");
        let closed = crate::common::raw::read_until_closed(&mut socket, crate::common::TIMEOUT);
        assert!(closed.is_some(), "the connection is closed");
    }
    server.assert_healthy();
}
