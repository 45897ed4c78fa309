//! A Millstream process under test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{eventually, eventually_within, http};

/// The server binary that Cargo built for this test run.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_millstream");

/// A running server; killed, and its directory removed, when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) dir: ScratchDir,
    pub(crate) rtmp: SocketAddr,
    pub(crate) rtmps: Option<SocketAddr>,
    pub(crate) http: SocketAddr,
    pub(crate) https: Option<SocketAddr>,
}

impl Server {
    /// Starts with one worker, on free loopback ports, with `config` (TOML).
    pub(crate) fn start(config: &str) -> Self {
        Self::start_under(&[], 1, config)
    }

    /// As [`Server::start`] with several workers.
    pub(crate) fn start_workers(workers: u32, config: &str) -> Self {
        Self::start_under(&[], workers, config)
    }

    /// As [`Server::start_workers`], by way of `launcher`: a command that runs its arguments with `exec`.
    pub(crate) fn start_under(launcher: &[&str], workers: u32, config: &str) -> Self {
        let dir = ScratchDir::new();
        let config_path = dir.path().join("millstream.toml");
        let ports_path = dir.path().join("ports.json");
        fs::write(&config_path, config).expect("write the configuration");
        let log = fs::File::create(dir.path().join("server.log")).expect("create the log");
        let words: Vec<&str> = launcher.iter().copied().chain([BINARY, "serve"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--config").arg(&config_path).arg("--ports-file").arg(&ports_path);
        let tls: &[&str] = if config.contains("[tls]") { &["rtmps", "https"] } else { &[] };
        for protocol in ["rtmp", "http"].iter().chain(tls) {
            command.arg(format!("--{protocol}-listen")).arg("127.0.0.1:0");
        }
        if !config.contains("udp_listen") {
            command.args(["--rtc-udp-listen", "127.0.0.1:0", "--rtc-tcp-listen", "127.0.0.1:0"]);
        }
        command.args(["--workers", &workers.to_string()]);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("second handle of the log")).stderr(log);
        let mut child = command.spawn().expect("start the server");
        let ports = eventually("the server writes its ports file", || {
            if let Some(status) = child.try_wait().expect("ask for the exit status") {
                let log = fs::read_to_string(dir.path().join("server.log")).unwrap_or_default();
                panic!("the server ended with {status} instead of starting:\n{log}");
            }
            serde_json::from_slice::<Value>(&fs::read(&ports_path).ok()?).ok()
        });
        let first = |kind: &str| {
            ports[kind][0].as_str().map(|text| text.parse().expect("an address in the ports file"))
        };
        let server = Self {
            rtmp: first("rtmp").expect("an RTMP address"),
            rtmps: first("rtmps"),
            http: first("http").expect("an HTTP address"),
            https: first("https"),
            child,
            dir,
        };
        eventually("/readyz answers 200", || {
            (http::get(server.http, "/readyz").ok()?.status == 200).then_some(())
        });
        server
    }

    /// `rtmp://` URL of `app/stream`.
    pub(crate) fn rtmp_url(&self, stream: &str) -> String {
        format!("rtmp://{}/{stream}", self.rtmp)
    }

    /// `http://` URL of the FLV of `app/stream`.
    pub(crate) fn flv_url(&self, stream: &str) -> String {
        format!("http://{}/{stream}.flv", self.http)
    }

    /// GET of an API path, which must answer 200 with JSON.
    pub(crate) fn api(&self, path: &str) -> Value {
        let response = http::get(self.http, path).unwrap_or_else(|error| panic!("GET {path}: {error}"));
        assert_eq!(response.status, 200, "GET {path}: {}", response.text());
        response.json()
    }

    /// Sessions that match `query` (`stream=live/a&role=player`).
    pub(crate) fn sessions(&self, query: &str) -> Vec<Value> {
        let listing = self.api(&format!("/api/v1/sessions?limit=1000&{query}"));
        listing["sessions"].as_array().expect("a list of sessions").clone()
    }

    /// Waits until `count` players of `stream` are known to the management API.
    pub(crate) fn wait_for_players(&self, stream: &str, count: usize) {
        eventually(&format!("{count} players of {stream}"), || {
            (self.sessions(&format!("stream={stream}&role=player")).len() == count).then_some(())
        });
    }

    /// Waits until `stream` has a publisher, or has none.
    pub(crate) fn wait_for_publisher(&self, stream: &str, present: bool) {
        eventually(&format!("publisher of {stream} present: {present}"), || {
            let found = !self.sessions(&format!("stream={stream}&role=publisher")).is_empty();
            (found == present).then_some(())
        });
    }

    /// Number of connections of any kind the workers hold.
    pub(crate) fn session_count(&self) -> u64 {
        let workers = self.api("/api/v1/workers");
        workers["workers"]
            .as_array()
            .expect("workers")
            .iter()
            .map(|w| w["sessions"].as_u64().expect("sessions"))
            .sum()
    }

    /// Memory that the server has allocated and touched, bytes. What is resident of the program file itself does not count:
    /// it grows with each part of a debug build that runs for the first time, by as much as the system chooses to read.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number of kB")
            * 1024
    }

    /// File descriptors the server has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("the server runs").count()
    }

    /// CPU time the server has used so far, user and system.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the server runs");
        let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields after the name").split(' ').collect();
        // Fields 14 and 15 of proc_pid_stat(5), in ticks of 1/100 s; the list begins with field 3.
        let ticks: u64 =
            fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
        Duration::from_millis(ticks * 10)
    }

    /// What the server has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("server.log")).unwrap_or_default()
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends any signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("signal the server");
    }

    /// Waits for the process to end.
    pub(crate) fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        eventually_within(limit, "the server ends", || {
            self.child.try_wait().expect("ask for the exit status")
        })
    }

    /// Fails unless the server still runs and answers.
    pub(crate) fn assert_healthy(&mut self) {
        if let Some(status) = self.child.try_wait().expect("ask for the exit status") {
            panic!("the server ended with {status}:\n{}", self.log());
        }
        let health = http::get(self.http, "/healthz").expect("GET /healthz");
        assert_eq!(health.status, 200);
        assert!(!self.log().contains("panicked"), "a thread panicked:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("-- last lines of the server's log");
            tail.iter().rev().for_each(|line| eprintln!("   {line}"));
        }
    }
}

/// A directory for one test, removed on drop.
pub(crate) struct ScratchDir(PathBuf);

impl ScratchDir {
    /// Makes a new, empty directory under Cargo's directory for test files.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("make a scratch directory");
        Self(path)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
