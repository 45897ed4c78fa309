//! An HTTP/1.1 server on loopback that responses with whatever bytes a test gives it.
//!
//! It runs in the test's own runtime and ends with it. What it was asked, and over which
//! connection, is kept.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What the server does for one request, in this order; then it waits for the next one.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one, this far apart.
    Drip(Vec<u8>, Duration),
    /// Says nothing until the client closes the connection.
    Hang,
    /// Closes the connection.
    Close,
    /// Breaks the connection off with a reset.
    Reset,
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Number of its connection, from 0.
    pub(crate) connection: usize,
    /// Method, target and version.
    pub(crate) line: String,
    fields: HashMap<String, String>,
}

impl Asked {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// What stands between method and version.
    pub(crate) fn target(&self) -> &str {
        self.line.split(' ').nth(1).unwrap()
    }

    /// The ranges of a file of `length` bytes that are asked for; `None` without a `Range` field.
    pub(crate) fn ranges(&self, length: usize) -> Option<Vec<Range<usize>>> {
        let ranges = self.field("range")?.strip_prefix("bytes=").unwrap();
        let parse = |range: &str| {
            let (first, last) = range.split_once('-').unwrap();
            let end = last.parse::<usize>().map_or(length, |last| (last + 1).min(length));
            first.parse::<usize>().unwrap()..end
        };
        Some(ranges.split(',').map(parse).collect())
    }
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The clients of connections that have been accepted, and of those that have ended.
    clients: watch::Receiver<(Vec<SocketAddr>, Vec<SocketAddr>)>,
    /// Ends its connections when dropped.
    _tasks: JoinSet<()>,
}

impl Scripted {
    /// A server whose responses come from `script`.
    pub(crate) async fn start(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::on("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// As [`Self::start`], at an address.
    pub(crate) async fn on(
        address: SocketAddr,
        script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (log, script) = (Arc::clone(&asked), Arc::new(script));
        let (report, clients) = watch::channel((Vec::new(), Vec::new()));
        let report = Arc::new(report);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, client) = listener.accept().await.unwrap();
                report.send_modify(|(accepted, _)| accepted.push(client));
                let (log, script, report) = (Arc::clone(&log), Arc::clone(&script), Arc::clone(&report));
                connections.spawn(async move {
                    serve(stream, number, &log, &*script).await;
                    report.send_modify(|(_, ended)| ended.push(client));
                });
            }
        });
        Self { address, asked, clients, _tasks: tasks }
    }

    /// Where `path` is.
    pub(crate) fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    /// All requests, once the clients have closed all connections that they opened before.
    pub(crate) async fn asked_in_the_end(&self) -> Vec<Asked> {
        // Connections are accepted in their order, and requests that have come are read before the
        // end of their connection.
        let last = TcpStream::connect(self.address).await.unwrap().local_addr().unwrap();
        let all = |clients: &(Vec<SocketAddr>, Vec<SocketAddr>)| {
            clients.1.contains(&last) && clients.0.len() == clients.1.len()
        };
        self.clients.clone().wait_for(all).await.unwrap();
        self.asked()
    }

    /// All requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Serves one connection until it ends, whichever side ends it.
async fn serve(
    stream: TcpStream,
    number: usize,
    log: &Mutex<Vec<Asked>>,
    script: &(dyn Fn(&Asked) -> Vec<Step> + Send + Sync),
) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read_request(&mut stream, number).await {
        log.lock().unwrap().push(asked.clone());
        for step in script(&asked) {
            if !perform(step, &mut stream).await {
                return;
            }
        }
    }
}

/// Whether the connection continues. Errors mean that the client has closed it.
async fn perform(step: Step, stream: &mut BufReader<TcpStream>) -> bool {
    match step {
        Step::Send(bytes) => stream.write_all(&bytes).await.is_ok(),
        Step::Drip(bytes, apart) => {
            for byte in bytes {
                if stream.write_all(&[byte]).await.is_err() {
                    return false;
                }
                tokio::time::sleep(apart).await;
            }
            true
        }
        Step::Hang => {
            let _ = stream.read(&mut [0]).await;
            false
        }
        Step::Close => false,
        Step::Reset => {
            stream.get_ref().set_zero_linger().unwrap();
            false
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>, connection: usize) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let fields = lines[1..].iter().map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    });
    Some(Asked { connection, fields: fields.collect(), line: lines[0].clone() })
}

/// A head: the status line and fields, each without its line break, and the empty line.
pub(crate) fn head(status: &str, fields: &[&str]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\n");
    for field in fields {
        text.push_str(field);
        text.push_str("\r\n");
    }
    (text + "\r\n").into_bytes()
}

/// A head with a length, and a body.
pub(crate) fn answer(status: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    let fields: Vec<&str> = fields.iter().copied().chain([length.as_str()]).collect();
    [head(status, &fields), body.to_vec()].concat()
}

/// What an honest server answers to a request for ranges of `file`: 206 with one range or several,
/// 416, 200 without.
pub(crate) fn honest(asked: &Asked, file: &[u8], fields: &[&str]) -> Vec<u8> {
    let Some(ranges) = asked.ranges(file.len()) else { return answer("200 OK", fields, file) };
    let ranges: Vec<_> = ranges.into_iter().filter(|range| range.start < file.len()).collect();
    let total = file.len();
    match ranges.as_slice() {
        [] => answer("416 Range Not Satisfiable", &[&format!("content-range: bytes */{total}")], b""),
        [range] => {
            let field = format!("content-range: bytes {}-{}/{total}", range.start, range.end - 1);
            let fields: Vec<&str> = fields.iter().copied().chain([field.as_str()]).collect();
            answer("206 Partial Content", &fields, &file[range.clone()])
        }
        ranges => {
            let kind = "content-type: multipart/byteranges; boundary=sea";
            let fields: Vec<&str> = fields.iter().copied().chain([kind]).collect();
            answer("206 Partial Content", &fields, &parts(ranges, file))
        }
    }
}

/// The body with several ranges, separated by `sea`.
pub(crate) fn parts(ranges: &[Range<usize>], file: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for range in ranges {
        let head = format!(
            "\r\n--sea\r\nContent-Type: video/mp4\r\nContent-Range: bytes {}-{}/{}\r\n\r\n",
            range.start,
            range.end - 1,
            file.len()
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&file[range.clone()]);
    }
    body.extend_from_slice(b"\r\n--sea--\r\n");
    body
}
