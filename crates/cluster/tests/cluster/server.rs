//! A nats-server of a test's own, on a free port, and directories on it. The program is the one that
//! `NATS_SERVER` names, or else the one in the path.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cluster::{Description, Directory, Lane, NodeName, Settings, StreamName};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};

/// Longer than anything takes on a busy machine; nothing waits for it to pass.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Server {
    child: Option<Child>,
    pub(crate) port: u16,
    folder: PathBuf,
    program: PathBuf,
    options: Vec<String>,
}

impl Server {
    /// Starts a server, or says that there is none.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(options: &[&str]) -> Option<Self> {
        let mut server = Self::prepare(options)?;
        server.run().await;
        Some(server)
    }

    /// With a configuration, which may name files that are put into the folder.
    pub(crate) async fn start_configured(configuration: impl FnOnce(&Path) -> String) -> Option<Self> {
        let mut server = Self::prepare(&[])?;
        let file = server.folder.join("nats.conf");
        std::fs::write(&file, configuration(&server.folder)).unwrap();
        server.options = vec!["-c".to_owned(), file.to_str().unwrap().to_owned()];
        server.run().await;
        Some(server)
    }

    /// One that does not run yet.
    pub(crate) fn prepare(options: &[&str]) -> Option<Self> {
        let Some(program) = program() else {
            println!("LEFT OUT: nats-server is missing; scripts/setup installs it");
            return None;
        };
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("cluster-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Some(Self { child: None, port: free_port(), folder, program, options })
    }

    /// A file of its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts it, or starts it again on the same port; all it had is lost.
    pub(crate) async fn run(&mut self) {
        let log = self.folder.join("log");
        for _ in 0..20 {
            let mut child = Command::new(&self.program)
                .args(["-a", "127.0.0.1", "-p", &self.port.to_string(), "-js", "-sd"])
                .arg(&self.folder)
                .args(&self.options)
                .stdout(Stdio::null())
                .stderr(std::fs::File::create(&log).unwrap())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            loop {
                if tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
                    self.child = Some(child);
                    return;
                }
                if child.try_wait().unwrap().is_some() || begun.elapsed() > DEADLINE {
                    break;
                }
                sleep(Duration::from_millis(5)).await;
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        let log = std::fs::read_to_string(&log).unwrap();
        panic!("nats-server does not start on port {}: {log}", self.port);
    }

    /// Lets it stand still, or go on, and waits until it does.
    pub(crate) async fn freeze(&self, frozen: bool) {
        let id = self.id();
        let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        kill(Pid::from_raw(i32::try_from(id).unwrap()), signal).unwrap();
        let stands = || {
            let threads = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
            threads.flatten().all(|thread| {
                std::fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| stat.contains(") T "))
            })
        };
        until("the server obeys", || stands() == frozen).await;
    }

    /// Number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn settings(&self, node: &str) -> Settings {
        self.settings_by(self.port, node)
    }

    /// Through another port, of a link that can be cut.
    pub(crate) fn settings_by(&self, port: u16, node: &str) -> Settings {
        let server = format!("nats://127.0.0.1:{port}");
        Settings::new(vec![server], NodeName::new(node).unwrap())
    }

    pub(crate) async fn directory(&self, node: &str) -> Directory {
        Directory::connect(self.settings(node)).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("NATS_SERVER") {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let mut programs = path.split(':').map(|folder| PathBuf::from(folder).join("nats-server"));
    programs.find(|program| program.is_file())
}

/// A port that is free now. One of the system's choice is not used by others for a while.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until `condition` holds; returns how long that took.
pub(crate) async fn until(what: &str, condition: impl FnMut() -> bool) -> Duration {
    until_every(Duration::from_millis(2), what, condition).await
}

pub(crate) async fn until_every(
    pause: Duration,
    what: &str,
    mut condition: impl FnMut() -> bool,
) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "timed out: {what}");
        sleep(pause).await;
    }
    begun.elapsed()
}

/// The outcome of what has to come to an end.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(DEADLINE, work).await.unwrap_or_else(|_| panic!("timed out: {what}"))
}

pub(crate) fn stream(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(crate) fn described(tracks: &[u8]) -> Arc<Description> {
    let codecs = vec!["H264".to_owned(), "opus".to_owned()];
    Arc::new(Description { lane: Lane::Packets, codecs, tracks: tracks.to_vec() })
}

/// Name of the node that has the stream, as `directory` sees it.
pub(crate) fn home(directory: &Directory, name: &str) -> Option<String> {
    directory.find(&stream(name)).map(|home| home.node.to_string())
}
