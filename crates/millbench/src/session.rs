//! One session: a socket, the protocol machine on it, and what is known of its success.
//!
//! A session belongs to one worker thread and is never restarted: its first failure is its result.
//! The worker owns the read buffer, the sample and the statistics and passes them in.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::str::FromStr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

use crate::clock;
use crate::http_flv::{self, HttpFlvClient, HttpFlvError};
use crate::net::{self, CLOSED, HttpUrl, io_reason};
use crate::sample::{Sample, Timeline};
use crate::stamp;
use crate::tally::{Arrival, Tally};
use crate::worker::Counters;

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
    socket: Option<TcpStream>,
    /// Whether the server has sent anything yet, or never will.
    answered: bool,
}

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// TCP handshake in progress.
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
    /// Sends the sample by RTMP.
    Publisher(Box<Publisher>),
    /// Receives and checks.
    Player(Box<Player>),
}

/// State of a publisher.
#[derive(Debug)]
pub struct Publisher {
    client: ClientSession,
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
enum Protocol {
    Rtmp(ClientSession),
    HttpFlv { client: HttpFlvClient, unsent: Vec<u8> },
}

/// What a worker lends to a session while it handles an event.
#[derive(Debug)]
pub struct Lent<'a> {
    /// Read buffer, shared by all sessions of the worker.
    pub buffer: &'a mut [u8],
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
        let publisher = Publisher { client, timeline: Timeline::new(run), origin_ns: None };
        Ok(Session::new(number, Role::Publisher(Box::new(publisher))))
    }

    /// An RTMP player.
    ///
    /// # Errors
    /// When `url` is no RTMP URL.
    pub fn rtmp_player(number: usize, url: &str) -> Result<Session, String> {
        let url = RtmpUrl::from_str(url).map_err(|error| error.to_string())?;
        let config =
            ClientConfig { keep_payload_bytes: Some(stamp::PREFIX_BYTES as u32), ..ClientConfig::default() };
        let protocol = Protocol::Rtmp(ClientSession::play(&url, &config, number as u64));
        Ok(Session::new(number, Role::Player(Box::new(Player { protocol, tally: Tally::default() }))))
    }

    /// An HTTP-FLV player.
    ///
    /// # Errors
    /// When `url` is no `http://` URL.
    pub fn flv_player(number: usize, url: &str) -> Result<Session, String> {
        let unsent = http_flv::request(&HttpUrl::from_str(url)?);
        let protocol = Protocol::HttpFlv { client: HttpFlvClient::new(), unsent };
        Ok(Session::new(number, Role::Player(Box::new(Player { protocol, tally: Tally::default() }))))
    }

    fn new(number: usize, role: Role) -> Session {
        Session {
            number,
            phase: Phase::Connecting,
            role,
            begun_ns: clock::wall_ns(),
            socket: None,
            answered: false,
        }
    }

    /// Starts connecting and registers the socket under `token`. Errors become the session's verdict.
    pub fn connect(&mut self, address: SocketAddr, registry: &Registry, token: Token) {
        let connected = net::connect(address, self.number).and_then(|mut socket| {
            registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE).map(|()| socket)
        });
        match connected {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.fail(io_reason("connect", &error)),
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
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Failed(reason);
        }
    }

    /// Sends everything of the sample that is due, in one write.
    ///
    /// Returns when the next message is due, wall clock nanoseconds.
    pub fn send_due(&mut self, sample: &mut Sample, now_ns: u64, lent: &mut Lent<'_>) -> Option<u64> {
        let Role::Publisher(publisher) = &mut self.role else { return None };
        let origin_ns = publisher.origin_ns?;
        self.socket.as_ref()?;
        let due_ns = |publisher: &Publisher, sample: &Sample| {
            origin_ns + publisher.timeline.next_due_ms(sample) * NS_PER_MS
        };
        while due_ns(publisher, sample) <= now_ns {
            lent.counters.send_lateness.record_ns(now_ns - due_ns(publisher, sample));
            let due = publisher.timeline.take(sample, clock::wall_ns());
            lent.counters.media_sent.messages += 1;
            lent.counters.media_sent.bytes += due.body.len() as u64;
            publisher.client.send_media(due.kind, due.timestamp, due.body);
        }
        let next_ns = due_ns(publisher, sample);
        let unsent = publisher.client.output().len();
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
            Role::Publisher(publisher) if publisher.origin_ns.is_some() => publisher.client.end(),
            _ => {}
        }
        // A player's goodbye would be lost when its socket closes with unread media: just close.
        if matches!(self.role, Role::Player(_)) || self.flush(counters).is_err() {
            self.socket = None;
        }
    }

    /// Flushes what is left after `end`; `true` once the server has closed or nothing more can be done.
    pub fn is_drained(&mut self, buffer: &mut [u8], counters: &mut Counters) -> bool {
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
            Role::Publisher(publisher) => publisher.client.output().len(),
            Role::Player(player) => match &mut player.protocol {
                Protocol::Rtmp(client) => client.output().len(),
                Protocol::HttpFlv { unsent, .. } => unsent.len(),
            },
        }
    }

    fn advance(&mut self, lent: &mut Lent<'_>) -> Result<(), String> {
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
        self.flush(lent.counters)
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
        let Some(socket) = &mut self.socket else { return Ok(()) };
        let output = match &mut self.role {
            Role::Publisher(publisher) => publisher.client.output(),
            Role::Player(player) => match &mut player.protocol {
                Protocol::Rtmp(client) => client.output(),
                Protocol::HttpFlv { unsent, .. } => unsent,
            },
        };
        net::write(socket, output, |written| {
            counters.writes += 1;
            counters.bytes_out += written as u64;
        })
    }
}

impl Publisher {
    fn handle_input(&mut self, input: &[u8], phase: &mut Phase) -> Result<(), String> {
        self.client.handle_input(input).map_err(|error| format!("protocol: {}", error.reason()))?;
        while let Some(event) = self.client.poll_event() {
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
            self.client.send_media(*kind, 0, body);
        }
        self.origin_ns = Some(now_ns);
    }
}

impl Player {
    fn handle_input(
        &mut self,
        input: &[u8],
        begun_ns: u64,
        phase: &mut Phase,
        counters: &mut Counters,
        buffer_ms: u32,
    ) -> Result<(), String> {
        let now_ns = clock::wall_ns();
        let tally = &mut self.tally;
        let mut note = |arrival: Arrival<'_>| {
            let noted = tally.handle_media(now_ns, arrival, buffer_ms);
            counters.media_received.messages += 1;
            counters.media_received.bytes += u64::from(arrival.length);
            if noted.first_frame {
                *phase = Phase::Up;
                counters.first_frame.record_ns(now_ns.saturating_sub(begun_ns));
            }
            if let Some(latency_ns) = noted.latency_ns {
                counters.latency.record_ns(latency_ns);
            }
        };
        match &mut self.protocol {
            Protocol::Rtmp(client) => {
                client.handle_input(input).map_err(|error| format!("protocol: {}", error.reason()))?;
                while let Some(event) = client.poll_event() {
                    match event {
                        ClientEvent::Media(message) => note(Arrival {
                            kind: message.kind,
                            timestamp: message.timestamp,
                            length: message.length,
                            prefix: &message.payload,
                        }),
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
                client.handle_input(input, note).map_err(|error| match error {
                    HttpFlvError::Status(line) => format!("the server answered {line}"),
                    HttpFlvError::BadHead => "protocol: the answer is no HTTP/1 response".to_owned(),
                    HttpFlvError::BadChunk => "protocol: broken chunked coding".to_owned(),
                    HttpFlvError::BadFlv => "protocol: the body is no FLV".to_owned(),
                })?;
                if client.is_ended() {
                    return Err(CLOSED.to_owned());
                }
            }
        }
        Ok(())
    }
}

fn refusal(code: &str, description: &str) -> String {
    format!("the server refused: {code}: {description}")
}

/// A publisher whose server stopped reading is given up at this backlog: more than 50 s of a 605
/// kbit/s stream.
const MAX_UNSENT_BYTES: usize = 4 << 20;

const NS_PER_MS: u64 = 1_000_000;
