//! The floor: what it costs to answer the same requests from memory, without a server.
//!
//! The sample is cut by the same crates as in the server, once for all; each response is ready with its head
//! before anybody asks. A request is a read, a look into a table by its path, and a write. What is not there
//! yet is answered when it comes; a segment that grows is sent part by part.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cmaf::{Output, Segmenter};
use hls::{Accepts, Answer, Object, Query, Window};
use media::TrackId;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use rtmp::MediaMessage;
use socket2::{Domain, Protocol, Socket, Type};

use super::cli::HlsFloorArgs;
use crate::clock;
use crate::machine::{self, StopSignals};
use crate::sample::{Sample, Timeline};

/// Serves `/live/sample.m3u8` and `.mpd` until SIGINT or SIGTERM. Prints `{"listen":...,"pid":...}`.
///
/// # Errors
/// A text for the user when it cannot listen or the sample is unreadable.
pub fn run(args: &HlsFloorArgs) -> Result<(), String> {
    let sample = match &args.sample {
        None => Sample::embedded()?,
        Some(path) => std::fs::read(path)
            .map_err(|error| error.to_string())
            .and_then(|file| Sample::from_flv(&file))
            .map_err(|error| format!("{}: {error}", path.display()))?,
    };
    if let Some(core) = args.core {
        machine::pin_to_core(core)?;
    }
    machine::ensure_descriptors(DESCRIPTORS)?;
    let signals = StopSignals::new().map_err(|error| format!("signals: {error}"))?;
    let listener = listen(args.listen).map_err(|error| format!("{}: {error}", args.listen))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    // A closed standard output only means that nobody wants to know.
    let line = serde_json::json!({ "listen": address.to_string(), "pid": std::process::id() });
    let _ = writeln!(io::stdout(), "{line}");
    let mut floor = Floor::new(listener, sample).map_err(|error| format!("epoll: {error}"))?;
    while !signals.arrived() {
        floor.turn().map_err(|error| format!("epoll: {error}"))?;
    }
    Ok(())
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(TcpListener::from_std(socket.into()))
}

struct Floor {
    poll: Poll,
    events: Events,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    sample: Sample,
    timeline: Timeline,
    origin_ns: u64,
    segmenter: Segmenter,
    window: Window,
    /// Ready responses by path.
    responses: HashMap<String, Response>,
    /// What the newest playlist of each rendition has: the part that is next.
    next: HashMap<String, (u64, u32)>,
    /// Connections that wait, each with what it asked for.
    waiting: Vec<(usize, String)>,
}

enum Response {
    Whole(Rc<Vec<u8>>),
    /// Of a segment: head and chunks so far, and all of it with its length once it is complete.
    Segment {
        head: Vec<u8>,
        chunks: Vec<Vec<u8>>,
        complete: Option<Rc<Vec<u8>>>,
    },
}

struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    unsent: Vec<u8>,
    /// Chunks sent of the segment that it gets.
    chunks: Option<usize>,
}

impl Floor {
    fn new(mut listener: TcpListener, sample: Sample) -> io::Result<Floor> {
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        // As long as the benchmark lets a server run before players come.
        let origin_ns = clock::wall_ns() - RUNS_ALREADY.as_nanos() as u64;
        let mut floor = Floor {
            poll,
            events: Events::with_capacity(1024),
            listener,
            connections: Vec::new(),
            timeline: Timeline::new(origin_ns),
            sample,
            origin_ns,
            segmenter: Segmenter::new(cmaf::Settings {
                first_msn: 1_700_000_000,
                ..cmaf::Settings::default()
            }),
            window: Window::new(hls::Settings::default()),
            responses: HashMap::new(),
            next: HashMap::new(),
            waiting: Vec::new(),
        };
        for (kind, body) in floor.sample.headers.clone() {
            floor.push(kind, 0, body, 0);
        }
        floor.cut_due();
        Ok(floor)
    }

    fn push(&mut self, kind: rtmp::MediaKind, timestamp: u32, body: Vec<u8>, now_ns: u64) {
        let message = MediaMessage { kind, timestamp, length: body.len() as u32, payload: body };
        let Ok((frame, _)) = rtmp::flv::read_frames(message) else { return };
        self.segmenter.push(Duration::from_nanos(now_ns), frame.dts, &Arc::new(frame));
    }

    fn due_ns(&self) -> u64 {
        self.origin_ns + self.timeline.next_due_ms(&self.sample) * 1_000_000
    }

    /// Cuts what has become due, and makes the responses that change with it.
    fn cut_due(&mut self) {
        while self.due_ns() <= clock::wall_ns() {
            let due_ns = self.due_ns();
            let due = self.timeline.take(&mut self.sample, due_ns);
            let (kind, timestamp, body) = (due.kind, due.timestamp, due.body.to_vec());
            self.push(kind, timestamp, body, due_ns);
        }
        let mut is_changed = false;
        while let Some(output) = self.segmenter.poll_output() {
            if let Some(target) = self.segmenter.target_duration() {
                self.window.set_target_duration(target);
            }
            self.note(&output);
            self.window.push(output);
            is_changed = true;
        }
        if !is_changed {
            return;
        }
        self.make_playlist(Object::Multivariant, "/live/sample.m3u8", PREFIX);
        self.make_playlist(Object::Mpd, "/live/sample.mpd", PREFIX);
        for name in self.next.keys().cloned().collect::<Vec<_>>() {
            let Some(object) = Object::parse(name.strip_prefix(FOLDER).unwrap_or_default()) else { continue };
            self.make_playlist(object, &name, "");
        }
        self.answer_waiting();
    }

    /// Init segments, segments and parts never change.
    fn note(&mut self, output: &Output) {
        match output {
            Output::Init(init) => {
                let name = format!("{FOLDER}{}", Object::Init(init.rendition, init.number));
                self.responses.insert(name, whole("video/mp4", IMMUTABLE, &init.bytes));
                self.next.entry(playlist_of(init.rendition)).or_default();
            }
            Output::SegmentStart(start) => {
                let name = format!("{FOLDER}{}", Object::Segment(start.rendition, start.msn));
                let head = head("video/mp4", IMMUTABLE, "Transfer-Encoding: chunked");
                self.responses.insert(name, Response::Segment { head, chunks: Vec::new(), complete: None });
                self.next.insert(playlist_of(start.rendition), (start.msn, 0));
                if let Some(old) = start.msn.checked_sub(KEPT_SEGMENTS) {
                    let old = format!("{FOLDER}{}", Object::Segment(start.rendition, old));
                    let parts = format!("{}.", old.trim_end_matches(".m4s"));
                    self.responses.retain(|name, _| *name != old && !name.starts_with(&parts));
                }
            }
            Output::Part(part) => {
                let segment = format!("{FOLDER}{}", Object::Segment(part.rendition, part.msn));
                if let Some(Response::Segment { chunks, .. }) = self.responses.get_mut(&segment) {
                    let size = format!("{:x}\r\n", part.bytes.len());
                    chunks.push([size.as_bytes(), &part.bytes, b"\r\n"].concat());
                }
                let name = format!("{FOLDER}{}", Object::Part(part.rendition, part.msn, part.number));
                self.responses.insert(name, whole("video/mp4", IMMUTABLE, &part.bytes));
                self.next.insert(playlist_of(part.rendition), (part.msn, part.number + 1));
            }
            Output::Segment(done) => {
                let name = format!("{FOLDER}{}", Object::Segment(done.rendition, done.msn));
                let parts = (0..).map_while(|part| match self.responses.get(&part_of(done, part)) {
                    Some(Response::Whole(bytes)) => {
                        memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| &bytes[at + 4..])
                    }
                    _ => None,
                });
                let body: Vec<u8> = parts.flatten().copied().collect();
                let bytes = Rc::new(whole_bytes("video/mp4", IMMUTABLE, &body));
                if let Some(Response::Segment { complete, .. }) = self.responses.get_mut(&name) {
                    *complete = Some(bytes);
                }
                self.next.insert(playlist_of(done.rendition), (done.msn + 1, 0));
            }
            Output::End => {}
        }
    }

    fn make_playlist(&mut self, object: Object, path: &str, prefix: &str) {
        let now = Duration::from_nanos(clock::wall_ns());
        let answer = self.window.respond(object, &Query::default(), Accepts::default(), prefix, now);
        if let Answer::Respond(body) = answer {
            let text: Vec<u8> = body.bytes.concat();
            self.responses.insert(path.to_owned(), whole(body.content_type, "max-age=12", &text));
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let timeout = Duration::from_nanos(self.due_ns().saturating_sub(clock::wall_ns()));
        match self.poll.poll(&mut self.events, Some(timeout.min(IDLE_TURN))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        let tokens: Vec<Token> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            if token == LISTENER {
                self.accept();
            } else {
                self.read(token.0);
            }
        }
        self.cut_due();
        Ok(())
    }

    /// Accepts all waiting connections. An error is no reason to stop: the peer may have closed already.
    fn accept(&mut self) {
        while let Ok((mut socket, _)) = self.listener.accept() {
            let token = Token(self.connections.len());
            let interest = Interest::READABLE | Interest::WRITABLE;
            if socket.set_nodelay(true).is_ok()
                && self.poll.registry().register(&mut socket, token, interest).is_ok()
            {
                let connection = Connection { socket, input: Vec::new(), unsent: Vec::new(), chunks: None };
                self.connections.push(Some(connection));
            }
        }
    }

    fn read(&mut self, index: usize) {
        let Some(connection) = &mut self.connections[index] else { return };
        let mut buffer = [0; 4096];
        let mut is_open = flush(connection);
        while is_open {
            match connection.socket.read(&mut buffer) {
                Ok(0) => is_open = false,
                Ok(length) => {
                    connection.input.extend_from_slice(&buffer[..length]);
                    if length < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => is_open = false,
            }
        }
        if !is_open {
            self.connections[index] = None;
            return;
        }
        // Players ask for one object at a time.
        if connection.input.ends_with(b"\r\n\r\n") {
            let line = connection.input.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let target = String::from_utf8_lossy(line).into_owned();
            connection.input.clear();
            if !self.answer(index, &target) {
                self.waiting.push((index, target));
            }
        }
    }

    fn answer_waiting(&mut self) {
        for (index, target) in std::mem::take(&mut self.waiting) {
            if !self.answer(index, &target) {
                self.waiting.push((index, target));
            }
        }
    }

    /// Answers, if there is something to answer with.
    fn answer(&mut self, index: usize, target: &str) -> bool {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(connection) = &mut self.connections[index] else { return true };
        if let Some(wanted) = directives(query)
            && self.next.get(path).is_none_or(|next| *next <= wanted)
        {
            return false;
        }
        let (is_answered, is_open) = match self.responses.get(path) {
            None => return false,
            Some(Response::Whole(bytes)) => (true, send(connection, bytes)),
            Some(Response::Segment { complete: Some(bytes), .. }) if connection.chunks.is_none() => {
                (true, send(connection, bytes))
            }
            Some(Response::Segment { head, chunks, complete }) => {
                let mut bytes = Vec::new();
                let sent = connection.chunks.unwrap_or_else(|| {
                    bytes.extend_from_slice(head);
                    0
                });
                chunks[sent..].iter().for_each(|chunk| bytes.extend_from_slice(chunk));
                connection.chunks = Some(chunks.len());
                if complete.is_some() {
                    bytes.extend_from_slice(b"0\r\n\r\n");
                    connection.chunks = None;
                }
                (complete.is_some(), send(connection, &bytes))
            }
        };
        if !is_open {
            self.connections[index] = None;
        }
        is_answered || !is_open
    }
}

/// Writes what is ready; what the socket does not take is kept.
fn send(connection: &mut Connection, bytes: &[u8]) -> bool {
    let mut written = 0;
    while connection.unsent.is_empty() && written < bytes.len() {
        match connection.socket.write(&bytes[written..]) {
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    connection.unsent.extend_from_slice(&bytes[written..]);
    true
}

fn part_of(done: &cmaf::Segment, part: u32) -> String {
    format!("{FOLDER}{}", Object::Part(done.rendition, done.msn, part))
}

/// The part that a blocking reload waits for.
fn directives(query: &str) -> Option<(u64, u32)> {
    let (msn, part) = query.strip_prefix("_HLS_msn=")?.split_once("&_HLS_part=")?;
    Some((msn.parse().ok()?, part.parse().ok()?))
}

/// Whether the connection is still of use.
fn flush(connection: &mut Connection) -> bool {
    let mut written = 0;
    while written < connection.unsent.len() {
        match connection.socket.write(&connection.unsent[written..]) {
            Ok(length) => written += length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    connection.unsent.drain(..written);
    true
}

fn head(kind: &str, cache: &str, framing: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: {cache}\r\n\
         Access-Control-Allow-Origin: *\r\n{framing}\r\n\r\n"
    )
    .into_bytes()
}

fn whole(kind: &str, cache: &str, body: &[u8]) -> Response {
    Response::Whole(Rc::new(whole_bytes(kind, cache, body)))
}

fn whole_bytes(kind: &str, cache: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = head(kind, cache, &format!("Content-Length: {}", body.len()));
    bytes.extend_from_slice(body);
    bytes
}

fn playlist_of(rendition: TrackId) -> String {
    format!("{FOLDER}{}", Object::Playlist(rendition))
}

const LISTENER: Token = Token(usize::MAX - 1);
const FOLDER: &str = "/live/sample.hls/floor/";
const IMMUTABLE: &str = "max-age=86400, immutable";
const PREFIX: &str = "sample.hls/floor/";
const IDLE_TURN: Duration = Duration::from_millis(100);
const RUNS_ALREADY: Duration = Duration::from_secs(8);
const KEPT_SEGMENTS: u64 = 16;
const DESCRIPTORS: usize = 18_000;
