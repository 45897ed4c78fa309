//! A client that publishes a stream to an RTSP server.
//!
//! ```text
//! OPTIONS ─▶ ANNOUNCE ─▶ SETUP of each track ─▶ RECORD ─▶ media, sender reports, signs of life
//!    └ 401: the same again with credentials, once for each challenge
//! ```
//! Media goes interleaved in the connection, or by UDP to the ports that the server names. What the
//! stream has is announced once: a track that comes later, or becomes another, needs another session
//! ([`NotWritten::Changed`]). What the server says in return, receiver reports and all, is bounded and
//! passed over.

use std::time::Instant;

use media::{Frame, FrameRole, MediaKind};
use rtp::rtcp::NtpTime;
use rtsp_types::Response;

use crate::client_auth::Login;
use crate::input::{Input, Item, MAGIC};
use crate::outgoing::{Outgoing, TRACKS, channel_of};
use crate::requests::{
    ClientError, LIMITS, Requests, Stage, channels_of, control_url, field, server_ports_of,
};
use crate::server::control_of;

/// What is recorded, and how.
#[derive(Debug, Clone)]
pub struct RecordSettings {
    /// URL of the stream, without user and password.
    pub url: String,
    /// Who publishes, if the server wants to know.
    pub login: Option<Login>,
    /// What the client says it is.
    pub user_agent: String,
    /// Name of the stream, for the description.
    pub name: String,
    /// Local ports of RTP and RTCP, of video and audio; without them, packets go interleaved.
    pub udp: Option<[[u16; 2]; TRACKS]>,
}

/// A packet that goes by UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Video is 0, audio 1.
    pub track: usize,
    /// It is RTCP, and not RTP.
    pub is_rtcp: bool,
    /// The server's port.
    pub port: u16,
    /// Its content.
    pub packet: &'a [u8],
}

/// Why a frame is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotWritten {
    /// RTSP does not carry its track; a sentence.
    Track(String),
    /// What was announced is not what comes; a sentence.
    Changed(&'static str),
}

/// One stream that is recorded.
///
/// **After each call, [`output`](Self::output) is to be written to the connection, and, by UDP, each
/// [`next_datagram`](Self::next_datagram) sent; [`poll`](Self::poll) is due at
/// [`next_timeout`](Self::next_timeout).**
#[derive(Debug)]
pub struct RecordSession {
    url: String,
    input: Input,
    requests: Requests,
    step: Step,
    description: String,
    /// Tracks that are set up, and the channels of each as the server has them.
    tracks: Vec<usize>,
    channels: [[u8; 2]; TRACKS],
    /// Local ports and the server's, by UDP.
    udp: Option<[[u16; 2]; TRACKS]>,
    server_ports: [[u16; 2]; TRACKS],
    /// Packets that go by UDP, framed as they would be in the connection, of which so many bytes are sent.
    datagrams: Vec<u8>,
    sent: usize,
    media: Outgoing,
    /// Memory for the packets of a frame.
    packets: Vec<u8>,
}

/// How far it is: what the next answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Options,
    Announce,
    Setup(usize),
    Record,
    Recording,
}

impl RecordSession {
    /// Begins, with the tracks that are known to `media`: the first request is in the output.
    /// `None` if there are none.
    pub fn new(settings: RecordSettings, mut media: Outgoing, now: Instant) -> Option<Self> {
        let RecordSettings { url, login, user_agent, name, udp } = settings;
        let description = media.description(&name)?;
        let mut session = Self {
            input: Input::default(),
            requests: Requests::new(login, user_agent, now),
            step: Step::Options,
            description,
            tracks: media.tracks().collect(),
            channels: std::array::from_fn(|track| [channel_of(track), channel_of(track) + 1]),
            udp,
            server_ports: [[0; 2]; TRACKS],
            datagrams: Vec::new(),
            sent: 0,
            media,
            packets: Vec::new(),
            url,
        };
        session.ask("OPTIONS", session.url.clone(), String::new());
        Some(session)
    }

    /// Bytes for the server.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.requests.output()
    }

    /// Takes what has come on the connection.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<(), ClientError> {
        self.input.push(bytes);
        loop {
            let has_channels = matches!(self.step, Step::Setup(_) | Step::Record | Step::Recording);
            match self.input.next(&LIMITS, has_channels).map_err(ClientError::Input)? {
                None => return Ok(()),
                // Receiver reports: TCP repeats what is lost, and what is too slow shows in its
                // window.
                Some(Item::Packet { .. }) => {}
                Some(Item::Answer(answer)) => self.answered(now, &answer)?,
                Some(Item::Request(request)) => self.requests.requested(&request)?,
            }
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Instant) {
        if self.is_recording() {
            self.requests.keep(now, &self.url);
        }
    }

    /// When [`poll`](Self::poll) is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.is_recording().then(|| self.requests.next_keep())
    }

    /// Whether the server takes media.
    pub fn is_recording(&self) -> bool {
        self.step == Step::Recording
    }

    /// Sends a frame that is decoded at its decoding time; sender reports go along.
    ///
    /// # Errors
    /// Why it is not sent. [`NotWritten::Changed`] is for the whole session: it cannot go on.
    pub fn write(&mut self, now: Instant, ntp: NtpTime, frame: &Frame) -> Result<(), NotWritten> {
        self.media.takes(frame)?;
        let mut packets = std::mem::take(&mut self.packets);
        packets.clear();
        self.media.write(now, ntp, frame.dts, frame, &mut packets);
        if self.udp.is_some() {
            // What is sent goes now and then, so that a session that is always a little behind stays small.
            if self.sent == self.datagrams.len() || self.sent >= SENT_BYTES_MAX {
                self.datagrams.drain(..self.sent);
                self.sent = 0;
            }
            self.datagrams.extend_from_slice(&packets);
        } else {
            self.append(&mut packets);
        }
        self.packets = packets;
        self.media.refusal().map_or(Ok(()), |reason| Err(NotWritten::Changed(reason)))
    }

    /// The packet that is to go by UDP next.
    pub fn next_datagram(&self) -> Option<Datagram<'_>> {
        let (&[_, channel, high, low], rest) = self.datagrams[self.sent..].split_first_chunk()?;
        let (track, part) = (usize::from(channel / 2), usize::from(channel % 2));
        let packet = rest.get(..usize::from(u16::from_be_bytes([high, low])))?;
        Some(Datagram { track, is_rtcp: part == 1, port: self.server_ports[track][part], packet })
    }

    /// It is sent.
    pub fn datagram_sent(&mut self) {
        self.sent += self.next_datagram().map_or(0, |datagram| 4 + datagram.packet.len());
    }

    /// Bytes that wait to go by UDP.
    pub fn waiting_bytes(&self) -> usize {
        self.datagrams.len() - self.sent
    }

    /// Puts packets into the output, under the server's channels.
    fn append(&mut self, packets: &mut [u8]) {
        let mut rest = &mut packets[..];
        while let Some((&mut [MAGIC, ref mut channel, high, low], behind)) = rest.split_first_chunk_mut() {
            let (track, part) = (usize::from(*channel / 2), usize::from(*channel % 2));
            *channel = self.channels[track][part];
            let Some((_, next)) = behind.split_at_mut_checked(usize::from(u16::from_be_bytes([high, low])))
            else {
                break;
            };
            rest = next;
        }
        self.requests.output().extend_from_slice(packets);
    }

    /// Asks the server to end the session; the connection may be closed then.
    pub fn tear_down(&mut self) {
        self.requests.tear_down(&self.url);
    }

    fn ask(&mut self, method: &'static str, uri: String, fields: String) {
        self.requests.ask(method, uri, fields, String::new());
    }

    fn answered(&mut self, now: Instant, answer: &Response<Vec<u8>>) -> Result<(), ClientError> {
        let stage = match self.step {
            Step::Options => Stage::Options,
            Step::Recording => Stage::UnderWay,
            _ => Stage::Opening,
        };
        if !self.requests.answered(answer, stage)? {
            return Ok(());
        }
        match self.step {
            Step::Options => {
                self.requests.learn_options(answer);
                self.step = Step::Announce;
                let body = std::mem::take(&mut self.description);
                let fields = "Content-Type: application/sdp\r\n".to_owned();
                self.requests.ask("ANNOUNCE", self.url.clone(), fields, body);
            }
            Step::Announce => self.set_up(0),
            Step::Setup(at) => {
                self.requests.learn_session(answer)?;
                self.take_transport(self.tracks[at], field(answer, "Transport").unwrap_or_default())?;
                if at + 1 < self.tracks.len() {
                    self.set_up(at + 1);
                } else {
                    self.step = Step::Record;
                    self.ask("RECORD", self.url.clone(), "Range: npt=0.000-\r\n".to_owned());
                }
            }
            Step::Record => {
                self.step = Step::Recording;
                self.requests.begin_to_keep(now);
            }
            Step::Recording => {}
        }
        Ok(())
    }

    fn set_up(&mut self, at: usize) {
        self.step = Step::Setup(at);
        let track = self.tracks[at];
        let transport = match self.udp.map(|ports| ports[track]) {
            Some([rtp, rtcp]) => {
                format!("Transport: RTP/AVP;unicast;client_port={rtp}-{rtcp};mode=record\r\n")
            }
            None => {
                let [rtp, rtcp] = self.channels[track];
                format!("Transport: RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp};mode=record\r\n")
            }
        };
        self.ask("SETUP", control_url(&self.url, &control_of(track)), transport);
    }

    /// What a server says of how packets go: by UDP it has to name its ports.
    fn take_transport(&mut self, track: usize, text: &str) -> Result<(), ClientError> {
        let is_tcp = text.to_ascii_uppercase().contains("RTP/AVP/TCP");
        if self.udp.is_some() {
            let ports = server_ports_of(text)?.filter(|ports| !ports.contains(&0) && !is_tcp);
            self.server_ports[track] = ports.ok_or(ClientError::Transport)?;
            return Ok(());
        }
        if !is_tcp && !text.is_empty() {
            return Err(ClientError::Transport);
        }
        if let Some(channels) = channels_of(text)? {
            self.channels[track] = channels;
        }
        Ok(())
    }
}

/// Bytes of packets that are sent and still kept.
const SENT_BYTES_MAX: usize = 256 << 10;

impl Outgoing {
    /// Whether the packets of a frame can be sent by what was described.
    fn takes(&self, frame: &Frame) -> Result<(), NotWritten> {
        let kind = frame.track.kind;
        if kind == MediaKind::Data || matches!(frame.role, FrameRole::Metadata | FrameRole::Other) {
            return Ok(());
        }
        if frame.track.index != 0 {
            return Err(NotWritten::Track("RTSP takes one video and one audio track".to_owned()));
        }
        if !Self::carries(frame.codec) {
            return Err(NotWritten::Track(format!("RTSP cannot carry {}", frame.codec)));
        }
        match (self.has_track(kind), self.would_describe(frame)) {
            (true, _) => Ok(()),
            (false, true) => Err(NotWritten::Changed("the stream has a further track")),
            (false, false) if frame.role == FrameRole::End => Ok(()),
            (false, false) if frame.channels > 1 => {
                Err(NotWritten::Track(format!("RTSP carries {} with one channel", frame.codec)))
            }
            (false, false) => {
                Err(NotWritten::Track(format!("RTSP needs a usable header of {}", frame.codec)))
            }
        }
    }
}
