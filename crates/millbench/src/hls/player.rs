//! One player: what it asks for next, and what it makes of the answers.
//!
//! A player has one connection, and one more for the MPD if it plays DASH. It plays the video rendition. Its
//! first failure is its result.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::cli::Mode;
use super::copies::{Copies, ObjectCopy};
use super::playlist::{self, Manifest, MediaPlaylist, Playlists};
use super::response::Response;
use crate::clock;
use crate::net::{self, HttpUrl, io_reason};
use crate::sample::Sample;
use crate::stats::Times;

/// What all players share.
pub(crate) struct Lent<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) copies: &'a mut Copies,
    pub(crate) playlists: &'a mut Playlists,
    pub(crate) counters: &'a mut Counters,
    pub(crate) url: &'a HttpUrl,
    pub(crate) mode: Mode,
    /// What is published, if frames are compared with it.
    pub(crate) source: Option<&'a Sample>,
}

/// Sums over all players.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) responses: u64,
    pub(crate) bytes: u64,
    pub(crate) frames: u64,
    pub(crate) missing: u64,
    /// Newest frame that any player has.
    pub(crate) newest_frame: u64,
    pub(crate) latency: Times,
    pub(crate) first_frame: Times,
}

/// One player.
#[derive(Debug)]
pub(crate) struct Player {
    main: Connection,
    side: Option<Connection>,
    step: Step,
    begun_ns: u64,
    media_path: String,
    /// Path of the init segment that it has.
    map: String,
    /// The part, or for whole segments the segment, to get next.
    at: Option<(u64, u32)>,
    /// DASH: template of segments.
    template: String,
    /// Frame that comes next.
    pub(crate) next_frame: Option<u64>,
    /// How many frames it was behind the newest when measuring began.
    pub(crate) behind_at_open: u64,
    /// A playlist that has changed, as a plain player looks for it.
    last_listed: Option<u64>,
    /// When to ask again.
    pub(crate) due: Option<Instant>,
    pub(crate) failure: Option<String>,
}

/// What it waits for on its main connection.
#[derive(Debug, Clone)]
enum Step {
    Multivariant,
    Playlist,
    Manifest,
    Init {
        then: Option<Box<Media>>,
    },
    Media(Media),
    /// A plain player until it is due.
    Idle,
}

#[derive(Debug, Clone)]
struct Media {
    path: String,
    /// Behind it there is nothing yet, so that its latency is that of live media.
    is_newest: bool,
}

#[derive(Debug)]
struct Connection {
    socket: Option<TcpStream>,
    is_up: bool,
    unsent: Vec<u8>,
    response: Response,
    text: Vec<u8>,
    /// Of media: its copy, what has come of it, and its chunks that were noted.
    copy: Option<(Rc<RefCell<ObjectCopy>>, usize, usize)>,
}

impl Player {
    /// Connects; sockets are registered as `token` and the one behind it.
    pub(crate) fn start(
        number: usize,
        address: SocketAddr,
        registry: &Registry,
        token: usize,
        lent: &Lent<'_>,
    ) -> Self {
        let is_dash = lent.mode == Mode::Dash;
        let mut player = Self {
            main: Connection::new(),
            side: is_dash.then(Connection::new),
            step: if is_dash { Step::Manifest } else { Step::Multivariant },
            begun_ns: clock::wall_ns(),
            media_path: String::new(),
            map: String::new(),
            at: None,
            template: String::new(),
            next_frame: None,
            behind_at_open: 0,
            last_listed: None,
            due: None,
            failure: None,
        };
        let connected = player.main.connect(number, address, registry, Token(token));
        let connected = connected.and_then(|()| match &mut player.side {
            Some(side) => side.connect(number, address, registry, Token(token + 1)),
            None => Ok(()),
        });
        player.fail_on(connected);
        player.main.ask(&lent.url.path, lent.url);
        player
    }

    /// Handles readiness of one of its sockets.
    pub(crate) fn handle_ready(&mut self, is_side: bool, lent: &mut Lent<'_>) {
        let done = if is_side { self.receive_side(lent) } else { self.receive(lent) };
        self.fail_on(done);
    }

    /// Asks again, as it is due.
    pub(crate) fn handle_due(&mut self, lent: &mut Lent<'_>) {
        self.due = None;
        if self.failure.is_some() {
            return;
        }
        let done = match &mut self.side {
            Some(side) => {
                side.ask(&lent.url.path, lent.url);
                side.flush()
            }
            None => {
                self.step = Step::Playlist;
                self.main.ask(&self.media_path, lent.url);
                self.main.flush()
            }
        };
        self.fail_on(done);
    }

    /// Fails it if it has nothing to show by now.
    pub(crate) fn check_start(&mut self, timeout: Duration, now_ns: u64) {
        let is_late = now_ns.saturating_sub(self.begun_ns) > timeout.as_nanos() as u64;
        if self.next_frame.is_none() && is_late {
            self.fail_on(Err(format!("no frame within {} s", timeout.as_secs_f64())));
        }
    }

    fn fail_on(&mut self, done: Result<(), String>) {
        if let Err(reason) = done {
            self.failure.get_or_insert(reason);
            self.main.socket = None;
            self.side = None;
            self.due = None;
        }
    }

    fn receive(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        self.main.flush()?;
        while let Some(socket) = &mut self.main.socket
            && let Some(length) = net::read(socket, lent.buffer)?
        {
            let mut at = 0;
            while at < length {
                let Connection { response, text, copy, .. } = &mut self.main;
                let counters = &mut *lent.counters;
                let (step, next_frame, begun_ns) = (&self.step, &mut self.next_frame, self.begun_ns);
                let (taken, is_complete) = response.read(&lent.buffer[at..length], |bytes| {
                    counters.bytes += bytes.len() as u64;
                    let Some((copy, offset, noted)) = copy else {
                        text.extend_from_slice(bytes);
                        return Ok(());
                    };
                    copy.borrow_mut().compare(*offset, bytes, lent.source)?;
                    *offset += bytes.len();
                    let copy = copy.borrow();
                    while let Some(chunk) = copy.chunks.get(*noted).filter(|chunk| chunk.end <= *offset) {
                        *noted += 1;
                        let now_ns = clock::wall_ns();
                        let expected = next_frame.unwrap_or(chunk.first_frame);
                        if chunk.first_frame < expected {
                            return Err("frames came twice".to_owned());
                        }
                        if next_frame.is_none() {
                            counters.first_frame.record_ns(now_ns - begun_ns);
                        }
                        counters.missing += chunk.first_frame - expected;
                        counters.frames += chunk.frames;
                        *next_frame = Some(chunk.first_frame + chunk.frames);
                        let end = chunk.first_frame + chunk.frames;
                        // Whoever has just begun, or is at the end of a segment, may have older ones.
                        let is_live = end > counters.newest_frame
                            || matches!(step, Step::Media(media) if media.is_newest);
                        counters.newest_frame = counters.newest_frame.max(end);
                        if is_live && (copy.is_last(*noted) || lent.mode == Mode::Dash) {
                            counters.latency.record_ns(now_ns.saturating_sub(chunk.sent_ns));
                        }
                    }
                    Ok(())
                })?;
                at += taken;
                if is_complete {
                    counters.responses += 1;
                    self.answered(lent)?;
                }
            }
            if length < lent.buffer.len() {
                break;
            }
        }
        self.main.flush()
    }

    /// The answer is complete: asks for what is next.
    fn answered(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        let text = std::mem::take(&mut self.main.text);
        if let Some((copy, length, _)) = self.main.copy.take() {
            copy.borrow_mut().complete(length)?;
        }
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Multivariant => {
                self.media_path = playlist::resolve(&lent.url.path, &playlist::first_variant(&text)?)?;
                self.step = Step::Playlist;
                self.main.ask(&self.media_path, lent.url);
            }
            Step::Playlist => {
                let playlist = lent.playlists.read(&text)?;
                self.main.text = text;
                self.main.text.clear();
                match lent.mode {
                    Mode::Plain => self.next_segment(&playlist, lent)?,
                    _ => self.next_part(&playlist, lent)?,
                }
            }
            Step::Manifest => {
                let manifest = Manifest::read(&text)?;
                self.template = playlist::resolve(&lent.url.path, &manifest.media)?;
                self.at = Some((manifest.newest, 0));
                self.due = Some(clock::monotonic() + Duration::from_secs_f64(manifest.update_s));
                let media = Box::new(self.numbered(manifest.newest));
                let init = playlist::resolve(&lent.url.path, &manifest.init)?;
                self.fetch(&init, Step::Init { then: Some(media) }, lent);
            }
            Step::Init { then } => {
                if let Some(media) = then {
                    let path = media.path.clone();
                    self.fetch(&path, Step::Media(*media), lent);
                }
            }
            Step::Media(_) if lent.mode == Mode::Dash => {
                let next = self.at.map_or(0, |(number, _)| number + 1);
                self.at = Some((next, 0));
                let media = self.numbered(next);
                self.fetch(&media.path.clone(), Step::Media(media), lent);
            }
            Step::Media(_) => {
                // The playlist that it was in may have more: it is read again only if it may have changed.
                let (msn, part) = self.at.unwrap_or_default();
                self.step = Step::Playlist;
                if lent.mode == Mode::Plain {
                    self.main.ask(&self.media_path, lent.url);
                } else {
                    let separator = if self.media_path.contains('?') { '&' } else { '?' };
                    let path = format!("{}{separator}_HLS_msn={msn}&_HLS_part={part}", self.media_path);
                    self.main.ask(&path, lent.url);
                }
            }
            Step::Idle => return Err("an answer to nothing".to_owned()),
        }
        Ok(())
    }

    /// Low latency: the part that is next, from the newest on that a decoder can begin with.
    fn next_part(&mut self, list: &MediaPlaylist, lent: &mut Lent<'_>) -> Result<(), String> {
        let at = match self.at {
            Some(at) => at,
            None => {
                let first = list.parts.iter().rev().find(|part| part.is_independent);
                first.map(|part| (part.msn, part.number)).ok_or("no part to begin with")?
            }
        };
        let index = list.parts.iter().position(|part| (part.msn, part.number) >= at);
        let Some(index) = index else {
            // What it waited for came later than that: it has waited for the whole time.
            return Err("a playlist without what was waited for".to_owned());
        };
        let part = &list.parts[index];
        let next = list.parts.get(index + 1).map(|next| (next.msn, next.number));
        self.at = Some(next.unwrap_or(list.next));
        let media =
            Media { path: playlist::resolve(&self.media_path, &part.uri)?, is_newest: next.is_none() };
        self.with_init(&list.map, media, lent)
    }

    /// Whole segments: the one that is next, or later if there is none.
    fn next_segment(&mut self, list: &MediaPlaylist, lent: &mut Lent<'_>) -> Result<(), String> {
        let last = list.segments.last().ok_or("a playlist without segments")?.msn;
        let from = self.at.map_or_else(|| last.saturating_sub(2), |(msn, _)| msn);
        let Some(segment) = list.segments.iter().find(|segment| segment.msn >= from) else {
            // Section 6.3.4: after the target duration, or half of it if nothing had changed.
            let is_changed = self.last_listed.replace(last) != Some(last);
            let wait = list.target_s * if is_changed { 1.0 } else { 0.5 };
            self.due = Some(clock::monotonic() + Duration::from_secs_f64(wait));
            return Ok(());
        };
        self.at = Some((segment.msn + 1, 0));
        let path = playlist::resolve(&self.media_path, &segment.uri)?;
        let is_newest = self.next_frame.is_some() && segment.msn == last;
        self.with_init(&list.map, Media { path, is_newest }, lent)
    }

    /// Fetches media, before it the init segment if that is new.
    fn with_init(&mut self, map: &str, media: Media, lent: &mut Lent<'_>) -> Result<(), String> {
        if self.map == map {
            self.fetch(&media.path.clone(), Step::Media(media), lent);
            return Ok(());
        }
        map.clone_into(&mut self.map);
        let init = playlist::resolve(&self.media_path, map)?;
        self.fetch(&init, Step::Init { then: Some(Box::new(media)) }, lent);
        Ok(())
    }

    fn numbered(&self, number: u64) -> Media {
        Media { path: self.template.replace("$Number$", &number.to_string()), is_newest: true }
    }

    fn fetch(&mut self, path: &str, step: Step, lent: &mut Lent<'_>) {
        self.main.copy = Some((lent.copies.of(path, clock::monotonic()), 0, 0));
        self.step = step;
        self.main.ask(path, lent.url);
    }

    /// DASH: the MPD, as often as it asks for. What is in it is known from the begin on.
    fn receive_side(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        let Some(side) = &mut self.side else { return Ok(()) };
        side.flush()?;
        while let Some(socket) = &mut side.socket
            && let Some(length) = net::read(socket, lent.buffer)?
        {
            let mut at = 0;
            while at < length {
                let text = &mut side.text;
                let (taken, is_complete) = side.response.read(&lent.buffer[at..length], |bytes| {
                    text.extend_from_slice(bytes);
                    Ok(())
                })?;
                at += taken;
                lent.counters.bytes += taken as u64;
                if is_complete {
                    lent.counters.responses += 1;
                    let manifest = Manifest::read(&side.text)?;
                    side.text.clear();
                    self.due = Some(clock::monotonic() + Duration::from_secs_f64(manifest.update_s));
                }
            }
            if length < lent.buffer.len() {
                break;
            }
        }
        Ok(())
    }
}

impl Connection {
    fn new() -> Self {
        Self {
            socket: None,
            is_up: false,
            unsent: Vec::new(),
            response: Response::default(),
            text: Vec::new(),
            copy: None,
        }
    }

    fn connect(
        &mut self,
        number: usize,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> Result<(), String> {
        let mut socket = net::connect(address, number).map_err(|error| io_reason("connect", &error))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, token, interest).map_err(|error| io_reason("connect", &error))?;
        self.socket = Some(socket);
        Ok(())
    }

    fn ask(&mut self, path: &str, url: &HttpUrl) {
        let host = &url.authority;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: millbench\r\nAccept: */*\r\n\r\n");
        self.unsent.extend_from_slice(request.as_bytes());
    }

    fn flush(&mut self) -> Result<(), String> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        if !self.is_up {
            if let Some(error) = socket.take_error().map_err(|error| io_reason("connect", &error))? {
                return Err(io_reason("connect", &error));
            }
            self.is_up = socket.peer_addr().is_ok();
        }
        if !self.is_up {
            return Ok(());
        }
        net::write(socket, &mut self.unsent, |_| {})
    }
}
