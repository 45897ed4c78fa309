//! A server pushes what is published to another: every frame arrives, whatever the target does the
//! players of the stream are served, and nothing secret is shown.

use std::io::Read;
use std::net::TcpListener;

use serde_json::Value;

use crate::common::flv::sample_tags;
use crate::common::openapi::departures;
use crate::common::origin::{LOCAL, post};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tls;
use crate::common::tools::{
    Frames, Packet, Player, Running, compare, ffmpeg, frames_of, frames_with, publish, sample,
};
use crate::common::{TIMEOUT, eventually, http, lasting_address, port_for_later, wait_for_udp_listener};
use rtmp::MediaKind;
use rtmp::flv::Tag;

/// The stream of the first push, once `check` holds for it.
fn wait_for_push(server: &Server, what: &str, mut check: impl FnMut(&Value) -> bool) -> Value {
    eventually(what, || {
        let stream = server.api("/api/v1/pushes")["pushes"][0]["streams"][0].clone();
        check(&stream).then_some(stream)
    })
}

fn pushing(stream: &str, url: &str) -> Server {
    Server::start_workers(2, &format!("{LOCAL}[[push]]\nstream = \"{stream}\"\nurl = \"{url}\"\n"))
}

#[test]
fn by_rtmp_every_frame_arrives_unchanged_and_nothing_secret_is_shown() {
    let target = Server::start_workers(2, "");
    let url = format!("rtmp://{}/copy/{{app}}/{{stream}}?token=secret", target.rtmp);
    let server = pushing("live/*", &url);
    let mut player = RtmpClient::play(target.rtmp, "copy/live/mill");
    let tags = sample_tags();
    let frames: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let played = player.take_frames(frames.len());
    let zero = played[0].timestamp.wrapping_sub(frames[0].timestamp);
    for (index, (played, sent)) in played.iter().zip(&frames).enumerate() {
        assert!(played.kind == sent.kind && played.payload == sent.body, "message {index}");
        assert_eq!(played.timestamp.wrapping_sub(zero), sent.timestamp, "time of message {index}");
    }
    let push = wait_for_push(&server, "it is live", |push| push["state"] == "live");
    assert_eq!(push["frames_left_out"], 0, "{push}");
    assert!(push["bytes"].as_u64().expect("bytes") > 700_000, "{push}");
    let shown = push["url"].as_str().expect("a URL");
    assert_eq!(shown, format!("rtmp://{}/copy/live/mill?...", target.rtmp));
    let document = server.api("/api/v1/openapi.json");
    for (template, path) in [
        ("/api/v1/pushes", "/api/v1/pushes"),
        ("/api/v1/pushes/{id}", "/api/v1/pushes/1"),
        ("/api/v1/sessions", "/api/v1/sessions"),
    ] {
        let answer = server.api(path);
        let found = departures(&document, template, &answer);
        assert!(found.is_empty(), "GET {path}:\n  {}", found.join("\n  "));
        assert!(!answer.to_string().contains("secret"), "{answer}");
    }
    let session = &server.sessions("stream=live/mill&role=player")[0];
    assert_eq!((&session["protocol"], &session["user_agent"]), (&"push".into(), &push["url"]));
    let metrics = http::get(server.http, "/metrics").expect("metrics").text();
    for line in [
        "millstream_pushes{state=\"live\"} 1",
        "millstream_push_sent_bytes_total{app=\"live\",stream=\"mill\"} ",
        "millstream_push_failures_total{app=\"live\",stream=\"mill\"} 0",
        "millstream_push_left_out_frames_total{app=\"live\",stream=\"mill\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
    publisher.end();
    target.wait_for_publisher("copy/live/mill", false);
    eventually("the push is over", || {
        server.api("/api/v1/pushes")["pushes"][0]["streams"].as_array()?.is_empty().then_some(())
    });
    assert!(!server.log().contains("secret") && !metrics.contains("secret"), "{}", server.log());
}

#[test]
fn times_go_on_at_the_target_where_the_publishers_clock_is_set_back() {
    let target = Server::start_workers(2, "");
    let server = pushing("live/*", &format!("rtmp://{}/copy/{{app}}/{{stream}}", target.rtmp));
    let mut player = RtmpClient::play(target.rtmp, "copy/live/mill");
    let mut tags = sample_tags();
    let half = tags.len() / 2;
    // An hour: RTMP cannot say what is earlier than its begin.
    tags[..half].iter_mut().for_each(|tag| tag.timestamp += 3_600_000);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let sent: Vec<u32> =
        tags.iter().filter(|tag| tag.kind != MediaKind::Data).map(|tag| tag.timestamp).collect();
    let played: Vec<u32> = player.take_frames(sent.len()).iter().map(|frame| frame.timestamp).collect();
    let steps = sent.windows(2).zip(played.windows(2)).map(|(sent, played)| {
        let step = |times: &[u32]| i64::from(times[1]) - i64::from(times[0]);
        (step(sent), step(played))
    });
    let (jumps, others): (Vec<_>, Vec<_>) = steps.partition(|(sent, _)| *sent < -3_000_000);
    assert!(matches!(jumps[..], [(_, 1..10_000)]), "{jumps:?}");
    assert!(others.iter().all(|(sent, played)| sent == played), "{others:?}");
}

#[test]
fn by_rtmps_certificates_decide_and_a_private_authority_can_be_trusted() {
    let (target, _, files) = tls::server(2, "");
    let certificate = files.path().join("chain.pem").display().to_string();
    let port = target.rtmps.expect("RTMPS").port();
    let push = |host: &str| {
        format!("[[push]]\nstream = \"live/mill\"\nurl = \"rtmps://{host}:{port}/copy/{{stream}}\"\n")
    };
    // Whom nobody vouches for, and whose certificate is for another name.
    for (trusted, host) in
        [(String::new(), "localhost"), (format!("ca_file = \"{certificate}\"\n"), "127.0.0.1")]
    {
        let strict = Server::start(&format!("{LOCAL}{trusted}{}", push(host)));
        let _publisher = RtmpClient::publish(strict.rtmp, "live/mill");
        let refused = wait_for_push(&strict, "it is refused", |push| push["last_error"].is_string());
        assert!(refused["last_error"].as_str().expect("a reason").contains("certificate"), "{refused}");
    }
    let trusting = format!("{LOCAL}ca_file = \"{certificate}\"\n{}", push("localhost"));
    let server = Server::start_workers(2, &trusting);
    let mut player = RtmpClient::play(target.rtmp, "copy/mill");
    let tags = sample_tags();
    let frames: Vec<&Tag> = tags.iter().filter(|tag| tag.kind != MediaKind::Data).collect();
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    let played = player.take_frames(frames.len());
    assert!(played.iter().zip(&frames).all(|(played, sent)| played.payload == sent.body));
    let publishers = target.sessions("stream=copy/mill&role=publisher");
    assert_eq!(publishers[0]["protocol"], "rtmps", "{publishers:?}");
}

/// Fails unless both tracks are a run of the source's packets, which lacks fewer than `missing`.
fn assert_run(played: &Frames, source: &Frames, missing: usize) {
    for (name, played, source) in
        [("video", &played.video, &source.video), ("audio", &played.audio, &source.audio)]
    {
        let content = |packet: &Packet| (packet.size, packet.checksum.clone());
        let played: Vec<_> = played.iter().map(content).collect();
        let source: Vec<_> = source.iter().map(content).collect();
        assert!(played.len() > source.len() - missing, "{name}: {} of {}", played.len(), source.len());
        assert!(source.windows(played.len()).any(|window| window == played), "{name}: a run of the source's");
    }
}

#[test]
fn by_rtsp_every_frame_arrives_unchanged_and_nothing_secret_is_shown() {
    let target = Server::start_workers(2, "[auth]\npublish_token = \"sesame\"\n");
    let url = target.rtsp_url("/copy/{app}/{stream}").replace("rtsp://", "rtsp://me:sesame@");
    let server = pushing("live/*", &url);
    let flv = Player::start(&target.flv_url("copy/live/mill"), target.dir.path().join("flv"));
    target.wait_for_players("copy/live/mill", 1);
    publish(&server.rtmp_url("live/mill"), 2).finish();
    target.wait_for_publisher("copy/live/mill", false);
    // Sound ahead of the first picture is left out, as of every publisher by RTSP.
    assert_run(&flv.frames_after_end(), &frames_of(&sample()), 20);
    let pushes = server.api("/api/v1/pushes");
    assert_eq!(pushes["pushes"][0]["url"], target.rtsp_url("/copy/{app}/{stream}"), "{pushes}");
    assert!(!server.log().contains("sesame"), "{}", server.log());
}

#[test]
fn by_rtsp_over_udp_every_frame_arrives_unchanged() {
    let target = Server::start_workers(2, "");
    let url = target.rtsp_url("/{app}/{stream}?transport=udp");
    let server = pushing("live/*", &url);
    let flv = Player::start(&target.flv_url("live/mill"), target.dir.path().join("flv"));
    target.wait_for_players("live/mill", 1);
    let publisher = publish(&server.rtmp_url("live/mill"), 2);
    wait_for_push(&server, "it is live", |push| push["state"] == "live");
    publisher.finish();
    target.wait_for_publisher("live/mill", false);
    // The end of the session overtakes the last datagrams: it goes by the connection.
    assert_run(&flv.frames_after_end(), &frames_of(&sample()), 30);
}

/// What an RTSP server of a test answers to a client's requests, one after another; then it is
/// silent.
fn rtsp_server(answers: &'static [&'static str]) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let url = format!("rtsp://me:sesame@{}/live/mill", listener.local_addr().expect("an address"));
    let serving = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        let mut said = String::new();
        for answer in answers {
            let from = said.len();
            while !said[from..].contains("\r\n\r\n") {
                let mut buffer = [0; 4096];
                let read = socket.read(&mut buffer).expect("a request");
                assert!(read > 0, "the client has gone: {said}");
                said += &String::from_utf8_lossy(&buffer[..read]);
            }
            std::io::Write::write_all(&mut socket, answer.as_bytes()).expect("the client reads");
        }
        // Until it goes.
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
        said + &String::from_utf8_lossy(&rest)
    });
    (url, serving)
}

#[test]
fn rtsp_servers_that_refuse_hang_or_say_nonsense_are_retried_with_a_reason() {
    const OPTIONS: &str = "RTSP/1.0 200 OK\r\n\r\n";
    const DIGEST: &str = "RTSP/1.0 401 Unauthorized\r\n\
        WWW-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=SHA-256\r\n\r\n";
    let cases: [(&'static [&'static str], &str); 5] = [
        (&[OPTIONS, "RTSP/1.0 403 Forbidden\r\n\r\n"], "the server answers 403"),
        (&[OPTIONS], "does not accept the stream in time"),
        (&["HTTP/1.1 200 OK\r\n\r\n"], "no RTSP"),
        (&["RTSP/1.0 200 OK\r\nContent-Length: 90000000\r\n\r\n"], "body is too long"),
        (&[OPTIONS, DIGEST, DIGEST], "does not accept the user name"),
    ];
    for (answers, reason) in cases {
        let (url, serving) = rtsp_server(answers);
        // There is no second attempt before the reason of the first one is read.
        let config = format!(
            "[sources]\nallow_private_addresses = true\nretry_min_ms = 600000\nretry_max_ms = 600000\n\
            connect_timeout_ms = 1000\n[[push]]\nstream = \"live/*\"\nurl = \"{}\"\n",
            url.replace("mill", "{stream}")
        );
        let server = Server::start(&config);
        let publisher = publish(&server.rtmp_url("live/mill"), 1);
        let push = wait_for_push(&server, "it has failed", |push| push["last_error"].is_string());
        assert!(push["last_error"].as_str().is_some_and(|error| error.contains(reason)), "{push}");
        let said = serving.join().expect("a client");
        assert!(!said.contains("sesame") && !push.to_string().contains("sesame"), "{said}");
        assert_eq!(said.contains("algorithm=SHA-256"), reason.contains("user name"), "{said}");
        drop(publisher);
    }
}

#[test]
fn by_srt_every_frame_arrives_unchanged() {
    let target = Server::start_workers(2, "");
    let srt = target.srt.expect("it listens");
    let server = pushing("live/*", &format!("srt://{srt}?streamid=publish:{{app}}/{{stream}}"));
    let rtmp = Player::start(&target.rtmp_url("live/mill"), target.dir.path().join("rtmp"));
    target.wait_for_players("live/mill", 1);
    let publisher = publish(&server.rtmp_url("live/mill"), 2);
    let push = wait_for_push(&server, "the connection is shown", |push| {
        push["srt"]["packets"].as_u64() > Some(50) && push["srt"]["rtt_ms"].is_number()
    });
    let srt = &push["srt"];
    assert_eq!((&srt["latency_ms"], &srt["dropped_packets"]), (&120.into(), &0.into()), "{push}");
    let metrics = http::get(server.http, "/metrics").expect("metrics").text();
    for name in ["sent_packets_total", "lost_packets_total", "round_trip_seconds", "buffer_seconds"] {
        let series = format!("millstream_push_srt_{name}{{app=\"live\",stream=\"mill\"}} ");
        assert!(metrics.contains(&series), "{series}");
    }
    publisher.finish();
    target.wait_for_publisher("live/mill", false);
    compare(&rtmp.frames_after_end(), &frames_of(&sample()), 0);
}

#[test]
fn by_udp_another_server_pulls_what_is_pushed() {
    let loopback = "interface=127.0.0.1";
    for (address, pulled, pushed) in [
        ("127.0.0.1", String::new(), String::new()),
        ("127.0.0.1", String::new(), "?rtp=1".to_owned()),
        ("239.255.77.78", format!("?{loopback}"), format!("?{loopback}")),
    ] {
        let port = port_for_later();
        let url = format!("udp://{address}:{port}{pulled}");
        let pull = format!("{LOCAL}[[pull]]\nstream = \"live/copy\"\nurl = \"{url}\"\n");
        let target = Server::start_workers(2, &pull);
        let server = pushing("live/mill", &format!("udp://{address}:{port}{pushed}"));
        let rtmp = Player::start(&target.rtmp_url("live/copy"), target.dir.path().join("rtmp"));
        target.wait_for_players("live/copy", 1);
        wait_for_udp_listener(port);
        publish(&server.rtmp_url("live/mill"), 2).finish();
        target.wait_for_publisher("live/copy", false);
        compare(&rtmp.frames_after_end(), &frames_of(&sample()), 0);
    }
}

#[test]
fn ffmpeg_takes_what_is_pushed_by_rtmp_and_srt() {
    let address = lasting_address();
    for (url, listen) in [
        (format!("rtmp://{address}/live/mill"), ["-listen", "1"]),
        (format!("srt://{address}?streamid=any"), ["-mode", "listener"]),
    ] {
        let server = pushing("live/mill", &url);
        let file = server.dir.path().join("taken.ts");
        let mut command = ffmpeg();
        command.args(listen).arg("-i").arg(url.split('?').next().expect("a URL"));
        command.args(["-c", "copy", "-f", "mpegts"]).arg(&file);
        let taker = Running::start(command, "ffmpeg listening");
        let publisher = publish(&server.rtmp_url("live/mill"), 2);
        publisher.finish();
        taker.finish();
        let units = "filter_units=remove_types=7-9";
        let source = frames_with(&sample(), &["-bsf:v", &format!("h264_mp4toannexb,{units}")]);
        let taken = frames_with(&file, &["-bsf:v", units, "-bsf:a", "aac_adtstoasc"]).of_transport_stream();
        // ffmpeg may listen later than the stream begins.
        assert!(taken.video.len() > 50 && taken.audio.len() > 50, "{} pictures", taken.video.len());
        for packet in &taken.video {
            assert!(source.video.iter().any(|sent| sent.checksum == packet.checksum), "{}", packet.dts);
        }
    }
}

#[test]
fn a_target_that_comes_back_gets_the_stream_again() {
    let target = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = target.local_addr().expect("an address");
    let server = pushing("live/mill", &format!("rtmp://{address}/live/mill"));
    let _publisher = publish(&server.rtmp_url("live/mill"), 1);
    let (mut socket, _) = target.accept().expect("a connection");
    accept_publisher(&mut socket);
    wait_for_push(&server, "it is live", |push| push["state"] == "live");
    drop(socket);
    wait_for_push(&server, "it has failed", |push| push["failures"].as_u64() > Some(0));
    let (mut socket, _) = target.accept().expect("another connection");
    accept_publisher(&mut socket);
    let push = wait_for_push(&server, "it is live again", |push| push["reconnects"] == 1);
    assert!(push["last_error"].is_string() && push["state"] == "live", "{push}");
    // A target that refuses is heard.
    drop(socket);
    let (mut socket, _) = target.accept().expect("a third connection");
    std::io::Write::write_all(&mut socket, &[b'x'; 4096]).expect("garbage");
    wait_for_push(&server, "garbage is said", |push| {
        push["last_error"].as_str().is_some_and(|error| error.contains("breaks the protocol"))
    });
}

#[test]
fn a_target_that_reads_nothing_does_not_hold_up_players() {
    let target = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = target.local_addr().expect("an address");
    // It answers as a server does, and then reads nothing.
    let config = format!(
        "{LOCAL}[pushes]\nstall_timeout_ms = 1500\nqueue_max_ms = 300\n\
         [[push]]\nstream = \"live/mill\"\nurl = \"rtmp://{address}/live/mill\"\n"
    );
    let server = Server::start_workers(2, &config);
    let stalled = std::thread::spawn(move || {
        let (mut socket, _) = target.accept().expect("a connection");
        accept_publisher(&mut socket);
        (target, socket)
    });
    let mut player = RtmpClient::play(server.rtmp, "live/mill");
    let tags = sample_tags();
    let is_media = |tag: &&Tag| match tag.kind {
        MediaKind::Video => tag.body[1] != 0,
        MediaKind::Audio => tag.body[1] != 0,
        MediaKind::Data => false,
    };
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&tags);
    player.take_frames(tags.iter().filter(|tag| tag.kind != MediaKind::Data).count());
    let sockets = stalled.join().expect("a publisher came");
    // Far more than the kernel keeps for the two ends.
    for round in 1..24 {
        let offset = 12_000 * round;
        let later: Vec<Tag> = tags
            .iter()
            .filter(is_media)
            .map(|tag| Tag { kind: tag.kind, timestamp: tag.timestamp + offset, body: tag.body.clone() })
            .collect();
        publisher.send_tags(&later);
        player.take_frames(later.len());
    }
    let push = wait_for_push(&server, "it gives up", |push| push["failures"].as_u64() > Some(0));
    assert_eq!(push["last_error"], "the target takes nothing", "{push}");
    assert!(push["frames_left_out"].as_u64() > Some(1_000), "{push}");
    drop(sockets);
    server.wait_for_publisher("live/mill", true);
}

/// Does what a server does up to the start of a publication.
fn accept_publisher(socket: &mut std::net::TcpStream) {
    use rtmp::server::{ServerConfig, ServerEvent, ServerSession};
    use std::io::Write;
    let mut session = ServerSession::new(&ServerConfig::default(), 1);
    let mut buffer = [0; 4096];
    loop {
        let read = socket.read(&mut buffer).expect("a client");
        assert!(read > 0, "the client is gone");
        session.handle_input(&buffer[..read]).expect("RTMP");
        let mut is_publishing = false;
        while let Some(event) = session.poll_event() {
            match event {
                ServerEvent::Connect(_) => session.accept_connect(),
                ServerEvent::Publish(_) => {
                    session.accept_publish();
                    is_publishing = true;
                }
                _ => {}
            }
        }
        let output = std::mem::take(session.output());
        socket.write_all(&output).expect("an answer");
        if is_publishing {
            return;
        }
    }
}

#[test]
fn pushes_come_and_go_over_the_api() {
    let target = Server::start("");
    let server = Server::start_workers(2, LOCAL);
    let _publisher = publish(&server.rtmp_url("live/mill"), 1);
    server.wait_for_publisher("live/mill", true);
    let body = format!("{{\"stream\": \"live/mill\", \"url\": \"rtmp://{}/live/secret-key\"}}", target.rtmp);
    let answer = post(&server, "/api/v1/pushes", &body);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(!answer.text().contains("secret"), "{}", answer.text());
    target.wait_for_publisher("live/secret-key", true);
    assert_eq!(post(&server, "/api/v1/pushes", &body).status, 409);
    let loops = format!("{{\"stream\": \"live/*\", \"url\": \"rtmp://{}/live/x{{stream}}\"}}", server.rtmp);
    assert_eq!(post(&server, "/api/v1/pushes", &loops).status, 201);
    eventually("a push to this server itself is refused", || {
        let stream = server.api("/api/v1/pushes/2")["streams"][0].clone();
        stream["last_error"].as_str()?.contains("leads to this server").then_some(())
    });
    let delete = |path: &str| {
        let head = format!("DELETE {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.http);
        http::send(server.http, head.as_bytes()).expect("an answer").status
    };
    assert_eq!((delete("/api/v1/pushes/1"), delete("/api/v1/pushes/1")), (204, 404));
    target.wait_for_publisher("live/secret-key", false);
    assert!(!server.log().contains("secret"), "{}", server.log());
    let public = Server::start("");
    for url in ["rtmp://127.0.0.1/live/x", "srt://[::1]:9000", "udp://239.0.0.1:5000", "https://h/whip"] {
        let answer = post(&public, "/api/v1/pushes", &format!("{{\"stream\": \"a/b\", \"url\": \"{url}\"}}"));
        assert_eq!(answer.status, 400, "{url}: {}", answer.text());
    }
}
