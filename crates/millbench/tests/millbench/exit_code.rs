//! The exit code of `millbench` is its verdict: a lost message, a lost byte or a failed session is
//! never a success.

use std::process::{Command, Output};

use crate::nobody_listens;
use crate::relay::{Fault, Relay};
use serde_json::Value;

fn millbench(arguments: &[&str]) -> (i32, Value, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_millbench"))
        .args(arguments)
        .args(["--json", "--quiet", "--duration", "1", "--settle", "0.3", "--start-timeout", "5"])
        .output()
        .expect("the binary runs");
    let report = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    (status.code().expect("it ends by itself"), report, String::from_utf8_lossy(&stderr).into_owned())
}

fn play(fault: Fault) -> (i32, Value) {
    let relay = Relay::start(fault);
    let url = format!("rtmp://{}/live/test", relay.rtmp);
    let (code, report, errors) = millbench(&["rtmp", "play", &url, "--publish", "-n", "3"]);
    assert_eq!(errors, "");
    (code, report)
}

fn only_reason(report: &Value) -> (&str, u64) {
    let failures = report["outcome"]["failures"].as_object().expect("failures are listed");
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (reason, count) = failures.iter().next().expect("one reason");
    (reason, count.as_u64().expect("a number"))
}

#[test]
fn a_clean_rtmp_run_succeeds_and_knows_what_it_should_have_got() {
    let (code, report) = play(Fault::None);
    assert_eq!((code, &report["outcome"]["ok"]), (0, &Value::Bool(true)), "{report}");
    let step = &report["steps"][0];
    assert_eq!(step["sessions_up"], 3);
    assert_eq!(step["delivered"], 1.0);
    // 605 kbit/s for most of a second and three players; the exact sum depends on where the window falls.
    assert!(step["expected_bytes"].as_u64().is_some_and(|bytes| bytes > 100_000), "{step}");
    assert_eq!(step["expected_bytes"], step["received_bytes"]);
    assert!(step["latency"]["count"].as_u64().is_some_and(|count| count > 30), "{step}");
    // The publisher counts as a session too.
    assert_eq!(report["outcome"]["succeeded"], 4);
}

#[test]
fn a_lost_message_fails_every_player() {
    let (code, report) = play(Fault::DropMessage);
    assert_eq!((code, only_reason(&report)), (1, ("media missing", 3)), "{report}");
    assert_eq!(report["outcome"]["missing_messages"], 3);
    assert!(report["outcome"]["missing_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{report}");
}

#[test]
fn a_lost_byte_fails_every_player() {
    let (code, report) = play(Fault::TruncateByte);
    assert_eq!((code, only_reason(&report)), (1, ("media missing", 3)), "{report}");
    assert_eq!(
        (&report["outcome"]["missing_messages"], &report["outcome"]["missing_bytes"]),
        (&0.into(), &3.into())
    );
}

#[test]
fn a_repeated_message_fails_every_player() {
    let (code, report) = play(Fault::RepeatMessage);
    assert_eq!((code, only_reason(&report)), (1, ("media repeated or made up", 3)), "{report}");
}

#[test]
fn refused_players_fail_with_the_servers_reason() {
    let (code, report) = play(Fault::RefusePlay);
    let (reason, count) = only_reason(&report);
    assert_eq!((code, count), (1, 3), "{report}");
    assert!(reason.contains("NetStream.Play.StreamNotFound") && reason.contains("not today"), "{reason}");
}

#[test]
fn closed_players_fail() {
    let (code, report) = play(Fault::ClosePlayers);
    assert_eq!((code, only_reason(&report)), (1, ("closed by the server", 3)), "{report}");
}

#[test]
fn http_flv_is_checked_the_same_way() {
    for (fault, expected) in [(Fault::None, 0), (Fault::TruncateByte, 1)] {
        let relay = Relay::start(fault);
        let url = format!("http://{}/live/test.flv", relay.http);
        let publish = format!("--publish=rtmp://{}/live/test", relay.rtmp);
        let (code, report, errors) = millbench(&["flv", "play", &url, &publish, "-n", "2"]);
        assert_eq!((code, errors.as_str()), (expected, ""), "{fault:?}: {report}");
        let missing = if fault == Fault::None { 0 } else { 2 };
        assert_eq!(report["outcome"]["missing_bytes"], missing, "{fault:?}");
        assert_eq!(report["steps"][0]["sessions_up"], 2, "{fault:?}");
    }
}

#[test]
fn publishers_count_as_sessions() {
    let relay = Relay::start(Fault::None);
    let url = format!("rtmp://{}/live/test{{}}", relay.rtmp);
    let (code, report, errors) = millbench(&["rtmp", "publish", &url, "-n", "2,5"]);
    assert_eq!((code, errors.as_str()), (0, ""), "{report}");
    assert_eq!(report["outcome"]["succeeded"], 5);
    assert_eq!((&report["steps"][0]["sessions"], &report["steps"][1]["sessions"]), (&2.into(), &5.into()));
}

#[test]
fn a_server_that_is_not_there_is_a_failed_session() {
    let (_reserved, address) = nobody_listens();
    let url = format!("rtmp://{address}/live/test");
    let (code, report, _) = millbench(&["rtmp", "play", &url, "-n", "2"]);
    let (reason, count) = only_reason(&report);
    assert_eq!((code, count), (1, 2), "{report}");
    assert!(reason.starts_with("connect: "), "{reason}");
}

#[test]
fn a_run_that_cannot_be_done_says_why_in_one_line() {
    let cases: [(&[&str], &str); 4] = [
        (&["rtmp", "publish", "rtmp://127.0.0.1:1/live/same", "-n", "2"], "{}"),
        (&["rtmp", "play", "http://127.0.0.1/live/a"], "rtmp"),
        (&["rtmp", "play", "rtmp://127.0.0.1/live/a", "--sample", "/nonexistent.flv"], "/nonexistent.flv"),
        (&["flv", "play", "http://127.0.0.1/live/a.flv", "--publish"], "--publish"),
    ];
    for (arguments, part) in cases {
        let (code, report, errors) = millbench(arguments);
        assert_eq!((code, report), (2, Value::Null), "{arguments:?}");
        assert!(errors.contains(part) && errors.lines().count() == 1, "{arguments:?}: {errors}");
    }
}
