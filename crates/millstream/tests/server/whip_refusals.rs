//! Offers the real server does not take: who publishes already, who plays what is not there, too many at
//! once.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http::{self, Response};
use crate::common::rtc::{Client, OfferOptions, Options, counter, offer, post, wait_for_no_sessions};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use rtc::sdp::{Direction, make_offer};

fn sdp(direction: Direction) -> String {
    let local = "127.0.0.1:50000".parse().expect("an address");
    make_offer(&offer(direction, local, &OfferOptions::default()))
}

fn try_open(server: &Server, path: &str, direction: Direction) -> Response {
    post(server.http, path, &sdp(direction), &[]).expect("a response")
}

fn code(response: &Response) -> String {
    response.json()["error"]["code"].as_str().expect("a code").to_owned()
}

#[test]
fn a_second_publisher_is_refused_whatever_the_first_one_speaks() {
    let server = Server::start("");
    let _whip = Client::publish(&server, "live/packets");
    let mut rtmp = RtmpClient::publish(server.rtmp, "live/frames");
    rtmp.send_tags(&sample_tags()[..60]);
    server.wait_for_publisher("live/frames", true);
    for stream in ["packets", "frames"] {
        let refused = try_open(&server, &format!("/whip/live/{stream}"), Direction::Send);
        assert_eq!((refused.status, code(&refused).as_str()), (409, "already_published"), "{stream}");
        assert!(refused.header("retry-after").is_some());
    }
}

#[test]
fn a_second_publisher_takes_over_where_that_is_configured() {
    let server = Server::start("[stream]\nsecond_publisher = \"take_over\"\n");
    let mut first = Client::publish(&server, "live/a");
    let second = Client::publish(&server, "live/a");
    first.until("the first one is told", |first| first.closed || first.failed.is_some());
    eventually("its URL is forgotten", || (first.delete() == 404).then_some(()));
    assert_eq!(second.delete(), 200);
    wait_for_no_sessions(&server);
}

#[test]
fn what_nobody_publishes_is_not_played() {
    let server = Server::start("");
    let refused = try_open(&server, "/whep/live/a", Direction::Receive);
    assert_eq!((refused.status, code(&refused).as_str()), (409, "not_live"));
    assert!(refused.header("retry-after").expect("when to come back").parse::<u32>().expect("seconds") > 0);
}

#[test]
fn where_bridges_are_off_what_is_not_published_as_packets_is_not_played_as_packets() {
    let server = Server::start("[stream]\nbridge = false\n");
    let mut rtmp = RtmpClient::publish(server.rtmp, "live/a");
    rtmp.send_tags(&sample_tags()[..60]);
    server.wait_for_publisher("live/a", true);
    let refused = try_open(&server, "/whep/live/a", Direction::Receive);
    assert_eq!((refused.status, code(&refused).as_str()), (406, "not_playable"), "{}", refused.text());
    assert_eq!(server.api("/api/v1/streams/live/a")["urls"]["whep"], "");
}

#[test]
fn where_bridges_are_off_what_is_not_published_as_frames_is_not_played_as_frames() {
    let server = Server::start_workers(2, "[stream]\nbridge = false\n");
    let _publisher = Client::publish(&server, "live/a");
    for _ in 0..4 {
        let refused = http::get(server.http, "/live/a.flv").expect("a response");
        assert_eq!(refused.status, 406, "{}", refused.text());
        assert!(refused.text().contains("WHEP"), "{}", refused.text());
    }
    assert_eq!(server.sessions("role=player").len(), 0, "no player is left waiting");
}

#[test]
fn offers_that_no_media_follows_are_bounded_and_make_room_again() {
    let server = Server::start("[rtc]\npending_per_address = 4\npending_timeout_ms = 1000\n");
    let _publisher = Client::publish(&server, "live/a");
    let mut statuses = Vec::new();
    for _ in 0..6 {
        let response = try_open(&server, "/whep/live/a", Direction::Receive);
        assert_eq!(response.header("retry-after").is_some(), response.status == 429);
        statuses.push(response.status);
    }
    assert_eq!(statuses[..4], [201; 4]);
    assert!(statuses.contains(&429), "{statuses:?}");
    eventually("there is room again", || {
        (try_open(&server, "/whep/live/a", Direction::Receive).status == 201).then_some(())
    });
    eventually("they were freed", || (counter(&server, "sessions_expired") >= 4).then_some(()));
}

#[test]
fn full_workers_say_so() {
    let server = Server::start_workers(2, "[rtc]\nsessions_per_worker = 1\n");
    let first = Client::publish(&server, "live/a");
    let second = Client::play(&server, "live/a");
    let refused = try_open(&server, "/whep/live/a", Direction::Receive);
    assert_eq!((refused.status, code(&refused).as_str()), (503, "full"));
    assert!(refused.header("retry-after").is_some());
    assert_eq!((second.delete(), first.delete()), (200, 200));
    wait_for_no_sessions(&server);
    eventually("there is room again", || {
        (try_open(&server, "/whip/live/b", Direction::Send).status == 201).then_some(())
    });
}

#[test]
fn tokens_hold_for_webrtc_too() {
    let server = Server::start("[auth]\npublish_token = \"pub\"\nplay_token = \"view\"\n");
    let refused = try_open(&server, "/whip/live/a", Direction::Send);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    let with = |token: &str| Options {
        headers: vec![("Authorization", format!("Bearer {token}"))],
        ..Options::default()
    };
    let wrong =
        Client::try_open(&server, "/whip/live/a", Direction::Send, &with("view")).err().expect("refused");
    assert_eq!(wrong.status, 401);
    assert_eq!(counter(&server, "refused_requests"), 2, "guessing of tokens is seen in the metrics");
    let mut publisher = Client::open(&server, "/whip/live/a", Direction::Send, &with("pub"));
    publisher.connect();
    let mut viewer =
        Client::open(&server, "/whep/live/a?token=view", Direction::Receive, &Options::default());
    viewer.connect();
}

#[test]
fn pages_of_other_sites_cannot_publish_to_a_server_on_this_machine() {
    let server = Server::start("");
    let foreign = [("Origin", "https://example.org"), ("Sec-Fetch-Site", "cross-site")];
    let refused = post(server.http, "/whip/live/a", &sdp(Direction::Send), &foreign).expect("a response");
    assert_eq!((refused.status, code(&refused).as_str()), (403, "cross_site"));
    let origin = format!("http://{}", server.http);
    let own = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(
        post(server.http, "/whip/live/a", &sdp(Direction::Send), &own).expect("a response").status,
        201
    );
}

#[test]
fn preflights_of_players_on_other_sites_are_answered() {
    let server = Server::start("");
    let asked = [("Origin", "https://example.org"), ("Access-Control-Request-Method", "POST")];
    for path in ["/whip/live/a", "/whep/live/a"] {
        let answer = http::request(server.http, "OPTIONS", path, &asked).expect("a response");
        assert_eq!((answer.status, answer.header("accept-post")), (200, Some("application/sdp")), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert!(answer.header("access-control-allow-headers").expect("fields").contains("Authorization"));
    }
}

#[test]
fn an_offer_may_come_in_pieces() {
    let server = Server::start("");
    let body = sdp(Direction::Send);
    let mut socket = TcpStream::connect(server.http).expect("a connection");
    socket.set_read_timeout(Some(crate::common::TIMEOUT)).expect("a socket option");
    socket.set_nodelay(true).expect("a socket option");
    let head = format!(
        "POST /whip/live/a HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/sdp\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        server.http
    );
    socket.write_all(head.as_bytes()).expect("sent");
    for piece in body.as_bytes().chunks(100) {
        socket.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).expect("sent");
        socket.write_all(piece).expect("sent");
        socket.write_all(b"\r\n").expect("sent");
    }
    socket.write_all(b"0\r\n\r\n").expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer, then the end");
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
}

#[test]
fn a_server_without_webrtc_says_that_there_is_none() {
    let server = Server::start("[rtc]\nudp_listen = []\n");
    let refused = try_open(&server, "/whip/live/a", Direction::Send);
    assert_eq!((refused.status, code(&refused).as_str()), (404, "webrtc_off"));
    assert_eq!(server.api("/api/v1/server")["endpoints"]["whip"], serde_json::json!([]));
}
