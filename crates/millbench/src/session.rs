//! One session: a socket, the protocol machine on it, and what is known of its success.
//!
//! A session belongs to one worker thread and is never restarted: its first failure is its result.
//! The worker owns the read buffer, the sample and the statistics and passes them in.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::str::FromStr;
use std::time::Instant;

use group_send::RecvBatch;
use media::Frame;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

use crate::clock;
use crate::counters::Counters;
use crate::doors::frames;
use crate::doors::rtsp::RtspPlayer;
use crate::doors::srt::SrtLink;
use crate::doors::ts::{HttpTsClient, TsInput, TsOutput};
use crate::http_flv::{self, HttpFlvClient, HttpFlvError};
use crate::net::{self, CLOSED, HttpUrl, io_reason};
use crate::sample::{Due, Sample, Timeline};
use crate::srt_url::SrtUrl;
use crate::stamp;
use crate::tally::{Arrival, Tally};

/// A publisher or player on its way from connecting to its verdict.
#[derive(Debug)]
pub struct Session {
    /// Number within the run, from 0; publishers and players count separately.
    pub number: usize,
    /// Where it stands.
    pub phase: Phase,
    /// What it does.
    pub role: Role,
    /// When connecting began, wall clock nanoseconds.
    pub begun_ns: u64,
    /// When [`Session::handle_ready`] is due without readiness, for protocols with timers.
    pub due: Option<Instant>,
    socket: Option<TcpStream>,
    /// Whether the server has sent anything yet, or never will.
    answered: bool,
}

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Handshake of TCP or SRT in progress.
    Connecting,
    /// Connected; the server has not accepted it, or a player has no frame yet.
    Starting,
    /// A publisher may send; a player has received its first frame.
    Up,
    /// It failed; the text says why and is the same for all sessions that fail alike.
    Failed(String),
}

/// What a session does.
#[derive(Debug)]
pub enum Role {
    /// Sends the sample.
    Publisher(Box<Publisher>),
    /// Receives and checks.
    Player(Box<Player>),
}

/// State of a publisher.
#[derive(Debug)]
pub struct Publisher {
    protocol: PublisherProtocol,
    /// Position in the sample.
    pub timeline: Timeline,
    /// When the timeline's time 0 was, wall clock nanoseconds; `None` until the server has accepted.
    pub origin_ns: Option<u64>,
}

/// State of a player.
#[derive(Debug)]
pub struct Player {
    protocol: Protocol,
    /// What was received.
    pub tally: Tally,
}

#[derive(Debug)]
enum PublisherProtocol {
    Rtmp(ClientSession),
    Srt { call: SrtCall, ts: Box<TsOutput> },
}

#[derive(Debug)]
enum Protocol {
    Rtmp(ClientSession),
    HttpFlv { client: HttpFlvClient, unsent: Vec<u8> },
    HttpTs { client: Box<HttpTsClient>, unsent: Vec<u8> },
    Srt { call: SrtCall, ts: Box<TsInput> },
    Rtsp(Box<RtspPlayer>),
}

/// A call, before and after it has a socket.
#[derive(Debug)]
enum SrtCall {
    Ready(SrtUrl),
    Open(SrtLink),
    Over,
}

/// What a worker lends to a session while it handles an event.
#[derive(Debug)]
pub struct Lent<'a> {
    /// Read buffer, shared by all sessions of the worker.
    pub buffer: &'a mut [u8],
    /// The same for datagrams.
    pub batch: &'a mut RecvBatch,
    /// Statistics of the worker.
    pub counters: &'a mut Counters,
    /// Simulated players' buffer, milliseconds.
    pub buffer_ms: u32,
}

impl Session {
    /// A publisher; `run` marks its stamps.
    ///
    /// # Errors
    /// When `url` is no RTMP URL.
    pub fn publisher(number: usize, url: &str, run: u64) -> Result<Session, String> {
        let url = RtmpUrl::from_str(url).map_err(|error| error.to_string())?;
        let client = ClientSession::publish(&url, &ClientConfig::default(), run);
        Ok(Session::of_publisher(number, PublisherProtocol::Rtmp(client), run))
    }

    /// A publisher by SRT.
    ///
    /// # Errors
    /// When `url` is no SRT URL.
    pub fn srt_publisher(number: usize, url: &str, run: u64) -> Result<Session, String> {
        let call = SrtCall::Ready(SrtUrl::from_str(url)?);
        let protocol = PublisherProtocol::Srt { call, ts: Box::default() };
        Ok(Session::of_publisher(number, protocol, run))
    }

    /// An RTMP player.
    ///
    /// # Errors
    /// When `url` is no RTMP URL.
    pub fn rtmp_player(number: usize, url: &str) -> Result<Session, String> {
        let url = RtmpUrl::from_str(url).map_err(|error| error.to_string())?;
        let config =
            ClientConfig { keep_payload_bytes: Some(stamp::PREFIX_BYTES as u32), ..ClientConfig::default() };
        Ok(Session::player(number, Protocol::Rtmp(ClientSession::play(&url, &config, number as u64))))
    }

    /// An HTTP-FLV player.
    ///
    /// # Errors
    /// When `url` is no `http://` URL.
    pub fn flv_player(number: usize, url: &str) -> Result<Session, String> {
        let unsent = http_flv::request(&HttpUrl::from_str(url)?);
        Ok(Session::player(number, Protocol::HttpFlv { client: HttpFlvClient::new(), unsent }))
    }

    /// A player by HTTP as MPEG-TS.
    ///
    /// # Errors
    /// When `url` is no `http://` URL.
    pub fn ts_player(number: usize, url: &str) -> Result<Session, String> {
        let unsent = http_flv::request(&HttpUrl::from_str(url)?);
        Ok(Session::player(number, Protocol::HttpTs { client: Box::default(), unsent }))
    }

    /// A player by SRT.
    ///
    /// # Errors
    /// When `url` is no SRT URL.
    pub fn srt_player(number: usize, url: &str) -> Result<Session, String> {
        let call = SrtCall::Ready(SrtUrl::from_str(url)?);
        Ok(Session::player(number, Protocol::Srt { call, ts: Box::default() }))
    }

    /// A player by RTSP, with datagrams if `by_udp`.
    ///
    /// # Errors
    /// When there are no ports for them.
    pub fn rtsp_player(
        number: usize,
        url: &str,
        server: SocketAddr,
        by_udp: bool,
    ) -> Result<Session, String> {
        let player = RtspPlayer::new(url, server, by_udp, clock::monotonic());
        let player = player.map_err(|error| io_reason("ports", &error))?;
        let protocol = Protocol::Rtsp(Box::new(player));
        let tally = if by_udp { Tally::apart() } else { Tally::default() };
        Ok(Session::new(number, Role::Player(Box::new(Player { protocol, tally }))))
    }

    fn of_publisher(number: usize, protocol: PublisherProtocol, run: u64) -> Session {
        let publisher = Publisher { protocol, timeline: Timeline::new(run), origin_ns: None };
        Session::new(number, Role::Publisher(Box::new(publisher)))
    }

    fn player(number: usize, protocol: Protocol) -> Session {
        Session::new(number, Role::Player(Box::new(Player { protocol, tally: Tally::default() })))
    }

    fn new(number: usize, role: Role) -> Session {
        Session {
            number,
            phase: Phase::Connecting,
            role,
            begun_ns: clock::wall_ns(),
            due: None,
            socket: None,
            answered: false,
        }
    }

    /// Starts connecting and registers the socket under `token`. Errors become the session's verdict.
    pub fn connect(&mut self, address: SocketAddr, registry: &Registry, token: Token) {
        if let Some(call) = self.call() {
            let now = clock::monotonic();
            let opened = call.open(address, now, registry, token);
            self.due = Some(now);
            if let Err(error) = opened {
                self.fail(io_reason("open", &error));
            }
            return;
        }
        let connected = net::connect(address, self.number).and_then(|mut socket| {
            registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE).map(|()| socket)
        });
        let with_datagrams = match &mut self.role {
            Role::Player(player) => match &mut player.protocol {
                Protocol::Rtsp(rtsp) => rtsp.register(registry, token),
                _ => Ok(()),
            },
            Role::Publisher(_) => Ok(()),
        };
        match with_datagrams.and(connected) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.fail(io_reason("connect", &error)),
        }
    }

    /// The call of a session by SRT.
    fn call(&mut self) -> Option<&mut SrtCall> {
        match &mut self.role {
            Role::Publisher(publisher) => match &mut publisher.protocol {
                PublisherProtocol::Srt { call, .. } => Some(call),
                PublisherProtocol::Rtmp(_) => None,
            },
            Role::Player(player) => match &mut player.protocol {
                Protocol::Srt { call, .. } => Some(call),
                _ => None,
            },
        }
    }

    /// Handles readiness of the socket. Errors become the session's verdict.
    pub fn handle_ready(&mut self, lent: &mut Lent<'_>) {
        if let Err(reason) = self.advance(lent) {
            self.fail(reason);
        }
    }

    /// Whether the first answer, or the certainty that none will come, is news; `true` once per session.
    pub fn take_answered(&mut self, bytes_in_before: u64, bytes_in: u64) -> bool {
        let news = !self.answered && (bytes_in > bytes_in_before || matches!(self.phase, Phase::Failed(_)));
        self.answered |= news;
        news
    }

    /// Ends the session with a reason, unless it has one already.
    pub fn fail(&mut self, reason: String) {
        self.socket = None;
        self.due = None;
        if let Some(call) = self.call() {
            *call = SrtCall::Over;
        }
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Failed(reason);
        }
    }

    /// Sends everything of the sample that is due, in one write.
    ///
    /// Returns when the next message is due, wall clock nanoseconds.
    pub fn send_due(&mut self, sample: &mut Sample, now_ns: u64, lent: &mut Lent<'_>) -> Option<u64> {
        if matches!(self.phase, Phase::Failed(_)) {
            return None;
        }
        let Role::Publisher(publisher) = &mut self.role else { return None };
        let origin_ns = publisher.origin_ns?;
        let due_ns = |publisher: &Publisher, sample: &Sample| {
            origin_ns + publisher.timeline.next_due_ms(sample) * NS_PER_MS
        };
        while due_ns(publisher, sample) <= now_ns {
            lent.counters.send_lateness.record_ns(now_ns - due_ns(publisher, sample));
            let due = publisher.timeline.take(sample, clock::wall_ns());
            lent.counters.media_sent.messages += 1;
            lent.counters.media_sent.bytes += due.body.len() as u64;
            publisher.protocol.send_media(&due);
        }
        let next_ns = due_ns(publisher, sample);
        let unsent = publisher.protocol.unsent();
        let flushed = self.flush(lent.counters);
        if let Err(reason) = flushed {
            self.fail(reason);
        } else if unsent > MAX_UNSENT_BYTES {
            self.fail("the server does not read what is published".to_owned());
        }
        Some(next_ns)
    }

    /// Closes the session; `is_drained` is true when everything was sent and the server has closed.
    pub fn end(&mut self, counters: &mut Counters) {
        match &mut self.role {
            Role::Publisher(publisher) if publisher.origin_ns.is_some() => {
                if let PublisherProtocol::Rtmp(client) = &mut publisher.protocol {
                    client.end();
                }
            }
            Role::Player(player) => {
                if let Protocol::Srt { call: SrtCall::Open(link), .. } = &mut player.protocol {
                    link.close(clock::monotonic(), counters);
                }
            }
            Role::Publisher(_) => {}
        }
        // A player's goodbye would be lost when its socket closes with unread media: just close.
        if matches!(self.role, Role::Player(_)) || self.flush(counters).is_err() {
            self.socket = None;
        }
    }

    /// Flushes what is left after `end`; `true` once the server has closed or nothing more can be done.
    pub fn is_drained(&mut self, lent: &mut Lent<'_>) -> bool {
        let (buffer, counters) = (&mut *lent.buffer, &mut *lent.counters);
        if matches!(self.role, Role::Publisher(_))
            && let Some(call) = self.call()
        {
            return call.is_drained(lent.batch, counters);
        }
        if self.flush(counters).is_err() {
            self.socket = None;
        }
        let unsent = self.unsent_bytes();
        let Some(socket) = &mut self.socket else { return true };
        if unsent == 0 {
            // An error means the server was first.
            let _ = socket.shutdown(Shutdown::Write);
        }
        loop {
            match socket.read(buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            }
        }
    }

    /// Bytes that could not be written to the socket yet.
    pub fn unsent_bytes(&mut self) -> usize {
        match &mut self.role {
            Role::Publisher(publisher) => publisher.protocol.unsent(),
            Role::Player(player) => player.output().map_or(0, |output| output.len()),
        }
    }

    fn advance(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        if self.call().is_some() {
            return self.advance_call(lent);
        }
        let Some(socket) = &mut self.socket else { return Ok(()) };
        if self.phase == Phase::Connecting {
            if let Some(error) = socket.take_error().map_err(|error| io_reason("connect", &error))? {
                return Err(io_reason("connect", &error));
            }
            match socket.peer_addr() {
                Ok(_) => self.phase = Phase::Starting,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(()),
                Err(error) => return Err(io_reason("connect", &error)),
            }
        }
        self.receive(lent)?;
        if let Role::Player(player) = &mut self.role
            && let Protocol::Rtsp(rtsp) = &mut player.protocol
        {
            let now = clock::monotonic();
            rtsp.receive(now, lent.batch, lent.counters)?;
            let mut news = News::new(&mut player.tally, self.begun_ns, &mut self.phase, lent.buffer_ms);
            rtsp.drive(now, lent.counters, |counters, frame| news.note_frame(counters, frame));
            self.due = rtsp.due(now);
        }
        self.flush(lent.counters)
    }

    /// As `advance`, of a session by SRT.
    fn advance_call(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        let now = clock::monotonic();
        match &mut self.role {
            Role::Player(player) => {
                let Protocol::Srt { call: SrtCall::Open(link), ts } = &mut player.protocol else {
                    return Ok(());
                };
                link.receive(now, lent.batch, lent.counters)?;
                if self.phase == Phase::Connecting && link.is_connected() {
                    self.phase = Phase::Starting;
                }
                let mut news = News::new(&mut player.tally, self.begun_ns, &mut self.phase, lent.buffer_ms);
                link.drive(now, lent.counters, |counters, payload| {
                    ts.push(payload, |frame| news.note_frame(counters, frame));
                })?;
                self.due = link.due(now);
            }
            Role::Publisher(publisher) => {
                let PublisherProtocol::Srt { call: SrtCall::Open(link), ts } = &mut publisher.protocol else {
                    return Ok(());
                };
                link.receive(now, lent.batch, lent.counters)?;
                if self.phase == Phase::Connecting && link.is_connected() {
                    self.phase = Phase::Up;
                }
                send_payloads(link, ts, now);
                link.drive(now, lent.counters, |_, _| {})?;
                self.due = link.due(now);
            }
        }
        Ok(())
    }

    /// Reads until the socket is empty. The registration is edge-triggered: a short read means
    /// empty, but a FIN after it raises another event.
    fn receive(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        while let Some(length) = net::read(socket, lent.buffer)? {
            lent.counters.reads += 1;
            lent.counters.bytes_in += length as u64;
            let input = &lent.buffer[..length];
            match &mut self.role {
                Role::Publisher(publisher) => publisher.handle_input(input, &mut self.phase)?,
                Role::Player(player) => {
                    player.handle_input(
                        input,
                        self.begun_ns,
                        &mut self.phase,
                        lent.counters,
                        lent.buffer_ms,
                    )?;
                }
            }
            if length < lent.buffer.len() {
                break;
            }
        }
        Ok(())
    }

    fn flush(&mut self, counters: &mut Counters) -> Result<(), String> {
        let output = match &mut self.role {
            Role::Publisher(publisher) => match &mut publisher.protocol {
                PublisherProtocol::Rtmp(client) => client.output(),
                PublisherProtocol::Srt { call: SrtCall::Open(link), ts } => {
                    let now = clock::monotonic();
                    send_payloads(link, ts, now);
                    link.transmit(now, counters)?;
                    self.due = link.due(now);
                    return Ok(());
                }
                PublisherProtocol::Srt { .. } => return Ok(()),
            },
            Role::Player(player) => {
                let Some(output) = player.output() else { return Ok(()) };
                output
            }
        };
        let Some(socket) = &mut self.socket else { return Ok(()) };
        net::write(socket, output, |written| {
            counters.writes += 1;
            counters.bytes_out += written as u64;
        })
    }
}

impl SrtCall {
    fn open(
        &mut self,
        address: SocketAddr,
        now: Instant,
        registry: &Registry,
        token: Token,
    ) -> io::Result<()> {
        let SrtCall::Ready(url) = self else { return Ok(()) };
        let mut link = SrtLink::open(url, address, now)?;
        registry.register(link.socket(), token, Interest::READABLE)?;
        *self = SrtCall::Open(link);
        Ok(())
    }

    /// Says goodbye once everything has come; `true` when there is nothing left to do.
    fn is_drained(&mut self, batch: &mut RecvBatch, counters: &mut Counters) -> bool {
        let SrtCall::Open(link) = self else { return true };
        let now = clock::monotonic();
        let failed =
            link.receive(now, batch, counters).is_err() || link.drive(now, counters, |_, _| {}).is_err();
        let is_over = failed || link.unacknowledged(now) == 0;
        if is_over {
            link.close(now, counters);
            *self = SrtCall::Over;
        }
        is_over
    }
}

/// Gives the connection what it has room for.
fn send_payloads(link: &mut SrtLink, ts: &mut TsOutput, now: Instant) {
    let Some(connection) = link.connection() else { return };
    while let Some(payload) = ts.payload() {
        if !connection.send(now, payload) {
            break;
        }
        ts.advance();
    }
}

impl PublisherProtocol {
    fn send_media(&mut self, due: &Due<'_>) {
        match self {
            PublisherProtocol::Rtmp(client) => client.send_media(due.kind, due.timestamp, due.body),
            PublisherProtocol::Srt { ts, .. } => ts.write(due),
        }
    }

    /// Bytes that were not sent; of SRT those that were dropped as well.
    fn unsent(&mut self) -> usize {
        match self {
            PublisherProtocol::Rtmp(client) => client.output().len(),
            PublisherProtocol::Srt { call: SrtCall::Open(link), ts } => {
                let packets = link.connection().map_or(0, |connection| {
                    connection.waiting()
                        + usize::try_from(connection.counters().dropped_out).unwrap_or(usize::MAX)
                });
                ts.unsent() + packets * srt::TS_PAYLOAD_BYTES
            }
            PublisherProtocol::Srt { ts, .. } => ts.unsent(),
        }
    }
}

impl Publisher {
    fn handle_input(&mut self, input: &[u8], phase: &mut Phase) -> Result<(), String> {
        let PublisherProtocol::Rtmp(client) = &mut self.protocol else { return Ok(()) };
        client.handle_input(input).map_err(|error| format!("protocol: {}", error.reason()))?;
        while let Some(event) = client.poll_event() {
            match event {
                ClientEvent::Started => *phase = Phase::Up,
                ClientEvent::Rejected { code, description } => return Err(refusal(&code, &description)),
                ClientEvent::Ended { code } => return Err(format!("the server ended the session: {code}")),
                ClientEvent::Media(_) | ClientEvent::Status { .. } => {}
            }
        }
        Ok(())
    }

    /// Queues metadata and sequence headers and starts the timeline.
    pub fn start(&mut self, sample: &Sample, now_ns: u64) {
        for (kind, body) in &sample.headers {
            self.protocol.send_media(&Due { kind: *kind, timestamp: 0, body });
        }
        self.origin_ns = Some(now_ns);
    }
}

impl Player {
    /// Bytes for the connection; `None` without one.
    fn output(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.protocol {
            Protocol::Rtmp(client) => Some(client.output()),
            Protocol::HttpFlv { unsent, .. } | Protocol::HttpTs { unsent, .. } => Some(unsent),
            Protocol::Rtsp(rtsp) => Some(rtsp.output()),
            Protocol::Srt { .. } => None,
        }
    }

    fn handle_input(
        &mut self,
        input: &[u8],
        begun_ns: u64,
        phase: &mut Phase,
        counters: &mut Counters,
        buffer_ms: u32,
    ) -> Result<(), String> {
        let mut news = News::new(&mut self.tally, begun_ns, phase, buffer_ms);
        match &mut self.protocol {
            Protocol::Rtmp(client) => {
                client.handle_input(input).map_err(|error| format!("protocol: {}", error.reason()))?;
                while let Some(event) = client.poll_event() {
                    match event {
                        ClientEvent::Media(message) => news.note(
                            counters,
                            Arrival {
                                kind: message.kind,
                                timestamp: message.timestamp,
                                length: message.length,
                                prefix: &message.payload,
                            },
                        ),
                        ClientEvent::Rejected { code, description } => {
                            return Err(refusal(&code, &description));
                        }
                        ClientEvent::Ended { code } => {
                            return Err(format!("the server ended the session: {code}"));
                        }
                        ClientEvent::Started | ClientEvent::Status { .. } => {}
                    }
                }
            }
            Protocol::HttpFlv { client, .. } => {
                client
                    .handle_input(input, |arrival| news.note(counters, arrival))
                    .map_err(download_failed)?;
                if client.is_ended() {
                    return Err(CLOSED.to_owned());
                }
            }
            Protocol::HttpTs { client, .. } => {
                client
                    .handle_input(input, |frame| news.note_frame(counters, frame))
                    .map_err(download_failed)?;
                if client.is_ended() {
                    return Err(CLOSED.to_owned());
                }
            }
            // Frames are taken when all that came was read.
            Protocol::Rtsp(rtsp) => rtsp.handle_input(clock::monotonic(), input)?,
            Protocol::Srt { .. } => {}
        }
        Ok(())
    }
}

/// What a player's media mean for its session and for the run.
struct News<'a> {
    tally: &'a mut Tally,
    begun_ns: u64,
    now_ns: u64,
    phase: &'a mut Phase,
    buffer_ms: u32,
}

impl<'a> News<'a> {
    fn new(tally: &'a mut Tally, begun_ns: u64, phase: &'a mut Phase, buffer_ms: u32) -> News<'a> {
        News { tally, begun_ns, now_ns: clock::wall_ns(), phase, buffer_ms }
    }

    fn note_frame(&mut self, counters: &mut Counters, frame: &Frame) {
        let mut prefix = [0; stamp::PREFIX_BYTES];
        if let Some(arrival) = frames::arrival(frame, &mut prefix) {
            self.note(counters, arrival);
        }
    }

    fn note(&mut self, counters: &mut Counters, arrival: Arrival<'_>) {
        let noted = self.tally.handle_media(self.now_ns, arrival, self.buffer_ms);
        counters.media_received.messages += 1;
        counters.media_received.bytes += u64::from(arrival.length);
        if noted.first_frame {
            *self.phase = Phase::Up;
            counters.first_frame.record_ns(self.now_ns.saturating_sub(self.begun_ns));
        }
        if let Some(latency_ns) = noted.latency_ns {
            counters.latency.record_ns(latency_ns);
        }
    }
}

fn download_failed(error: HttpFlvError) -> String {
    match error {
        HttpFlvError::Status(line) => format!("the server answered {line}"),
        HttpFlvError::BadHead => "protocol: the answer is no HTTP/1 response".to_owned(),
        HttpFlvError::BadChunk => "protocol: broken chunked coding".to_owned(),
        HttpFlvError::BadFlv => "protocol: the body is no FLV".to_owned(),
    }
}

fn refusal(code: &str, description: &str) -> String {
    format!("the server refused: {code}: {description}")
}

/// A publisher whose server stopped reading is given up at this backlog: more than 50 s of a 605
/// kbit/s stream.
const MAX_UNSENT_BYTES: usize = 4 << 20;

const NS_PER_MS: u64 = 1_000_000;
