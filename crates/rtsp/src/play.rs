//! A client that plays a stream of an RTSP server, as cameras are.
//!
//! ```text
//! OPTIONS ─▶ DESCRIBE ─▶ SETUP of each track that is carried ─▶ PLAY ─▶ media, signs of life
//!    └ 401: the same again with credentials, once for each challenge
//! ```
//! Cameras are odd, so little is asked of them: tracks without `a=control`, absolute control URLs, no
//! `Content-Base`, no parameter sets in the description, no `RTP-Info`. A track that is not carried is
//! left out, and said so by [`PlaySession::notes`]. What a server sends is bounded by [`Limits`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use media::Frame;
use rtsp_types::Response;

use crate::client_auth::Login;
use crate::incoming::{Incoming, IncomingSettings, write_interleaved};
use crate::input::{Input, Item};
use crate::requests::{
    ClientError, LIMITS, Requests, Stage, channels_of, control_url, field, is_url, server_ports_of,
};
use crate::sdp::{Described, carried, described};

/// What is played, and how.
#[derive(Debug, Clone)]
pub struct PlaySettings {
    /// URL of the stream, without user and password.
    pub url: String,
    /// Who asks, if the server wants to know.
    pub login: Option<Login>,
    /// What the client says it is.
    pub user_agent: String,
    /// Local ports of RTP and RTCP, of the first and second track; without them, packets come
    /// interleaved.
    pub udp: Option<[[u16; 2]; TRACKS_MAX]>,
    /// Longest a packet that is missing is waited for.
    pub reorder_max: Duration,
}

/// One stream that is played.
///
/// **After each call, [`output`](Self::output) is to be written to the connection and
/// [`next_frame`](Self::next_frame) to be asked until it has none; [`poll`](Self::poll) is due at
/// [`next_timeout`](Self::next_timeout).**
#[derive(Debug)]
pub struct PlaySession {
    udp: Option<[[u16; 2]; TRACKS_MAX]>,
    reorder_max: Duration,
    input: Input,
    requests: Requests,
    step: Step,
    base: String,
    aggregate: String,
    tracks: Vec<Track>,
    notes: Vec<&'static str>,
    media: Option<Incoming>,
}

/// How far it is: what the next answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Options,
    Describe,
    Setup(usize),
    Play,
    Playing,
}

/// A track that is carried.
#[derive(Debug)]
struct Track {
    /// Its place in the description.
    at: usize,
    uri: String,
    channels: [u8; 2],
    server_ports: Option<[u16; 2]>,
}

impl PlaySession {
    /// Begins: the first request is in the output.
    pub fn new(settings: PlaySettings, now: Instant) -> Self {
        let PlaySettings { url, login, user_agent, udp, reorder_max } = settings;
        let mut session = Self {
            udp,
            reorder_max,
            input: Input::default(),
            requests: Requests::new(login, user_agent, now),
            step: Step::Options,
            base: url.clone(),
            aggregate: url.clone(),
            tracks: Vec::new(),
            notes: Vec::new(),
            media: None,
        };
        session.ask("OPTIONS", url, String::new());
        session
    }

    /// Bytes for the server.
    pub fn output(&mut self) -> &mut Vec<u8> {
        self.requests.output()
    }

    /// Takes what has come on the connection.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<(), ClientError> {
        self.input.push(bytes);
        loop {
            // Some send packets before they answer PLAY.
            let has_channels = matches!(self.step, Step::Setup(_) | Step::Play | Step::Playing);
            let item = self.input.next(&LIMITS, has_channels).map_err(ClientError::Input)?;
            match item {
                None => return Ok(()),
                Some(Item::Packet { channel, from, to }) => {
                    let known = |track: &Track| track.channels.iter().position(|one| *one == channel);
                    let of = self.tracks.iter().enumerate().find_map(|(at, track)| Some((at, known(track)?)));
                    if let (Some((track, part)), None) = (of, self.udp) {
                        let packet = self.input.bytes(from, to);
                        let at = self.tracks[track].at;
                        take_packet(&mut self.media, now, at, part == 1, packet)?;
                    }
                }
                Some(Item::Answer(answer)) => self.answered(now, &answer)?,
                Some(Item::Request(request)) => self.requests.requested(&request)?,
            }
        }
    }

    /// Takes a datagram of a track, counted as they were set up.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        track: usize,
        is_rtcp: bool,
        datagram: &[u8],
    ) -> Result<(), ClientError> {
        match self.tracks.get(track) {
            Some(track) => take_packet(&mut self.media, now, track.at, is_rtcp, datagram),
            None => Ok(()),
        }
    }

    /// Does what is due.
    pub fn poll(&mut self, now: Instant) {
        if let Some(media) = &mut self.media {
            media.poll(now);
        }
        if self.step == Step::Playing {
            self.requests.keep(now, &self.aggregate);
        }
    }

    /// When [`poll`](Self::poll) is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let keep = (self.step == Step::Playing).then(|| self.requests.next_keep());
        self.media.as_ref().and_then(Incoming::next_timeout).into_iter().chain(keep).min()
    }

    /// The next frame.
    pub fn next_frame(&mut self) -> Option<Arc<Frame>> {
        self.media.as_mut()?.next_frame()
    }

    /// Receiver reports that are due: in the connection, or handed to `send` with the track, as they
    /// were set up.
    pub fn report(&mut self, now: Instant, mut send: impl FnMut(usize, &[u8])) {
        let Some(media) = &mut self.media else { return };
        let (tracks, output, is_udp) = (&self.tracks, self.requests.output(), self.udp.is_some());
        media.report(now, |at, report| {
            let Some(number) = tracks.iter().position(|track| track.at == at) else { return };
            if is_udp {
                send(number, report);
            } else {
                let channel = tracks[number].channels[1];
                write_interleaved(output, channel, |out| out.extend_from_slice(report));
            }
        });
    }

    /// The server's ports of RTP and RTCP of a track, counted as they were set up, where it named them.
    pub fn server_ports(&self, track: usize) -> Option<[u16; 2]> {
        self.tracks.get(track)?.server_ports
    }

    /// Why tracks of the stream are left out.
    pub fn notes(&self) -> &[&'static str] {
        &self.notes
    }

    /// Whether media may come.
    pub fn is_playing(&self) -> bool {
        self.step == Step::Playing
    }

    /// Asks the server to end the session; the connection may be closed then.
    pub fn tear_down(&mut self) {
        self.requests.tear_down(&self.aggregate);
    }

    fn ask(&mut self, method: &'static str, uri: String, fields: String) {
        self.requests.ask(method, uri, fields, String::new());
    }

    fn answered(&mut self, now: Instant, answer: &Response<Vec<u8>>) -> Result<(), ClientError> {
        let stage = match self.step {
            Step::Options => Stage::Options,
            Step::Playing => Stage::UnderWay,
            _ => Stage::Opening,
        };
        if !self.requests.answered(answer, stage)? {
            return Ok(());
        }
        match self.step {
            Step::Options => {
                self.requests.learn_options(answer);
                self.step = Step::Describe;
                self.ask("DESCRIBE", self.base.clone(), "Accept: application/sdp\r\n".to_owned());
            }
            Step::Describe => {
                let base = field(answer, "Content-Base").or_else(|| field(answer, "Content-Location"));
                if let Some(base) = base.map(str::trim).filter(|base| is_url(base)) {
                    self.base = base.to_owned();
                }
                self.describe(now, answer.body())?;
                self.set_up(0);
            }
            Step::Setup(at) => {
                self.requests.learn_session(answer)?;
                self.take_transport(at, field(answer, "Transport").unwrap_or_default())?;
                if at + 1 < self.tracks.len() {
                    self.set_up(at + 1);
                } else {
                    self.step = Step::Play;
                    self.ask("PLAY", self.aggregate.clone(), "Range: npt=0.000-\r\n".to_owned());
                }
            }
            Step::Play => {
                self.step = Step::Playing;
                self.requests.begin_to_keep(now);
            }
            Step::Playing => {}
        }
        Ok(())
    }

    fn describe(&mut self, now: Instant, body: &[u8]) -> Result<(), ClientError> {
        let Described { tracks, control, notes } = described(body).map_err(ClientError::Description)?;
        self.notes = notes;
        self.aggregate = match control {
            Some(control) if is_url(&control) => control,
            _ => self.base.clone(),
        };
        let wanted = tracks.iter().zip(carried(&tracks)).enumerate().filter(|(_, (_, carried))| *carried);
        self.tracks = wanted
            .take(TRACKS_MAX)
            .enumerate()
            .map(|(number, (at, (track, _)))| Track {
                at,
                uri: control_url(&self.base, &track.control),
                channels: [2 * number as u8, 2 * number as u8 + 1],
                server_ports: None,
            })
            .collect();
        let settings = IncomingSettings { delay_max: self.reorder_max };
        self.media = Some(Incoming::new(&tracks, settings, now));
        Ok(())
    }

    fn set_up(&mut self, at: usize) {
        self.step = Step::Setup(at);
        let Track { uri, channels: [rtp, rtcp], .. } = &self.tracks[at];
        let transport = match self.udp {
            Some(ports) => {
                let [rtp, rtcp] = ports[at];
                format!("Transport: RTP/AVP;unicast;client_port={rtp}-{rtcp}\r\n")
            }
            None => format!("Transport: RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}\r\n"),
        };
        self.ask("SETUP", uri.clone(), transport);
    }

    /// What a server says of how packets come; what it leaves out is as it was asked for.
    fn take_transport(&mut self, at: usize, text: &str) -> Result<(), ClientError> {
        let is_tcp = text.to_ascii_uppercase().contains("RTP/AVP/TCP");
        if is_tcp == self.udp.is_some() && !text.is_empty() {
            return Err(ClientError::Transport);
        }
        if let Some(channels) = channels_of(text)? {
            self.tracks[at].channels = channels;
        }
        if let Some(ports) = server_ports_of(text)? {
            self.tracks[at].server_ports = Some(ports);
        }
        Ok(())
    }
}

/// Hands a packet on; one that makes no sense is left out.
fn take_packet(
    media: &mut Option<Incoming>,
    now: Instant,
    track: usize,
    is_rtcp: bool,
    packet: &[u8],
) -> Result<(), ClientError> {
    let Some(media) = media else { return Ok(()) };
    if is_rtcp {
        return if media.rtcp(now, track, packet) == Ok(true) { Err(ClientError::Over) } else { Ok(()) };
    }
    let _ = media.rtp(now, track, packet);
    Ok(())
}

/// Tracks that are played: a video and an audio.
pub const TRACKS_MAX: usize = 2;
