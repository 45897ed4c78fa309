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
use rtsp_types::{HeaderName, Method, Request, Response};

use crate::client_auth::{Challenge, Login};
use crate::incoming::{Incoming, IncomingSettings, write_interleaved};
use crate::input::{Input, InputError, Item, Limits};
use crate::sdp::{AnnouncedTrack, Described, SdpError, carried, described};

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

/// Why nothing can be played, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayError {
    /// It is no RTSP.
    Input(InputError),
    /// The server wants user and password, and there are none.
    LoginNeeded,
    /// It does not take those that there are.
    LoginWrong,
    /// It wants them in another form than Basic or Digest.
    LoginUnknown,
    /// It answers with this status.
    Status(u16),
    /// It sends the client to another server.
    Redirected,
    /// Its description cannot be used.
    Description(SdpError),
    /// It does not send media in the form that was asked for.
    Transport,
    /// It says that the stream is over.
    Over,
}

impl PlayError {
    /// One sentence for the log and the API.
    pub fn reason(self) -> String {
        match self {
            Self::Input(InputError::NoRequest) => "what the server sends is no RTSP".to_owned(),
            Self::Input(error) => format!("the server sends: {}", error.reason()),
            Self::LoginNeeded => "the server wants a user name and a password".to_owned(),
            Self::LoginWrong => "the server does not accept the user name and password".to_owned(),
            Self::LoginUnknown => "the server wants credentials in a form that is not known".to_owned(),
            Self::Status(status) => format!("the server answers {status}"),
            Self::Redirected => "the server redirects, which is not followed".to_owned(),
            Self::Description(error) => format!("the stream cannot be used: {}", error.reason()),
            Self::Transport => "the server does not send media in the form that was asked for".to_owned(),
            Self::Over => "the server ended the stream".to_owned(),
        }
    }
}

/// One stream that is played.
///
/// **After each call, [`output`](Self::output) is to be written to the connection and
/// [`next_frame`](Self::next_frame) to be asked until it has none; [`poll`](Self::poll) is due at
/// [`next_timeout`](Self::next_timeout).**
#[derive(Debug)]
pub struct PlaySession {
    settings: PlaySettings,
    input: Input,
    output: Vec<u8>,
    sequence: u32,
    challenge: Option<Challenge>,
    step: Step,
    /// What is asked at present, besides signs of life.
    asked: Asked,
    base: String,
    aggregate: String,
    session: Option<String>,
    keeps_by_parameter: bool,
    keep_every: Duration,
    kept_at: Instant,
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

/// A request that may have to be sent again.
#[derive(Debug, Clone, Default)]
struct Asked {
    method: &'static str,
    uri: String,
    fields: String,
    sequence: u32,
    /// It was sent again for a challenge.
    is_again: bool,
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
        let base = settings.url.clone();
        let mut session = Self {
            aggregate: base.clone(),
            settings,
            input: Input::default(),
            output: Vec::new(),
            sequence: 0,
            challenge: None,
            step: Step::Options,
            asked: Asked::default(),
            base,
            session: None,
            keeps_by_parameter: false,
            keep_every: TIMEOUT_BY_DEFAULT / 2,
            kept_at: now,
            tracks: Vec::new(),
            notes: Vec::new(),
            media: None,
        };
        session.ask("OPTIONS", session.base.clone(), String::new());
        session
    }

    /// Bytes for the server.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Takes what has come on the connection.
    pub fn handle_input(&mut self, now: Instant, bytes: &[u8]) -> Result<(), PlayError> {
        self.input.push(bytes);
        loop {
            // Some send packets before they answer PLAY.
            let has_channels = matches!(self.step, Step::Setup(_) | Step::Play | Step::Playing);
            let item = self.input.next(&LIMITS, has_channels).map_err(PlayError::Input)?;
            match item {
                None => return Ok(()),
                Some(Item::Packet { channel, from, to }) => {
                    let known = |track: &Track| track.channels.iter().position(|one| *one == channel);
                    let of = self.tracks.iter().enumerate().find_map(|(at, track)| Some((at, known(track)?)));
                    if let (Some((track, part)), None) = (of, self.settings.udp) {
                        let packet = self.input.bytes(from, to);
                        let at = self.tracks[track].at;
                        take_packet(&mut self.media, now, at, part == 1, packet)?;
                    }
                }
                Some(Item::Answer(answer)) => self.answered(now, &answer)?,
                Some(Item::Request(request)) => self.requested(&request)?,
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
    ) -> Result<(), PlayError> {
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
        if self.step == Step::Playing && now.saturating_duration_since(self.kept_at) >= self.keep_every {
            self.kept_at = now;
            let method = if self.keeps_by_parameter { "GET_PARAMETER" } else { "OPTIONS" };
            self.ask(method, self.aggregate.clone(), String::new());
        }
    }

    /// When [`poll`](Self::poll) is due.
    pub fn next_timeout(&self) -> Option<Instant> {
        let keep = (self.step == Step::Playing).then(|| self.kept_at + self.keep_every);
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
        let (tracks, output, is_udp) = (&self.tracks, &mut self.output, self.settings.udp.is_some());
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
        if self.session.is_some() {
            self.ask("TEARDOWN", self.aggregate.clone(), String::new());
        }
    }

    fn ask(&mut self, method: &'static str, uri: String, fields: String) {
        self.asked = Asked { method, uri, fields, ..Asked::default() };
        self.send_asked();
    }

    fn send_asked(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.asked.sequence = self.sequence;
        let Asked { method, uri, fields, sequence, .. } = &self.asked;
        let agent = &self.settings.user_agent;
        let mut head = format!("{method} {uri} RTSP/1.0\r\nCSeq: {sequence}\r\nUser-Agent: {agent}\r\n");
        if let Some(session) = &self.session {
            head += &format!("Session: {session}\r\n");
        }
        if let (Some(challenge), Some(login)) = (&mut self.challenge, &self.settings.login) {
            head += &format!("Authorization: {}\r\n", challenge.answer(login, method, uri));
        }
        head += fields;
        head += "\r\n";
        self.output.extend_from_slice(head.as_bytes());
    }

    fn answered(&mut self, now: Instant, answer: &Response<Vec<u8>>) -> Result<(), PlayError> {
        // An answer to something before, which came late. Some leave the number out.
        let number = field(answer, "CSeq").and_then(|text| text.trim().parse::<u32>().ok());
        if number.is_some_and(|number| number != self.asked.sequence) {
            return Ok(());
        }
        let status = u16::from(answer.status());
        if status == 401 {
            return self.challenged(answer);
        }
        match (self.step, status) {
            // What some do not know.
            (Step::Options, 400..=599) => {}
            // A sign of life that was not taken; without its session there is nothing to keep.
            (Step::Playing, 454) => return Err(PlayError::Over),
            (Step::Playing, _) => return Ok(()),
            (_, 200..=299) => {}
            (_, 300..=399) => return Err(PlayError::Redirected),
            _ => return Err(PlayError::Status(status)),
        }
        match self.step {
            Step::Options => {
                let public = field(answer, "Public").unwrap_or_default();
                self.keeps_by_parameter = public.split(',').any(|method| method.trim() == "GET_PARAMETER");
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
                if let Some(session) = field(answer, "Session") {
                    self.keep_session(session)?;
                }
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
                self.kept_at = now;
            }
            Step::Playing => {}
        }
        Ok(())
    }

    fn challenged(&mut self, answer: &Response<Vec<u8>>) -> Result<(), PlayError> {
        if self.settings.login.is_none() {
            return Err(PlayError::LoginNeeded);
        }
        let challenge = field(answer, "WWW-Authenticate").and_then(Challenge::read);
        let challenge = challenge.ok_or(PlayError::LoginUnknown)?;
        let known = self.challenge.as_ref();
        // A server that always has another nonce is not answered for ever.
        if self.asked.is_again || known.is_some_and(|known| known.is_repeated_by(&challenge)) {
            return Err(PlayError::LoginWrong);
        }
        self.asked.is_again = true;
        self.challenge = Some(challenge);
        self.send_asked();
        Ok(())
    }

    fn describe(&mut self, now: Instant, body: &[u8]) -> Result<(), PlayError> {
        let Described { tracks, control, notes } = described(body).map_err(PlayError::Description)?;
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
                uri: control_url(&self.base, track),
                channels: [2 * number as u8, 2 * number as u8 + 1],
                server_ports: None,
            })
            .collect();
        let settings = IncomingSettings { delay_max: self.settings.reorder_max };
        self.media = Some(Incoming::new(&tracks, settings, now));
        Ok(())
    }

    fn set_up(&mut self, at: usize) {
        self.step = Step::Setup(at);
        let Track { uri, channels: [rtp, rtcp], .. } = &self.tracks[at];
        let transport = match self.settings.udp {
            Some(ports) => {
                let [rtp, rtcp] = ports[at];
                format!("Transport: RTP/AVP;unicast;client_port={rtp}-{rtcp}\r\n")
            }
            None => format!("Transport: RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}\r\n"),
        };
        self.ask("SETUP", uri.clone(), transport);
    }

    /// `id;timeout=60`
    fn keep_session(&mut self, text: &str) -> Result<(), PlayError> {
        let (id, rest) = text.split_once(';').unwrap_or((text, ""));
        let id = id.trim();
        if id.is_empty() || id.len() > SESSION_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(PlayError::Input(InputError::NoRequest));
        }
        self.session = Some(id.to_owned());
        let timeout = rest.split(';').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("timeout").then(|| value.trim().parse().ok()).flatten()
        });
        let timeout = timeout.map_or(TIMEOUT_BY_DEFAULT, Duration::from_secs);
        self.keep_every = (timeout / 2).clamp(KEEP_EVERY_MIN, TIMEOUT_BY_DEFAULT / 2);
        Ok(())
    }

    /// What a server says of how packets come; what it leaves out is as it was asked for.
    fn take_transport(&mut self, at: usize, text: &str) -> Result<(), PlayError> {
        let is_tcp = text.to_ascii_uppercase().contains("RTP/AVP/TCP");
        if is_tcp == self.settings.udp.is_some() && !text.is_empty() {
            return Err(PlayError::Transport);
        }
        for part in text.split(';') {
            let Some((key, value)) = part.split_once('=') else { continue };
            let (first, second) = value.split_once('-').unwrap_or((value, ""));
            match key.trim() {
                "interleaved" => {
                    let rtp: u8 = first.trim().parse().map_err(|_| PlayError::Transport)?;
                    let rtcp = second.trim().parse().unwrap_or(rtp.wrapping_add(1));
                    self.tracks[at].channels = [rtp, rtcp];
                }
                "server_port" => {
                    let rtp = first.trim().parse().map_err(|_| PlayError::Transport)?;
                    let rtcp = second.trim().parse().unwrap_or(u16::wrapping_add(rtp, 1));
                    self.tracks[at].server_ports = Some([rtp, rtcp]);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A server asks something: that the client is there, or that it goes.
    fn requested(&mut self, request: &Request<Vec<u8>>) -> Result<(), PlayError> {
        let status = match request.method() {
            Method::Options | Method::GetParameter | Method::SetParameter => "200 OK",
            Method::Teardown => return Err(PlayError::Over),
            _ => "501 Not Implemented",
        };
        let name = HeaderName::from_static_str("CSeq").expect("a name");
        let number = request.header(&name).map(|value| value.as_str().trim()).unwrap_or_default();
        let number =
            if number.len() <= 10 && number.bytes().all(|byte| byte.is_ascii_digit()) { number } else { "0" };
        if self.output.len() < OUTPUT_BYTES_MAX {
            let answer = format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n\r\n");
            self.output.extend_from_slice(answer.as_bytes());
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
) -> Result<(), PlayError> {
    let Some(media) = media else { return Ok(()) };
    if is_rtcp {
        return if media.rtcp(now, track, packet) == Ok(true) { Err(PlayError::Over) } else { Ok(()) };
    }
    let _ = media.rtp(now, track, packet);
    Ok(())
}

/// The URL by which a track is set up (RFC 2326 section C.1.1), as cameras and their clients read it: what is
/// not absolute goes behind the URL of the description.
fn control_url(base: &str, track: &AnnouncedTrack) -> String {
    let control = track.control.as_str();
    if is_url(control) {
        return control.to_owned();
    }
    let is_usable = control.bytes().all(|byte| byte.is_ascii_graphic()) && control.len() <= URL_BYTES_MAX;
    if control.is_empty() || control == "*" || !is_usable {
        return base.to_owned();
    }
    format!("{}/{}", base.trim_end_matches('/'), control.trim_start_matches('/'))
}

fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_rtsp = scheme.is_some_and(|scheme| scheme == "rtsp" || scheme == "rtsps");
    is_rtsp && text.len() <= URL_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The value of a field; none if it cannot be sent back.
fn field<'a>(answer: &'a Response<Vec<u8>>, name: &'static str) -> Option<&'a str> {
    let name = HeaderName::from_static_str(name).ok()?;
    answer.header(&name).map(|value| value.as_str())
}

/// Tracks that are played: a video and an audio.
pub const TRACKS_MAX: usize = 2;
/// What a server may send at most; descriptions of cameras are a few kilobytes.
const LIMITS: Limits = Limits { head_bytes_max: 16 << 10, body_bytes_max: 64 << 10, lines_max: 128 };
/// How long a session lasts without a sign of life where the server does not say (RFC 2326 section 12.37).
const TIMEOUT_BY_DEFAULT: Duration = Duration::from_secs(60);
/// Signs of life at most this often, whatever the server says.
const KEEP_EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest name of a session.
const SESSION_BYTES_MAX: usize = 256;
/// Longest URL that a server may name.
const URL_BYTES_MAX: usize = 2048;
/// Answers to a server that asks and does not read are left out from here on.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
