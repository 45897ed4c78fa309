//! What is looked at while a run lasts: what cannot be had is said before the run, and charts of
//! WebRTC are written as those of RTMP.

use std::process::{Command, Output};

use crate::forwarder::{Fault, Forwarder};
use serde_json::Value;

fn millbench(
    server: &Forwarder,
    arguments: &[&str],
    environment: (&str, &str),
) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_millbench"))
        .args(["rtc", "play", &format!("http://{}/whep/live/a", server.http), "--publish", "--shapes", "1"])
        .args(["-n", "2", "--duration", "1", "--settle", "0.3", "--start-timeout", "20", "--json", "--quiet"])
        .args(arguments)
        .env(environment.0, environment.1)
        .output()
        .expect("the binary runs");
    let report = serde_json::from_slice(&stdout).unwrap_or(Value::Null);
    (status.code(), report, String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn a_page_with_charts_is_written_for_webrtc() {
    let page = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("rtc.html");
    let arguments =
        ["--html", page.to_str().expect("a path of text"), "--interval", "0.2", "--interface", "lo"];
    let (code, report, errors) = millbench(&Forwarder::start(Fault::None), &arguments, ("NO_COLOR", "1"));
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{report}");
    let points = report["points"].as_array().expect("points");
    assert!(points.len() >= 4, "{points:?}");
    let last = &points[points.len() - 1];
    assert!(last["cores"].as_array().is_some_and(|cores| !cores.is_empty()), "{last}");
    assert!(last["interface"]["packets_in"].as_f64().is_some_and(|packets| packets > 0.0), "{last}");
    assert!(points.iter().any(|point| point["packets_per_second"].as_f64() > Some(100.0)), "{points:?}");
    assert!(points.iter().any(|point| point["latency_ms_p50"].is_number()), "{points:?}");
    let page = std::fs::read_to_string(page).expect("it was written");
    for chart in
        ["Sessions", "Media", "Packets of media", "End-to-end latency", "CPU", "All cores", "Interface"]
    {
        assert!(page.contains(&format!("<figcaption>{chart} ")), "{chart}");
    }
    // Latency of the step is that of all its points.
    let (step, sent) = (&report["steps"][0], 2.0 * 121.0);
    assert!(step["latency"]["count"].as_f64().is_some_and(|count| count > sent * 0.7), "{step}");
}

#[test]
fn without_perf_or_a_browser_nothing_runs() {
    let server = Forwarder::start(Fault::None);
    let own = std::process::id().to_string();
    let cases: [(&[&str], (&str, &str), &str); 3] = [
        (
            &["--perf", "--server-pid", &own],
            ("PATH", "/nonexistent"),
            "--perf: the program `perf` is missing",
        ),
        (&["--watch"], ("CHROMIUM", "no-such-browser"), "--watch: no browser is found (no-such-browser)"),
        (&["--perf", "--server-pid", "4000000000"], ("NO_COLOR", "1"), "--server-pid 4000000000"),
    ];
    for (arguments, environment, reason) in cases {
        let (code, _, errors) = millbench(&server, arguments, environment);
        assert!(code == Some(2) && errors.contains(reason), "{arguments:?}: {code:?} {errors}");
    }
}
