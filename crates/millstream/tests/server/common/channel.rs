//! Files for channels, a server that has them and can be killed, and a player that knows which frames it
//! wants.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use media::FrameRole;
use mp4::{Limits, Mp4};
use rtmp::MediaKind;
use rtmp::flv::read_frames;
use serde_json::Value;

use super::flv::TagReader;
use super::http::{self, Streaming};
use super::server::Server;
use super::tools::sample;
use super::{TIMEOUT, lasting_address, listen_at};

/// Writes `seconds` of the sample from second `from` on as an MP4 file. The sample has a key frame every two
/// seconds.
pub(crate) fn make_mp4(path: &Path, from: u32, seconds: u32) {
    let output = Command::new("ffmpeg")
        // Its key frames are 23 ms behind full seconds.
        .args(["-v", "error", "-y", "-ss", &format!("{from}.030"), "-i"])
        .arg(sample())
        .args(["-t", &seconds.to_string(), "-c", "copy", "-f", "mp4"])
        .arg(path)
        .output()
        .expect("run ffmpeg");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A frame without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: MediaKind,
    pub(crate) data: Vec<u8>,
}

/// All frames of a file, video and audio apart, in order of decoding.
pub(crate) fn frames_of(path: &Path) -> [Vec<Frame>; 2] {
    let file = fs::File::open(path).expect("a file");
    let mut mp4 = Mp4::open(BufReader::new(file), Limits::default()).expect("an MP4 file");
    // Not what is hidden before the first key frame that is shown.
    mp4.seek_to(Duration::ZERO).expect("a beginning");
    let mut frames = [Vec::new(), Vec::new()];
    while let Some(sample) = mp4.next_sample().expect("a readable file") {
        let kind = sample.frame.track.kind;
        frames[index(kind)].push(Frame { kind, data: sample.frame.data().to_vec() });
    }
    assert!(frames.iter().all(|own| own.len() > 10), "a file with video and audio");
    frames
}

/// 0 for video, 1 for audio.
pub(crate) fn index(kind: MediaKind) -> usize {
    usize::from(kind == MediaKind::Audio)
}

/// A frame as it came.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    pub(crate) frame: Frame,
    pub(crate) timestamp_ms: u32,
    pub(crate) at: Instant,
}

/// Plays a stream by HTTP-FLV.
pub(crate) struct Player {
    tags: TagReader<Streaming>,
    /// Codec configurations so far.
    pub(crate) configurations: Vec<Frame>,
}

impl Player {
    /// Of `app/name`. Waits until there is something to play.
    pub(crate) fn start(server: &Server, stream: &str) -> Self {
        let streaming = http::open(server.http, "GET", &format!("/{stream}.flv"), &[]).expect("play");
        Self { tags: TagReader::new(streaming), configurations: Vec::new() }
    }

    /// The next frame.
    pub(crate) fn next(&mut self) -> Played {
        loop {
            let tag = self.tags.next().expect("the stream goes on");
            let (kind, timestamp_ms) = (tag.kind, tag.timestamp);
            let (read, _) = read_frames(tag.into()).expect("a body");
            let frame = Frame { kind, data: read.data().to_vec() };
            match read.role {
                FrameRole::Key | FrameRole::Inter | FrameRole::Audio => {
                    return Played { frame, timestamp_ms, at: Instant::now() };
                }
                FrameRole::Config => self.configurations.push(frame),
                _ => {}
            }
        }
    }

    /// Takes what comes until the stream ends.
    pub(crate) fn play_to_end(&mut self) {
        while self.tags.next().is_some() {}
    }

    /// Frames until the stream has gone on by `ms`.
    pub(crate) fn play(&mut self, ms: u32) -> Vec<Played> {
        let mut played = vec![self.next()];
        while played[played.len() - 1].timestamp_ms < played[0].timestamp_ms + ms {
            played.push(self.next());
        }
        played
    }
}

/// Checks that what was played of a kind are frames of `files`, one file after the other in a circle, without
/// one missing, and gives the index, over all files, of the first one.
pub(crate) fn assert_in_order(played: &[Played], files: &[[Vec<Frame>; 2]], kind: MediaKind) -> usize {
    let all: Vec<&Frame> = files.iter().flat_map(|file| &file[index(kind)]).collect();
    let own: Vec<&Frame> =
        played.iter().map(|played| &played.frame).filter(|frame| frame.kind == kind).collect();
    let begins =
        |first: usize| own.iter().enumerate().all(|(at, frame)| *frame == all[(first + at) % all.len()]);
    let first = (0..all.len()).find(|first| begins(*first));
    first.unwrap_or_else(|| panic!("{} frames of {kind:?} are not those of the files in order", own.len()))
}

/// Checks that timestamps of each kind increase by `allowed` milliseconds each time.
pub(crate) fn assert_steps(played: &[Played], kind: MediaKind, allowed: std::ops::RangeInclusive<u32>) {
    let times: Vec<u32> =
        played.iter().filter(|played| played.frame.kind == kind).map(|played| played.timestamp_ms).collect();
    for pair in times.windows(2) {
        let step = pair[1].wrapping_sub(pair[0]);
        assert!(allowed.contains(&step), "{kind:?}: {} ms after {} ms", pair[1], pair[0]);
    }
}

/// The channel at `path` (`live/a`), once `check` holds for it.
pub(crate) fn wait_for_channel(
    server: &Server,
    path: &str,
    what: &str,
    mut check: impl FnMut(&Value) -> bool,
) -> Value {
    let path = format!("/api/v1/channels/{path}");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let last = server.api(&path);
        if check(&last) {
            return last;
        }
        assert!(Instant::now() < deadline, "the channel is not {what}: {last:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kinds of a channel's events, in order.
pub(crate) fn event_kinds(channel: &Value) -> Vec<&str> {
    let events = channel["events"].as_array().expect("events");
    events.iter().map(|event| event["kind"].as_str().expect("a kind")).collect()
}

/// An HTTP server of the files of a directory, which takes ranges, one or several.
pub(crate) struct FileServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
    requests: Mutex<Vec<String>>,
    /// After so many bytes of bodies every connection is cut off; 0: never.
    cut_after: AtomicU64,
    sent: AtomicU64,
}

impl FileServer {
    /// Of the files in `root`, on a free port.
    pub(crate) fn start(root: &Path) -> Self {
        Self::start_at(lasting_address(), root)
    }

    /// The same where another one was.
    pub(crate) fn start_at(address: SocketAddr, root: &Path) -> Self {
        let listener = listen_at(address);
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let (root, of_thread) = (root.to_owned(), Arc::clone(&shared));
        let thread = std::thread::spawn(move || accept(&listener, &root, &of_thread));
        Self { address, shared, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// URL of a file.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// Cuts all connections off once `bytes` more of bodies have been sent.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.shared.cut_after.store(self.shared.sent.load(Ordering::SeqCst) + bytes, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_cut(&self) -> bool {
        let limit = self.shared.cut_after.load(Ordering::SeqCst);
        limit > 0 && self.shared.sent.load(Ordering::SeqCst) >= limit
    }

    /// Paths asked for so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().expect("requests").clone()
    }

    /// Ends it and its connections, as a killed process would.
    pub(crate) fn kill(mut self) -> SocketAddr {
        self.stop();
        self.address
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ends");
        }
        for socket in self.shared.sockets.lock().expect("sockets").drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &TcpListener, root: &Path, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        let Ok(socket) = socket else { continue };
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let kept = socket.try_clone().expect("a second handle");
        shared.sockets.lock().expect("sockets").push(kept);
        let (root, shared) = (root.to_owned(), Arc::clone(shared));
        std::thread::spawn(move || while answer(&socket, &root, &shared).is_some() {});
    }
}

/// Answers one request; `None` when the connection is over.
fn answer(socket: &TcpStream, root: &Path, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(socket);
    let (mut path, mut range) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some(rest) = line.strip_prefix("GET /") {
            path = rest.split(' ').next()?.split('?').next()?.to_owned();
            shared.requests.lock().expect("requests").push(path.clone());
        } else if line.to_ascii_lowercase().starts_with("range: bytes=") {
            range = line[13..].trim().to_owned();
        }
    }
    let file: PathBuf = root.join(&path);
    let Ok(bytes) = fs::read(&file) else {
        return send(socket, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", shared);
    };
    send(socket, &response(&bytes, &range), shared)
}

fn response(bytes: &[u8], range: &str) -> Vec<u8> {
    let tag = format!("\"{}-{}\"", bytes.len(), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    let total = bytes.len();
    let one = |text: &str| {
        let (first, last) = text.trim().split_once('-')?;
        let first: usize = first.parse().ok()?;
        let last = last.parse().unwrap_or(total - 1).min(total - 1);
        (first <= last).then_some((first, last))
    };
    let ranges: Vec<_> = range.split(',').filter_map(one).collect();
    let head = |status: &str, length: usize, fields: &str| {
        format!("HTTP/1.1 {status}\r\nETag: {tag}\r\nContent-Length: {length}\r\n{fields}\r\n").into_bytes()
    };
    match ranges[..] {
        [] => [head("200 OK", total, "Accept-Ranges: bytes\r\n"), bytes.to_vec()].concat(),
        [(first, last)] => {
            let fields = format!("Content-Range: bytes {first}-{last}/{total}\r\n");
            let part = &bytes[first..=last];
            [head("206 Partial Content", part.len(), &fields), part.to_vec()].concat()
        }
        _ => {
            let mut body = Vec::new();
            for (first, last) in ranges {
                let part = format!(
                    "\r\n--cut\r\nContent-Type: video/mp4\r\nContent-Range: bytes {first}-{last}/{total}\r\n\r\n"
                );
                body.extend_from_slice(part.as_bytes());
                body.extend_from_slice(&bytes[first..=last]);
            }
            body.extend_from_slice(b"\r\n--cut--\r\n");
            let fields = "Content-Type: multipart/byteranges; boundary=cut\r\n";
            [head("206 Partial Content", body.len(), fields), body].concat()
        }
    }
}

/// Sends in pieces, so that it can be cut off in the middle.
fn send(mut socket: &TcpStream, bytes: &[u8], shared: &Shared) -> Option<()> {
    for piece in bytes.chunks(4_096) {
        let limit = shared.cut_after.load(Ordering::SeqCst);
        let sent = shared.sent.fetch_add(piece.len() as u64, Ordering::SeqCst);
        if limit > 0 && sent >= limit {
            let _ = socket.shutdown(Shutdown::Both);
            return None;
        }
        socket.write_all(piece).ok()?;
    }
    Some(())
}
