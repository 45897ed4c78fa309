//! nginx for one test: in the foreground, on a port of its own, its files in a directory that goes with it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running nginx; ends when dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl Nginx {
    /// Starts nginx with `server` inside its server block and `files` to serve.
    pub(crate) fn start(server: &str, files: &[(&str, &[u8])]) -> Self {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let name = format!("range-reader-nginx-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(directory.join("files")).unwrap();
        for (name, bytes) in files {
            fs::write(directory.join("files").join(name), bytes).unwrap();
        }
        fs::write(directory.join("nginx.conf"), configuration(&directory, port, server)).unwrap();
        let mut nginx = Self { child: spawn(&directory), directory, port };
        nginx.wait();
        nginx
    }

    /// Where `path` is.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("http://127.0.0.1:{}{path}", self.port).parse().unwrap()
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

fn configuration(directory: &Path, port: u16, server: &str) -> String {
    let here = directory.display();
    format!(
        "daemon off; master_process off; pid {here}/pid; error_log {here}/error.log;
        events {{}}
        http {{
            access_log off; client_body_temp_path {here}/body; proxy_temp_path {here}/proxy;
            fastcgi_temp_path {here}/fastcgi; uwsgi_temp_path {here}/uwsgi; scgi_temp_path {here}/scgi;
            server {{ listen 127.0.0.1:{port}; root {here}/files; {server} }}
        }}"
    )
}
