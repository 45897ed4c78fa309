//! nginx for one test: in the foreground, on a port of its own, its files in a directory that goes
//! with it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A port below those that the system gives to outgoing connections (from 32768 on): one of them
/// would have it before nginx has, or while it is away. Those from 20000 on: the lower ones are of
/// the servers that other tests end and start again.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 100 + NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (number % 10_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A running nginx; ends when dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    child: Child,
    directory: PathBuf,
    port: u16,
    scheme: &'static str,
}

impl Nginx {
    /// Starts nginx with `server` inside its server block and `files` to serve.
    pub(crate) fn start(server: &str, files: &[(&str, &[u8])]) -> Self {
        Self::start_with("http", server, files)
    }

    /// As [`Self::start`], for HTTP/2 without TLS.
    pub(crate) fn start_http2(server: &str, files: &[(&str, &[u8])]) -> Self {
        Self::start_with("http http2", server, files)
    }

    /// As [`Self::start`], over TLS with a certificate for `127.0.0.1`; `http2` or not.
    pub(crate) fn start_tls(http2: bool, files: &[(&str, &[u8])]) -> (Self, rcgen::Certificate) {
        Self::tls(if http2 { "https http2" } else { "https" }, "", files)
    }

    /// As [`Self::start_tls`], with `server` inside its server block and no files.
    pub(crate) fn start_tls_with(server: &str) -> (Self, rcgen::Certificate) {
        Self::tls("https", server, &[])
    }

    fn tls(kind: &str, server: &str, files: &[(&str, &[u8])]) -> (Self, rcgen::Certificate) {
        let names = vec!["127.0.0.1".to_owned()];
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).unwrap();
        let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
        let mut all = vec![("cert.pem", certificate.as_bytes()), ("key.pem", key.as_bytes())];
        all.extend_from_slice(files);
        let server = format!("ssl_certificate files/cert.pem; ssl_certificate_key files/key.pem; {server}");
        (Self::start_with(kind, &server, &all), cert)
    }

    fn start_with(kind: &str, server: &str, files: &[(&str, &[u8])]) -> Self {
        let port = free_port();
        let name = format!("range-reader-nginx-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(directory.join("files")).unwrap();
        for (name, bytes) in files {
            fs::write(directory.join("files").join(name), bytes).unwrap();
        }
        fs::write(directory.join("nginx.conf"), configuration(&directory, port, kind, server)).unwrap();
        let scheme = if kind.starts_with("https") { "https" } else { "http" };
        let mut nginx = Self { child: spawn(&directory), directory, port, scheme };
        nginx.wait();
        nginx
    }

    /// Puts another file in the place of one, dated a day before: nothing depends on when that
    /// happens.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        let (new, old) = (self.directory.join("new"), self.directory.join("files").join(name));
        fs::write(&new, bytes).unwrap();
        let modified = fs::metadata(&old).unwrap().modified().unwrap() - Duration::from_secs(86_400);
        fs::File::options().append(true).open(&new).unwrap().set_modified(modified).unwrap();
        fs::rename(new, old).unwrap();
    }

    /// Kills it: connections break off.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again after [`Self::kill`], at the same port.
    pub(crate) fn restart(&mut self) {
        self.child = spawn(&self.directory);
        self.wait();
    }

    /// What was asked for and answered so far, a line each.
    pub(crate) fn answered(&self) -> String {
        fs::read_to_string(self.directory.join("access.log")).unwrap_or_default()
    }

    /// Where `path` is.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port).parse().unwrap()
    }

    fn wait(&mut self) {
        #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(self.child.try_wait().unwrap().is_none(), "nginx ended: {}", self.log());
            assert!(started.elapsed() < Duration::from_secs(20), "nginx does not listen: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // A master process with no worker: it is the one that serves.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn spawn(directory: &Path) -> Child {
    Command::new("nginx")
        .arg("-e")
        .arg(directory.join("error.log"))
        .arg("-p")
        .arg(directory)
        .arg("-c")
        .arg(directory.join("nginx.conf"))
        .env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nginx starts; scripts/setup installs it")
}

fn configuration(directory: &Path, port: u16, kind: &str, server: &str) -> String {
    let here = directory.display();
    let options = match kind {
        "https http2" => "ssl http2",
        "https" => "ssl",
        "http http2" => "http2",
        _ => "",
    };
    format!(
        "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;
        events {{}}
        http {{
            access_log {here}/access.log; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
            fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
            server {{ listen 0.0.0.0:{port} {options}; root {here}/files; {server} }}
        }}"
    )
}
