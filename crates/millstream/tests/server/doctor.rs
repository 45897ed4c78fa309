//! `millstream doctor` as a person runs it.

use std::net::TcpListener;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::server::{BINARY, ScratchDir};

/// Everything on ports that are free, but what is asked for.
fn doctor(more: &[&str]) -> Output {
    let listeners = ["rtmp", "http", "rtsp", "srt", "rtc.udp", "rtc.tcp", "rtsp.udp"].map(|name| {
        let (section, kind) = name
            .split_once('.')
            .map_or((name, String::new()), |(section, kind)| (section, format!("{kind}_")));
        format!("{section}.{kind}listen=127.0.0.1:0")
    });
    let mut command = Command::new(BINARY);
    command.args(["doctor", "--workers", "1"]);
    for listener in &listeners {
        command.args(["--set", listener]);
    }
    command.args(more).output().expect("run the server binary")
}

#[test]
fn a_machine_that_is_right_passes() {
    let output = doctor(&[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["workers        1 on", "udp buffers", "datagrams leave by"] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(!text.contains("fault"), "{text}");
}

#[test]
fn what_keeps_a_server_from_starting_is_a_fault_with_what_mends_it() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let directory = ScratchDir::new();
    std::fs::write(directory.path().join("file"), "").expect("written");
    let file = format!("record.directory={}", directory.path().join("file").display());
    let output = doctor(&["--json", "--rtmp-listen", &address, "--set", &file]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).expect("a JSON array");
    let faults: Vec<&Value> = findings.iter().filter(|finding| finding["level"] == "fault").collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    let by = format!("tcp {address} is in use by ");
    assert!(faults[0]["found"].as_str().unwrap().starts_with(&by), "{faults:?}");
    assert!(faults[0]["mend"].as_str().unwrap().contains("rtmp.listen"), "{faults:?}");
    assert!(faults[1]["mend"].as_str().unwrap().contains("record.directory"), "{faults:?}");
}

#[test]
fn a_wrong_configuration_is_named_first() {
    let output = doctor(&["--set", "limits.ring_frames=none"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("ring_frames"), "{output:?}");
}
