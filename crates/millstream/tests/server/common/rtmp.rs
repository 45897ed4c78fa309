//! A scripted RTMP client over a blocking socket.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rtmp::client::{ClientConfig, ClientEvent, ClientSession};
use rtmp::flv::Tag;
use rtmp::{MediaKind, MediaMessage, RtmpUrl};

use super::TIMEOUT;

/// One RTMP connection.
pub(crate) struct RtmpClient {
    session: ClientSession,
    socket: TcpStream,
    events: VecDeque<ClientEvent>,
}

impl RtmpClient {
    /// Connects and publishes `stream` (`app/name?query`); panics when the server refuses.
    pub(crate) fn publish(server: SocketAddr, stream: &str) -> Self {
        let mut client = Self::begin_publish(server, stream);
        client.wait_started().unwrap_or_else(|refusal| panic!("publish of {stream} refused: {refusal}"));
        client
    }

    /// As [`RtmpClient::publish`], sending chunks of `chunk_size` bytes.
    pub(crate) fn publish_in_chunks(server: SocketAddr, stream: &str, chunk_size: u32) -> Self {
        let config = ClientConfig { chunk_size, ..ClientConfig::default() };
        let mut client = Self::begin(server, ClientSession::publish(&url_of(server, stream), &config, 1));
        client.wait_started().unwrap_or_else(|refusal| panic!("publish of {stream} refused: {refusal}"));
        client
    }

    /// Connects and plays `stream` (`app/name?query`); panics when the server refuses.
    pub(crate) fn play(server: SocketAddr, stream: &str) -> Self {
        let mut client = Self::begin_play(server, stream);
        client.wait_started().unwrap_or_else(|refusal| panic!("play of {stream} refused: {refusal}"));
        client
    }

    /// Connects and asks to publish; the answer is for [`RtmpClient::wait_started`].
    pub(crate) fn begin_publish(server: SocketAddr, stream: &str) -> Self {
        let url = url_of(server, stream);
        Self::begin(server, ClientSession::publish(&url, &ClientConfig::default(), 1))
    }

    /// Connects and asks to play; the answer is for [`RtmpClient::wait_started`].
    pub(crate) fn begin_play(server: SocketAddr, stream: &str) -> Self {
        let url = url_of(server, stream);
        Self::begin(server, ClientSession::play(&url, &ClientConfig::default(), 1))
    }

    fn begin(server: SocketAddr, session: ClientSession) -> Self {
        let socket = TcpStream::connect(server).expect("connect");
        socket.set_read_timeout(Some(TIMEOUT)).expect("set a timeout");
        socket.set_nodelay(true).expect("set TCP_NODELAY");
        Self { session, socket, events: VecDeque::new() }
    }

    /// Waits for the answer to publish or play; the error says why not.
    pub(crate) fn wait_started(&mut self) -> Result<(), String> {
        loop {
            match self.next_event() {
                Some(ClientEvent::Started) => return Ok(()),
                Some(ClientEvent::Rejected { code, description }) => {
                    return Err(format!("{code}: {description}"));
                }
                Some(ClientEvent::Ended { code }) => return Err(code),
                Some(_) => {}
                None => return Err("the server closed the connection".to_owned()),
            }
        }
    }

    /// The next event; `None` when the server has closed the connection. Panics when nothing comes in time.
    pub(crate) fn next_event(&mut self) -> Option<ClientEvent> {
        loop {
            while let Some(event) = self.session.poll_event() {
                self.events.push_back(event);
            }
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.flush().is_err() {
                return None;
            }
            let mut buffer = [0; 64 << 10];
            match self.socket.read(&mut buffer) {
                Ok(0) => return None,
                Ok(got) => self.session.handle_input(&buffer[..got]).expect("the server speaks RTMP"),
                Err(error) if is_closed(&error) => return None,
                Err(error) => panic!("nothing came from the server: {error}"),
            }
        }
    }

    /// The next media message, whatever else comes before; `None` when the stream or the connection ended.
    pub(crate) fn next_media(&mut self) -> Option<MediaMessage> {
        loop {
            match self.next_event()? {
                ClientEvent::Media(message) => return Some(message),
                ClientEvent::Ended { .. } => return None,
                _ => {}
            }
        }
    }

    /// A media message if one has come, within the socket's read timeout.
    pub(crate) fn poll_media(&mut self) -> Option<MediaMessage> {
        loop {
            while let Some(event) = self.session.poll_event() {
                self.events.push_back(event);
            }
            match self.events.pop_front() {
                Some(ClientEvent::Media(message)) => return Some(message),
                Some(_) => continue,
                None => {}
            }
            self.flush().expect("send to the server");
            let mut buffer = [0; 64 << 10];
            match self.socket.read(&mut buffer) {
                Ok(got) if got > 0 => {
                    self.session.handle_input(&buffer[..got]).expect("the server speaks RTMP")
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return None;
                }
                other => panic!("the server closed the connection: {other:?}"),
            }
        }
    }

    /// The next `count` audio and video messages.
    pub(crate) fn take_frames(&mut self, count: usize) -> Vec<MediaMessage> {
        let frames =
            std::iter::from_fn(|| self.next_media()).filter(|message| message.kind != MediaKind::Data);
        let frames: Vec<_> = frames.take(count).collect();
        assert_eq!(frames.len(), count, "the stream ended early");
        frames
    }

    /// Sends one message.
    pub(crate) fn send(&mut self, kind: MediaKind, timestamp: u32, payload: &[u8]) {
        self.session.send_media(kind, timestamp, payload);
        self.flush().expect("send to the server");
    }

    /// Sends tags as they are.
    pub(crate) fn send_tags<'a>(&mut self, tags: impl IntoIterator<Item = &'a Tag>) {
        for tag in tags {
            self.session.send_media(tag.kind, tag.timestamp, &tag.body);
        }
        self.flush().expect("send to the server");
    }

    /// Sends bytes that are no work of the session.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.flush().expect("send to the server");
        self.socket.write_all(bytes).expect("send to the server");
    }

    /// Sends only the first `bytes` bytes of a message, and whatever waits before it.
    pub(crate) fn send_part(&mut self, kind: MediaKind, timestamp: u32, payload: &[u8], bytes: usize) {
        self.flush().expect("send to the server");
        self.session.send_media(kind, timestamp, payload);
        self.session.output().truncate(bytes);
        self.flush().expect("send to the server");
    }

    /// Sends the first half of a message, and returns the rest for [`RtmpClient::send_raw`].
    pub(crate) fn send_half(&mut self, kind: MediaKind, timestamp: u32, payload: &[u8]) -> Vec<u8> {
        self.flush().expect("send to the server");
        self.session.send_media(kind, timestamp, payload);
        let half = self.session.output().len() / 2;
        let rest = self.session.output().split_off(half);
        self.flush().expect("send to the server");
        rest
    }

    /// Ends publishing or playing as a polite client does, and disconnects.
    pub(crate) fn end(mut self) {
        self.session.end();
        let _ = self.flush();
    }

    /// All that still comes from the server until it closes, as text: a status has its reason in plain words.
    pub(crate) fn last_words(&self) -> String {
        let mut words = Vec::new();
        if let Err(error) = (&self.socket).read_to_end(&mut words) {
            assert!(is_closed(&error), "the server does not close the connection: {error}");
        }
        String::from_utf8_lossy(&words).into_owned()
    }

    /// Writes what the session has to say.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let output = self.session.output();
        let written = self.socket.write_all(output);
        output.clear();
        written
    }

    /// The connection itself.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}

/// Whether `error` means that the peer has closed.
pub(crate) fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

fn url_of(server: SocketAddr, stream: &str) -> RtmpUrl {
    format!("rtmp://{server}/{stream}").parse().unwrap_or_else(|_| panic!("{stream} makes no RTMP URL"))
}
