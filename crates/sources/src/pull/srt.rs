//! A stream played from an SRT listener, as MPEG-TS.
//!
//! The protocol is `srt`'s; this moves datagrams between it and a socket, and waits for its timers.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use range_reader::error::{Permanent, SourceError};
use srt::{
    Call, CallError, Caller, Connection, DATAGRAM_BYTES_MAX, End, KeyLength, Limits, Passphrase,
    STREAM_ID_BYTES_MAX, SequenceNumber, SocketId,
};
use tokio::net::UdpSocket;
use tokio::time::{Instant, sleep_until, timeout};
use url::Url;

use super::source::Failure;
use super::ts::TsInput;
use crate::settings::SourceSettings;

/// Delay where the URL names none.
const LATENCY: Duration = Duration::from_millis(120);
/// Most delay that a listener may ask for.
const LATENCY_MAX: Duration = Duration::from_secs(8);
/// Most that a URL may ask for.
const LATENCY_ASKED_MS_MAX: u64 = u16::MAX as u64;
/// Datagrams read at a time.
const BATCH: usize = 64;

/// A listener to call: `srt://host:port?streamid=..&latency=..&passphrase=..&pbkeylen=..&program=..`.
#[derive(Clone)]
pub struct SrtUrl {
    /// Name or address.
    pub host: String,
    /// UDP port.
    pub port: u16,
    /// What the listener is asked for; secret, since tokens are in it.
    pub stream_id: String,
    /// Delay that is asked for.
    pub latency: Duration,
    /// What payloads are encrypted by.
    pub passphrase: Option<(Passphrase, KeyLength)>,
    /// The number of the program. `None`: the first one with a track that is carried.
    pub program: Option<u16>,
    /// All of it, to tell two apart.
    text: String,
}

impl PartialEq for SrtUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SrtUrl {}

impl SrtUrl {
    /// Reads a URL that begins with `srt://`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "cannot use its URL: `srt://` takes a host and a port".to_owned();
        let url = Url::parse(text).map_err(|_| invalid())?;
        let (host, port) = url.host_str().zip(url.port()).ok_or_else(invalid)?;
        let mut key = (None, KeyLength::Aes128);
        let mut found = Self {
            host: host.to_owned(),
            port,
            stream_id: String::new(),
            latency: LATENCY,
            passphrase: None,
            program: None,
            text: text.to_owned(),
        };
        // What `Url` has behind `#` belongs to stream IDs of the form `#!::r=...`.
        let fragment = url.fragment().map(|fragment| format!("#{fragment}")).unwrap_or_default();
        let query = format!("{}{fragment}", url.query().unwrap_or_default());
        for field in query.split('&').filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            let value = rtmp::name::query_value(&format!("v={value}"), "v").unwrap_or_default();
            let is_taken = match name {
                "streamid" => {
                    found.stream_id = value;
                    found.stream_id.len() <= STREAM_ID_BYTES_MAX
                }
                "latency" => {
                    let latency = value.parse().ok().filter(|ms| *ms <= LATENCY_ASKED_MS_MAX);
                    found.latency = latency.map_or(LATENCY, Duration::from_millis);
                    latency.is_some()
                }
                "passphrase" => {
                    key.0 = Passphrase::new(&value);
                    key.0.is_some()
                }
                "pbkeylen" => {
                    let length = [KeyLength::Aes128, KeyLength::Aes192, KeyLength::Aes256]
                        .into_iter()
                        .find(|length| length.bytes().to_string() == value);
                    key.1 = length.unwrap_or(KeyLength::Aes128);
                    length.is_some()
                }
                "program" => {
                    found.program = value.parse().ok().filter(|number| *number != 0);
                    found.program.is_some()
                }
                "mode" => value == "caller",
                other => {
                    return Err(format!(
                        "cannot use its URL: `srt://` has no option `{}`",
                        other.escape_debug()
                    ));
                }
            };
            if !is_taken {
                let allowed = match name {
                    "streamid" => format!("at most {STREAM_ID_BYTES_MAX} bytes"),
                    "latency" => format!("milliseconds, at most {LATENCY_ASKED_MS_MAX}"),
                    "passphrase" => "10 to 80 bytes".to_owned(),
                    "pbkeylen" => "16, 24 or 32".to_owned(),
                    "program" => format!("a number from 1 to {}", u16::MAX),
                    _ => "`caller`".to_owned(),
                };
                return Err(format!("cannot use its URL: `{name}` has to be {allowed}"));
            }
        }
        found.passphrase = key.0.map(|passphrase| (passphrase, key.1));
        Ok(found)
    }
}

/// Without secrets.
impl fmt::Display for SrtUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = if self.text.contains('?') { "?..." } else { "" };
        write!(f, "srt://{}:{}{hidden}", self.host, self.port)
    }
}

impl fmt::Debug for SrtUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How far a call is.
enum State {
    Calling(Box<Caller>),
    Connected(Box<Connection>),
    /// It has ended, for this reason, and all that came was delivered.
    Over(&'static str),
}

/// A call and what has come of it.
pub(super) struct SrtPlay {
    socket: UdpSocket,
    peer: SocketAddr,
    state: State,
    input: Box<[u8]>,
    pub(super) ts: TsInput,
}

impl SrtPlay {
    /// Opens a socket. What the listener says comes with [`fill`](Self::fill).
    pub(super) async fn open(url: &SrtUrl, settings: &SourceSettings) -> Result<Self, Failure> {
        let peer = timeout(settings.connect_timeout, resolve(url, settings)).await;
        let peer = peer.map_err(|_| Failure::new(format!("{}: no address in time", url.host)))??;
        let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        // Nobody else is heard.
        socket.connect(peer).await?;
        let call = Call {
            socket: SocketId::random(),
            initial: SequenceNumber::random(),
            stream_id: url.stream_id.clone(),
            receive_latency: url.latency,
            send_latency: url.latency,
            latency_max: LATENCY_MAX.max(url.latency),
            encryption: url.passphrase.clone(),
            timeout: settings.connect_timeout,
            limits: Limits::default(),
        };
        Ok(Self {
            socket,
            peer,
            state: State::Calling(Box::new(Caller::new(Instant::now().into_std(), call))),
            input: vec![0; DATAGRAM_BYTES_MAX].into_boxed_slice(),
            ts: TsInput::new(url.program, settings),
        })
    }

    /// Waits for bytes, and says how many came. Nothing is lost when it is dropped while it waits.
    pub(super) async fn fill(&mut self) -> Result<usize, Failure> {
        loop {
            let due = self.drive()?;
            tokio::select! {
                readable = self.socket.readable() => readable?,
                () = sleep_until(due) => {}
            }
            let bytes = self.receive()?;
            if bytes > 0 {
                return Ok(bytes);
            }
        }
    }

    /// Sends what is to be sent, and says when to come back.
    fn drive(&mut self) -> Result<Instant, Failure> {
        let now = Instant::now().into_std();
        let mut out = [0; DATAGRAM_BYTES_MAX];
        let due = match &mut self.state {
            State::Calling(caller) => {
                while let Some(len) = caller.poll_transmit(now, &mut out).map_err(failed)? {
                    let _ = self.socket.try_send(&out[..len]);
                }
                Some(caller.next_timeout())
            }
            State::Connected(connection) => {
                while let Some(len) = connection.poll_transmit(now, &mut out) {
                    // What has no room is lost, as on the way.
                    let _ = self.socket.try_send(&out[..len]);
                }
                connection.next_timeout(now)
            }
            State::Over(reason) => return Err(Failure::new((*reason).to_owned())),
        };
        Ok(due.map_or_else(Instant::now, Instant::from_std))
    }

    /// Takes what has arrived and what is due.
    fn receive(&mut self) -> Result<usize, Failure> {
        let now = Instant::now().into_std();
        for _ in 0..BATCH {
            // An error is the system's word that nobody listens there: whoever is silent is dropped.
            let Ok(len) = self.socket.try_recv(&mut self.input) else { break };
            match &mut self.state {
                State::Calling(caller) => {
                    if let Some(connection) = caller.handle_packet(now, &self.input[..len]).map_err(failed)? {
                        self.state = State::Connected(Box::new(connection));
                    }
                }
                State::Connected(connection) => {
                    let _ = connection.handle_packet(now, &self.input[..len]);
                }
                State::Over(_) => {}
            }
        }
        let State::Connected(connection) = &mut self.state else { return Ok(0) };
        connection.handle_timeout(now);
        let end = connection.end();
        let mut bytes = 0;
        connection.deliver(now, |payload| {
            bytes += payload.len();
            self.ts.push(payload);
        });
        if let Some(end) = end {
            self.ts.finish();
            self.state = State::Over(match end {
                End::Silent => "the listener sends nothing any more",
                End::Shutdown | End::Closed => "the listener ended the connection",
            });
        }
        Ok(bytes)
    }

    /// Who sends it.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// The listener is told that nobody listens to it any more.
impl Drop for SrtPlay {
    fn drop(&mut self) {
        if let State::Connected(connection) = &mut self.state {
            let (now, mut out) = (Instant::now().into_std(), [0; DATAGRAM_BYTES_MAX]);
            connection.close(now);
            while let Some(len) = connection.poll_transmit(now, &mut out) {
                let _ = self.socket.try_send(&out[..len]);
            }
        }
    }
}

impl fmt::Debug for SrtPlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrtPlay").field("peer", &self.peer).finish_non_exhaustive()
    }
}

fn failed(error: CallError) -> Failure {
    Failure::new(match error {
        CallError::Rejected(code) => format!("{} ({code})", error.reason()),
        other => other.reason().to_owned(),
    })
}

/// The first address of the listener that may be reached; judged where it is used.
async fn resolve(url: &SrtUrl, settings: &SourceSettings) -> Result<SocketAddr, Failure> {
    let bare = url.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(&url.host);
    let found = tokio::net::lookup_host((bare, url.port)).await;
    let found: Vec<SocketAddr> =
        found.map_err(|error| Failure::new(format!("{}: {error}", url.host)))?.collect();
    let allowed = found.iter().find(|address| settings.addresses.allows(address.ip())).copied();
    allowed.ok_or_else(|| SourceError::Permanent(Permanent::NotPublic(url.host.clone())).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_listener_and_hide_secrets() {
        let url = "srt://media.example:9000?streamid=read:live/cam?token=secret&latency=400\
                   &passphrase=much%20secret&pbkeylen=32&program=7";
        let url = SrtUrl::parse(url).expect("a URL");
        assert_eq!(url.to_string(), "srt://media.example:9000?...");
        assert_eq!((url.host.as_str(), url.port, url.program), ("media.example", 9000, Some(7)));
        assert_eq!((url.stream_id.as_str(), url.latency.as_millis()), ("read:live/cam?token=secret", 400));
        assert_eq!(url.passphrase.map(|(_, length)| length), Some(KeyLength::Aes256));
        let url = SrtUrl::parse("srt://[::1]:9000?streamid=#!::r=live/cam,m=request").expect("a URL");
        assert_eq!(url.stream_id, "#!::r=live/cam,m=request");
        let long = format!("srt://h:1?streamid={}", "x".repeat(513));
        for (text, reason) in [
            ("srt://", "takes a host and a port"),
            ("srt://media.example", "takes a host and a port"),
            ("srt://h:1?passphrase=short", "`passphrase` has to be 10 to 80 bytes"),
            ("srt://h:1?pbkeylen=20", "`pbkeylen` has to be 16, 24 or 32"),
            ("srt://h:1?latency=99999", "`latency` has to be milliseconds, at most 65535"),
            ("srt://h:1?mode=listener", "`mode` has to be `caller`"),
            ("srt://h:1?transtype=file", "has no option `transtype`"),
            ("srt://h:1?program=0", "`program` has to be a number from 1 to 65535"),
            (&long, "`streamid` has to be at most 512 bytes"),
        ] {
            let error = SrtUrl::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
