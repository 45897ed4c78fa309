//! `config check` and `config print`: mistakes are named with their place and the nearest valid key.

use std::fs;
use std::process::{Command, Output};

use crate::common::server::{BINARY, ScratchDir};

#[test]
fn mistakes_are_errors_that_say_where_and_what_would_be_right() {
    for (config, expected) in [
        ("[limits]\nhandshake_timout_ms = 500\n", ["millstream.toml:2", "handshake_timeout_ms"].as_slice()),
        ("[limts]\nring_frames = 64\n", &["millstream.toml:1", "limits"]),
        ("[server]\nworkers = 'many'\n", &["millstream.toml:2", "workers"]),
        ("[server]\nworkers = 5000\n", &["millstream.toml:2", "1024"]),
        ("[stream]\nsecond_publisher = 'takeover'\n", &["millstream.toml:2", "take_over"]),
        ("[[application]]\nname = 'live'\nmerge_latncy_ms = 0\n", &["millstream.toml:3", "merge_latency_ms"]),
        ("[rtmp]\nlisten = ['somewhere']\n", &["millstream.toml:2", "listen"]),
        ("[upload]\ndirectory = '/x'\nsegments = '*'\n", &["`upload.segments`", "`hls.mode = \"always\"`"]),
        ("[rtmp\n", &["millstream.toml:1"]),
        ("[tls]\ncertificate = '/no/such/file.pem'\nkey = '/no/such/key.pem'\n", &["/no/such/file.pem"]),
    ] {
        let output = run(&["config", "check"], config);
        assert_eq!(output.status.code(), Some(2), "{config:?}: {output:?}");
        let message = String::from_utf8_lossy(&output.stderr);
        for part in expected {
            assert!(message.contains(part), "{config:?}: {part} is not in:\n{message}");
        }
        let serve = run(&["serve"], config);
        assert_eq!(serve.status.code(), Some(2), "the server does not start with it either");
    }
}

#[test]
fn all_mistakes_of_a_file_are_named_in_one_run() {
    let output = run(
        &["config", "check"],
        "[server]\nwrokers = 1\n[log]\nformat = 'xml'\n[stream]\ngop_cash = true\n",
    );
    let message = String::from_utf8_lossy(&output.stderr);
    for part in ["workers", "format", "gop_cache"] {
        assert!(message.contains(part), "{part} is not in:\n{message}");
    }
}

#[test]
fn environment_and_flags_are_checked_and_override_the_file_in_that_order() {
    let config = "[stream]\nmerge_latency_ms = 1\n";
    let value_with = |environment: &str, flags: &[&str]| {
        let dir = write(config);
        let mut command = Command::new(BINARY);
        command.args(["config", "print"]).arg("--config").arg(dir.path().join("millstream.toml")).args(flags);
        if !environment.is_empty() {
            command.env("MILLSTREAM_STREAM_MERGE_LATENCY_MS", environment);
        }
        let output = command.output().expect("run the server binary");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("TOML is text");
        let line =
            text.lines().find(|line| line.starts_with("merge_latency_ms")).expect("the key is printed");
        line.split(['=', '#']).nth(1).expect("a value").trim().to_owned()
    };
    assert_eq!(value_with("", &[]), "1");
    assert_eq!(value_with("2", &[]), "2");
    assert_eq!(value_with("2", &["--stream-merge-latency-ms", "3"]), "3");
    let mut misspelt = Command::new(BINARY);
    misspelt.args(["config", "check"]).env("MILLSTREAM_STREAM_MERGE_LATENCYMS", "3");
    let output = misspelt.output().expect("run the server binary");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("MILLSTREAM_STREAM_MERGE_LATENCY_MS"), "{message}");
}

#[test]
fn what_config_print_prints_is_accepted_and_prints_the_same_again() {
    let config =
        "[stream]\nmerge_latency_ms = 350\n[[application]]\nname = 'studio/*'\nmerge_latency_ms = 0\n";
    let first = run(&["config", "print"], config);
    assert!(first.status.success(), "{first:?}");
    let text = String::from_utf8(first.stdout).expect("TOML is text");
    assert!(text.contains("350") && text.contains("studio/*"), "{text}");
    let second = run(&["config", "print"], &text);
    assert!(second.status.success(), "{second:?}");
    assert_eq!(String::from_utf8(second.stdout).expect("TOML is text"), text);
}

#[test]
fn config_print_shows_no_secret() {
    let output = run(
        &["config", "print"],
        "[auth]\npublish_token = 'sluice'\n[[auth.play]]\nstream = 'a/*'\ntokens = ['meadow']\n",
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(!text.contains("sluice") && !text.contains("meadow"), "{text}");
}

#[test]
fn the_examples_in_the_readme_are_accepted() {
    let readme =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).expect("read README.md");
    let examples: Vec<&str> =
        readme.split("```toml\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect();
    assert!(!examples.is_empty(), "the README shows a configuration");
    // A file that an example names is to be there.
    let dir = ScratchDir::new();
    let secret = dir.path().join("cluster-secret");
    fs::write(&secret, "a secret of an example").expect("write the secret");
    let secret = secret.display().to_string();
    for example in examples {
        let example = example.replace("/etc/millstream/cluster-secret", &secret);
        let output = run(&["config", "check"], &example);
        assert!(output.status.success(), "{example}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

fn write(config: &str) -> ScratchDir {
    let dir = ScratchDir::new();
    fs::write(dir.path().join("millstream.toml"), config).expect("write the configuration");
    dir
}

fn run(arguments: &[&str], config: &str) -> Output {
    let dir = write(config);
    let mut command = Command::new(BINARY);
    command.args(arguments).arg("--config").arg(dir.path().join("millstream.toml"));
    command.output().expect("run the server binary")
}
