//! Recordings of the running server: by a rule and through the API, from RTMP and from WebRTC, and what is
//! left when it is killed.

use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use rtc::sdp::Direction;
use serde_json::Value;

use crate::common::bridge::LivePublisher;
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin;
use crate::common::rtc::{Client, Options};
use crate::common::server::{BINARY, ScratchDir, Server};
use crate::common::tools::{Packet, frames_of, publish, sample};
use crate::common::{TIMEOUT, eventually};

fn config(directory: &Path, more: &str) -> String {
    format!("[record]\ndirectory = \"{}\"\n{more}", directory.display())
}

const ALL: &str = "[[record.rule]]\nstream = \"live/*\"\n";

fn files(server: &Server) -> Vec<Value> {
    server.api("/api/v1/recordings")["files"].as_array().expect("files").clone()
}

/// The files of the server, once there are so many and all are complete.
fn complete(server: &Server, count: usize) -> Vec<(Value, PathBuf)> {
    eventually("recordings are complete", || {
        let files = files(server);
        let is_complete = |file: &Value| file["state"] == "complete";
        (files.len() == count && files.iter().all(is_complete)).then(|| {
            let path = |file: &Value| {
                let word = |key: &str| file[key].as_str().expect("a text").to_owned();
                Path::new(&word("directory")).join(word("path"))
            };
            files.into_iter().map(|file| (file.clone(), path(&file))).collect()
        })
    })
}

fn facts(packets: &[Packet]) -> Vec<(u64, String)> {
    packets.iter().map(|packet| (packet.size, packet.checksum.clone())).collect()
}

fn post(server: &Server, body: &str) -> u16 {
    origin::post(server, "/api/v1/recordings", body).status
}

fn delete(server: &Server, path: &str) -> u16 {
    http::request(server.http, "DELETE", path, &[]).expect("an answer").status
}

#[test]
fn a_rule_records_exactly_what_is_published() {
    let folder = ScratchDir::new();
    let source = frames_of(&sample());
    for format in ["mp4", "flv"] {
        let directory = folder.path().join(format);
        let server = Server::start(&config(&directory, &format!("format = \"{format}\"\n{ALL}")));
        let publisher = publish(&server.rtmp_url("live/mill"), 4);
        server.wait_for_publisher("live/mill", true);
        eventually("a session records it", || {
            server.sessions("").iter().any(|session| session["protocol"] == "recording").then_some(())
        });
        publisher.finish();
        let (file, path) = complete(&server, 1).remove(0);
        let recorded = frames_of(&path);
        assert_eq!(facts(&recorded.video), facts(&source.video), "{format}");
        // Audio that comes before the first picture is in no file.
        let (audio, all) = (facts(&recorded.audio), facts(&source.audio));
        assert!(all.ends_with(&audio) && audio.len() + 3 > all.len(), "{} of {}", audio.len(), all.len());
        assert_eq!(
            (&file["app"], &file["name"], &file["format"]),
            (&"live".into(), &"mill".into(), &format.into())
        );
        assert!(file["duration_ms"].as_u64().expect("a duration") > 1_000, "{file}");
        assert_eq!(server.counter("millstream_recording_lost_fragments_total"), 0);
        assert_eq!(server.counter("millstream_recordings_completed_total"), 1);
    }
}

#[test]
fn the_api_starts_and_stops_recordings_and_removes_files() {
    let folder = ScratchDir::new();
    let server = Server::start(&config(
        folder.path(),
        "[[record.rule]]\nstream = \"x/*\"\nrecord = false\n[stream]\nwait_for_publisher_seconds = 0\n",
    ));
    let stream = r#"{"app": "live", "name": "a b"}"#;
    assert_eq!(post(&server, r#"{"app": "live", "name": "mill"}"#), 404, "nobody publishes it");
    assert_eq!(post(&server, r#"{"app": "..", "name": "mill"}"#), 400);
    assert_eq!(post(&server, stream), 400, "no name of a stream");
    let stream = r#"{"app": "live", "name": "mill"}"#;
    let publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    assert_eq!(post(&server, stream), 201);
    assert_eq!(post(&server, stream), 409, "it is recorded");
    let listed = eventually("fragments", || {
        let listed = server.api("/api/v1/recordings");
        (listed["active"][0]["fragments"].as_u64().is_some_and(|count| count > 2)).then_some(listed)
    });
    assert_eq!(listed["active"][0]["started_by"], "api");
    assert_eq!(server.api("/api/v1/streams/live/mill")["recorded"], true);
    assert_eq!(listed["files"][0]["state"], "in_progress");
    let part = listed["files"][0]["path"].as_str().expect("a path");
    assert!(part.starts_with("live/mill/") && part.ends_with(".mp4.part"), "{part}");
    // It plays while it grows.
    assert!(!frames_of(&folder.path().join(part)).video.is_empty());
    let name = listed["files"][0]["file"].as_str().expect("a name");
    assert_eq!(delete(&server, &format!("/api/v1/recordings/live/mill/{name}")), 409, "in progress");
    assert_eq!(delete(&server, "/api/v1/recordings/live/mill"), 204);
    assert_eq!(delete(&server, "/api/v1/recordings/live/mill"), 404);
    let (file, path) = complete(&server, 1).remove(0);
    assert!(!frames_of(&path).video.is_empty());
    drop(publisher);
    let name = file["file"].as_str().expect("a name");
    assert_eq!(delete(&server, "/api/v1/recordings/live/mill/other.mp4"), 404);
    assert_eq!(delete(&server, "/api/v1/recordings/live/mill/..%2F..%2F.lock"), 404);
    assert_eq!(delete(&server, &format!("/api/v1/recordings/live/mill/{name}")), 204);
    assert!(files(&server).is_empty() && !path.exists());
}

#[test]
fn opus_of_a_webrtc_publisher_is_recorded_as_it_was_sent() {
    let folder = ScratchDir::new();
    let server = Server::start(&config(folder.path(), ALL));
    let options = Options { audio_only: true, ..Options::default() };
    let mut publisher = Client::open(&server, "/whip/live/o", Direction::Send, &options);
    publisher.connect();
    let mut number = 0;
    publisher.until("two fragments", |publisher| {
        publisher.send_audio(number);
        number += 1;
        server.api("/api/v1/recordings")["active"][0]["fragments"].as_u64().is_some_and(|count| count >= 2)
    });
    publisher.delete();
    let (_, path) = complete(&server, 1).remove(0);
    let recorded = facts(&frames_of(&path).audio);
    assert!(recorded.len() > 50, "{}", recorded.len());
    // What ffmpeg's framecrc has: Adler-32 that begins with 0.
    let fact = |number: u32| {
        let payload = rtc_test::audio_payload(number);
        let (a, b) = payload.iter().fold((0, 0), |(a, b), byte| {
            let a = (a + u32::from(*byte)) % 65_521;
            (a, (b + a) % 65_521)
        });
        (payload.len() as u64, format!("0x{:08x}", b << 16 | a))
    };
    let sent: Vec<_> = (0..number).map(fact).collect();
    assert!(sent.windows(recorded.len()).any(|run| run == recorded), "frame by frame, none is missing");
}

#[test]
fn a_server_that_is_killed_leaves_a_file_that_plays_and_the_next_one_completes_it() {
    let folder = ScratchDir::new();
    let mut server = Server::spawn(&config(folder.path(), ALL));
    let publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    let part = eventually("a file grows", || {
        let file = files(&server).into_iter().next()?;
        (file["bytes"].as_u64()? > 100_000).then(|| file["path"].as_str().expect("a path").to_owned())
    });
    // Another server on the directory says so, and ends.
    let said = Server::refusal(&config(folder.path(), ""));
    assert!(said.contains("another server records there"), "{said}");
    server.signal(Signal::SIGKILL);
    server.wait_for_exit(TIMEOUT);
    drop(publisher);
    let path = folder.path().join(&part);
    let (before, length) = (frames_of(&path), std::fs::metadata(&path).expect("it is there").len());
    assert!(!before.video.is_empty());
    let run = |action: &str| {
        let output =
            Command::new(BINARY).args(["record", action]).arg(folder.path()).output().expect("it runs");
        assert!(output.status.success(), "{action}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(run("verify").starts_with("unfinished"), "{}", run("verify"));

    let server = Server::spawn(&config(folder.path(), ""));
    let (file, path) = complete(&server, 1).remove(0);
    assert!(file["bytes"].as_u64().expect("bytes") + 100_000 > length);
    let after = frames_of(&path);
    assert_eq!((facts(&after.video), facts(&after.audio)), (facts(&before.video), facts(&before.audio)));
    assert_eq!(server.counter("millstream_recordings_repaired_total"), 1);
    drop(server);
    assert!(run("list").starts_with("complete"));
    assert!(run("verify").starts_with("sound"));
    assert!(run("repair").starts_with("sound"));
}

#[test]
fn a_recording_is_read_in_ranges_with_the_token_or_by_a_link() {
    let folder = ScratchDir::new();
    let token = "keeper-of-the-mill";
    let bearer = ("Authorization", "Bearer keeper-of-the-mill");
    let mut server =
        Server::spawn(&config(folder.path(), &format!("{ALL}[auth]\nmanage_token = \"{token}\"\n")));
    // Through a proxy, so that being on this machine does not count.
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        let proxied = [headers, &[("X-Forwarded-For", "192.0.2.7")]].concat();
        http::request(server.http, method, path, &proxied).expect("an answer")
    };
    let list = || -> Value {
        let answer = ask("GET", "/api/v1/recordings", &[bearer]);
        serde_json::from_slice(&answer.body).expect("JSON")
    };
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    eventually("it is recorded", || (list()["files"][0]["state"] == "in_progress").then_some(()));
    let growing = list()["files"][0]["file"].as_str().expect("a name").to_owned();
    let growing =
        ask("GET", &format!("/api/v1/recordings/live/mill/{growing}"), &[bearer, ("Range", "bytes=9-")]);
    assert_eq!((growing.status, growing.header("accept-ranges")), (200, Some("none")), "no ranges yet");
    publisher.finish();
    let file = eventually("it is complete", || {
        let file = list()["files"][0].clone();
        (file["state"] == "complete").then_some(file)
    });
    let word = |key: &str| file[key].as_str().expect("a text").to_owned();
    let bytes = std::fs::read(Path::new(&word("directory")).join(word("path"))).expect("the file");
    let path = format!("/api/v1/recordings/live/mill/{}", word("file"));

    let refused = |method: &str, path: &str| matches!(ask(method, path, &[]).status, 401 | 403);
    assert!(refused("GET", &path));
    assert!(refused("POST", &format!("{path}/link")));
    let whole = ask("GET", &path, &[bearer]);
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("video/mp4")));
    assert!(whole.body == bytes, "{} of {} bytes", whole.body.len(), bytes.len());
    let etag = whole.header("etag").expect("a tag").to_owned();

    let link = ask("POST", &format!("{path}/link"), &[bearer]);
    let link: Value = serde_json::from_slice(&link.body).expect("JSON");
    let url = link["url"].as_str().expect("a URL");
    assert!(url.starts_with(&path) && !url.contains(token), "{url}");
    assert_eq!(ask("POST", "/api/v1/recordings/live/mill/other.mp4/link", &[bearer]).status, 404);
    let last = bytes.len() - 1;
    for (range, first, last) in [
        ("bytes=0-1", 0, 1),
        ("bytes=100-299999", 100, 299_999.min(last)),
        ("bytes=-16", bytes.len() - 16, last),
        ("bytes=7-", 7, last),
    ] {
        for condition in [None, Some(("If-Range", &*etag))] {
            let headers: Vec<_> = [Some(("Range", range)), condition].into_iter().flatten().collect();
            let answer = ask("GET", url, &headers);
            assert_eq!(answer.status, 206, "{range}");
            let expected = format!("bytes {first}-{last}/{}", bytes.len());
            assert_eq!(answer.header("content-range"), Some(&*expected), "{range}");
            assert!(answer.body == bytes[first..=last], "{range}");
        }
    }
    let other = ask("GET", url, &[("Range", "bytes=0-1"), ("If-Range", "\"other\"")]);
    assert_eq!((other.status, other.body.len()), (200, bytes.len()), "the client has another file");
    let none = ask("GET", url, &[("Range", &format!("bytes={}-", bytes.len()))]);
    let expected = format!("bytes */{}", bytes.len());
    assert_eq!((none.status, none.header("content-range")), (416, Some(&*expected)));
    let head = ask("HEAD", url, &[]);
    assert_eq!((head.status, head.header("content-length")), (200, Some(&*bytes.len().to_string())));
    // A link is for reading one file.
    assert!(refused("DELETE", url));
    assert!(refused("GET", &url.replace(&path, "/api/v1/recordings")));
    assert!(refused("GET", &url.replace(".mp4", "-2.mp4")));
    let other = ask("GET", &url.replace("until=", "until=1"), &[]);
    assert!(
        matches!(other.status, 401 | 403) && other.text().contains("the link is not valid, or has ended")
    );
    assert!(!ask("GET", &path, &[]).text().contains("link"), "it came by none");
    // Signatures and tokens are in no log.
    let signature = url.rsplit('=').next().expect("a signature");
    let log = server.log();
    assert!(!log.contains(signature) && !log.contains(token), "{log}");

    // Of the next run: its length is read from the file.
    server.terminate();
    server.wait_for_exit(TIMEOUT);
    drop(server);
    let server = Server::start(&config(folder.path(), ALL));
    let again = eventually("the length is known", || {
        let file = files(&server)[0].clone();
        file["duration_ms"].is_u64().then_some(file)
    });
    assert_eq!(again["duration_ms"], file["duration_ms"]);
    let free = server.api("/api/v1/recordings")["directories"][0]["free_bytes"].clone();
    assert!(free.as_u64().is_some_and(|bytes| bytes > 0), "{free}");
    let found = crate::common::openapi::departures(
        &server.api("/api/v1/openapi.json"),
        "/api/v1/recordings",
        &server.api("/api/v1/recordings"),
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
    // One that has gone since.
    std::fs::remove_file(Path::new(&word("directory")).join(word("path"))).expect("removed");
    assert_eq!(http::get(server.http, &path).expect("an answer").status, 404);
}

#[test]
fn recordings_that_end_in_flv_are_no_streams_to_the_api() {
    let folder = ScratchDir::new();
    let server = Server::start(&config(folder.path(), &format!("format = \"flv\"\n{ALL}")));
    publish(&server.rtmp_url("live/mill"), 4).finish();
    let (file, path) = complete(&server, 1).remove(0);
    let url = format!("/api/v1/recordings/live/mill/{}", file["file"].as_str().expect("a name"));
    let read = http::get(server.http, &url).expect("an answer");
    assert_eq!((read.status, read.header("content-type")), (200, Some("video/x-flv")));
    assert!(read.body == std::fs::read(&path).expect("the file"));
    let part = http::request(server.http, "GET", &url, &[("Range", "bytes=0-2")]).expect("an answer");
    assert_eq!((part.status, &part.body[..]), (206, &b"FLV"[..]));
    assert_eq!(delete(&server, &url), 204);
    assert!(!path.exists());
}
