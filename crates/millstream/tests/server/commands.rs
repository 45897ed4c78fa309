//! Commands that start no server: whether one answers, completions, man pages.

use std::process::{Command, Output};

use crate::common::server::{BINARY, ScratchDir, Server};
use nix::sys::signal::Signal;

fn run(arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).output().expect("run the binary")
}

#[test]
fn healthcheck_is_zero_while_the_server_answers() {
    let mut server = Server::spawn("");
    let url = format!("http://{}", server.http);
    for options in [["--url", &url].as_slice(), &["--url", &url, "--ready"]] {
        let output = run(&[&["healthcheck"], options].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
    }
    server.signal(Signal::SIGINT);
    assert_eq!(server.wait_for_exit(std::time::Duration::from_secs(20)).code(), Some(0));
    let output = run(&["healthcheck", "--url", &url]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&url), "{said}");
}

#[test]
fn healthcheck_says_why_not() {
    // The last line of its request is read, and then it gets what no server of this kind says.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let stopping = std::thread::spawn(move || {
        use std::io::{BufRead, BufReader, Write};
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut lines = BufReader::new(stream.try_clone().expect("the same")).lines();
        while lines.next().is_some_and(|line| !line.expect("a line").is_empty()) {}
        let answer = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nstopping\n";
        stream.write_all(answer).expect("answered");
    });
    let output = run(&["healthcheck", "--ready", "--url", &url]);
    stopping.join().expect("no panic");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("503") && said.contains("stopping"), "{said}");
}

#[test]
fn pages_are_written_into_a_directory() {
    let directory = ScratchDir::new();
    let path = directory.path().to_str().expect("text");
    let output = run(&["man", "--directory", path]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(directory.path().join("millstream-reload.1").is_file());
    let missing = run(&["man", "--directory", "/proc/not-there"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/proc/not-there"));
}

#[test]
fn bash_takes_the_completions() {
    let output = run(&["completions", "bash"]);
    assert!(output.status.success());
    let directory = ScratchDir::new();
    let script = directory.path().join("millstream.bash");
    std::fs::write(&script, output.stdout).expect("written");
    let asked = r#"source "$0"; COMP_WORDS=(millstream --rtmp-li) COMP_CWORD=1
        _millstream millstream --rtmp-li millstream; printf '%s\n' "${COMPREPLY[@]}""#;
    let completed = Command::new("bash").arg("-c").arg(asked).arg(&script).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "--rtmp-listen", "{completed:?}");
}
