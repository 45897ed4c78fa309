//! Reload of the configuration while the server runs: what is live counts at once, a mistake changes
//! nothing, and what has not changed goes on.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::common::eventually;
use crate::common::flv::sample_tags;
use crate::common::http;
use crate::common::origin::{LOCAL, Origin, add_pull, post, wait_for_pull};
use crate::common::rtmp::{RtmpClient, is_closed};
use crate::common::server::{BINARY, Server};
use crate::common::stats;

/// Writes another configuration, as an editor does: beside it, then in its place.
fn write(server: &Server, config: &str) {
    let path = server.dir.path().join("millstream.toml");
    let beside = path.with_extension("new");
    fs::write(&beside, config).expect("written");
    fs::rename(beside, path).expect("renamed");
}

fn ask(server: &Server, headers: &[(&str, &str)]) -> http::Response {
    http::request(server.http, "POST", "/api/v1/config/reload", headers).expect("an answer")
}

/// Writes it and reloads.
pub(crate) fn reload(server: &Server, config: &str) -> Value {
    write(server, config);
    let answer = ask(server, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// The mistakes with which it is refused.
fn refused(server: &Server, config: &str) -> Vec<String> {
    write(server, config);
    let answer = ask(server, &[]);
    assert_eq!(answer.status, 409, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body["error"]["code"], "configuration_refused");
    let errors = body["errors"].as_array().expect("mistakes");
    errors.iter().map(|error| error.as_str().expect("text").to_owned()).collect()
}

fn may_publish(server: &Server, token: &str) -> bool {
    RtmpClient::begin_publish(server.rtmp, &format!("live/{token}?token={token}")).wait_started().is_ok()
}

/// How many reloads there were, by result.
fn reloads(server: &Server, result: &str) -> u64 {
    server.counter(&format!("millstream_config_reloads_total{{result=\"{result}\"}}"))
}

#[test]
fn tokens_and_rules_count_at_once_and_sessions_go_on() {
    let server = Server::spawn_workers(2, "[auth]\npublish_token = 'old'\nplay_token = 'meadow'\n");
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill?token=old");
    let tags = sample_tags();
    publisher.send_tags(&tags[..40]);
    let mut player = RtmpClient::play(server.rtmp, "live/mill?token=meadow");
    player.take_frames(20);
    let changed = reload(
        &server,
        "[auth]\npublish_token = 'new'\nplay_token = 'meadow'\n[[auth.play]]\nstream = 'open/*'\n\
         allow = 'anyone'\n",
    );
    assert_eq!(changed["changed"], json!(["auth.publish_token", "auth.play"]));
    assert_eq!(changed["needs_restart"], json!([]));
    for _ in 0..8 {
        // Whichever worker takes it.
        assert!(!may_publish(&server, "old"), "the removed token is refused");
        assert!(may_publish(&server, "new"), "the new one is taken");
    }
    let status = |path: &str| http::open(server.http, "GET", path, &[]).expect("an answer").status;
    assert_eq!(status("/live/mill.flv"), 401);
    let mut open = RtmpClient::publish(server.rtmp, "open/mill?token=new");
    open.send_tags(&tags[..40]);
    assert_eq!(status("/open/mill.flv"), 200);
    // Whoever was let in before stays.
    publisher.send_tags(&tags[40..80]);
    player.take_frames(30);
    assert_eq!((reloads(&server, "succeeded"), reloads(&server, "refused")), (1, 0));
}

#[test]
fn mistakes_change_nothing_and_are_named_with_line_and_key() {
    let good = "[auth]\npublish_token = 'old'\n";
    let mut server = Server::spawn(good);
    let cases = [
        (
            "[auth]\npublish_token = 'new'\n[limits]\nsesions_per_worker = 3\n",
            "millstream.toml:4",
            "sessions_per",
        ),
        (
            "[auth]\npublish_token = 'new'\n[limits]\nsessions_per_worker = 0\n",
            "millstream.toml:4",
            "from 1 to",
        ),
        (
            "[auth]\npublish_token = 'new'\n[[pull]]\nstream = 'a/b'\nurl = 'gopher://h'\n",
            "millstream.toml:3",
            "[[pull]]",
        ),
        ("[auth]\npublish_token = 'new'\nplay_tok", "millstream.toml:3", "not valid TOML"),
        (
            "[auth]\npublish_token = 'new'\nplay_token_file = '/no/such/file'\n",
            "millstream.toml:3",
            "No such file",
        ),
        ("", "millstream.toml:1", "is empty"),
    ];
    let errors = refused(&server, "[auth]\nmanage = 'hushhush'\npublish_token = 'old'\n");
    assert!(
        errors[0].contains("toml:2: `auth.manage` cannot be") && !errors[0].contains("hush"),
        "{errors:?}"
    );
    assert!(!server.log().contains("hush"));
    for (config, place, what) in &cases {
        let errors = refused(&server, config);
        assert!(errors.len() == 1 && errors[0].contains(place) && errors[0].contains(what), "{errors:?}");
    }
    fs::remove_file(server.dir.path().join("millstream.toml")).expect("removed");
    let answer = ask(&server, &[]);
    assert!(answer.status == 409 && answer.text().contains("cannot be read"), "{}", answer.text());
    fs::create_dir(server.dir.path().join("millstream.toml")).expect("a directory in its place");
    assert_eq!(ask(&server, &[]).status, 409);
    fs::remove_dir(server.dir.path().join("millstream.toml")).expect("removed");
    assert!(may_publish(&server, "old") && !may_publish(&server, "new"));
    assert_eq!((reloads(&server, "succeeded"), reloads(&server, "refused")), (0, cases.len() as u64 + 3));
    let log = server.log();
    assert!(log.contains("nothing has changed") && log.contains("millstream.toml:4"), "{log}");
    // The same by a signal; and then a good one is taken.
    write(&server, cases[0].0);
    server.signal(Signal::SIGHUP);
    server.wait_for_counter("millstream_config_reloads_total{result=\"refused\"}", cases.len() as u64 + 4);
    server.assert_healthy();
    reload(&server, "[auth]\npublish_token = 'new'\n");
    assert!(may_publish(&server, "new"));
}

#[test]
fn what_is_no_regular_file_is_not_opened_and_later_reloads_go_on() {
    let server = Server::spawn("[auth]\npublish_token = 'old'\n");
    let (file, pipe) = (server.dir.path().join("millstream.toml"), server.dir.path().join("pipe"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let errors = refused(&server, &format!("[auth]\n\nplay_token_file = {pipe:?}\n"));
    let expected = "toml:3: `auth.play_token_file`";
    assert!(errors[0].contains(expected) && errors[0].contains("not a regular file"), "{errors:?}");
    fs::rename(&pipe, &file).expect("in its place");
    let answer = ask(&server, &[]);
    assert!(answer.status == 409 && answer.text().contains("not a regular file"), "{}", answer.text());
    // A link to a file is one.
    let behind = server.dir.path().join("behind.toml");
    fs::write(&behind, "[auth]\npublish_token = 'new'\n").expect("written");
    fs::remove_file(&file).expect("removed");
    std::os::unix::fs::symlink(&behind, &file).expect("a link");
    let answer = ask(&server, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(may_publish(&server, "new"));
}

#[test]
fn sighup_reloads_and_a_storm_of_them_ends_with_the_last_file() {
    let mut server = Server::spawn("[auth]\npublish_token = 'token-0'\n");
    for round in 1..=200 {
        write(&server, &format!("[auth]\npublish_token = 'token-{round}'\n"));
        server.signal(Signal::SIGHUP);
    }
    eventually("the last file counts", || may_publish(&server, "token-200").then_some(()));
    assert!(!may_publish(&server, "token-199"));
    let done = reloads(&server, "succeeded");
    assert!((1..=200).contains(&done) && reloads(&server, "refused") == 0, "{done}");
    server.assert_healthy();
    server.terminate();
    assert!(server.wait_for_exit(crate::common::TIMEOUT).success());
}

#[test]
fn limits_count_for_what_comes_and_end_nothing_that_is_there() {
    let limits = |sessions: u32| {
        format!("[limits]\nhandshake_timeout_ms = 600000\nsessions_per_worker = {sessions}\n")
    };
    let server = Server::spawn(&limits(100));
    let mut publisher = RtmpClient::publish(server.rtmp, "live/mill");
    let fewer = format!("{}[metrics]\nstreams_max = 1\n[rtmp]\nlisten = ['127.0.0.1:1']\n", limits(3));
    let answer = reload(&server, &fewer);
    assert_eq!(answer["changed"], json!(["limits.sessions_per_worker", "metrics.streams_max"]));
    assert_eq!(answer["needs_restart"], json!([]), "a flag says otherwise anyway");
    let mut held = Vec::new();
    eventually("one beyond the limit is closed", || {
        let mut socket = TcpStream::connect(server.rtmp).expect("the system accepts");
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket option");
        let is_closed = !socket.read(&mut [0]).is_err_and(|error| !is_closed(&error));
        held.push(socket);
        is_closed.then_some(())
    });
    assert!(held.len() <= 3, "{} of them", held.len());
    publisher.send_tags(&sample_tags()[..20]);
    drop(held);
    server.wait_for_publisher("live/mill", true);
    let answer = reload(&server, &format!("{}ring_frames = 128\n", limits(100)));
    assert_eq!(answer["needs_restart"], json!(["limits.ring_frames"]));
    assert!(may_publish(&server, "any"));
    let again = ask(&server, &[]).json();
    assert_eq!((&again["changed"], &again["needs_restart"]), (&json!([]), &json!(["limits.ring_frames"])));
}

#[test]
fn limits_of_webrtc_count_for_requests_from_then_on() {
    let server = Server::spawn("[rtc]\nrequests_per_second = 1000\n");
    let ask = || http::request(server.http, "POST", "/whep/live/mill", &[]).expect("an answer").status;
    let too_many = |asked: u32| (0..asked).any(|_| ask() == 429);
    assert!(!too_many(10));
    reload(&server, "[rtc]\nrequests_per_second = 1\n");
    assert!(too_many(10), "twice as many at once, at most");
    reload(&server, "[rtc]\nrequests_per_second = 0\n");
    assert!(!too_many(10));
}

#[test]
fn the_log_level_changes() {
    let server = Server::spawn("[log]\nlevel = 'warn'\n");
    drop(RtmpClient::publish(server.rtmp, "live/quiet"));
    reload(&server, "[log]\nlevel = 'debug'\n");
    drop(RtmpClient::publish(server.rtmp, "live/loud"));
    eventually("it is logged", || server.log().contains("live/loud").then_some(()));
    assert!(!server.log().contains("live/quiet"), "{}", server.log());
    reload(&server, "[log]\nlevel = 'error'\n");
    let before = server.log().len();
    drop(RtmpClient::publish(server.rtmp, "live/silent"));
    server.wait_for_publisher("live/silent", false);
    assert!(!server.log()[before..].contains("live/silent"), "{}", server.log());
}

#[test]
fn pulls_that_have_not_changed_go_on_and_others_begin_and_end() {
    let origin = Origin::start();
    let pull =
        |stream: &str, path: &str| format!("[[pull]]\nstream = '{stream}'\nurl = '{}'\n", origin.url(path));
    let server = Server::spawn(&format!(
        "{LOCAL}{}{}",
        pull("live/same", "/same.flv"),
        pull("live/gone", "/gone.flv")
    ));
    let mut asked = [origin.accept(), origin.accept()];
    asked.sort_by_key(|asked| asked.head[0].contains("gone"));
    let [mut same, mut gone] = asked;
    let tags = sample_tags();
    for source in [&mut same, &mut gone] {
        source.begin();
        source.send_tags(&tags[..40], 0);
    }
    for name in ["same", "gone"] {
        wait_for_pull(&server, name, "live", |pull| pull["state"] == "live");
    }
    add_pull(&server, "of-api", &origin.url("/api.flv"));
    let mut of_api = origin.accept();
    let mut player = RtmpClient::play(server.rtmp, "live/same");
    player.take_frames(20);
    let session = server.sessions("stream=live/same&role=publisher")[0]["id"].clone();

    let changed = format!("{LOCAL}{}{}", pull("live/new", "/new.flv"), pull("live/same", "/same.flv"));
    let answer = reload(&server, &changed);
    assert_eq!(answer["changed"], json!(["pull"]));
    assert_eq!(
        (&answer["started"], &answer["ended"]),
        (&json!(["pull live/new"]), &json!(["pull live/gone"]))
    );
    let new = origin.accept();
    assert!(new.head[0].starts_with("GET /new.flv"), "{:?}", new.head);
    gone.wait_closed();
    server.wait_for_publisher("live/gone", false);
    same.send_tags(&tags[40..80], 0);
    player.take_frames(30);
    assert_eq!(server.sessions("stream=live/same&role=publisher")[0]["id"], session, "without a gap");
    of_api.begin();
    of_api.send_tags(&tags[..40], 0);
    wait_for_pull(&server, "of-api", "live", |pull| pull["state"] == "live" && pull["source"] == "api");

    // Another URL: the same stream begins again. One that the API has in another way is in the way.
    let answer = reload(
        &server,
        &format!("{LOCAL}{}{}", pull("live/new", "/else.flv"), pull("live/same", "/same.flv")),
    );
    assert_eq!((&answer["restarted"], &answer["started"]), (&json!(["pull live/new"]), &json!([])));
    assert!(origin.accept().head[0].starts_with("GET /else.flv"));
    let errors = refused(&server, &format!("{LOCAL}{}", pull("live/of-api", "/mine.flv")));
    let place = "millstream.toml:5: [[pull]] `live/of-api`";
    assert!(errors[0].contains(place) && errors[0].contains("the API"), "{errors:?}");
    same.send_tags(&tags[80..120], 0);
    player.take_frames(30);
}

#[test]
fn what_a_pattern_has_begun_gives_way_to_an_entry_of_its_own() {
    let origin = Origin::start();
    let pattern =
        format!("[[pull]]\nstream = 'live/*'\nurl = '{}'\non_demand = true\n", origin.url("/{stream}.flv"));
    let server = Server::spawn(&format!("{LOCAL}{pattern}"));
    let tags = sample_tags();
    let mut player = RtmpClient::play(server.rtmp, "live/cam");
    let mut by_pattern = origin.accept();
    by_pattern.begin();
    by_pattern.send_tags(&tags[..40], 0);
    player.take_frames(20);
    let own = format!("[[pull]]\nstream = 'live/cam'\nurl = '{}'\n", origin.url("/own.flv"));
    let answer = reload(&server, &format!("{LOCAL}{own}"));
    assert_eq!(answer["started"], json!(["pull live/cam"]));
    assert_eq!((&answer["ended"], &answer["failed"]), (&json!(["pull live/*"]), &json!([])));
    by_pattern.wait_closed();
    let mut asked = origin.accept();
    assert!(asked.head[0].starts_with("GET /own.flv"), "{:?}", asked.head);
    asked.begin();
    asked.send_tags(&tags[..40], 0);
    wait_for_pull(&server, "cam", "live", |pull| pull["state"] == "live");
    // The same with the pattern beside it, and for a channel.
    let mut player = RtmpClient::play(server.rtmp, "live/dam");
    reload(&server, &format!("{LOCAL}{own}{pattern}"));
    let mut by_pattern = origin.accept();
    by_pattern.begin();
    by_pattern.send_tags(&tags[..40], 0);
    player.take_frames(20);
    let channel = "[[channel]]\nstream = 'live/dam'\nitems = ['/no/such/film.mp4']\n";
    let answer = reload(&server, &format!("{LOCAL}{own}{pattern}{channel}"));
    assert_eq!((&answer["started"], &answer["failed"]), (&json!(["channel live/dam"]), &json!([])));
    by_pattern.wait_closed();
}

#[test]
fn pushes_and_channels_begin_and_end_and_those_of_the_api_stay() {
    let server = Server::spawn(LOCAL);
    let body = json!({ "stream": "api/*", "url": "rtmp://127.0.0.1:9/api/{stream}" }).to_string();
    assert_eq!(post(&server, "/api/v1/pushes", &body).status, 201);
    let push = "[[push]]\nstream = 'live/*'\nurl = 'rtmp://127.0.0.1:9/live/{stream}'\n";
    let channel = "[[channel]]\nstream = 'live/films'\nitems = ['/no/such/film.mp4']\n";
    let answer = reload(&server, &format!("{LOCAL}{push}{channel}"));
    let started = answer["started"].as_array().expect("a list");
    assert!(started.contains(&json!("channel live/films")) && started.len() == 2, "{answer}");
    let count = |path: &str, list: &str| server.api(path)[list].as_array().expect("a list").len();
    assert_eq!((count("/api/v1/pushes", "pushes"), count("/api/v1/channels", "channels")), (2, 1));
    let answer = reload(&server, LOCAL);
    assert_eq!(answer["ended"].as_array().map(Vec::len), Some(2), "{answer}");
    assert_eq!((count("/api/v1/pushes", "pushes"), count("/api/v1/channels", "channels")), (1, 0));
    assert_eq!(server.api("/api/v1/pushes")["pushes"][0]["source"], "api");
}

#[test]
fn only_who_may_manage_may_reload() {
    let server = Server::spawn("[auth]\nmanage_token = 'keeper'\nplay_token = 'meadow'\n");
    assert_eq!(ask(&server, &[]).status, 401);
    assert_eq!(ask(&server, &[("Authorization", "Bearer meadow")]).status, 401);
    let answer = ask(&server, &[("Authorization", "Bearer keeper")]);
    assert_eq!(answer.status, 200);
    let keeper = [("Authorization", "Bearer keeper")];
    let document =
        http::request(server.http, "GET", "/api/v1/openapi.json", &keeper).expect("an answer").json();
    assert!(document["paths"]["/api/v1/config/reload"]["post"].is_object());
    let schema = &document["components"]["schemas"]["Reloaded"];
    for key in answer.json().as_object().expect("an object").keys() {
        assert!(schema["properties"][key].is_object(), "{key}: {schema}");
    }
    assert_eq!(
        http::request(server.http, "GET", "/api/v1/config/reload", &keeper).expect("an answer").status,
        405
    );
}

#[test]
fn the_command_prints_what_has_changed_and_fails_with_the_mistakes() {
    let server = Server::spawn("[auth]\nmanage_token = 'keeper'\n");
    let run = || {
        let mut command = Command::new(BINARY);
        command
            .args(["reload", "--url", &format!("http://{}", server.http)])
            .env("MILLSTREAM_TOP_TOKEN", "keeper");
        let output = command.output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run(), (Some(0), "nothing has changed\n".to_owned(), String::new()));
    write(&server, "[auth]\nmanage_token = 'keeper'\nplay_token = 'secret-1'\n[hls]\npart_ms = 100\n");
    let (code, out, _) = run();
    assert_eq!((code, out.as_str()), (Some(0), "changed: auth.play_token\nneeds a restart: hls.part_ms\n"));
    write(&server, "[auth]\nmanage_token = 'keeper'\nplay_tokn = 'a'\n");
    let (code, out, err) = run();
    assert!(code == Some(1) && out.is_empty() && err.contains("millstream.toml:3"), "{code:?} {err}");
    write(&server, "[auth]\nmanage_token = 'other'\n");
    assert_eq!(run().0, Some(0), "asked with the token of before");
    let (code, _, err) = run();
    assert!(code == Some(2) && err.contains("token"), "{code:?} {err}");
    assert!(!server.log().contains("secret-1"), "{}", server.log());
}

#[test]
fn the_content_of_token_files_is_read_again() {
    let server = Server::spawn("");
    assert_eq!(ask(&server, &[]).status, 200, "a file that has always been empty is as good as any");
    let file = server.dir.path().join("tokens");
    fs::write(&file, "first\n").expect("written");
    let config = format!("[[auth.publish]]\nstream = '*'\ntoken_files = [{file:?}]\n");
    reload(&server, &config);
    assert!(may_publish(&server, "first") && !may_publish(&server, "second"));
    fs::write(&file, "first\nsecond\n").expect("written");
    assert_eq!(reload(&server, &config)["changed"], json!(["auth.publish"]));
    assert!(may_publish(&server, "second"));
}

#[test]
fn a_token_that_is_gone_reads_no_statistics_any_more() {
    let config = |token: &str| format!("[auth]\nmanage_token = '{token}'\n");
    let server = Server::spawn(&config("keeper"));
    let keeper = [("Authorization", "Bearer keeper")];
    let open = || stats::try_open(&server, &keeper).expect("the stream begins");
    let mut reader = open();
    reader.next();
    // Another reload leaves it alone.
    assert_eq!(ask(&server, &keeper).status, 200);
    reader.next();
    reader.next();
    write(&server, &config("other"));
    assert_eq!(ask(&server, &keeper).status, 200);
    assert_eq!(reader.close_code(), Some(1008));
}

#[test]
fn a_server_within_a_program_has_no_file_to_read() {
    let server = Server::start("");
    let answer = ask(&server, &[]);
    assert!(answer.status == 409 && answer.text().contains("not in a file"), "{}", answer.text());
}
