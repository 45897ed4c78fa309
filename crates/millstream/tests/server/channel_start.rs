//! A channel with a start is joined where it would be, and waits for a start in the future.

#![expect(clippy::disallowed_methods, reason = "a start is a time of the clock on the wall")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::common::channel::{Player, assert_in_order, frames_of, make_mp4, wait_for_channel};
use crate::common::origin::post;
use crate::common::server::{ScratchDir, Server};
use crate::common::tools::{ffmpeg, run};
use rtmp::MediaKind;
use serde_json::json;

/// `seconds` before or after now, as the API takes it; the fraction of the second is part of it.
fn moment(seconds: f64) -> (String, SystemTime) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let ms = since.as_millis() as i64 + (seconds * 1e3) as i64;
    let (day, of_day) = (ms / 86_400_000, ms % 86_400_000);
    // Days since 1970 as a date: by adding to one that is known.
    let mut date = (1970, 1, 1);
    for _ in 0..day {
        date = tomorrow(date);
    }
    let (hour, minute, second) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1_000 % 60);
    let text = format!(
        "{:04}-{:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        date.0,
        date.1,
        date.2,
        of_day % 1_000
    );
    (text, UNIX_EPOCH + Duration::from_millis(ms as u64))
}

fn tomorrow((year, month, day): (u32, u32, u32)) -> (u32, u32, u32) {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    match (day < days[month as usize - 1], month < 12) {
        (true, _) => (year, month, day + 1),
        (false, true) => (year, month + 1, 1),
        (false, false) => (year + 1, 1, 1),
    }
}

#[test]
fn a_playlist_that_began_long_ago_is_joined_in_its_middle() {
    let dir = ScratchDir::new();
    let names = ["a.mp4", "b.mp4"];
    make_mp4(&dir.path().join("a.mp4"), 0, 4);
    make_mp4(&dir.path().join("b.mp4"), 4, 6);
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    let files = names.map(|name| frames_of(&dir.path().join(name)));
    // Lengths as the server knows them, to compute where it should be.
    let probe = json!({ "app": "live", "name": "probe", "items": names });
    assert_eq!(post(&server, "/api/v1/channels", &probe.to_string()).status, 201);
    let known = wait_for_channel(&server, "live/probe", "open", |now| {
        now["items"].as_array().expect("items").iter().all(|item| item["duration_ms"].is_u64())
    });
    let lengths: Vec<u64> = known["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["duration_ms"].as_u64().expect("a length"))
        .collect();
    let whole: u64 = lengths.iter().sum();
    // Ten rounds and seven seconds ago: three seconds into the second item, which has key frames at 0, 2 and
    // 4.
    let asked = Instant::now();
    let (start, began) = moment(-((10 * whole + lengths[0] + 3_000) as f64) / 1e3);
    let new = json!({ "app": "live", "name": "late", "items": names, "start": start });
    let added = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!(added.status, 201, "{}", added.text());
    let played = Player::start(&server, "live/late").play(4_000);
    let first = assert_in_order(&played, &files, MediaKind::Video);
    assert_in_order(&played, &files, MediaKind::Audio);
    // The key frame before the place, at 2 s of the second item, or a later one on a machine that was busy.
    let frames: usize = files.iter().map(|file| file[0].len()).sum();
    let latest = (Duration::from_secs(3) + (played[0].at - asked)).as_secs() as usize / 2;
    let of_second = (first + frames - files[0][0].len()) % frames;
    assert!(
        of_second.is_multiple_of(50) && (1..=latest).contains(&(of_second / 50)),
        "begins with frame {first}"
    );
    // Near a seam the two clocks may be read on either side of it.
    wait_for_channel(&server, "live/late", "where it should be", |now| {
        let elapsed = SystemTime::now().duration_since(began).expect("in the past").as_millis() as u64;
        let place = elapsed % whole;
        let item = usize::from(place >= lengths[0]);
        let position = place - [0, lengths[0]][item];
        now["state"] == "playing"
            && now["item"] == item
            && now["position_ms"].as_u64().is_some_and(|shown| shown.abs_diff(position) < 500)
            && now["loops"] == elapsed / whole
    });
}

#[test]
fn a_start_is_the_same_moment_by_whatever_clock_it_is_written() {
    // A leap day by one clock, the day before and after by others; midnight passes by the first second.
    const BEGAN: Duration = Duration::from_millis(1_709_231_399_500);
    let writings = [
        ("utc", "2024-02-29T18:29:59.5Z"),
        ("india", "2024-02-29T23:59:59.5+05:30"),
        ("kiritimati", "2024-03-01T08:29:59.5+14:00"),
        ("baker", "2024-02-29T06:29:59.5-12:00"),
    ];
    let dir = ScratchDir::new();
    let path = dir.path().join("a.mp4");
    // To the millisecond, because millions of rounds of it are counted.
    let picture = "testsrc=size=64x64:rate=25:duration=4";
    run(ffmpeg().args(["-f", "lavfi", "-i", picture, "-c:v", "libx264", "-g", "25", "-y"]).arg(&path));
    let channel = |name: &str, start: &str| {
        format!("[[channel]]\nstream = 'live/{name}'\nitems = ['{}']\nstart = {start}\n", path.display())
    };
    let written: String = writings.map(|(name, start)| channel(name, start)).concat();
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n{written}", dir.path().display()));
    for (name, start) in writings {
        let by_api = format!("{name}-api");
        let new = json!({ "app": "live", "name": by_api, "items": ["a.mp4"], "start": start });
        assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
        for name in [name, &by_api] {
            let expected = || {
                let elapsed = SystemTime::now().duration_since(UNIX_EPOCH + BEGAN).expect("in the past");
                (elapsed.as_millis() / 4_000, elapsed.as_millis() % 4_000)
            };
            wait_for_channel(&server, &format!("live/{name}"), "where it should be", |now| {
                let (rounds, place) = expected();
                let at = now["position_ms"].as_u64().map(u128::from);
                now["loops"].as_u64().map(u128::from) == Some(rounds)
                    && at.is_some_and(|at| at.abs_diff(place) < 500)
            });
        }
    }
}

#[test]
fn a_start_in_the_future_is_waited_for() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    let (start, begins) = moment(2.5);
    let new = json!({ "app": "live", "name": "soon", "items": ["a.mp4"], "start": start });
    let added = post(&server, "/api/v1/channels", &new.to_string());
    assert_eq!(added.status, 201, "{}", added.text());
    let waiting = wait_for_channel(&server, "live/soon", "waiting", |now| now["state"] == "waiting");
    assert!(waiting["retry_in_ms"].as_u64().is_some_and(|ms| ms <= 2_500), "{waiting:#}");
    wait_for_channel(&server, "live/soon", "playing", |now| now["state"] == "playing");
    assert!(SystemTime::now() >= begins, "not before its time");
}

#[test]
fn a_playlist_that_is_played_once_is_over_at_its_end() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 2);
    let server = Server::start(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    for (name, start) in [("now", None), ("before", Some(moment(-60.0).0))] {
        let new = json!({ "app": "live", "name": name, "items": ["a.mp4"], "loop": false, "start": start });
        assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    }
    let ended = |name: &str| {
        wait_for_channel(&server, &format!("live/{name}"), "over", |now| now["state"] == "ended")
    };
    assert_eq!(ended("now")["items_played"], 1);
    assert_eq!(ended("before")["items_played"], 0, "it was over before");
    server.wait_for_publisher("live/now", false);
}

#[test]
fn a_machine_that_stood_still_for_a_moment_is_back_on_its_schedule() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 8);
    let server = Server::spawn(&format!("[sources]\nfiles_root = '{}'\n", dir.path().display()));
    let (start, _) = moment(-0.5);
    let new = json!({ "app": "live", "name": "busy", "items": ["a.mp4"], "start": start });
    assert_eq!(post(&server, "/api/v1/channels", &new.to_string()).status, 201);
    let mut player = Player::start(&server, "live/busy");
    player.play(500);
    server.signal(nix::sys::signal::Signal::SIGSTOP);
    let (_, behind) = moment(1.5);
    crate::common::eventually("the schedule is well ahead of what was played", || {
        (SystemTime::now() >= behind).then_some(())
    });
    server.signal(nix::sys::signal::Signal::SIGCONT);
    player.play(3_000);
    let now = wait_for_channel(&server, "live/busy", "playing", |now| now["state"] == "playing");
    assert_eq!((&now["pauses"], &now["behind_ms"]), (&0.into(), &0.into()), "{now:#}");
}
