//! A publisher that hands in whole frames by RTMP, for viewers by WebRTC to get through a server's bridge.
//!
//! One non-blocking socket in the loop of `engine.rs`: the engine says when the socket is ready and
//! when something is due, and gets the errors. What is sent, and when, is in `flv.rs`.

use std::net::{Shutdown, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rtmp::RtmpUrl;
use rtmp::client::{ClientConfig, ClientEvent, ClientSession};

use super::counters::Counters;
use super::flv::{FlvMedia, Timeline};
use crate::{clock, net};

/// State of a publisher.
#[derive(Debug)]
pub struct RtmpPublisher {
    id: u64,
    client: ClientSession,
    socket: TcpStream,
    media: Arc<FlvMedia>,
    /// Once the server has accepted.
    timeline: Option<Timeline>,
}

impl RtmpPublisher {
    /// Begins to connect and registers the socket; `id` is written into the marks.
    ///
    /// # Errors
    /// A text for the user, the same for all that fail alike.
    pub fn connect(
        id: u64,
        url: &str,
        address: SocketAddr,
        media: Arc<FlvMedia>,
        registry: &Registry,
        token: Token,
    ) -> Result<RtmpPublisher, String> {
        let url = RtmpUrl::from_str(url).map_err(|error| error.to_string())?;
        let client = ClientSession::publish(&url, &ClientConfig::default(), id);
        let mut socket = net::connect(address, 0).map_err(|error| net::io_reason("connect", &error))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, token, interest).map_err(|error| net::io_reason("epoll", &error))?;
        Ok(RtmpPublisher { id, client, socket, media, timeline: None })
    }

    /// Reads and writes what can be; `true` once, when the server has accepted and media are due from now on.
    ///
    /// # Errors
    /// Why the session is over.
    pub fn handle_ready(&mut self, wall_ns: u64, counters: &mut Counters) -> Result<bool, String> {
        if let Some(error) = self.socket.take_error().map_err(|error| net::io_reason("connect", &error))? {
            return Err(net::io_reason("connect", &error));
        }
        self.read(counters)?;
        let mut may_begin = false;
        while let Some(event) = self.client.poll_event() {
            match event {
                ClientEvent::Started => {
                    for (kind, body) in &self.media.headers {
                        self.client.send_media(*kind, 0, body);
                    }
                    self.timeline = Some(Timeline::new(self.id, wall_ns));
                    may_begin = true;
                }
                ClientEvent::Rejected { code, description } => {
                    return Err(format!("the server refused: {code}: {description}"));
                }
                ClientEvent::Ended { code } => return Err(format!("the server ended the session: {code}")),
                ClientEvent::Media(_) | ClientEvent::Status { .. } => {}
            }
        }
        self.flush(counters)?;
        Ok(may_begin)
    }

    /// Sends what is due by `wall_ns`, frame by frame; when the next one is, wall clock
    /// nanoseconds. `None`: not begun.
    ///
    /// # Errors
    /// Why the session is over.
    pub fn send_due(&mut self, wall_ns: u64, counters: &mut Counters) -> Result<Option<u64>, String> {
        let media = Arc::clone(&self.media);
        loop {
            let Some(timeline) = &mut self.timeline else { return Ok(None) };
            let due_ns = timeline.next_due_ns(&media);
            if due_ns > wall_ns {
                return Ok(Some(due_ns));
            }
            counters.lateness.record_ns(wall_ns - due_ns);
            let due = timeline.take(&media, clock::wall_ns());
            self.client.send_media(due.kind, due.timestamp, due.body);
            counters.packets_sent += 1;
            self.flush(counters)?;
        }
    }

    /// Says goodbye as far as the socket takes it.
    pub fn end(&mut self, counters: &mut Counters) {
        self.client.end();
        // It has ended either way.
        let _ = self.flush(counters);
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    fn read(&mut self, counters: &mut Counters) -> Result<(), String> {
        let mut buffer = [0; 4096];
        while let Some(length) = net::read(&mut self.socket, &mut buffer)? {
            counters.reads += 1;
            let input = &buffer[..length];
            self.client.handle_input(input).map_err(|error| format!("protocol: {}", error.reason()))?;
        }
        Ok(())
    }

    fn flush(&mut self, counters: &mut Counters) -> Result<(), String> {
        let output = self.client.output();
        net::write(&mut self.socket, output, |_| counters.writes += 1)?;
        if output.len() > UNSENT_BYTES_MAX {
            return Err("the server does not read what is published".to_owned());
        }
        Ok(())
    }
}

/// A server that stopped reading is given up at this backlog: 25 s of the stream.
const UNSENT_BYTES_MAX: usize = 2 << 20;
