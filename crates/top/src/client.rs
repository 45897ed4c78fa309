//! The connection to the server: a WebSocket that brings one message of statistics a second.
//!
//! Blocking, on a thread of its own (`spawn`), which hands over what it receives through the
//! program's bounded queue and connects again when the connection is lost. While the queue is full
//! the thread waits; the server then skips messages for this reader. Errors in the server's answers
//! end in a [`Failure`], and so does a message that does not arrive in time (`transport`). The cluster is
//! asked for by requests (`http`).

mod http;
mod transport;

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tungstenite::client::IntoClientRequest;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::client::Request;
use tungstenite::http::{HeaderValue, StatusCode, header};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, HandshakeError, Message as Frame, WebSocket};

use self::transport::{TimedSocket, Transport};
use super::target::Target;
use super::wire;
use stats::message::{MESSAGE_BYTES_MAX, SUBPROTOCOL, StatsMessage};

/// Environment variable for `--token`, which others on the machine can read in the list of processes.
pub(crate) const TOKEN_VARIABLE: &str = "MILLSTREAM_TOP_TOKEN";

/// Timeout for one address to accept the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the handshakes, and then for each message, whatever else arrives. The server sends
/// every second, and gives a reader as long as this to receive a message.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// First and longest pause between two attempts to connect; it doubles in between.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// The header `User-Agent`.
const AGENT: &str = concat!("millstream-top/", env!("CARGO_PKG_VERSION"));

/// What happens on the connection.
#[derive(Debug)]
pub(crate) enum FeedEvent {
    /// An attempt begins.
    Connecting,
    /// A message arrived.
    Message(Box<StatsMessage>),
    /// The connection is lost or failed; the next attempt follows after `retry`.
    Lost {
        /// Why, for people.
        reason: String,
        /// Time until the next attempt.
        retry: Duration,
    },
    /// The server refuses; nothing follows.
    Refused(String),
}

/// Why there is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A later attempt may succeed.
    Lost(String),
    /// A later attempt would fail the same way.
    Refused(String),
}

/// How to reach the server.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    target: Target,
    authorization: Option<HeaderValue>,
    tls: Option<Arc<ClientConfig>>,
    /// [`READ_TIMEOUT`], but for reloads and tests.
    pub(crate) timeout: Duration,
}

/// Connects, and connects again, until `deliver` returns false.
pub(crate) fn run(connector: &Connector, mut deliver: impl FnMut(FeedEvent) -> bool) {
    let mut retry = RETRY.0;
    loop {
        if !deliver(FeedEvent::Connecting) {
            return;
        }
        let result = connector.connect().and_then(|mut feed| {
            loop {
                let message = feed.next()?;
                retry = RETRY.0;
                if !deliver(FeedEvent::Message(Box::new(message))) {
                    return Ok(());
                }
            }
        });
        match result {
            Ok(()) => return,
            Err(Failure::Refused(reason)) => {
                deliver(FeedEvent::Refused(reason));
                return;
            }
            Err(Failure::Lost(reason)) => {
                if !deliver(FeedEvent::Lost { reason, retry }) {
                    return;
                }
                std::thread::sleep(retry);
                retry = (retry * 2).min(RETRY.1);
            }
        }
    }
}

impl Connector {
    /// `token` is sent as `Authorization: Bearer`. `tls` is needed for targets with TLS only.
    pub(crate) fn new(
        target: Target,
        token: Option<&str>,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, String> {
        let authorization = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| "the token holds characters that no HTTP header can".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self { target, authorization: authorization.transpose()?, tls, timeout: READ_TIMEOUT })
    }

    /// Connects, with TLS or without.
    fn open(&self) -> Result<Transport, Failure> {
        let socket = self.connect_tcp().map_err(|error| Failure::Lost(error.to_string()))?;
        let socket = TimedSocket::new(socket, self.timeout);
        Ok(match &self.tls {
            Some(config) if self.target.tls => {
                let name = ServerName::try_from(self.target.host.clone())
                    .map_err(|error| Failure::Refused(format!("{}: {error}", self.target.host)))?;
                let connection = ClientConnection::new(Arc::clone(config), name)
                    .map_err(|error| Failure::Refused(error.to_string()))?;
                Transport::Tls(Box::new(StreamOwned::new(connection, socket)))
            }
            _ => Transport::Plain(socket),
        })
    }

    /// Connects and requests the statistics.
    pub(crate) fn connect(&self) -> Result<Feed, Failure> {
        let transport = self.open()?;
        let request = self.request().map_err(|error| Failure::Refused(error.to_string()))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX));
        match tungstenite::client::client_with_config(request, transport, Some(config)) {
            Ok((socket, _)) => Ok(Feed { socket, timeout: self.timeout }),
            Err(HandshakeError::Failure(error)) => Err(self.handshake_failure(error)),
            Err(HandshakeError::Interrupted(_)) => Err(Failure::Lost(silent())),
        }
    }

    fn connect_tcp(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in (self.target.host.as_str(), self.target.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn request(&self) -> Result<Request, Error> {
        let mut request = self.target.stream_url().into_client_request()?;
        let headers = request.headers_mut();
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(value) = &self.authorization {
            headers.insert(header::AUTHORIZATION, value.clone());
        }
        Ok(request)
    }

    /// The meaning of an error before the first frame: above all, whether it is the wrong port.
    fn handshake_failure(&self, error: Error) -> Failure {
        let doubt = if self.target.tls {
            "is it the HTTPS port of a Millstream?"
        } else {
            "is it the HTTP port of a Millstream, and not https://?"
        };
        match error {
            Error::Http(response) => {
                let (status, body) = (response.status(), response.into_body().unwrap_or_default());
                refusal(status, &body, self.authorization.is_some())
            }
            Error::Io(error) if speaks_no_tls(&error) => {
                Failure::Refused(format!("what answers there is no TLS; {doubt} Or is it http://?"))
            }
            Error::Io(error) if is_cut(&error) => {
                Failure::Lost(format!("it ended without an answer; {doubt}"))
            }
            Error::Protocol(ProtocolError::HandshakeIncomplete) => {
                Failure::Lost(format!("it ended without an answer; {doubt}"))
            }
            Error::Protocol(error) => {
                Failure::Lost(format!("what answers there is no WebSocket ({error}); {doubt}"))
            }
            error => failure(error),
        }
    }
}

/// Whether the first bytes received were not a TLS record.
fn speaks_no_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidMessage(_)))
}

/// Whether the other side ended the connection.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// An open connection.
pub(crate) struct Feed {
    socket: WebSocket<Transport>,
    timeout: Duration,
}

impl Feed {
    /// Waits for the next message. Pings are answered meanwhile and do not extend the timeout.
    pub(crate) fn next(&mut self) -> Result<StatsMessage, Failure> {
        self.socket.get_mut().allow(self.timeout);
        loop {
            match self.socket.read().map_err(failure)? {
                Frame::Binary(bytes) => {
                    return wire::decode(&bytes).map_err(|error| Failure::Refused(error.to_string()));
                }
                Frame::Close(frame) => {
                    let why = frame.filter(|frame| !frame.reason.is_empty());
                    let why = why.map(|frame| format!(": {}", wire::printable(&frame.reason)));
                    return Err(Failure::Lost(format!("the server ended it{}", why.unwrap_or_default())));
                }
                Frame::Text(_) => {
                    return Err(Failure::Refused("the server sends text; is it a Millstream?".to_owned()));
                }
                // Pings were answered by the library.
                _ => {}
            }
        }
    }
}

/// What an error of the WebSocket means for further attempts.
fn failure(error: Error) -> Failure {
    match error {
        Error::Io(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Failure::Lost(silent()),
            // What TLS refuses, a certificate above all, it will refuse again.
            _ if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) => {
                Failure::Refused(format!("TLS: {error}"))
            }
            _ => Failure::Lost(error.to_string()),
        },
        Error::ConnectionClosed | Error::AlreadyClosed => Failure::Lost("the server ended it".to_owned()),
        Error::Capacity(error) => Failure::Refused(error.to_string()),
        error => Failure::Lost(error.to_string()),
    }
}

/// What an HTTP response other than an upgrade means, with the message of its body
/// (`{"error": {"message": ...}}`). `has_token`: whether one was sent.
pub(crate) fn refusal(status: StatusCode, body: &[u8], has_token: bool) -> Failure {
    let body = serde_json::from_slice::<serde_json::Value>(body).ok();
    let message = body.as_ref().and_then(|body| body["error"]["message"].as_str()).map(wire::printable);
    if status == StatusCode::UNAUTHORIZED {
        let asks = || format!("a token is needed, by {TOKEN_VARIABLE} or --token");
        let invalid = || message.unwrap_or_else(|| "the token is not valid".to_owned());
        return Failure::Refused(if has_token { invalid() } else { asks() });
    }
    let message = message.map(|message| format!(" ({message})")).unwrap_or_default();
    match status {
        StatusCode::FORBIDDEN => Failure::Refused(format!("not allowed from here{message}")),
        StatusCode::NOT_FOUND => {
            Failure::Refused("the server has no statistics there; is it a Millstream?".to_owned())
        }
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            Failure::Lost(format!("the server answered {status}{message}"))
        }
        status => Failure::Refused(format!("the server answered {status}{message}")),
    }
}

fn silent() -> String {
    "no message came in time".to_owned()
}

#[cfg(test)]
mod tests;
