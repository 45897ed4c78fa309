//! The exit code of `millbench rtc` is its verdict: a lost, hidden or forged packet or a failed
//! session is no success.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use crate::forwarder::{Fault, Forwarder};
use crate::nobody_listens;
use serde_json::Value;

fn millbench(fault: Fault, arguments: &str) -> (i32, Value) {
    millbench_with(&Forwarder::start(fault), arguments)
}

fn millbench_with(server: &Forwarder, arguments: &str) -> (i32, Value) {
    // This server forwards headers as they are, so all must number alike.
    let shapes: &[&str] = if arguments.starts_with("play") { &["--shapes", "1"] } else { &[] };
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_millbench"))
        .arg("rtc")
        .args(arguments.replace("HOST", &server.http.to_string()).split_whitespace())
        .args(shapes)
        .args(["--json", "--quiet", "--settle", "0.5", "--start-timeout", "20"])
        .output()
        .expect("the binary runs");
    let errors = String::from_utf8_lossy(&stderr);
    assert_eq!(errors, "");
    (status.code().expect("it ends by itself"), serde_json::from_slice(&stdout).expect("a report"))
}

fn play(fault: Fault) -> (i32, Value) {
    millbench(fault, "play http://HOST/whep/live/a --publish -n 2 --duration 3")
}

fn only_reason(report: &Value) -> (&str, u64) {
    let failures = report["outcome"]["failures"].as_object().expect("failures are listed");
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (reason, count) = failures.iter().next().expect("one reason");
    (reason, count.as_u64().expect("a number"))
}

#[test]
fn a_clean_run_succeeds_and_measures() {
    let (code, report) = play(Fault::None);
    assert_eq!((code, &report["outcome"]["ok"]), (0, &Value::Bool(true)), "{report}");
    let step = &report["steps"][0];
    assert_eq!((step["sessions_up"].as_u64(), step["lost"].as_u64()), (Some(2), Some(0)));
    assert!(step["packets"].as_u64().is_some_and(|packets| packets > 100), "{step}");
    assert!(step["latency"]["count"].as_u64().is_some_and(|count| count > 50), "{step}");
    assert_eq!(step["first_key"]["count"], 2);
    // The publisher counts as a session too.
    assert_eq!((&report["outcome"]["succeeded"], &report["profiles"]["gcm128"]), (&3.into(), &3.into()));
}

#[test]
fn a_dropped_packet_fails_every_viewer() {
    let (code, report) = play(Fault::Drop);
    assert_eq!((code, only_reason(&report)), (1, ("packets missing", 2)), "{report}");
    assert_eq!(report["outcome"]["lost"], 2);
}

#[test]
fn a_loss_that_is_numbered_away_fails_every_viewer() {
    let (code, report) = play(Fault::Hide);
    assert_eq!((code, only_reason(&report)), (1, ("packets missing", 2)), "{report}");
}

#[test]
fn a_forged_packet_is_no_success() {
    let (code, report) = play(Fault::Corrupt);
    assert_eq!(code, 1, "{report}");
    assert_eq!(report["outcome"]["not_authentic"], 2);
}

#[test]
fn a_stream_that_stops_is_no_success() {
    let (code, report) =
        millbench(Fault::Stop, "play http://HOST/whep/live/a --publish -n 1 --silence 1 --duration 4");
    assert_eq!((code, only_reason(&report)), (1, ("silent at the end", 1)), "{report}");
}

#[test]
fn a_stream_of_another_process_that_stops_is_no_success_either() {
    let server = Forwarder::start(Fault::Stop);
    // Its third viewer is due in minutes: it publishes until it is ended.
    let mut publisher = Command::new(env!("CARGO_BIN_EXE_millbench"))
        .args(["rtc", "play", &format!("http://{}/whep/live/a", server.http), "--publish"])
        .args(["-n", "1,3", "--ramp", "0.01", "--settle", "0", "--duration", "0"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut progress = String::new();
    let stderr = publisher.stderr.take().expect("it is piped");
    BufReader::new(stderr).read_line(&mut progress).expect("text");
    let (code, report) =
        millbench_with(&server, "play http://HOST/whep/live/a -n 1 --silence 1 --duration 4");
    publisher.kill().and_then(|()| publisher.wait()).expect("it runs");
    assert_eq!(progress, "n=1 up=1 lost=0\n");
    assert_eq!((code, only_reason(&report)), (1, ("silent at the end", 1)), "{report}");
}

#[test]
fn a_refusal_is_told_by_its_status_and_the_servers_words() {
    let (code, report) = millbench(Fault::Refuse, "publish http://HOST/whip/live/a{} -n 3 --duration 0");
    let reason = "the server answered 503: the server is full";
    assert_eq!((code, only_reason(&report)), (1, (reason, 3)), "{report}");
}

#[test]
fn lost_datagrams_are_counted_and_accepted_when_asked_for() {
    let arguments = "play http://HOST/whep/live/a --publish -n 2 --loss 0.02 --delay 5 --no-nack --accept-loss 0.5 --duration 1";
    let (code, report) = millbench(Fault::None, arguments);
    assert_eq!(code, 0, "{report}");
    assert!(report["outcome"]["lost"].as_u64().is_some_and(|lost| lost > 0), "{report}");
    assert!(report["outcome"]["taken_away"].as_u64().is_some_and(|taken| taken > 0), "{report}");
}

#[test]
fn an_rtmp_server_that_is_not_there_is_no_success() {
    let (_reserved, address) = nobody_listens();
    let urls = format!("http://{address}/whep/live/a --publish=rtmp://{address}/live/a");
    let (code, report) = millbench(Fault::None, &format!("play {urls} -n 1 --duration 0"));
    assert_eq!(code, 1, "{report}");
    assert_eq!(report["outcome"]["failures"]["connect: Connection refused"], 1, "{report}");
}
