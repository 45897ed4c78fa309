//! HLS is pulled: of another Millstream, and what ffmpeg makes, live and VOD, of every kind of segment; the
//! frames that are played are those that were published.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::origin::{LOCAL, add_pull, wait_for_pull};
use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::tools::{
    Player, Running, compare, ffmpeg, frames_of, frames_with, publish_repeated, run, sample,
};
use crate::common::web::{Reply, Web, file};
use rtmp::MediaKind;
use rtmp::flv::Tag;

/// ffmpeg, which makes HLS of the sample in a directory: `arguments` are those behind the input.
fn hls_of_sample(directory: &Path, before: &[&str], arguments: &[&str]) -> Command {
    std::fs::create_dir_all(directory).expect("a directory");
    let mut command = ffmpeg();
    command.current_dir(directory).args(before).arg("-i").arg(sample()).args(["-c", "copy"]);
    command.args(arguments).args(["-f", "hls", "-y"]);
    command
}

fn vod(directory: &Path, arguments: &[&str]) {
    let arguments = [&["-hls_time", "2", "-hls_playlist_type", "vod"], arguments].concat();
    run(hls_of_sample(directory, &[], &arguments).arg("a.m3u8"));
}

#[test]
fn of_another_server_every_frame_arrives_unchanged() {
    let origin = Server::start_workers(1, "[hls]\nsegment_ms = 1000\npart_ms = 200\n");
    let _publisher = publish_repeated(&origin.rtmp_url("live/mill"), 1, 9);
    origin.wait_for_publisher("live/mill", true);
    let url = format!("http://{}/live/mill.m3u8", origin.http);
    let config = format!("{LOCAL}[[pull]]\nstream = \"live/copy\"\nurl = \"{url}\"\n");
    let server = Server::start_workers(2, &config);
    let mut player = RtmpClient::play(server.rtmp, "live/copy");
    let played = player.take_frames(400);
    let tags = sample_tags();
    for kind in [MediaKind::Video, MediaKind::Audio] {
        let is_media =
            |kind: MediaKind, body: &[u8]| body[1] != 0 || kind == MediaKind::Audio && body[0] >> 4 != 10;
        let sent: Vec<&Tag> =
            tags.iter().filter(|tag| tag.kind == kind && is_media(kind, &tag.body)).collect();
        let mut got = played.iter().filter(|of| of.kind == kind && is_media(kind, &of.payload)).peekable();
        let first = got.peek().expect("some").payload.clone();
        let at = sent.iter().position(|tag| tag.body == first).expect("a frame of the sample");
        let mut count = 0;
        for (frame, tag) in got.zip(sent.iter().cycle().skip(at)) {
            assert!(frame.payload == tag.body, "{kind:?} {count} behind {at}");
            count += 1;
        }
        assert!(count > 100, "{kind:?}: {count}");
    }
    let times: Vec<u32> = played.iter().map(|of| of.timestamp).collect();
    assert!(times.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) < 500), "{times:?}");
    let pull = wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
    assert!(pull["bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{pull}");
    assert_eq!(pull["failures"], 0, "{pull}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "real time is what is asked for")]
fn vod_of_every_kind_of_segment_is_played_in_real_time() {
    let server = Server::start_workers(2, LOCAL);
    let root = server.dir.path().join("web");
    let web = Web::of_files(root.clone());
    vod(&root.join("ts"), &[]);
    vod(&root.join("ranges"), &["-hls_flags", "single_file"]);
    vod(&root.join("fmp4"), &["-hls_segment_type", "fmp4"]);
    let sealed = root.join("sealed");
    std::fs::create_dir_all(&sealed).expect("a directory");
    std::fs::write(sealed.join("key"), [7; 16]).expect("a key");
    std::fs::write(sealed.join("info"), "key\nkey\n").expect("a key file");
    vod(&sealed, &["-hls_key_info_file", "info"]);
    let names = ["ts", "ranges", "fmp4", "sealed"];
    let players = names.map(|name| {
        let stream = format!("live/{name}");
        Player::start(&server.rtmp_url(&stream), server.dir.path().join(name))
    });
    names.iter().for_each(|name| server.wait_for_players(&format!("live/{name}"), 1));
    let began = Instant::now();
    names.iter().for_each(|name| add_pull(&server, name, &web.url(&format!("/{name}/a.m3u8"))));
    for name in names {
        let pull = wait_for_pull(&server, name, "at its end", |pull| pull["last_error"].is_string());
        assert_eq!(pull["last_error"], "the playlist has ended", "{name}: {pull}");
    }
    assert!(began.elapsed() > Duration::from_secs(9), "not faster than it plays");
    let source = frames_of(&sample());
    for (name, player) in names.into_iter().zip(players) {
        eprintln!("{name}");
        compare(&player.frames_after_end(), &source, 0);
    }
    // What has ended is not played again, but looked at.
    wait_for_pull(&server, "ts", "tried again", |pull| pull["failures"].as_u64() >= Some(2));
    assert_eq!(server.api("/api/v1/pulls/live/ts")["reconnects"], 0);
    let segments = |name: &str| web.asked().iter().filter(|of| of.target == format!("/ts/{name}")).count();
    assert_eq!((segments("a0.ts"), segments("a4.ts")), (1, 1));
    // Each attempt has one, by which all of its segments come.
    let (connections, asked) = (web.connections(), web.asked());
    let playlists = asked.iter().filter(|of| of.target.ends_with(".m3u8")).count();
    assert!(connections <= playlists + 2, "{connections} connections of {} requests", asked.len());
}

#[test]
fn audio_of_a_playlist_of_its_own_is_put_beside_the_video() {
    let server = Server::start_workers(1, LOCAL);
    let root = server.dir.path().join("web");
    let maps = [
        "-map",
        "0:v",
        "-map",
        "0:a",
        "-map",
        "0:a",
        "-var_stream_map",
        "v:0,agroup:x a:0,agroup:x,default:yes a:1,agroup:x",
    ];
    let arguments =
        [&["-hls_time", "2", "-hls_playlist_type", "vod", "-master_pl_name", "m.m3u8"], &maps[..]].concat();
    run(hls_of_sample(&root, &[], &arguments).arg("v%v.m3u8"));
    let web = Web::of_files(root);
    let player = Player::start(&server.rtmp_url("live/copy"), server.dir.path().join("copy"));
    server.wait_for_players("live/copy", 1);
    add_pull(&server, "copy", &web.url("/m.m3u8"));
    wait_for_pull(&server, "copy", "at its end", |pull| pull["last_error"] == "the playlist has ended");
    compare(&player.frames_after_end(), &frames_of(&sample()), 0);
    assert!(web.asked().iter().all(|of| of.target != "/v2.m3u8"), "one of them");
}

#[test]
fn live_segments_are_followed_over_what_is_missing() {
    let server = Server::start_workers(1, LOCAL);
    let root = server.dir.path().join("web");
    let live = ["-hls_time", "1", "-hls_list_size", "6", "-hls_flags", "delete_segments"];
    let mut command = hls_of_sample(&root, &["-re", "-stream_loop", "-1"], &live);
    command.arg("a.m3u8");
    let _running = Running::start(command, "ffmpeg making HLS");
    eventually("there are segments", || root.join("a1.ts").exists().then_some(()));
    let files = root.clone();
    let web = Web::start(move |request| match request.target.as_str() {
        "/a3.ts" => Reply::missing(),
        "/moved/a.m3u8" => Reply::Whole(302, vec![("Location", "/a.m3u8".to_owned())], Vec::new()),
        _ => file(&files, request),
    });
    add_pull(&server, "copy", &web.url("/moved/a.m3u8"));
    let mut player = RtmpClient::play(server.rtmp, "live/copy");
    eventually("later segments are fetched", || {
        web.asked().iter().any(|of| of.target == "/a6.ts").then_some(())
    });
    player.take_frames(300);
    let asked: Vec<String> = web.asked().into_iter().map(|of| of.target).collect();
    assert!(asked.iter().filter(|target| *target == "/a3.ts").count() == 2, "{asked:?}");
    assert_eq!(asked.iter().filter(|target| *target == "/a4.ts").count(), 1, "{asked:?}");
    let pull = server.api("/api/v1/pulls/live/copy");
    assert_eq!((&pull["state"], &pull["failures"]), (&"live".into(), &0.into()), "{pull}");
    assert!(server.log().contains("an HLS segment is left out"));
}

#[test]
fn a_live_playlist_that_stops_is_left_and_followed_again() {
    let server = Server::start_workers(1, &format!("{LOCAL}stall_timeout_ms = 1000\n"));
    let root: PathBuf = server.dir.path().join("web");
    vod(&root, &["-hls_time", "1"]);
    let text = std::fs::read_to_string(root.join("a.m3u8")).expect("a playlist");
    let first = text.split("#EXTINF").take(3).collect::<Vec<_>>().join("#EXTINF").replace(":VOD", ":EVENT");
    let files = root.clone();
    let web = Web::start(move |request| match request.target.as_str() {
        "/a.m3u8" => Reply::ok(first.clone()),
        _ => file(&files, request),
    });
    add_pull(&server, "copy", &web.url("/a.m3u8"));
    let is_dead = |pull: &serde_json::Value| {
        pull["last_error"]
            .as_str()
            .is_some_and(|error| error.starts_with("the playlist has had no new segment"))
    };
    wait_for_pull(&server, "copy", "given up", is_dead);
    wait_for_pull(&server, "copy", "live again", |pull| pull["reconnects"].as_u64() >= Some(1));
}

#[test]
fn times_go_on_where_two_recordings_are_joined() {
    let server = Server::start_workers(1, LOCAL);
    let root = server.dir.path().join("web");
    vod(&root, &[]);
    let text = std::fs::read_to_string(root.join("a.m3u8")).expect("a playlist");
    let (head, entries) = text.split_at(text.find("#EXTINF").expect("segments"));
    let entries = entries.replace("#EXT-X-ENDLIST", "");
    std::fs::write(
        root.join("b.m3u8"),
        format!("{head}{entries}#EXT-X-DISCONTINUITY\n{entries}#EXT-X-ENDLIST\n"),
    )
    .expect("a playlist");
    let web = Web::of_files(root);
    let mut player = RtmpClient::play(server.rtmp, "live/copy");
    server.wait_for_players("live/copy", 1);
    add_pull(&server, "copy", &web.url("/b.m3u8"));
    let source = frames_with(&sample(), &[]);
    let played = player.take_frames(source.video.len() + source.audio.len() + 200);
    // The second byte says that it is a picture, and no configuration.
    let pictures = played.iter().filter(|of| of.kind == MediaKind::Video && of.payload[1] == 1);
    let times: Vec<u32> = pictures.map(|of| of.timestamp).collect();
    assert!(times.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) <= 120), "{times:?}");
    assert!(times.last().expect("some") - times[0] > 10_500);
}
