//! A small HTTP server for files and for what a hostile one would answer, with connections that are kept.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Path and query.
    pub(crate) target: String,
    /// Value of `Range`.
    pub(crate) range: Option<(u64, u64)>,
    /// Value of `Authorization`.
    pub(crate) authorization: Option<String>,
}

/// An answer.
pub(crate) enum Reply {
    /// With its length.
    Whole(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// The same bytes again and again, for as long as anybody takes them.
    Endless(Vec<u8>),
    /// A head, and then a byte from time to time.
    Drip,
}

impl Reply {
    /// 200.
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Whole(200, Vec::new(), body.into())
    }

    /// 404.
    pub(crate) fn missing() -> Self {
        Self::Whole(404, Vec::new(), Vec::new())
    }
}

/// A running server; its threads end with the process.
pub(crate) struct Web {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    answer: Box<dyn Fn(&Request) -> Reply + Send + Sync>,
    asked: Mutex<Vec<Request>>,
    connections: AtomicUsize,
}

impl Web {
    /// One that answers by `answer`.
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            answer: Box::new(answer),
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let accepts = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                accepts.connections.fetch_add(1, Ordering::Relaxed);
                let shared = Arc::clone(&accepts);
                std::thread::spawn(move || shared.serve(socket));
            }
        });
        Self { address, shared }
    }

    /// One of the files of a directory, ranges of them as well.
    pub(crate) fn of_files(directory: PathBuf) -> Self {
        Self::start(move |request| file(&directory, request))
    }

    /// URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked for so far.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.shared.asked.lock().expect("no panic").clone()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

/// A file of `directory`, or the part of it that is asked for.
pub(crate) fn file(directory: &std::path::Path, request: &Request) -> Reply {
    let name = request.target.trim_start_matches('/').split('?').next().unwrap_or_default();
    let Ok(body) = std::fs::read(directory.join(name)) else { return Reply::missing() };
    let Some((first, last)) = request.range else { return Reply::ok(body) };
    let last = last.min(body.len() as u64 - 1);
    let range = format!("bytes {first}-{last}/{}", body.len());
    Reply::Whole(206, vec![("Content-Range", range)], body[first as usize..=last as usize].to_vec())
}

impl Shared {
    fn serve(&self, mut socket: TcpStream) {
        let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
        loop {
            let mut head = Vec::new();
            loop {
                let mut line = String::new();
                match reader.read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                match line.trim_end() {
                    "" => break,
                    line => head.push(line.to_owned()),
                }
            }
            let field = |name: &str| {
                let fields = head.iter().filter_map(|line| line.split_once(':'));
                fields
                    .clone()
                    .find(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|of| of.1.trim().to_owned())
            };
            let range = field("range").and_then(|value| {
                let (first, last) = value.strip_prefix("bytes=")?.split_once('-')?;
                Some((first.parse().ok()?, last.parse().ok()?))
            });
            let target = head[0].split(' ').nth(1).unwrap_or_default().to_owned();
            let request = Request { target, range, authorization: field("authorization") };
            self.asked.lock().expect("no panic").push(request.clone());
            if send(&mut socket, (self.answer)(&request)).is_err() {
                return;
            }
        }
    }
}

fn send(socket: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Whole(status, fields, body) => {
            let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let head = format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
            socket.write_all(&[head.as_bytes(), &body].concat())
        }
        Reply::Endless(bytes) => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                socket.write_all(&bytes)?;
            }
        }
        Reply::Drip => {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n#EXTM3U\n")?;
            loop {
                std::thread::sleep(Duration::from_millis(50));
                socket.write_all(b"#")?;
            }
        }
    }
}
