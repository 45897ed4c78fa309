//! A reader of live statistics: an independent WebSocket client, and messages as plain values.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::client::Response;
use tungstenite::{Error, HandshakeError, Message, WebSocket};

use super::TIMEOUT;
use super::server::Server;

/// The path of the stream.
pub(crate) const PATH: &str = "/api/v1/stats/stream";
/// Its subprotocol.
pub(crate) const SUBPROTOCOL: &str = "millstream.stats.v1";

/// The stream as one reader has it.
pub(crate) struct Reader<S = TcpStream> {
    pub(crate) socket: WebSocket<S>,
    /// The server's answer to the handshake.
    pub(crate) response: Response,
}

/// Opens the stream with the subprotocol of this version.
pub(crate) fn open(server: &Server) -> Reader {
    try_open(server, &[("Sec-WebSocket-Protocol", SUBPROTOCOL)]).expect("the stream begins")
}

/// Opens the stream with these header fields; an error is the status and body of the answer.
pub(crate) fn try_open(server: &Server, headers: &[(&str, &str)]) -> Result<Reader, (u16, Value)> {
    let socket = TcpStream::connect(server.http).expect("connect");
    socket.set_read_timeout(Some(TIMEOUT)).expect("set a timeout");
    open_over(socket, &format!("ws://{}{PATH}", server.http), headers)
}

/// The same over any connection.
pub(crate) fn open_over<S: Read + Write>(
    socket: S,
    url: &str,
    headers: &[(&str, &str)],
) -> Result<Reader<S>, (u16, Value)> {
    let mut request = url.into_client_request().expect("a URL");
    for (name, value) in headers {
        let name: tungstenite::http::HeaderName = name.parse().expect("a name");
        request.headers_mut().append(name, value.parse().expect("a value"));
    }
    match tungstenite::client(request, socket) {
        Ok((socket, response)) => Ok(Reader { socket, response }),
        Err(HandshakeError::Failure(Error::Http(response))) => {
            let body = response.body().as_deref().unwrap_or_default();
            Err((response.status().as_u16(), serde_json::from_slice(body).unwrap_or_default()))
        }
        Err(other) => panic!("the handshake failed: {other}"),
    }
}

impl<S: Read + Write> Reader<S> {
    /// The next message of statistics.
    pub(crate) fn next(&mut self) -> Value {
        loop {
            match self.socket.read().expect("a message") {
                Message::Binary(bytes) => return decode(&bytes),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("not a message of statistics: {other:?}"),
            }
        }
    }

    /// The next message of which `wanted` makes something.
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut wanted: impl FnMut(&Value) -> Option<T>) -> T {
        let mut last = Value::Null;
        for _ in 0..TIMEOUT.as_secs() {
            last = self.next();
            if let Some(found) = wanted(&last) {
                return found;
            }
        }
        panic!("never in {} messages: {what}; the last was {last}", TIMEOUT.as_secs());
    }

    /// Reads to the end; the code of the server's close frame, if there is one.
    pub(crate) fn close_code(&mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => code = code.or(frame.map(|frame| frame.code.into())),
                Ok(_) => {}
                Err(_) => return code,
            }
        }
    }
}

/// A message of MessagePack as JSON values: what is not a number is null.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    rmp_serde::from_slice(bytes).unwrap_or_else(|error| panic!("not MessagePack: {error}"))
}

/// The figures of one session by its id (`worker-serial`): its element of each array of `sessions`.
pub(crate) fn session(message: &Value, id: &str) -> Option<Value> {
    let sessions = message["sessions"].as_object()?;
    let count = sessions["serial"].as_array()?.len();
    let index =
        (0..count).find(|at| format!("{}-{}", sessions["worker"][at], sessions["serial"][at]) == id)?;
    Some(sessions.iter().map(|(name, column)| (name.clone(), column[index].clone())).collect())
}

/// The figures of one stream by its name.
pub(crate) fn stream(message: &Value, name: &str) -> Option<Value> {
    let streams = message["streams"].as_object()?;
    let index = streams["name"].as_array()?.iter().position(|other| other == name)?;
    Some(streams.iter().map(|(name, column)| (name.clone(), column[index].clone())).collect())
}
