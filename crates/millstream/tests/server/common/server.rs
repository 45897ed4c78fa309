//! A Millstream server under test, in this process or one of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{eventually, eventually_within, http};

/// The server binary that Cargo built for this test run.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_millstream");

/// A running server; ended, and its directory removed, when dropped.
pub(crate) struct Server {
    runs: Runs,
    pub(crate) dir: ScratchDir,
    pub(crate) rtmp: SocketAddr,
    pub(crate) rtmps: Option<SocketAddr>,
    pub(crate) http: SocketAddr,
    pub(crate) https: Option<SocketAddr>,
    pub(crate) srt: Option<SocketAddr>,
    pub(crate) rtsp: Option<SocketAddr>,
    pub(crate) rtsps: Option<SocketAddr>,
    #[cfg(feature = "moq")]
    pub(crate) moq: Option<SocketAddr>,
}

/// Where a server runs.
enum Runs {
    /// On threads of this process, until it is dropped.
    Here { _server: Box<millstream::Server> },
    /// In a process, which is killed.
    Process(Child),
}

impl Server {
    /// Starts a server within this process, with one worker, on free loopback ports, with `config` (TOML).
    pub(crate) fn start(config: &str) -> Self {
        Self::start_workers(1, config)
    }

    /// As [`Server::start`] with several workers.
    pub(crate) fn start_workers(workers: u32, config: &str) -> Self {
        log_panics();
        let dir = ScratchDir::new();
        let log = fs::File::create(dir.path().join("server.log")).expect("create the log");
        let flags = flags(workers, config).into_iter();
        let sources = config::Sources {
            file: Some(("millstream.toml".to_owned(), config.to_owned())),
            environment: Vec::new(),
            flags: flags.map(|(key, value)| (key.to_owned(), value, format!("--set {key}"))).collect(),
        };
        let config = config::load(&sources).unwrap_or_else(|errors| panic!("{errors:?}"));
        let server = millstream::Server::start(config, log).unwrap_or_else(|error| panic!("{error}"));
        let addresses = server.addresses();
        Self {
            rtmp: addresses.rtmp[0],
            rtmps: addresses.rtmps.first().copied(),
            http: addresses.http[0],
            https: addresses.https.first().copied(),
            srt: addresses.srt.first().copied(),
            rtsp: addresses.rtsp.first().copied(),
            rtsps: addresses.rtsps.first().copied(),
            #[cfg(feature = "moq")]
            moq: addresses.moq.first().copied(),
            runs: Runs::Here { _server: Box::new(server) },
            dir,
        }
    }

    /// What a server says that does not start with this configuration.
    pub(crate) fn refusal(config: &str) -> String {
        let dir = ScratchDir::new();
        let path = dir.path().join("millstream.toml");
        fs::write(&path, config).expect("written");
        let ended = Command::new(BINARY)
            .arg("--config")
            .arg(&path)
            .args(["--rtmp-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"])
            .args(["--rtc-udp-listen", "127.0.0.1:0", "--rtc-tcp-listen", "127.0.0.1:0"])
            .args(["--srt-listen", "127.0.0.1:0"])
            .args(["--rtsp-listen", "127.0.0.1:0", "--rtsp-udp-listen", "127.0.0.1:0"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(!ended.status.success(), "{said}");
        said
    }

    /// As [`Server::start`] in a process of its own, whose memory, CPU time and descriptors are those of the
    /// server, and which takes signals.
    pub(crate) fn spawn(config: &str) -> Self {
        Self::spawn_under(&[], 1, config)
    }

    /// As [`Server::spawn`] with several workers.
    pub(crate) fn spawn_workers(workers: u32, config: &str) -> Self {
        Self::spawn_under(&[], workers, config)
    }

    /// As [`Server::spawn_workers`], by way of `launcher`: a command that runs its arguments with `exec`.
    pub(crate) fn spawn_under(launcher: &[&str], workers: u32, config: &str) -> Self {
        let dir = ScratchDir::new();
        let config_path = dir.path().join("millstream.toml");
        let ports_path = dir.path().join("ports.json");
        fs::write(&config_path, config).expect("write the configuration");
        let log = fs::File::create(dir.path().join("server.log")).expect("create the log");
        let words: Vec<&str> = launcher.iter().copied().chain([BINARY, "serve"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--config").arg(&config_path).arg("--ports-file").arg(&ports_path);
        for (key, value) in flags(workers, config) {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        // Where the system gives the allocator pages of 2 MB, memory grows by those, whatever of them is used:
        // tests that count memory see the ordinary ones.
        command.env("MIMALLOC_ALLOW_THP", "0");
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
            srt: first("srt"),
            rtsp: first("rtsp"),
            rtsps: first("rtsps"),
            #[cfg(feature = "moq")]
            moq: first("moq"),
            runs: Runs::Process(child),
            dir,
        };
        eventually("/readyz answers 200", || {
            (http::get(server.http, "/readyz").ok()?.status == 200).then_some(())
        });
        server
    }

    fn process(&self) -> &Child {
        match &self.runs {
            Runs::Process(child) => child,
            Runs::Here { .. } => panic!("the test needs Server::spawn: this is asked of a process"),
        }
    }

    fn process_mut(&mut self) -> &mut Child {
        match &mut self.runs {
            Runs::Process(child) => child,
            Runs::Here { .. } => panic!("the test needs Server::spawn: this is asked of a process"),
        }
    }

    /// `rtmp://` URL of `app/stream`.
    pub(crate) fn rtmp_url(&self, stream: &str) -> String {
        format!("rtmp://{}/{stream}", self.rtmp)
    }

    /// `rtsp://` URL of this path.
    pub(crate) fn rtsp_url(&self, path: &str) -> String {
        format!("rtsp://{}{path}", self.rtsp.expect("RTSP is on"))
    }

    /// `srt://` URL with this stream ID.
    pub(crate) fn srt_url(&self, stream_id: &str) -> String {
        let address = self.srt.expect("SRT is on");
        format!("srt://{address}?streamid={stream_id}&pkt_size=1316&latency=200000")
    }

    /// `http://` URL of the FLV of `app/stream`.
    pub(crate) fn flv_url(&self, stream: &str) -> String {
        format!("http://{}/{stream}.flv", self.http)
    }

    /// GET of an API path, which must answer 200 with JSON. A worker that has too much to do to
    /// answer in time (503) is asked again.
    pub(crate) fn api(&self, path: &str) -> Value {
        let response = eventually(&format!("GET {path} is answered"), || {
            let response = http::get(self.http, path).unwrap_or_else(|error| panic!("GET {path}: {error}"));
            (response.status != 503).then_some(response)
        });
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

    /// Waits until the workers hold so many connections of any kind. That of a client that has just
    /// left, or of a request that has just been answered, counts until the worker has seen its end.
    pub(crate) fn wait_for_session_count(&self, count: u64) {
        eventually(&format!("{count} connections are left"), || {
            (self.session_count() == count).then_some(())
        });
    }

    /// Number of connections of any kind the workers hold at this moment.
    pub(crate) fn session_count(&self) -> u64 {
        let workers = self.api("/api/v1/workers");
        workers["workers"]
            .as_array()
            .expect("workers")
            .iter()
            .map(|w| w["sessions"].as_u64().expect("sessions"))
            .sum()
    }

    /// Memory that the server has allocated and touched, bytes. What is resident of the program file itself
    /// does not count: it grows with each part of a debug build that runs for the first time, by as much as
    /// the system chooses to read.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process().id())).expect("the server runs");
        let line = status.lines().find(|line| line.starts_with("RssAnon:")).expect("RssAnon");
        line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).expect("a number of kB")
            * 1024
    }

    /// A counter of `/metrics`, summed over workers. It may be a second old.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let text = http::get(self.http, "/metrics").expect("GET /metrics").text();
        let values = text.lines().filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']) || rest.starts_with("_total"))
        });
        values.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }

    /// Waits until a counter has this value.
    pub(crate) fn wait_for_counter(&self, name: &str, value: u64) {
        eventually(&format!("{name} is {value}"), || (self.counter(name) == value).then_some(()));
    }

    /// File descriptors the server has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process().id())).expect("the server runs").count()
    }

    /// CPU time the server has used so far, user and system.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat =
            fs::read_to_string(format!("/proc/{}/stat", self.process().id())).expect("the server runs");
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
        self.process().id()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Sends any signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process().id() as i32), signal).expect("signal the server");
    }

    /// Waits for the process to end.
    pub(crate) fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        eventually_within(limit, "the server ends", || self.exit_status())
    }

    /// How the process ended, if it has.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.process_mut().try_wait().expect("ask for the exit status")
    }

    /// Fails unless the server still runs and answers.
    pub(crate) fn assert_healthy(&mut self) {
        if let Runs::Process(child) = &mut self.runs
            && let Some(status) = child.try_wait().expect("ask for the exit status")
        {
            panic!("the server ended with {status}:\n{}", self.log());
        }
        let health = http::get(self.http, "/healthz").expect("GET /healthz");
        assert_eq!(health.status, 200);
        assert!(!self.log().contains("panicked"), "a thread panicked:\n{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Runs::Process(child) = &mut self.runs {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(15).collect();
            eprintln!("-- last lines of the server's log");
            tail.iter().rev().for_each(|line| eprintln!("   {line}"));
        }
    }
}

/// What every server of the tests has besides its configuration: as many workers, and free ports.
fn flags(workers: u32, config: &str) -> Vec<(&'static str, String)> {
    let tls: &[&str] =
        if config.contains("[tls]") { &["rtmps.listen", "https.listen", "rtsps.listen"] } else { &[] };
    let rtc: &[&str] =
        if config.contains("udp_listen") { &[] } else { &["rtc.udp_listen", "rtc.tcp_listen"] };
    let http: &[&str] = if config.contains("[http]\nlisten") { &[] } else { &["http.listen"] };
    let listen = ["rtmp.listen", "srt.listen", "rtsp.listen", "rtsp.udp_listen"]
        .iter()
        .chain(http)
        .chain(tls)
        .chain(rtc);
    // A configuration that has its own addresses says so first thing in a section.
    let is_own = |key: &str| config.contains(&format!("[{}]\nlisten", key.trim_end_matches(".listen")));
    let listen = listen.filter(|key| !is_own(key));
    let listen = listen.map(|key| (*key, "127.0.0.1:0".to_owned()));
    // Tests have the machine together, and debug builds are slow: what one worker has to do for a second or two
    // says nothing.
    let measured = [
        "limits.load_percent",
        "limits.publisher_load_percent",
        "limits.loop_time_ms",
        "limits.send_delay_ms",
    ];
    let is_left = |key: &&str| !config.contains(key.trim_start_matches("limits."));
    let measured = measured.into_iter().filter(is_left).map(|key| (key, "0".to_owned()));
    listen.chain(measured).chain([("server.workers", workers.to_string())]).collect()
}

/// A thread of a server within this process that panics says so in that server's log, as a process would.
fn log_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            tracing::error!("panicked: {panic}");
            before(panic);
        }));
    });
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
