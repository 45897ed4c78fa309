//! A server is a WebRTC client of another: it pushes by WHIP and pulls by WHEP. Pictures arrive as
//! they were, nothing secret is shown, and what servers say that refuse, hang or lie is retried.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use rtmp::MediaKind;
use rtmp::flv::Tag;
use rtp::rtcp::{Pli, Rtcp};
use serde_json::Value;

use crate::common::flv::{is_frame, sample_tags};
use crate::common::openapi::departures;
use crate::common::origin::{LOCAL, add_pull, post, wait_for_pull};
use crate::common::rtc::Client;
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tls;
use crate::common::tools::{publish, publish_repeated};
use crate::common::{TIMEOUT, eventually, http};

/// Coded slices of a picture in FLV: what is left when parameter sets, delimiters and SEI are taken
/// out.
fn slices(body: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut found) = (body.get(5..).unwrap_or_default(), Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let Some((unit, next)) = behind.split_at_checked(u32::from_be_bytes(*length) as usize) else { break };
        if unit.first().is_some_and(|head| (1..=5).contains(&(head & 0x1f))) {
            found.push(unit.to_vec());
        }
        rest = next;
    }
    found
}

fn pictures(tags: &[Tag]) -> Vec<Vec<Vec<u8>>> {
    tags.iter()
        .filter(is_frame)
        .filter(|tag| tag.kind == MediaKind::Video)
        .map(|tag| slices(&tag.body))
        .collect()
}

/// Fails unless a player gets so many pictures in a row that are a run of the source's, one after
/// another, and some audio. What it gets first may be of a publication before.
fn assert_plays(server: &Server, stream: &str, run: usize) {
    let source = pictures(&sample_tags());
    // The film is published again and again.
    let source: Vec<_> = source.iter().chain(&source).cloned().collect();
    let mut player = RtmpClient::play(server.rtmp, stream);
    let (mut played, mut audio) = (Vec::new(), 0);
    loop {
        let message = player.next_media().expect("the stream goes on");
        match message.kind {
            MediaKind::Video if message.payload.get(1) == Some(&1) => played.push(slices(&message.payload)),
            MediaKind::Audio => audio += 1,
            _ => continue,
        }
        let last = &played[played.len().saturating_sub(run)..];
        if last.len() == run && audio >= run && source.windows(run).any(|window| window == last) {
            return;
        }
        assert!(played.len() < 5 * run, "{run} pictures in a row are no run of the source's");
    }
}

fn wait_for_push(server: &Server, what: &str, mut check: impl FnMut(&Value) -> bool) -> Value {
    eventually(what, || {
        let stream = server.api("/api/v1/pushes")["pushes"][0]["streams"][0].clone();
        check(&stream).then_some(stream)
    })
}

#[test]
fn what_is_pushed_by_whip_plays_at_the_other_server() {
    let target = Server::start_workers(2, "[auth]\npublish_token = \"sesame\"\n");
    let config = format!(
        "{LOCAL}[[push]]\nstream = \"live/*\"\nurl = \"whip://{}/whip/copy/{{stream}}\"\n\
         token = \"sesame\"\n",
        target.http
    );
    let server = Server::start_workers(2, &config);
    let publisher = publish_repeated(&server.rtmp_url("live/mill"), 1, 9);
    assert_plays(&target, "copy/mill", 60);
    let push = wait_for_push(&server, "it is live", |push| push["state"] == "live");
    assert_eq!(push["not_carried"], Value::Null, "{push}");
    assert_eq!(push["url"], format!("whip://{}/whip/copy/mill", target.http), "{push}");
    let sessions = target.sessions("stream=copy/mill&role=publisher");
    assert_eq!(sessions[0]["protocol"], "whip", "{sessions:?}");
    let answer = server.api("/api/v1/pushes");
    let found = departures(&server.api("/api/v1/openapi.json"), "/api/v1/pushes", &answer);
    assert!(found.is_empty(), "{found:?}");
    assert!(!answer.to_string().contains("sesame") && !server.log().contains("sesame"), "{answer}");
    drop(publisher);
    target.wait_for_publisher("copy/mill", false);
    assert!(target.sessions("stream=copy/mill&role=publisher").is_empty());
}

#[test]
fn a_key_frame_that_a_viewer_of_the_target_asks_for_is_asked_of_the_publisher() {
    let target = Server::start("");
    let url = format!("whip://{}/whip/copy/{{stream}}", target.http);
    // The bridge asks for none by itself.
    let more = "[stream]\nbridge_key_frame_interval_ms = 60000\n";
    let server = Server::start(&format!("{LOCAL}{more}[[push]]\nstream = \"live/*\"\nurl = \"{url}\"\n"));
    let mut publisher = Client::publish(&server, "live/cam");
    let mut number = 0;
    let is_asked = |publisher: &mut Client| {
        let reports = std::mem::take(&mut publisher.reports);
        let packets = reports.iter().flat_map(|compound| rtp::rtcp::packets(compound).flatten());
        packets.filter(|packet| matches!(packet, Rtcp::Pli(_) | Rtcp::Fir(_))).count() > 0
    };
    // In real time: the number of a picture is its time.
    publisher.until("the target has the stream", |publisher| {
        let asked = is_asked(publisher);
        publisher.send_video(number, asked || number == 0, 500);
        number += 1;
        publisher.until_within(Duration::from_millis(30), |_| false);
        target.api("/api/v1/streams")["streams"][0]["state"] == "live"
    });
    let mut viewer = Client::play(&target, "copy/cam");
    viewer.until("a picture", |viewer| {
        let asked = is_asked(&mut publisher);
        publisher.send_video(number, asked, 500);
        number += 1;
        publisher.until_within(Duration::from_millis(30), |_| false);
        !viewer.media.is_empty()
    });
    // What the begin has made it ask for has come.
    for _ in 0..60 {
        let asked = is_asked(&mut publisher);
        publisher.send_video(number, asked, 500);
        number += 1;
        publisher.until_within(Duration::from_millis(30), |_| false);
    }
    let media_ssrc = viewer.source(MediaKind::Video).ssrc;
    let mut compound = Vec::new();
    Pli { sender_ssrc: 1, media_ssrc }.write(&mut compound);
    viewer.send_rtcp(&compound);
    viewer.until("the publisher is asked", |_| {
        publisher.send_video(number, false, 500);
        number += 1;
        publisher.until_within(Duration::from_millis(30), |_| false);
        is_asked(&mut publisher)
    });
}

#[test]
fn what_is_pulled_by_whep_plays_here_and_comes_back() {
    let origin = Server::start_workers(2, "[auth]\nplay_token = \"sesame\"\n");
    let config = format!(
        "{LOCAL}[[pull]]\nstream = \"live/cam\"\nurl = \"whep://{}/whep/live/mill\"\ntoken = \"sesame\"\n",
        origin.http
    );
    let server = Server::start_workers(2, &config);
    let pull = wait_for_pull(&server, "cam", "nobody publishes", |pull| pull["last_error"].is_string());
    assert!(pull["last_error"].as_str().is_some_and(|error| error.contains("409")), "{pull}");
    for round in 0..2 {
        let publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 9);
        assert_plays(&server, "live/cam", 60);
        let pull = wait_for_pull(&server, "cam", "live", |pull| pull["state"] == "live");
        assert_eq!(pull["url"], format!("whep://{}/whep/live/mill", origin.http), "{pull}");
        assert!(!pull.to_string().contains("sesame") && !server.log().contains("sesame"), "{pull}");
        let session = &origin.sessions("role=player")[0];
        assert_eq!(session["protocol"], "whep", "{session}");
        if round == 0 {
            // The session is ended over there, and the pull begins again.
            let id = session["id"].as_str().expect("an id").to_owned();
            let path = format!("/api/v1/sessions/{id}");
            http::request(origin.http, "DELETE", &path, &[]).expect("an answer");
            wait_for_pull(&server, "cam", "live again", |pull| {
                pull["reconnects"].as_u64() > Some(0) && pull["state"] == "live"
            });
        }
        drop(publisher);
        origin.wait_for_publisher("live/mill", false);
    }
    let removed = http::request(server.http, "DELETE", "/api/v1/pulls/live/cam", &[]).expect("an answer");
    assert_eq!(removed.status, 204);
}

/// A server that answers each request with the same bytes, and keeps the connection open if they
/// are none; the requests that it got.
fn http_server(answer: String) -> (std::net::SocketAddr, std::sync::mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = listener.local_addr().expect("an address");
    let (told, asked) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for socket in listener.incoming() {
            let mut socket = socket.expect("a client");
            let mut buffer = vec![0; 16 << 10];
            let read = socket.read(&mut buffer).unwrap_or(0);
            if told.send(String::from_utf8_lossy(&buffer[..read]).into_owned()).is_err() {
                return;
            }
            let _ = socket.write_all(answer.as_bytes());
            if answer.is_empty() {
                kept.push(socket);
            }
        }
    });
    (address, asked)
}

fn created(sdp: &str) -> String {
    let length = sdp.len();
    format!(
        "HTTP/1.1 201 Created\r\nContent-Type: application/sdp\r\nLocation: /session/7\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{sdp}"
    )
}

/// An answer whose server is at this address.
fn answer_at(candidate: &str) -> String {
    let fingerprint = ["00"; 32].join(":");
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0 1\r\na=ice-lite\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 111\r\nc=IN IP4 0.0.0.0\r\na=mid:0\r\na=ice-ufrag:abcd\r\n\
         a=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 {fingerprint}\r\na=setup:passive\r\n\
         a=sendonly\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n{candidate}\
         m=video 0 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\na=mid:1\r\na=inactive\r\n"
    )
}

#[test]
fn whep_servers_that_refuse_hang_or_lie_are_retried_with_a_reason() {
    let dead = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let dead = format!(
        "a=candidate:1 1 udp 2130706431 127.0.0.1 {} typ host\r\n",
        dead.local_addr().unwrap().port()
    );
    let bomb = "a=x\r\n".repeat(60_000);
    let cases = [
        (String::new(), "does not answer in time"),
        ("HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\n\r\nno\x07!".to_owned(), "answers 403: no!"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(), "answers 200"),
        ("RTSP/1.0 200 OK\r\n\r\n".to_owned(), "no HTTP"),
        ("HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\n\r\n".to_owned(), "redirects to nowhere"),
        (
            "HTTP/1.1 308 Permanent Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "too often",
        ),
        (created("garbage"), "cannot be used"),
        (created(&bomb), "too long"),
        (created(&answer_at("")), "no address for media"),
        (created(&answer_at(&dead)), "none of the server's addresses"),
    ];
    let mut server = Server::start(&format!("{LOCAL}connect_timeout_ms = 700\n"));
    for (at, (answer, reason)) in cases.into_iter().enumerate() {
        let (address, asked) = http_server(answer);
        let name = format!("cam{at}");
        let body = format!(
            "{{\"app\": \"live\", \"name\": \"{name}\", \"url\": \"whep://{address}/x?k=hidden\", \
             \"token\": \"sesame\"}}"
        );
        let added = post(&server, "/api/v1/pulls", &body);
        assert_eq!(added.status, 201, "{}", added.text());
        let pull = wait_for_pull(&server, &name, "it has failed", |pull| {
            pull["last_error"].as_str().is_some_and(|error| error.contains(reason))
        });
        assert!(!pull.to_string().contains("sesame") && !pull.to_string().contains("hidden"), "{pull}");
        let first = asked.recv_timeout(TIMEOUT).expect("a request");
        assert!(first.starts_with("POST /x?k=hidden HTTP/1.1\r\n"), "{first}");
        assert!(first.to_ascii_lowercase().contains("authorization: bearer sesame\r\n"), "{first}");
        if reason.contains("addresses") || reason.contains("no address") {
            // The session that nobody uses is deleted.
            eventually("a DELETE", || {
                asked
                    .recv_timeout(Duration::from_secs(10))
                    .ok()
                    .filter(|text| text.starts_with("DELETE /session/7 "))
            });
        }
    }
    assert!(!server.log().contains("sesame"), "{}", server.log());
    server.assert_healthy();
}

#[test]
fn whip_servers_that_refuse_take_no_codec_or_lead_here_are_said() {
    let (address, asked) =
        http_server("HTTP/1.1 406 Not Acceptable\r\nContent-Length: 7\r\n\r\nno H264".to_owned());
    let config = format!("{LOCAL}[[push]]\nstream = \"live/*\"\nurl = \"whip://{address}/{{stream}}\"\n");
    let server = Server::start(&config);
    let publisher = publish(&server.rtmp_url("live/mill"), 1);
    let push = wait_for_push(&server, "it has failed", |push| push["last_error"].is_string());
    assert_eq!(push["last_error"], "the server answers 406: no H264", "{push}");
    let offer = asked.recv_timeout(TIMEOUT).expect("a request");
    assert!(offer.starts_with("POST /mill HTTP/1.1\r\n") && !offer.contains("uthorization"), "{offer}");
    drop(publisher);
    let broken = "HTTP/1.1 201 Created\r\nContent-Length: 900\r\n\r\nv=0\r\n";
    let (address, _asked) = http_server(broken.to_owned());
    let body = format!("{{\"stream\": \"live/mill\", \"url\": \"whip://{address}/x\"}}");
    assert_eq!(post(&server, "/api/v1/pushes", &body).status, 201);
    let publisher = publish(&server.rtmp_url("live/mill"), 1);
    eventually("a server that closes is said", || {
        let stream = server.api("/api/v1/pushes/2")["streams"][0].clone();
        stream["last_error"].as_str()?.contains("breaks off").then_some(())
    });
    drop(publisher);
    let body =
        format!("{{\"stream\": \"live/*\", \"url\": \"whip://{}/whip/live/x{{stream}}\"}}", server.http);
    assert_eq!(post(&server, "/api/v1/pushes", &body).status, 201);
    let _publisher = publish(&server.rtmp_url("live/mill"), 1);
    eventually("a push to this server itself is refused", || {
        let stream = server.api("/api/v1/pushes/3")["streams"][0].clone();
        stream["last_error"].as_str()?.contains("leads to this server").then_some(())
    });
    let public = Server::start("");
    for url in ["whip://127.0.0.1/whip/a/b", "whips://[::1]/x", "https://h/whip/a/b", "whip://u:p@h/x"] {
        let answer = post(&public, "/api/v1/pushes", &format!("{{\"stream\": \"a/b\", \"url\": \"{url}\"}}"));
        assert_eq!(answer.status, 400, "{url}: {}", answer.text());
    }
    let token = "{\"stream\": \"a/b\", \"url\": \"rtmp://8.8.8.8/a/b\", \"token\": \"x\"}";
    assert_eq!(post(&public, "/api/v1/pushes", token).status, 400);
}

#[test]
fn whips_wheps_and_rtsps_check_certificates() {
    let (other, _, files) = tls::server(1, "");
    let certificate = files.path().join("chain.pem").display().to_string();
    let (https, rtsps) = (other.https.expect("HTTPS").port(), other.rtsps.expect("RTSPS").port());
    let pushes = [
        format!("whips://localhost:{https}/whip/copy/whips"),
        format!("rtsps://localhost:{rtsps}/copy/rtsps"),
    ];
    let pulls = [
        ("wheps", format!("wheps://localhost:{https}/whep/copy/whips")),
        ("rtsps", format!("rtsps://localhost:{rtsps}/copy/rtsps")),
    ];
    let pushes = pushes.map(|url| format!("[[push]]\nstream = \"live/mill\"\nurl = \"{url}\"\n")).concat();
    let server = Server::start(&format!("{LOCAL}ca_file = \"{certificate}\"\n{pushes}"));
    let _publisher = publish_repeated(&server.rtmp_url("live/mill"), 1, 9);
    for name in ["whips", "rtsps"] {
        assert_plays(&other, &format!("copy/{name}"), 30);
    }
    let strict = Server::start(LOCAL);
    for (name, url) in &pulls {
        add_pull(&strict, name, url);
        let pull = wait_for_pull(&strict, name, "refused", |pull| pull["last_error"].is_string());
        assert!(pull["last_error"].as_str().expect("a reason").contains("certificate"), "{pull}");
        add_pull(&server, name, url);
        assert_plays(&server, &format!("live/{name}"), 30);
    }
}
