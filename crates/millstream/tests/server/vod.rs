//! Recordings and files on demand from the running server: whole, by ranges, HLS and DASH, while they grow,
//! from another server, and what bad requests get.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::common::bridge::LivePublisher;
use crate::common::channel::{FileServer, Player, event_kinds, make_mp4, wait_for_channel};
use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http::{self, Response};
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{Frames, Packet, ffmpeg, frames_of, publish, run};

fn get(server: &Server, path: &str) -> Response {
    http::get(server.http, path).expect("an answer")
}

fn facts(packets: &[Packet]) -> Vec<(u64, String)> {
    packets.iter().map(|packet| (packet.size, packet.checksum.clone())).collect()
}

/// What ffmpeg gets: each kind by itself, because its reader of DASH drops the end of one when the other
/// ends.
fn played(server: &Server, path: &str) -> Frames {
    let texts = ["0:v", "0:a"].map(|kind| {
        let mut command = ffmpeg();
        command.args(["-i", &format!("http://{}{path}", server.http), "-map", kind, "-c", "copy"]);
        String::from_utf8(run(command.args(["-f", "framecrc", "-"])).stdout).expect("text")
    });
    Frames::parse(&texts)
}

fn assert_same_frames(got: &Frames, expected: &Frames, what: &str) {
    assert!(!expected.video.is_empty() && !expected.audio.is_empty(), "{what}");
    for (got, expected) in [(&got.video, &expected.video), (&got.audio, &expected.audio)] {
        let (got, expected) = (facts(got), facts(expected));
        // Not as a whole in the output of a failure.
        assert!(
            got == expected,
            "{what}: {} and {}, {:?}",
            got.len(),
            expected.len(),
            (&got[..2], &expected[..2])
        );
    }
}

/// A server with a directory of files in which there are these.
fn with_files(start: fn(&str) -> Server, names: &[&str], more: &str) -> (ScratchDir, Server) {
    let dir = ScratchDir::new();
    std::fs::create_dir(dir.path().join("films")).expect("a directory");
    for name in names {
        make_mp4(&dir.path().join("films").join(name), 0, 10);
    }
    let root = dir.path().join("films");
    let server = start(&format!("[vod]\nroot = '{}'\n{more}", root.display()));
    (dir, server)
}

/// The paths of the media playlists of a file: video, and audio.
fn media_playlists(server: &Server, file: &str) -> [String; 2] {
    let text = get(server, &format!("{file}/index.m3u8")).text();
    let video = text.lines().find(|line| !line.starts_with('#')).unwrap_or_else(|| panic!("{text}"));
    let audio = text.split("URI=\"").nth(1).and_then(|rest| rest.split('"').next());
    [video, audio.unwrap_or_else(|| panic!("{text}"))].map(|uri| format!("{file}/{uri}"))
}

#[test]
fn a_file_is_played_as_it_is_by_ranges_by_hls_and_by_dash() {
    let (dir, server) = with_files(Server::start, &["a film.mp4"], "");
    let (path, file) = ("/vod/files/a%20film.mp4", dir.path().join("films/a film.mp4"));
    let (bytes, frames) = (std::fs::read(&file).expect("a file"), frames_of(&file));
    let whole = get(&server, path);
    assert_eq!((whole.status, whole.header("content-type")), (200, Some("video/mp4")));
    assert!(whole.body == bytes && whole.header("accept-ranges") == Some("bytes"));
    let etag = whole.header("etag").expect("a version").to_owned();
    let last = bytes.len() - 1;
    for (range, first, end) in
        [("bytes=5-99", 5, 99), ("bytes=-7", last - 6, last), ("bytes=900-", 900, last)]
    {
        for condition in [None, Some(&etag[..])] {
            let mut fields = vec![("Range", range)];
            fields.extend(condition.map(|etag| ("If-Range", etag)));
            let answer = http::request(server.http, "GET", path, &fields).expect("an answer");
            assert_eq!(answer.status, 206);
            assert!(answer.body == bytes[first..=end], "{range}");
        }
    }
    let fields = [("Range", "bytes=0-9"), ("If-Range", "\"other\"")];
    assert_eq!(http::request(server.http, "GET", path, &fields).expect("an answer").status, 200);
    let beyond = format!("bytes={}-", bytes.len());
    let answer = http::request(server.http, "GET", path, &[("Range", &beyond)]).expect("an answer");
    assert_eq!(answer.status, 416);
    for playlist in ["index.m3u8", "manifest.mpd"] {
        let mut got = played(&server, &format!("{path}/{playlist}"));
        // The frame before the begin of the sound, which its edit list leaves out.
        let hidden = frames.audio.len() - got.audio.len();
        assert!(hidden <= 1, "{hidden}");
        got.audio.splice(..0, frames.audio[..hidden].iter().cloned());
        assert_same_frames(&got, &frames, playlist);
    }
    let [video, _] = media_playlists(&server, path);
    let first = get(&server, &video).text().lines().find(|line| line.ends_with(".m4s")).map(str::to_owned);
    let first = video.rsplit_once('/').expect("a path").0.to_owned() + "/" + &first.expect("a segment");
    let segment = get(&server, &first);
    assert_eq!(&segment.body[4..8], b"moof");
    assert!(segment.header("cache-control").is_some_and(|value| value.contains("immutable")));
    let head = http::request(server.http, "HEAD", &first, &[]).expect("an answer");
    let length = segment.body.len().to_string();
    assert_eq!((head.status, head.header("content-length")), (200, Some(&length[..])));
    assert_eq!(server.counter("millstream_vod_indexes_read_total"), 1, "once for all of these");
}

#[test]
fn what_was_published_is_the_same_in_its_recording_and_on_demand() {
    let folder = ScratchDir::new();
    let config =
        format!("[record]\ndirectory = '{}'\n[[record.rule]]\nstream = 'live/*'\n", folder.path().display());
    let server = Server::start(&config);
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    server.wait_for_publisher("live/mill", true);
    publisher.finish();
    let item = eventually("a complete recording", || {
        let list = get(&server, "/vod/?prefix=/vod/recordings/live/").json();
        let item = list["items"].as_array()?.first()?.clone();
        (item["state"] == "complete").then_some(item)
    });
    let word = |key: &str| item[key].as_str().unwrap_or_else(|| panic!("{item}")).to_owned();
    assert_eq!((word("app"), word("name"), word("kind")), ("live".into(), "mill".into(), "recording".into()));
    let listed = server.api("/api/v1/recordings")["files"][0].clone();
    let path = folder.path().join(listed["path"].as_str().expect("a path"));
    let expected = frames_of(&path);
    assert!(get(&server, &word("url")).body == std::fs::read(&path).expect("a file"));
    for url in [word("url"), word("hls"), word("dash")] {
        assert_same_frames(&played(&server, &url), &expected, &url);
    }
    // It is an item of a channel, too.
    let body = r#"{"app": "live", "name": "again", "items": ["recording:live/mill"]}"#;
    assert_eq!(crate::common::origin::post(&server, "/api/v1/channels", body).status, 201);
    let mut player = Player::start(&server, "live/again");
    player.play(2_000);
    let channel = wait_for_channel(&server, "live/again", "it plays", |now| now["state"] == "playing");
    assert!(event_kinds(&channel).iter().all(|kind| *kind == "late"), "{channel:#}");
}

#[test]
fn a_recording_in_flv_is_played_as_it_was_published() {
    let folder = ScratchDir::new();
    let config = format!(
        "[record]\ndirectory = '{}'\nformat = 'flv'\n[[record.rule]]\nstream = 'live/*'\n",
        folder.path().display()
    );
    let server = Server::start(&config);
    let publisher = publish(&server.rtmp_url("live/mill"), 4);
    server.wait_for_publisher("live/mill", true);
    publisher.finish();
    let item = eventually("a complete recording", || {
        let list = get(&server, "/vod/?prefix=/vod/recordings/live/").json();
        let item = list["items"].as_array()?.first()?.clone();
        (item["state"] == "complete").then_some(item)
    });
    // Nobody has played it yet.
    assert!(item["codecs"][0].as_str().is_some_and(|codec| codec.starts_with("avc1.")), "{item}");
    assert_eq!((&item["codecs"][1], &item["unplayable"]), (&"mp4a.40.2".into(), &Value::Null));
    let listed = server.api("/api/v1/recordings")["files"][0].clone();
    let expected = frames_of(&folder.path().join(listed["path"].as_str().expect("a path")));
    for way in ["url", "hls", "dash"] {
        let url = item[way].as_str().expect("a URL");
        assert_same_frames(&played(&server, url), &expected, url);
    }
}

#[test]
fn a_recording_that_is_being_made_is_played_from_its_start_and_ends_as_it_began() {
    let folder = ScratchDir::new();
    let config =
        format!("[record]\ndirectory = '{}'\n[[record.rule]]\nstream = 'live/*'\n", folder.path().display());
    let server = Server::start(&config);
    let publisher = LivePublisher::start(server.rtmp, "live/mill", sample_tags());
    assert_eq!(get(&server, "/vod/live/live/other.m3u8").status, 404);
    let location = eventually("a recording", || {
        let redirect = get(&server, "/vod/live/live/mill.m3u8?start=-60");
        (redirect.status == 307).then(|| redirect.header("location").expect("a place").to_owned())
    });
    assert!(location.ends_with(".mp4/index.m3u8?start=-60"), "{location}");
    let file = location.split("/index.m3u8").next().expect("a path").to_owned();
    let text =
        eventually("segments", || Some(get(&server, &location)).filter(|answer| answer.status == 200)).text();
    assert!(text.contains("#EXT-X-START:TIME-OFFSET=-60.000,PRECISE=YES"), "{text}");
    let [video, audio] = media_playlists(&server, &file);
    let first = eventually("two segments", || {
        let text = get(&server, &video).text();
        (text.matches("#EXTINF").count() >= 2).then_some(text)
    });
    assert!(first.contains("#EXT-X-PLAYLIST-TYPE:EVENT") && !first.contains("ENDLIST"), "{first}");
    assert!(
        first.contains("#EXT-X-START:TIME-OFFSET=0.000") && first.contains("PROGRAM-DATE-TIME"),
        "{first}"
    );
    let mpd = get(&server, &format!("{file}/manifest.mpd")).text();
    assert!(mpd.contains("type=\"dynamic\"") && mpd.contains("<UTCTiming"), "{mpd}");
    let segment = format!("{file}/r/v0/0.m4s");
    let before = get(&server, &segment);
    assert_eq!(before.status, 200);
    drop(publisher);
    let last = eventually("it is complete", || {
        let text = get(&server, &video).text();
        text.contains("#EXT-X-ENDLIST").then_some(text)
    });
    // Nothing that was said of it has changed.
    let entries = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| !line.contains("-TYPE:") && !line.contains("START"))
            .map(str::to_owned)
            .collect()
    };
    let (first, last) = (entries(&first), entries(&last));
    assert!(last.starts_with(&first), "{first:#?}\n{last:#?}");
    assert!(get(&server, &segment).body == before.body, "a segment is the same before and after");
    assert!(get(&server, &audio).text().contains("#EXT-X-ENDLIST"));
    let listed = server.api("/api/v1/recordings")["files"][0].clone();
    let expected = frames_of(&folder.path().join(listed["path"].as_str().expect("a path")));
    assert_same_frames(&played(&server, &format!("{file}/index.m3u8")), &expected, "complete");
}

#[test]
fn a_film_of_two_hours_on_another_server_begins_with_a_handful_of_requests() {
    let dir = ScratchDir::new();
    let film = dir.path().join("film.mp4");
    let mut command = ffmpeg();
    // Tiny pictures, as many as in a film.
    command.args(["-y", "-f", "lavfi", "-i", "color=s=16x16:r=25:d=7200", "-f", "lavfi"]);
    command.args(["-i", "anullsrc=r=16000:cl=mono", "-t", "7200", "-c:v", "libx264", "-preset", "ultrafast"]);
    run(command.args(["-g", "50", "-c:a", "aac", "-b:a", "16k", "-f", "mp4"]).arg(&film));
    let origin = FileServer::start(dir.path());
    let remote = format!("[[vod.remote]]\nname = 'store'\nurl = 'http://{}/'\n", origin.address());
    let server = Server::start(&format!("[sources]\nallow_private_addresses = true\n{remote}"));
    let path = "/vod/remote/store/film.mp4";
    let [video, audio] = media_playlists(&server, path);
    let index = origin.requests().len();
    let names = [&video, &audio].map(|playlist| {
        let text = get(&server, playlist).text();
        assert!(text.matches("#EXTINF").count() > 1_700, "two hours");
        playlist.strip_suffix(".m3u8").expect("a playlist").to_owned()
    });
    for name in &names {
        assert_eq!(get(&server, &format!("{name}/init-0.mp4")).status, 200);
        assert_eq!(&get(&server, &format!("{name}/0.m4s")).body[4..8], b"moof");
    }
    let begun = origin.requests().len();
    // In the middle, as a seek does.
    assert_eq!(&get(&server, &format!("{}/900.m4s", names[0])).body[4..8], b"moof");
    let sought = origin.requests().len();
    let length = std::fs::metadata(&film).expect("a file").len();
    let read = server.counter("millstream_vod_remote_index_bytes_total");
    println!(
        "film of {length} bytes: {index} requests and {read} bytes for the index, {begun} until both begin"
    );
    println!("{} requests for a seek", sought - begun);
    assert!(index <= 5 && begun <= index + 4 && sought <= begun + 2, "{:?}", origin.requests());
    // Every byte is the file's.
    let part = [("Range", "bytes=1000000-1000999")];
    let answer = http::request(server.http, "GET", path, &part).expect("an answer");
    assert!(answer.body == std::fs::read(&film).expect("a file")[1_000_000..1_001_000]);
    for (path, status) in [("/vod/remote/store/none.mp4", 404), ("/vod/remote/other/film.mp4", 404)] {
        assert_eq!(get(&server, path).status, status, "{path}");
        assert_eq!(get(&server, &format!("{path}/index.m3u8")).status, status, "{path}");
    }
    drop(origin);
    assert_eq!(get(&server, "/vod/remote/store/late.mp4/index.m3u8").status, 502);
}

#[test]
fn tokens_are_asked_for_and_carry_over() {
    let (_dir, server) = with_files(
        Server::start,
        &["a.mp4"],
        "[[auth.play]]\nstream = 'vod/files/*'\ntokens = ['open&sesame']\n[[auth.play]]\nstream = 'live/*'\nallow = 'anyone'\n",
    );
    let path = "/vod/files/a.mp4";
    for object in ["", "/index.m3u8", "/manifest.mpd"] {
        assert_eq!(get(&server, &format!("{path}{object}")).status, 401, "{object}");
    }
    assert_eq!(get(&server, "/vod/files/none.mp4").status, 401, "nobody learns which there are");
    let text = get(&server, &format!("{path}/index.m3u8?token=open%26sesame&start=3")).text();
    let video = text.lines().find(|line| !line.starts_with('#')).expect("a playlist");
    assert!(video.ends_with("?token=open%26sesame&start=3"), "{text}");
    let playlist = get(&server, &format!("{path}/{video}")).text();
    let segment = playlist.lines().find(|line| line.contains(".m4s")).expect("a segment");
    let folder = video.rsplit_once('/').expect("a folder").0;
    assert_eq!(get(&server, &format!("{path}/{folder}/{segment}")).status, 200);
    let bare = segment.split('?').next().expect("a path");
    assert_eq!(get(&server, &format!("{path}/{folder}/{bare}")).status, 401);
    let mpd = get(&server, &format!("{path}/manifest.mpd?token=open%26sesame")).text();
    assert!(mpd.contains("$Number$.m4s?token=open%26sesame\""), "{mpd}");
    let listed = http::request(server.http, "GET", "/vod/", &[("X-Forwarded-For", "192.0.2.1")]);
    assert_eq!(listed.expect("an answer").status, 403, "the list is for management");
}

#[test]
fn requests_that_make_no_sense_and_files_that_lie_are_refused_with_a_reason() {
    let (dir, mut server) = with_files(Server::spawn, &["a.mp4"], "");
    let films = dir.path().join("films");
    let file = std::fs::read(films.join("a.mp4")).expect("a file");
    std::fs::write(dir.path().join("secret.mp4"), &file).expect("a file");
    std::fs::write(films.join("cut.mp4"), &file[..file.len() / 2]).expect("a file");
    std::fs::write(films.join("text.mp4"), b"no film at all").expect("a file");
    std::fs::write(films.join("text.flv"), b"no film at all").expect("a file");
    std::fs::write(films.join("notes.txt"), b"notes").expect("a file");
    std::fs::create_dir(films.join("folder.mp4")).expect("a folder");
    std::os::unix::fs::symlink(dir.path().join("secret.mp4"), films.join("out.mp4")).expect("a link");
    std::os::unix::fs::symlink(films.join("a.mp4"), films.join("absolute.mp4")).expect("a link");
    std::os::unix::fs::symlink("a.mp4", films.join("in.mp4")).expect("a link");
    nix::unistd::mkfifo(&films.join("pipe.mp4"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let [video, _] = media_playlists(&server, "/vod/files/a.mp4");
    let folder = video.strip_suffix(".m3u8").expect("a playlist");
    for (path, status) in [
        ("/vod/files/in.mp4".to_owned(), 200),
        ("/vod/files/out.mp4".to_owned(), 404),
        ("/vod/files/../secret.mp4".to_owned(), 404),
        ("/vod/files/%2e%2e/secret.mp4".to_owned(), 404),
        ("/vod/files/..%2fsecret.mp4".to_owned(), 404),
        ("/vod/files//etc/passwd".to_owned(), 404),
        ("/vod/files/notes.txt".to_owned(), 404),
        ("/vod/files/folder.mp4".to_owned(), 404),
        ("/vod/files/pipe.mp4".to_owned(), 404),
        ("/vod/files/none.mp4/index.m3u8".to_owned(), 404),
        ("/vod/recordings/live/mill/20261127T190500.123Z.mp4".to_owned(), 404),
        ("/vod/x.flv".to_owned(), 404),
        ("/vod/files/cut.mp4/index.m3u8".to_owned(), 422),
        ("/vod/files/text.mp4/manifest.mpd".to_owned(), 422),
        ("/vod/files/text.flv/index.m3u8".to_owned(), 422),
        ("/vod/files/text.mp4".to_owned(), 200),
        (format!("{folder}/99999.m4s"), 404),
        (format!("{folder}/18446744073709551615.m4s"), 404),
        (format!("{folder}/0.1.m4s"), 404),
        (format!("{folder}/init-1.mp4"), 404),
        ("/vod/files/a.mp4/0123/v0.m3u8".to_owned(), 404),
        ("/vod/files/a.mp4/index.m3u8?start=soon".to_owned(), 400),
        (format!("/vod/files/a.mp4/index.m3u8?{}", "a".repeat(5_000)), 400),
        ("/vod/?limit=x".to_owned(), 400),
    ] {
        let answer = get(&server, &path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        if status >= 400 {
            assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| text.len() > 10), "{path}");
        }
    }
    assert_eq!(http::request(server.http, "POST", "/vod/files/a.mp4", &[]).expect("an answer").status, 405);
    assert_eq!(
        http::request(server.http, "OPTIONS", "/vod/files/a.mp4", &[]).expect("an answer").status,
        204
    );
    let listed = get(&server, "/vod/").json();
    let urls: Vec<_> = listed["items"].as_array().expect("a list").iter().map(|item| &item["url"]).collect();
    assert_eq!(
        urls,
        ["/vod/files/a.mp4", "/vod/files/cut.mp4", "/vod/files/text.flv", "/vod/files/text.mp4"]
            .map(Value::from)
            .iter()
            .collect::<Vec<_>>()
    );
    assert_eq!(listed["items"][0]["codecs"][0].as_str().map(|codec| &codec[..5]), Some("avc1."));
    assert_eq!(listed["items"][0]["unplayable"], Value::Null);
    for (item, reason) in [(1, "has no index"), (2, "not an FLV file"), (3, "not an MP4 file")] {
        let said = listed["items"][item]["unplayable"].as_str().unwrap_or_default();
        assert!(said.contains(reason), "{listed}");
    }
    let page = get(&server, "/vod/?limit=1&after=/vod/files/a.mp4").json();
    assert_eq!(
        (&page["items"][0]["url"], &page["next"]),
        (&"/vod/files/cut.mp4".into(), &"/vod/files/cut.mp4".into())
    );
    server.assert_healthy();
}

#[test]
fn slow_readers_and_floods_of_head_take_their_slots_and_no_more() {
    let (dir, mut server) = with_files(Server::spawn, &["a.mp4"], "requests_max = 8\n");
    let big = dir.path().join("films/big.mp4");
    std::fs::File::create(&big).and_then(|file| file.set_len(1 << 30)).expect("a large file");
    let before = server.resident_bytes();
    let slow: Vec<_> = (0..8)
        .map(|_| {
            let mut socket = TcpStream::connect(server.http).expect("a connection");
            socket.write_all(b"GET /vod/files/big.mp4 HTTP/1.1\r\nHost: a\r\n\r\n").expect("sent");
            socket.read_exact(&mut [0; 12]).expect("a status");
            socket
        })
        .collect();
    let busy = get(&server, "/vod/files/a.mp4");
    assert_eq!(busy.status, 503, "all slots are taken");
    assert!(server.counter("millstream_vod_refused_total") >= 1);
    assert!(server.resident_bytes().saturating_sub(before) < 64 << 20);
    drop(slow);
    eventually("they are free", || (get(&server, "/vod/files/a.mp4").status == 200).then_some(()));
    let mut sockets: Vec<_> =
        (0..50).map(|_| TcpStream::connect(server.http).expect("a connection")).collect();
    for socket in &mut sockets {
        let heads = "HEAD /vod/files/a.mp4/index.m3u8 HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
        // A server that closes is as good as one that waits.
        let _ = socket.write_all(heads.as_bytes());
    }
    drop(sockets);
    eventually("it answers", || (get(&server, "/vod/files/a.mp4/index.m3u8").status == 200).then_some(()));
    eventually("all files are closed", || (server.counter("millstream_vod_open_files") == 0).then_some(()));
    server.assert_healthy();
}
