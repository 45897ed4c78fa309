//! Players of HLS and DASH against the floor: every byte is checked, and a run says what it found.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// The floor on a free port, ended when this is dropped.
struct Floor {
    process: Child,
    address: String,
}

impl Floor {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_millbench"))
            .args(["hls", "floor"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the floor starts");
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("its output"));
        output.read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let address = said["listen"].as_str().expect("an address").to_owned();
        Self { process, address }
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has noticed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn play(url: &str, mode: &str, players: &str) -> (Option<i32>, Value) {
    let done = Command::new(env!("CARGO_BIN_EXE_millbench"))
        .args(["hls", "play", url, "--mode", mode, "-n", players, "--ramp", "200"])
        .args(["--duration", "3", "--settle", "0.5", "--json", "--quiet"])
        .output()
        .expect("the players run");
    let report = serde_json::from_slice(&done.stdout).unwrap_or(Value::Null);
    (done.status.code(), report)
}

#[test]
fn players_of_each_kind_get_every_byte() {
    let floor = Floor::start();
    for (mode, extension) in [("ll", "m3u8"), ("plain", "m3u8"), ("dash", "mpd")] {
        let url = format!("http://{}/live/sample.{extension}", floor.address);
        let (status, report) = play(&url, mode, "20");
        assert_eq!((status, &report["outcome"]["ok"]), (Some(0), &Value::Bool(true)), "{mode}: {report}");
        let step = &report["steps"][0];
        assert_eq!(step["sessions_up"], 20, "{mode}: {report}");
        assert!(step["bits_per_second"].as_f64() > Some(1e6), "{mode}: {report}");
        assert!(step["first_frame"]["count"].as_u64() == Some(20), "{mode}: {report}");
    }
}

#[test]
fn a_stream_that_is_not_there_fails_the_run() {
    let (_nobody, address) = super::nobody_listens();
    let (status, report) = play(&format!("http://{address}/live/sample.m3u8"), "ll", "3");
    assert_eq!(status, Some(1), "{report}");
    assert_eq!(report["outcome"]["failures"]["connect: Connection refused"], 3, "{report}");
}
