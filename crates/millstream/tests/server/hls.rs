//! HLS from the running server: what is published by RTMP arrives by playlists and segments, whole and
//! unchanged, blocked requests are answered in time, and bad ones are refused.
#![expect(clippy::disallowed_methods, reason = "time limits of a server in real time")]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::flv::sample_tags;
use crate::common::http::{self, Response};
use crate::common::rtmp::RtmpClient;
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{frames_of, publish, publish_repeated, sample};
use crate::common::{eventually, tools};

/// A URI of a playlist as a path of the server: relative to the playlist's.
fn resolve(base: &str, uri: &str) -> String {
    let folder = base.split('?').next().unwrap_or(base).rsplit_once('/').expect("a path").0;
    format!("{folder}/{uri}")
}

fn get(server: &Server, path: &str) -> Response {
    http::get(server.http, path).expect("an answer")
}

/// The paths of the media playlists of a stream: video, and audio.
fn media_playlists(server: &Server, path: &str) -> [String; 2] {
    let text = get(server, path).text();
    let video = text.lines().find(|line| !line.starts_with('#')).unwrap_or_else(|| panic!("{text}"));
    let audio = text.split("URI=\"").nth(1).and_then(|rest| rest.split('"').next());
    [video, audio.unwrap_or_else(|| panic!("{text}"))].map(|uri| resolve(path, uri))
}

/// Sends tags of a stream that is cut already, and gives the paths of its media playlists. Of one that
/// came before, what is cut begins with the newest key frame, and shows no whole segment until more comes.
fn cut_from_the_start(server: &Server, publisher: &mut RtmpClient, tags: &[rtmp::flv::Tag]) -> [String; 2] {
    let address = server.http;
    let asked = std::thread::spawn(move || http::get(address, "/live/mill.m3u8"));
    eventually("the stream is cut", || {
        let sessions = server.sessions("");
        sessions.iter().any(|session| session["protocol"] == "segments").then_some(())
    });
    publisher.send_tags(tags);
    assert_eq!(asked.join().expect("it does not panic").expect("an answer").status, 200);
    media_playlists(server, "/live/mill.m3u8")
}

/// Values of an attribute, or of lines that are URIs for `None`, in order.
fn uris(playlist: &str, tag: Option<&str>) -> Vec<String> {
    let of_tag = |line: &str, tag: &str| {
        let rest = line.strip_prefix(tag)?.split("URI=\"").nth(1)?;
        Some(rest.split('"').next()?.to_owned())
    };
    let lines = playlist.lines();
    match tag {
        Some(tag) => lines.filter_map(|line| of_tag(line, tag)).collect(),
        None => lines.filter(|line| !line.starts_with('#')).map(str::to_owned).collect(),
    }
}

/// A server with a publisher that goes on in real time.
fn playing() -> (Server, tools::Running) {
    let server = Server::spawn("");
    let publisher = publish(&server.rtmp_url("live/mill"), 1);
    server.wait_for_publisher("live/mill", true);
    (server, publisher)
}

/// All frames of a stream's renditions, as its playlists list them after the publisher has left.
fn frames_by_hls(server: &Server, playlists: &[String; 2]) -> [tools::Frames; 2] {
    playlists.each_ref().map(|playlist| {
        // The publisher has left, and the list is as long as it was live.
        let text = get(server, playlist).text();
        let map = uris(&text, Some("#EXT-X-MAP:")).remove(0);
        let parts = [map].into_iter().chain(uris(&text, None));
        let mut file: Vec<u8> = parts.flat_map(|uri| get(server, &resolve(playlist, &uri)).body).collect();
        let behind = text.rsplit("#EXTINF").next().unwrap_or_default();
        file.extend(
            uris(behind, Some("#EXT-X-PART:"))
                .iter()
                .flat_map(|uri| get(server, &resolve(playlist, uri)).body),
        );
        let path = server.dir.path().join(format!("{}.mp4", playlist.len()));
        fs::write(&path, file).expect("written");
        frames_of(&path)
    })
}

fn facts(packets: &[tools::Packet]) -> Vec<(u64, String)> {
    packets.iter().map(|packet| (packet.size, packet.checksum.clone())).collect()
}

#[test]
fn ffmpeg_gets_by_hls_exactly_what_was_published() {
    let source = frames_of(&sample());
    let server = Server::start("[hls]\nwindow_segments = 100\nmode = \"always\"\n");
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    server.wait_for_publisher("live/mill", true);
    let playlists = media_playlists(&server, "/live/mill.m3u8");
    publisher.finish();
    let [video, audio] = frames_by_hls(&server, &playlists);
    assert_eq!(facts(&video.video), facts(&source.video));
    // Audio that comes before the first picture is in no segment.
    let (audio, all) = (facts(&audio.audio), facts(&source.audio));
    assert!(all.ends_with(&audio) && audio.len() + 3 > all.len(), "{} of {}", audio.len(), all.len());
    for (packet, expected) in video.video.iter().zip(&source.video) {
        // 90 kHz, and milliseconds.
        let zero = (video.video[0].dts, source.video[0].dts);
        assert_eq!(packet.dts - zero.0, (expected.dts - zero.1) * 90, "{packet:?}, {expected:?}");
    }
}

/// How many segments there are in a directory of segments.
fn segments_in(directory: &Path) -> usize {
    let entries = |path: &Path| fs::read_dir(path).map_or(Vec::new(), |entries| entries.flatten().collect());
    let folders = entries(directory).into_iter().filter(|entry| entry.path().is_dir());
    folders.map(|folder| entries(&folder.path()).len()).sum()
}

#[test]
fn a_long_window_is_on_disk_and_plays_from_its_begin() {
    let source = frames_of(&sample());
    let folder = ScratchDir::new();
    let directory = folder.path().join("segments");
    // What an earlier run has left, and what is not ours.
    for left in ["stream-3", "stream-of-somebody"] {
        fs::create_dir_all(directory.join(left)).expect("made");
        fs::write(directory.join(left).join("x"), b"x").expect("written");
    }
    let config = format!(
        "[hls]\nwindow_seconds = 3600\nwindow_mb = 1\nmode = \"always\"\ndirectory = \"{}\"\n",
        directory.display()
    );
    let server = Server::start(&config);
    assert!(!directory.join("stream-3").exists() && directory.join("stream-of-somebody").exists());
    fs::remove_dir_all(directory.join("stream-of-somebody")).expect("removed");
    let publisher = publish_repeated(&server.rtmp_url("live/mill"), 8, 5);
    server.wait_for_publisher("live/mill", true);
    let playlists = media_playlists(&server, "/live/mill.m3u8");
    publisher.finish();
    let on_disk = segments_in(&directory);
    assert!(on_disk > 5, "{on_disk} segments on disk");
    assert_eq!(server.counter("millstream_segments_stored"), on_disk as u64);
    let [video, audio] = frames_by_hls(&server, &playlists);
    let once = facts(&source.video);
    let published: Vec<_> = once.iter().cycle().take(5 * once.len()).cloned().collect();
    assert_eq!(facts(&video.video), published);
    assert!(audio.audio.len() + 3 > source.audio.len() * 5);
    assert!(server.counter("millstream_segments_recalled") >= on_disk as u64);

    // The same by HTTP/2, from the control side.
    let text = get(&server, &playlists[0]).text();
    let first = resolve(&playlists[0], &uris(&text, None)[0]);
    let (status, body) = get_by_http2(&server, &first, None);
    assert!(status == 200 && body == get(&server, &first).body, "{status}, {} bytes", body.len());
    let (status, playlist) = get_by_http2(&server, &playlists[0], None);
    assert!(status == 200 && String::from_utf8_lossy(&playlist) == text, "{status}");

    drop(server);
    assert_eq!(segments_in(&directory), 0, "nothing is left");
}

#[test]
fn a_disk_of_segments_that_fails_is_told_and_tried_again() {
    let folder = ScratchDir::new();
    // Where the stream's folder should be.
    fs::write(folder.path().join("stream-0"), b"in the way").expect("written");
    let config = format!(
        "[hls]\nwindow_seconds = 3600\nwindow_mb = 1\nmode = \"always\"\ndirectory = \"{}\"\n",
        folder.path().display()
    );
    let server = Server::start(&config);
    let _publisher = publish_repeated(&server.rtmp_url("live/mill"), 8, 20);
    server.wait_for_counter("millstream_segments_disk_failing", 1);
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    let newest = uris(&get(&server, &video).text(), None).pop().expect("a segment");
    assert_eq!(get(&server, &resolve(&video, &newest)).status, 200, "live goes on");
    fs::remove_file(folder.path().join("stream-0")).expect("removed");
    server.wait_for_counter("millstream_segments_disk_failing", 0);
    eventually("segments on disk", || (segments_in(folder.path()) > 0).then_some(()));
}

#[test]
fn a_second_server_does_not_take_the_directory_of_segments() {
    let folder = ScratchDir::new();
    let config = format!("[hls]\ndirectory = \"{}\"\n", folder.path().display());
    let _first = Server::start(&config);
    let said = Server::refusal(&config);
    assert!(said.contains("another server keeps segments there"), "{said}");
}

#[test]
fn a_playlist_and_a_part_that_are_not_there_yet_are_waited_for() {
    let (server, _publisher) = playing();
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    let text = eventually("a part", || {
        let text = get(&server, &video).text();
        text.contains("#EXT-X-PART:").then_some(text)
    });
    assert!(text.contains("CAN-BLOCK-RELOAD=YES"), "{text}");
    let hint = uris(&text, Some("#EXT-X-PRELOAD-HINT:")).remove(0);
    let name = hint.rsplit('/').next().expect("a name").strip_suffix(".m4s").expect("a part");
    let (msn, part) = name.split_once('.').expect("segment and part");
    let asked = Instant::now();
    let reloaded = get(&server, &format!("{video}?_HLS_msn={msn}&_HLS_part={part}"));
    assert_eq!(reloaded.status, 200);
    assert!(reloaded.text().contains(&hint), "{}", reloaded.text());
    assert!(asked.elapsed() < Duration::from_secs(3));
    let next = uris(&reloaded.text(), Some("#EXT-X-PRELOAD-HINT:")).remove(0);
    let media = get(&server, &resolve(&video, &next));
    assert_eq!((media.status, media.header("content-type")), (200, Some("video/mp4")));
    assert_eq!(&media.body[4..8], b"moof", "a chunk");
    assert!(media.header("cache-control").is_some_and(|value| value.contains("immutable")));
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let (mut server, _publisher) = playing();
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    eventually("a playlist", || (get(&server, &video).status == 200).then_some(()));
    for (path, status) in [
        ("/live/nobody.m3u8".to_owned(), 404),
        ("/live/mill.hls/x/v0.m3u8".to_owned(), 404),
        (resolve(&video, "v0/99999.m4s"), 404),
        (resolve(&video, "v7.m3u8"), 404),
        (resolve(&video, "../../../etc/passwd"), 404),
        (resolve(&video, "v0/00.m4s"), 404),
        (format!("{video}?_HLS_msn=18446744073709551616"), 400),
        (format!("{video}?_HLS_msn=9999999999"), 400),
        (format!("{video}?_HLS_part=1"), 400),
        ("/live/con%3Cscript%3E.m3u8".to_owned(), 400),
    ] {
        let response = get(&server, &path);
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert!(!response.text().trim().is_empty(), "{path}");
    }
    assert_eq!(http::request(server.http, "POST", &video, &[]).expect("an answer").status, 405);
    let head = http::request(server.http, "HEAD", &video, &[]).expect("an answer");
    assert_eq!(head.status, 200);
    assert!(head.header("content-length").is_some_and(|length| length != "0"));
    server.assert_healthy();
}

#[test]
fn a_token_carries_over_to_what_a_playlist_names() {
    let server = Server::start("[[auth.play]]\nstream = 'live/*'\ntokens = ['open&sesame']\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    publisher.send_tags(&sample_tags());
    assert_eq!(get(&server, "/live/mill.m3u8").status, 401);
    let [video, audio] = media_playlists(&server, "/live/mill.m3u8?token=open%26sesame");
    for playlist in [video, audio] {
        assert!(playlist.ends_with("?token=open%26sesame"), "{playlist}");
        let text = get(&server, &playlist).text();
        let map = uris(&text, Some("#EXT-X-MAP:")).remove(0);
        assert_eq!(get(&server, &resolve(&playlist, &map)).status, 200, "{text}");
        let bare = map.split('?').next().expect("a path").to_owned();
        assert_eq!(get(&server, &resolve(&playlist, &bare)).status, 401);
    }
}

#[test]
fn blocked_requests_of_who_has_left_are_forgotten() {
    let (mut server, _publisher) = playing();
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    eventually("a playlist", || (get(&server, &video).status == 200).then_some(()));
    let before = server.resident_bytes();
    for round in 0..20 {
        let asked: Vec<_> = (0..50)
            .map(|_| {
                let text = get(&server, &video).text();
                let hint = uris(&text, Some("#EXT-X-PRELOAD-HINT:")).remove(0);
                let mut socket = std::net::TcpStream::connect(server.http).expect("a connection");
                let path = resolve(&video, &hint);
                std::io::Write::write_all(
                    &mut socket,
                    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes(),
                )
                .expect("sent");
                socket
            })
            .collect();
        drop(asked);
        if round == 0 {
            server.assert_healthy();
        }
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    server.assert_healthy();
}

/// Status and body of an answer by HTTP/2, without TLS.
fn get_by_http2(server: &Server, path: &str, range: Option<&str>) -> (u16, Vec<u8>) {
    let mut curl = std::process::Command::new("curl");
    curl.args([
        "--silent",
        "--http2-prior-knowledge",
        "--write-out",
        "%{stderr}%{http_version} %{response_code}",
    ]);
    if let Some(range) = range {
        curl.args(["--header", &format!("Range: {range}")]);
    }
    let done = curl.arg(format!("http://{}{path}", server.http)).output().expect("curl runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let status = said.strip_prefix("2 ").and_then(|status| status.trim().parse().ok());
    (status.unwrap_or_else(|| panic!("no answer by HTTP/2: {said}")), done.stdout)
}

#[test]
fn ranges_of_what_never_changes_are_answered_by_both_versions_of_http() {
    let (server, _publisher) = playing();
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    let part = eventually("a part", || uris(&get(&server, &video).text(), Some("#EXT-X-PART:")).pop());
    let path = resolve(&video, &part);
    let whole = get(&server, &path);
    assert_eq!((whole.status, whole.header("accept-ranges")), (200, Some("bytes")));
    let (bytes, length) = (&whole.body, whole.body.len());
    let last = length - 1;
    for (range, expected) in [
        ("bytes=0-99", Some((0, 99))),
        ("bytes=100-", Some((100, last))),
        ("bytes=-7", Some((length - 7, last))),
        (&format!("bytes=5-{}", length + 1000), Some((5, last))),
        ("bytes=0-1,4-5", None),
        ("furlongs=1-2", None),
    ] {
        let answer = http::request(server.http, "GET", &path, &[("Range", range)]).expect("an answer");
        let (status, content) = match expected {
            Some((first, last)) => (206, &bytes[first..=last]),
            None => (200, &bytes[..]),
        };
        assert_eq!((answer.status, &answer.body[..]), (status, content), "{range}");
        let said = expected.map(|(first, last)| format!("bytes {first}-{last}/{length}"));
        assert_eq!(answer.header("content-range"), said.as_deref(), "{range}");
        assert_eq!(get_by_http2(&server, &path, Some(range)), (status, content.to_vec()), "{range}");
    }
    let beyond = format!("bytes={length}-");
    let answer = http::request(server.http, "GET", &path, &[("Range", &beyond)]).expect("an answer");
    assert_eq!((answer.status, answer.header("content-range")), (416, Some(&*format!("bytes */{length}"))));
    assert_eq!(get_by_http2(&server, &path, Some(&beyond)).0, 416);
    // Only GET has ranges, a condition never holds, and a playlist is given whole.
    let head = http::request(server.http, "HEAD", &path, &[("Range", "bytes=0-9")]).expect("an answer");
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*length.to_string())));
    let fields = [("Range", "bytes=0-9"), ("If-Range", "\"x\"")];
    assert_eq!(http::request(server.http, "GET", &path, &fields).expect("an answer").status, 200);
    let playlist = http::request(server.http, "GET", &video, &[("Range", "bytes=0-9")]).expect("an answer");
    assert_eq!(playlist.status, 200);
}

#[test]
fn both_versions_of_http_say_the_same_of_every_request() {
    let server = Server::start("[hls]\nstreams_max = 1\n");
    let _publishers = ["live/mill", "live/other"].map(|name| {
        let publisher = publish(&server.rtmp_url(name), 1);
        server.wait_for_publisher(name, true);
        publisher
    });
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    let part = eventually("a part", || uris(&get(&server, &video).text(), Some("#EXT-X-PART:")).pop());
    for (path, status) in [
        (resolve(&video, &part), 200),
        (video.clone(), 200),
        // One stream is cut, and there is room for one.
        ("/live/other.m3u8".to_owned(), 503),
        ("/live/other.mpd".to_owned(), 503),
        ("/live/nobody.m3u8".to_owned(), 404),
        (resolve(&video, "v0/99999.m4s"), 404),
        (format!("{video}?_HLS_msn=18446744073709551615"), 400),
        (format!("{video}?_HLS_msn=18446744073709551616"), 400),
        (format!("{video}?_HLS_part=4294967295"), 400),
    ] {
        let first = get(&server, &path);
        assert_eq!(first.status, status, "{path}: {}", first.text());
        let (status, body) = get_by_http2(&server, &path, None);
        assert_eq!(status, first.status, "{path}: {}", String::from_utf8_lossy(&body));
        if path.ends_with(".m4s") && status == 200 {
            assert_eq!(body, first.body);
        }
    }
    let (status, text) = get_by_http2(&server, &blocking(&get(&server, &video).text(), &video), None);
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&text));
}

/// The URL of a playlist that waits for what the playlist at hand has as its hint.
fn blocking(text: &str, playlist: &str) -> String {
    let hint = uris(text, Some("#EXT-X-PRELOAD-HINT:")).remove(0);
    let name = hint.rsplit('/').next().and_then(|name| name.strip_suffix(".m4s")).expect("a part");
    let (msn, part) = name.split_once('.').expect("segment and part");
    format!("{playlist}?_HLS_msn={msn}&_HLS_part={part}")
}

#[test]
fn a_segment_is_sent_while_it_grows_by_http2_as_well() {
    let server = Server::spawn("");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let tags = sample_tags();
    let [video, _] = cut_from_the_start(&server, &mut publisher, &tags[..300]);
    // The publisher waits: the segment of the last part has begun, and is not complete.
    let part = eventually("a part", || uris(&get(&server, &video).text(), Some("#EXT-X-PART:")).pop());
    let (segment, number) = part.trim_end_matches(".m4s").rsplit_once('.').expect("segment and part");
    let path = resolve(&video, &format!("{segment}.m4s"));
    let url = format!("http://{}{path}", server.http);
    let mut curl = std::process::Command::new("curl");
    curl.args(["--silent", "--no-buffer", "--http2-prior-knowledge", "--max-time", "30", &url]);
    let mut curl = curl.stdout(std::process::Stdio::piped()).spawn().expect("curl runs");
    let mut begun = vec![0; get(&server, &resolve(&video, &format!("{segment}.0.m4s"))).body.len()];
    let mut output = curl.stdout.take().expect("its output");
    std::io::Read::read_exact(&mut output, &mut begun).expect("the first part, while there is no end");
    // A fragment begins with its wall clock.
    assert_eq!(&begun[4..8], b"prft", "part {number} is the last so far");
    publisher.send_tags(&tags[300..]);
    publisher.end();
    std::io::Read::read_to_end(&mut output, &mut begun).expect("the rest");
    assert!(curl.wait().expect("it ends").success());
    let whole = get(&server, &path);
    assert_eq!((whole.status, whole.body.len()), (200, begun.len()));
    assert!(whole.body == begun);
}

#[test]
fn viewers_are_counted_by_what_tells_them_apart() {
    let (server, _publisher) = playing();
    let [video, audio] = media_playlists(&server, "/live/mill.m3u8");
    // Requests of the test's own client have no `User-Agent`: one viewer.
    for agent in ["a", "b", "a"] {
        for path in [&video, &audio] {
            let answer =
                http::request(server.http, "GET", path, &[("User-Agent", agent)]).expect("an answer");
            assert_eq!(answer.status, 200);
        }
    }
    assert_eq!(get_by_http2(&server, &format!("{video}?token=t"), None).0, 200);
    assert_eq!(get(&server, "/live/none.m3u8").status, 404);
    let stream = server.api("/api/v1/streams/live/mill");
    assert_eq!((&stream["segment_viewers"], &stream["players"]), (&4.into(), &1.into()), "{stream}");
    let name = "millstream_stream_segment_viewers{app=\"live\",stream=\"mill\"} 4";
    assert!(get(&server, "/metrics").text().contains(name));
}

#[test]
fn ten_thousand_requests_that_block_are_all_answered_with_the_next_part() {
    const COUNT: usize = 10_000;
    // The server's too: it is a process of its own, and inherits the limit.
    let _turn = crate::common::many_descriptors(COUNT as u64 + 500);
    // A request waits for three segments: long ones, for a machine that has other things to do.
    let config = "[http]\nkeep_alive_connections_per_address = 0\n\
                  [limits]\nsessions_per_worker = 11000\n\
                  [hls]\nsegment_ms = 8000\n";
    let mut server = Server::spawn(config);
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let tags = sample_tags();
    // As far as the fifth key frame, with which the target duration is known.
    let [video, _] = cut_from_the_start(&server, &mut publisher, &tags[..570]);
    let path = eventually("a part", || {
        let text = get(&server, &video).text();
        text.contains("#EXT-X-PART:").then(|| blocking(&text, &video))
    });
    let before = server.resident_bytes();
    // All are connected before the first one asks: a request waits for a time only.
    let mut sockets: Vec<_> =
        (0..COUNT).map(|_| std::net::TcpStream::connect(server.http).expect("a connection")).collect();
    for socket in &mut sockets {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        std::io::Write::write_all(socket, request.as_bytes()).expect("sent");
    }
    // They wait: a request that does not is answered meanwhile.
    assert_eq!(get(&server, &video).status, 200);
    let grown = server.resident_bytes().saturating_sub(before);
    println!("{} bytes for each request that waits", grown / COUNT as u64);
    assert!(grown < COUNT as u64 * 16_384, "{grown} bytes");
    publisher.send_tags(&tags[570..670]);
    for mut socket in sockets {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut socket, &mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    server.assert_healthy();
}

#[test]
fn a_flood_of_head_and_slow_readers_of_segments_keep_nobody_else_waiting() {
    let (mut server, _publisher) = playing();
    let [video, _] = media_playlists(&server, "/live/mill.m3u8");
    let map = eventually("a map", || uris(&get(&server, &video).text(), Some("#EXT-X-MAP:")).pop());
    let before = server.resident_bytes();
    let mut sockets: Vec<_> =
        (0..100).map(|_| std::net::TcpStream::connect(server.http).expect("a connection")).collect();
    for socket in &mut sockets {
        // Hundreds of answers of which nothing is read. A server that closes is as good as one that waits.
        let head = format!("HEAD {video} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(100);
        let all = format!("GET {video} HTTP/1.1\r\nHost: a\r\n\r\n").repeat(100);
        let _ = std::io::Write::write_all(socket, head.as_bytes());
        let _ = std::io::Write::write_all(socket, all.as_bytes());
    }
    assert_eq!(get(&server, &resolve(&video, &map)).status, 200);
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    server.assert_healthy();
}

#[test]
fn a_thousand_short_streams_leave_no_memory_behind() {
    let mut server = Server::spawn("[hls]\nmode = 'always'\nstreams_max = 2000\n");
    let tags = sample_tags();
    let run = |from: usize, streams: usize| {
        // A few at a time: each waits for the server, which has others to serve meanwhile.
        let numbers: Vec<usize> = (from..from + streams).collect();
        for some in numbers.chunks(20) {
            let names: Vec<String> = some.iter().map(|number| format!("live/short{number}")).collect();
            let publish = |name: &String| {
                let mut publisher = RtmpClient::publish(server.rtmp, name);
                publisher.send_tags(&tags[..60]);
                publisher
            };
            drop(names.iter().map(publish).collect::<Vec<_>>());
            for name in &names {
                server.wait_for_publisher(name, false);
            }
        }
        server.resident_bytes()
    };
    let is_full_size = std::env::var_os("TEST_AT_FULL_SIZE").is_some();
    // A thousand in all.
    let count = if is_full_size { 1_000 } else { 500 };
    // Segments stay for 30 s after a publisher has left.
    let first = run(0, count);
    let second = run(count, count);
    println!("after {count} streams {first} bytes, after as many more {second}");
    let each = second.saturating_sub(first) / count as u64;
    assert!(each < 512 << 10, "{each} bytes for each stream that has just ended");
    if is_full_size {
        // The time in which they stay, which nothing but time shortens.
        std::thread::sleep(Duration::from_secs(35));
        let third = run(2 * count, count);
        println!("after those are gone, and as many more, {third}");
        assert!(third < second + second / 10, "{third} bytes, {second} before");
    }
    server.assert_healthy();
}
