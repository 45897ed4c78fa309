//! The demo channel: publishes an embedded sample to this server, for ever and in real time.
//!
//! An ordinary RTMP publisher on the loopback interface, so that it shows what any publisher would see. A token made
//! at start and known to this process only lets it in whatever the rules say. Frames leave at absolute deadlines, so
//! the pace does not drift; timestamps go on from loop to loop. What the sample shows and how it was made: `media/`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use live::flv::{FlvReader, Tag};
use live::rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use live::rtmp::{MediaKind, RtmpUrl};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Ten seconds of H.264 and AAC, about 600 kbit/s.
const SAMPLE: &[u8] = include_bytes!("../../../media/demo.flv");
/// Largest tag of the sample.
const TAG_BYTES_MAX: u32 = 1 << 20;
/// First and longest pause between attempts to connect.
const PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));
/// Time to connect, and to hand over what is due.
const PATIENCE: Duration = Duration::from_secs(10);
/// Later than this (the machine slept), frames are not hurried after; the pace starts anew.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Where to publish.
#[derive(Debug, Clone)]
pub struct Target {
    /// An RTMP listener of this server.
    pub address: SocketAddr,
    /// Application.
    pub app: String,
    /// Stream.
    pub stream: String,
    /// The internal token.
    pub token: String,
}

/// Why a connection ended; all but `Stopped` lead to another attempt.
#[derive(Debug)]
enum End {
    Stopped,
    Refused(String),
    Lost(String),
}

/// Publishes until `stop` becomes true.
pub async fn run(target: Target, mut stop: watch::Receiver<bool>) {
    let sample = match Sample::read(SAMPLE) {
        Ok(sample) => sample,
        Err(reason) => {
            tracing::error!(reason, "the demo sample cannot be read");
            return;
        }
    };
    let mut pause = PAUSE.0;
    while !*stop.borrow() {
        let began = Instant::now();
        match publish(&target, &sample, &mut stop).await {
            End::Stopped => return,
            End::Refused(reason) => tracing::warn!(reason, "the demo channel was refused"),
            End::Lost(reason) => tracing::warn!(reason, "the demo channel was interrupted"),
        }
        pause = if began.elapsed() > PAUSE.1 { PAUSE.0 } else { (pause * 2).min(PAUSE.1) };
        tokio::select! {
            () = sleep(pause) => {}
            _ = stop.changed() => {}
        }
    }
}

async fn publish(target: &Target, sample: &Sample, stop: &mut watch::Receiver<bool>) -> End {
    let address = reachable(target.address);
    let socket = match timeout(PATIENCE, TcpStream::connect(address)).await {
        Ok(Ok(socket)) => socket,
        Ok(Err(error)) => return End::Lost(error.to_string()),
        Err(_) => return End::Lost("no connection in time".to_owned()),
    };
    let url = RtmpUrl {
        tls: false,
        host: address.ip().to_string(),
        port: address.port(),
        app: target.app.clone(),
        stream: format!("{}?token={}", target.stream, target.token),
    };
    let session = ClientSession::publish(&url, &ClientConfig::default(), rand_seed());
    let mut connection = Connection { socket, session, started: false };
    let mut pace = Pace::new(sample);
    let mut input = vec![0; 16 << 10];
    loop {
        if let Err(error) = connection.flush().await {
            return End::Lost(error);
        }
        let due = connection.started.then(|| pace.due());
        tokio::select! {
            _ = stop.changed() => {
                connection.session.end();
                let _ = connection.flush().await;
                return End::Stopped;
            }
            read = connection.socket.read(&mut input) => {
                let count = match read {
                    Ok(0) => return End::Lost("closed by the server".to_owned()),
                    Ok(count) => count,
                    Err(error) => return End::Lost(error.to_string()),
                };
                match connection.handle_input(&input[..count]) {
                    Ok(true) => pace.start(Instant::now()),
                    Ok(false) => {}
                    Err(end) => return end,
                }
            }
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                pace.send_due(Instant::now(), &mut connection.session);
            }
        }
    }
}

/// One connection to the server.
struct Connection {
    socket: TcpStream,
    session: ClientSession,
    started: bool,
}

impl Connection {
    /// Takes in what the server said; true when it has just accepted the stream.
    fn handle_input(&mut self, input: &[u8]) -> Result<bool, End> {
        self.session.handle_input(input).map_err(|error| End::Lost(error.reason().to_owned()))?;
        let mut accepted = false;
        while let Some(event) = self.session.poll_event() {
            match event {
                ClientEvent::Started => accepted = true,
                ClientEvent::Rejected { code, description } => {
                    return Err(End::Refused(format!("{code}: {description}")));
                }
                ClientEvent::Ended { code } => return Err(End::Lost(code)),
                _ => {}
            }
        }
        self.started |= accepted;
        Ok(accepted)
    }

    /// Sends everything the session wants sent.
    async fn flush(&mut self) -> Result<(), String> {
        let output = std::mem::take(self.session.output());
        if output.is_empty() {
            return Ok(());
        }
        match timeout(PATIENCE, self.socket.write_all(&output)).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the server takes no data".to_owned()),
        }
    }
}

/// The sample: all its tags, and how long one loop lasts.
struct Sample {
    tags: Vec<Tag>,
    loop_ms: u64,
}

impl Sample {
    fn read(file: &[u8]) -> Result<Self, &'static str> {
        let mut reader = FlvReader::new(TAG_BYTES_MAX);
        reader.push(file);
        let mut tags: Vec<Tag> = Vec::new();
        while let Some(tag) = reader.next_tag().map_err(|error| error.reason())? {
            tags.push(tag);
        }
        let loop_ms = [MediaKind::Video, MediaKind::Audio].map(|kind| duration_ms(&tags, kind));
        let loop_ms = u64::from(loop_ms.into_iter().max().unwrap_or(0));
        if loop_ms == 0 { Err("no two frames of one kind") } else { Ok(Self { tags, loop_ms }) }
    }
}

/// From the first frame of a kind to one frame after the last, so that the next loop's first one fits there.
fn duration_ms(tags: &[Tag], kind: MediaKind) -> u32 {
    let times: Vec<u32> = tags.iter().filter(|tag| tag.kind == kind).map(|tag| tag.timestamp).collect();
    let [first, .., before_last, last] = times[..] else { return 0 };
    (last - first) + (last - before_last).max(1)
}

/// Which tag comes next, and when.
struct Pace<'a> {
    sample: &'a Sample,
    origin: Instant,
    /// Media time at which the current loop began, milliseconds.
    loop_began_ms: u64,
    next: usize,
}

impl<'a> Pace<'a> {
    fn new(sample: &'a Sample) -> Self {
        Self { sample, origin: Instant::now(), loop_began_ms: 0, next: 0 }
    }

    fn start(&mut self, now: Instant) {
        self.origin = now;
    }

    /// Media time of the next tag since the start, milliseconds.
    fn position_ms(&self) -> u64 {
        self.loop_began_ms + u64::from(self.sample.tags[self.next].timestamp)
    }

    fn due(&self) -> Instant {
        self.origin + Duration::from_millis(self.position_ms())
    }

    /// Hands over every tag whose time has come.
    fn send_due(&mut self, now: Instant, session: &mut ClientSession) {
        let late = now.saturating_duration_since(self.due());
        if late > LATE_MAX {
            self.origin += late;
        }
        while self.due() <= now {
            let tag = &self.sample.tags[self.next];
            // RTMP timestamps wrap at 2^32.
            session.send_media(tag.kind, self.position_ms() as u32, &tag.body);
            self.next += 1;
            if self.next == self.sample.tags.len() {
                self.next = 0;
                self.loop_began_ms += self.sample.loop_ms;
            }
        }
    }
}

/// An address to connect to for a listener on `address`.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Random bytes in hexadecimal, for the internal token. `None` when the system has no randomness to give.
pub fn random_token() -> Option<String> {
    let mut bytes = [0; 32];
    rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Seed of the handshake's filler bytes, which are no secret.
fn rand_seed() -> u64 {
    let mut bytes = [0; 8];
    let _ = rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_ten_seconds_that_join_without_a_step_back() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        assert!((9_900..=10_200).contains(&sample.loop_ms), "{}", sample.loop_ms);
        for kind in [MediaKind::Video, MediaKind::Audio] {
            let times: Vec<u64> =
                sample.tags.iter().filter(|tag| tag.kind == kind).map(|tag| tag.timestamp.into()).collect();
            assert!(times.is_sorted(), "{kind:?}");
            let (first, last) = (times[0], times[times.len() - 1]);
            assert!((last..last + 100).contains(&(first + sample.loop_ms)), "{kind:?}: {first} after {last}");
        }
    }

    #[test]
    fn tags_leave_at_their_time_however_late_the_task_wakes() {
        let sample = Sample::read(SAMPLE).expect("a readable sample");
        let mut pace = Pace::new(&sample);
        let origin = Instant::now();
        pace.start(origin);
        let url = "rtmp://localhost/a/b".parse().expect("a URL");
        let mut session = ClientSession::publish(&url, &ClientConfig::default(), 1);
        let steps = [0, 7, 13, 40, 900, 1_999]; // wakes at odd times
        let mut now = origin;
        for step in steps.iter().cycle().take(600) {
            now += Duration::from_millis(*step);
            pace.send_due(now, &mut session);
            session.output().clear();
            assert!(pace.due() > now, "everything due was sent");
            let ahead = pace.due() - now;
            assert!(ahead < Duration::from_millis(100), "nothing was sent early: {ahead:?}");
        }
        assert_eq!(pace.origin, origin, "no drift after {:?}", now - origin);
        pace.send_due(now + Duration::from_secs(3600), &mut session);
        assert!(pace.due() - (now + Duration::from_secs(3600)) < Duration::from_millis(100));
        assert!(session.output().len() < 1 << 20, "an hour asleep is not sent after");
    }

    #[test]
    fn listeners_on_every_address_are_reached_by_loopback() {
        for (listener, expected) in
            [("[::]:1935", "[::1]:1935"), ("0.0.0.0:1", "127.0.0.1:1"), ("192.0.2.1:1", "192.0.2.1:1")]
        {
            assert_eq!(reachable(listener.parse().expect("an address")).to_string(), expected);
        }
    }

    #[test]
    fn internal_tokens_are_long_and_differ() {
        let (one, two) = (random_token().expect("randomness"), random_token().expect("randomness"));
        assert!(one.len() == 64 && one != two);
    }
}
