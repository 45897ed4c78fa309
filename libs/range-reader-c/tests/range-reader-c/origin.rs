//! A web server on loopback with one file: it knows ranges, keeps connections, and counts.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A running server; its threads end with the process.
#[derive(Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Serves `file`, over loopback as it is, or with a delay before each answer and so many bytes a
    /// second, as over a network. It is at every path but `/missing`, which is 404, and `/forbidden`,
    /// which is 403; `/silent` is never answered, `/unsaid` is sent whole without its length, and
    /// `/short` ends too early.
    pub(crate) fn start(file: Vec<u8>, link: Option<(Duration, u32)>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (heads, file) = (Arc::new(Mutex::new(Vec::new())), Arc::new(file));
        let kept = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heads, file) = (Arc::clone(&kept), Arc::clone(&file));
                // Errors are those of clients that have gone.
                thread::spawn(move || serve(&stream, &file, &heads, link).unwrap_or(()));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Heads of requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().expect("no test panics with it").clone()
    }
}

fn serve(
    stream: &TcpStream,
    file: &[u8],
    heads: &Mutex<Vec<String>>,
    link: Option<(Duration, u32)>,
) -> std::io::Result<()> {
    let (mut input, mut output) = (BufReader::new(stream), stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if input.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        heads.lock().expect("no thread panics with it").push(head.clone());
        if let Some((delay, _)) = link {
            thread::sleep(delay);
        }
        let target = head.split(' ').nth(1).unwrap_or_default();
        let range = range_of(&head, file.len());
        let total = file.len();
        match target {
            "/missing" => output.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?,
            "/forbidden" => output.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")?,
            "/silent" => continue,
            "/unsaid" => {
                output.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
                return output.write_all(file);
            }
            "/short" => {
                write!(output, "HTTP/1.1 200 OK\r\ncontent-length: {total}\r\n\r\n")?;
                return output.write_all(&file[..total / 2]);
            }
            _ => match range {
                Some(range) if range.is_empty() => write!(
                    output,
                    "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-range: bytes */{total}\r\n\
                     content-length: 0\r\n\r\n"
                )?,
                Some(range) => {
                    write!(
                        output,
                        "HTTP/1.1 206 Partial Content\r\naccept-ranges: bytes\r\netag: \"1\"\r\n\
                         content-range: bytes {}-{}/{total}\r\ncontent-length: {}\r\n\r\n",
                        range.start,
                        range.end - 1,
                        range.len()
                    )?;
                    send(output, &file[range], link)?;
                }
                None => {
                    write!(
                        output,
                        "HTTP/1.1 200 OK\r\naccept-ranges: bytes\r\netag: \"1\"\r\n\
                         content-length: {total}\r\n\r\n"
                    )?;
                    send(output, file, link)?;
                }
            },
        }
    }
}

fn send(mut output: &TcpStream, bytes: &[u8], link: Option<(Duration, u32)>) -> std::io::Result<()> {
    let Some((_, bytes_per_second)) = link else { return output.write_all(bytes) };
    for piece in bytes.chunks(PIECE_BYTES) {
        output.write_all(piece)?;
        thread::sleep(Duration::from_secs(1) * PIECE_BYTES as u32 / bytes_per_second);
    }
    Ok(())
}

/// Bytes sent at a time over a link.
const PIECE_BYTES: usize = 32 << 10;

/// What is asked of the file; empty if it does not exist. A request for several ranges gets all.
fn range_of(head: &str, total: usize) -> Option<Range<usize>> {
    let head = head.to_ascii_lowercase();
    let field = head.lines().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (first, last) = field.split_once('-').filter(|_| !field.contains(','))?;
    let first: usize = first.parse().ok()?;
    let end = last.parse::<usize>().map_or(total, |last| (last + 1).min(total));
    Some(first.min(end)..end)
}
