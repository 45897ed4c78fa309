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
