//! One connection of a client, from its first request to its end.
//!
//! ```text
//!            ANNOUNCE ─┐                         ┌─▶ Recording ─┐
//!  Init ───────────────┼─▶ SETUP, once a track ──┤              ├─ PAUSE, TEARDOWN
//!            DESCRIBE ─┘                         └─▶ Playing ───┘
//! ```
//! A session is of its connection: another connection that names it gets 454. What takes more than the
//! protocol (is there such a stream, may this client have it) is an [`Event`] that the caller answers; until
//! then the requests behind it wait, and their bytes are bounded.

use rtsp_types::headers::{
    AUTHORIZATION, CONTENT_BASE, CONTENT_TYPE, CSEQ, PUBLIC, REQUIRE, SESSION, TRANSPORT, UNSUPPORTED,
    USER_AGENT, WWW_AUTHENTICATE,
};
use rtsp_types::{HeaderName, HeaderValue, Method, Request, StatusCode};

use crate::auth::{self, Credential, Offered};
use crate::input::{Input, InputError, Item, Limits};
use crate::sdp::{AnnouncedTrack, announced};
use crate::transport::{self, Lower, Setup};

/// Methods that are spoken.
const METHODS: &str =
    "OPTIONS, DESCRIBE, ANNOUNCE, SETUP, PLAY, RECORD, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";

/// Bytes that may wait behind a request that is being answered.
const WAITING_BYTES_MAX: usize = 32 << 10;

/// Session timeout that clients are given, seconds.
pub(crate) const TIMEOUT_SECONDS: u64 = 60;

/// Which way media go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The client sends.
    Publish,
    /// The client receives.
    Play,
}

/// Answers of a server that are not 200 (RFC 2326 section 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names are those of the standard")]
pub enum Status {
    BadRequest,
    Forbidden,
    NotFound,
    NotAcceptable,
    RequestTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
    SessionNotFound,
    NotValidInThisState,
    AggregateNotAllowed,
    UnsupportedTransport,
    NotImplemented,
    ServiceUnavailable,
    VersionNotSupported,
    OptionNotSupported,
}

impl Status {
    fn code(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BadRequest,
            Self::Forbidden => StatusCode::Forbidden,
            Self::NotFound => StatusCode::NotFound,
            Self::NotAcceptable => StatusCode::NotAcceptable,
            Self::RequestTimeout => StatusCode::RequestTimeout,
            Self::BodyTooLarge => StatusCode::RequestMessageBodyTooLarge,
            Self::UnsupportedMediaType => StatusCode::UnsupportedMediaType,
            Self::SessionNotFound => StatusCode::SessionNotFound,
            Self::NotValidInThisState => StatusCode::MethodNotValidInThisState,
            Self::AggregateNotAllowed => StatusCode::AggregateOperationNotAllowed,
            Self::UnsupportedTransport => StatusCode::UnsupportedTransport,
            Self::NotImplemented => StatusCode::NotImplemented,
            Self::ServiceUnavailable => StatusCode::ServiceUnavailable,
            Self::VersionNotSupported => StatusCode::RTSPVersionNotSupported,
            Self::OptionNotSupported => StatusCode::OptionNotSupported,
        }
    }
}

/// A stream that a client asks for, and what it shows for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Path of the URL, without slashes around it.
    pub path: String,
    /// Query of the URL.
    pub query: String,
    /// What it shows in a field of its own.
    pub credential: Option<Credential>,
}

/// What a client wants, or sends. [`Describe`](Event::Describe), [`Announce`](Event::Announce),
/// [`Play`](Event::Play) and [`Record`](Event::Record) **are to be answered**.
#[derive(Debug)]
pub enum Event {
    /// What a stream is: [`ServerSession::describe`] or a refusal.
    Describe(Target),
    /// It will publish this: [`ServerSession::accept`] or a refusal.
    Announce(Target, Vec<AnnouncedTrack>),
    /// It plays the tracks that it has set up: [`ServerSession::accept`] or a refusal.
    Play,
    /// It sends from now on: [`ServerSession::accept`] or a refusal.
    Record,
    /// It pauses; the request has been answered.
    Pause,
    /// It has ended its session; the request has been answered.
    Teardown,
    /// A packet of a track: where it is, for [`ServerSession::packet`].
    Media {
        /// Position of the track in the description.
        track: usize,
        /// RTCP, else RTP.
        is_rtcp: bool,
        /// Its bytes.
        range: (usize, usize),
    },
}

/// Why the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// What it sends cannot be read on; it got an answer that says so.
    Input(InputError),
    /// It asks and asks while an answer is awaited.
    TooMuch,
}

impl Ends {
    /// For the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Input(error) => error.reason(),
            Self::TooMuch => "too many RTSP requests before their answers",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Init,
    Ready,
    Playing,
    Recording,
}

/// What a client may set up.
#[derive(Debug)]
struct Described {
    role: Role,
    path: String,
    /// Position and control of each track.
    tracks: Vec<(usize, String)>,
}

/// A request that is to be answered by the caller.
#[derive(Debug)]
struct Awaiting {
    cseq: String,
    method: Method,
    /// The URL without its query, for `Content-Base`.
    base: String,
    target: Option<Target>,
    tracks: Vec<(usize, String)>,
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct ServerSession {
    limits: Limits,
    input: Input,
    output: Vec<u8>,
    /// Names the session.
    id: String,
    /// Of challenges.
    nonce: String,
    /// Ports of RTP and RTCP by UDP, if there are some.
    udp: Option<(u16, u16)>,
    phase: Phase,
    described: Option<Described>,
    setups: Vec<Setup>,
    had_channels: bool,
    awaiting: Option<Awaiting>,
    ends: Option<Ends>,
    user_agent: Option<String>,
    /// Interleaved packets on channels without SETUP.
    strays: u64,
}

impl ServerSession {
    /// A connection on which nothing has come. `random` names its session and is known to nobody else; `udp`
    /// are the ports of RTP and RTCP, where there are some.
    pub fn new(limits: Limits, random: [u8; 32], udp: Option<(u16, u16)>) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            limits,
            input: Input::default(),
            output: Vec::new(),
            id: hex(&random[..8]),
            nonce: hex(&random[16..]),
            udp,
            phase: Phase::Init,
            described: None,
            setups: Vec::new(),
            had_channels: false,
            awaiting: None,
            ends: None,
            user_agent: None,
            strays: 0,
        }
    }

    /// Takes in what has come. Take all events before more of it.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        if self.ends.is_some() {
            return;
        }
        self.input.push(bytes);
        if self.awaiting.is_some() && self.input.waiting() > WAITING_BYTES_MAX {
            self.ends = Some(Ends::TooMuch);
        }
    }

    /// The next thing that the client wants or sends.
    pub fn poll_event(&mut self) -> Option<Event> {
        while self.awaiting.is_none() && self.ends.is_none() {
            // Packets may still be on their way after a TEARDOWN.
            let has_channels = !self.setups.is_empty() || self.had_channels;
            let item = match self.input.next(&self.limits, has_channels) {
                Ok(item) => item?,
                Err(error) => {
                    self.refuse_input(error);
                    return None;
                }
            };
            let event = match item {
                Item::Packet { channel, from, to } => self.media(channel, (from, to)),
                // Nothing was asked.
                // It is to nothing that was asked.
                Item::Answer(_) => None,
                Item::Request(request) => self.request(*request),
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    /// Bytes of a packet, until more comes in.
    pub fn packet(&self, (from, to): (usize, usize)) -> &[u8] {
        self.input.bytes(from, to)
    }

    /// Answers [`Event::Describe`]: the tracks by their positions, of which each has the control
    /// `trackID=position`.
    pub fn describe(&mut self, sdp: &str, tracks: &[usize]) {
        let Some(awaiting) = self.awaiting.take() else { return };
        let path = awaiting.target.map_or(String::new(), |target| target.path);
        let tracks = tracks.iter().map(|track| (*track, control_of(*track))).collect();
        if matches!(self.phase, Phase::Init | Phase::Ready) {
            self.described = Some(Described { role: Role::Play, path, tracks });
            self.setups.clear();
            self.phase = Phase::Init;
        }
        let fields = [
            (CONTENT_BASE, format!("{}/", awaiting.base.trim_end_matches('/'))),
            (CONTENT_TYPE, "application/sdp".to_owned()),
        ];
        self.answer(&awaiting.cseq, StatusCode::Ok, None, fields, sdp);
    }

    /// Answers the other events: it may.
    pub fn accept(&mut self) {
        let Some(awaiting) = self.awaiting.take() else { return };
        let mut fields = Vec::new();
        match awaiting.method {
            Method::Announce => {
                let path = awaiting.target.map_or(String::new(), |target| target.path);
                self.described = Some(Described { role: Role::Publish, path, tracks: awaiting.tracks });
                self.setups.clear();
                self.phase = Phase::Init;
            }
            Method::Play => {
                self.phase = Phase::Playing;
                fields = self.session_fields();
                fields.push((rtsp_types::headers::RANGE, "npt=now-".to_owned()));
            }
            _ => {
                self.phase = Phase::Recording;
                fields = self.session_fields();
            }
        }
        self.answer(&awaiting.cseq, StatusCode::Ok, None, fields, "");
    }

    /// Whether a request waits for its answer.
    pub fn is_asked(&self) -> bool {
        self.awaiting.is_some()
    }

    /// Answers an event: it may not.
    pub fn refuse(&mut self, status: Status, reason: &str) {
        let Some(awaiting) = self.awaiting.take() else { return };
        self.answer(&awaiting.cseq, status.code(), Some(reason), [], "");
    }

    /// Answers an event: it has to show something else (401).
    pub fn challenge(&mut self, offered: Offered, reason: &str) {
        let Some(awaiting) = self.awaiting.take() else { return };
        let challenges: Vec<String> = auth::challenges(offered, &self.nonce).collect();
        let fields = challenges.into_iter().map(|challenge| (WWW_AUTHENTICATE, challenge));
        self.answer(&awaiting.cseq, StatusCode::Unauthorized, Some(reason), fields, "");
    }

    /// Says that a request took too long, if one has begun.
    pub fn time_out(&mut self) {
        if self.is_partial() || self.awaiting.is_some() {
            self.answer("0", Status::RequestTimeout.code(), None, [], "");
        }
    }

    /// Whether a message has begun, and not ended.
    pub fn is_partial(&self) -> bool {
        self.input.waiting() > 0 && self.awaiting.is_none()
    }

    /// Requests and packets that have come as a whole.
    pub fn items(&self) -> u64 {
        self.input.items()
    }

    /// Whether an event waits to be answered.
    pub fn is_awaiting(&self) -> bool {
        self.awaiting.is_some()
    }

    /// What is to be sent; the caller takes it out.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Why the connection ends, once it does.
    pub fn ends(&self) -> Option<Ends> {
        self.ends
    }

    /// How the tracks go that were set up.
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }

    /// What it does, or prepares to do.
    pub fn role(&self) -> Option<Role> {
        self.described.as_ref().map(|described| described.role)
    }

    /// The name that the client gives itself.
    pub fn user_agent(&self) -> Option<&str> {
        self.user_agent.as_deref()
    }

    /// Interleaved packets on channels without SETUP, since this was asked last.
    pub fn take_strays(&mut self) -> u64 {
        std::mem::take(&mut self.strays)
    }

    fn media(&mut self, channel: u8, range: (usize, usize)) -> Option<Event> {
        let of_channel = |setup: &Setup| match setup.lower {
            Lower::Interleaved { rtp, .. } if rtp == channel => Some((setup.track, false)),
            Lower::Interleaved { rtcp, .. } if rtcp == channel => Some((setup.track, true)),
            _ => None,
        };
        let is_awaited = |is_rtcp: bool| match self.phase {
            Phase::Recording => true,
            Phase::Playing => is_rtcp,
            Phase::Init | Phase::Ready => false,
        };
        let found = self.setups.iter().find_map(of_channel);
        match found.filter(|(_, is_rtcp)| is_awaited(*is_rtcp)) {
            Some((track, is_rtcp)) => Some(Event::Media { track, is_rtcp, range }),
            None => {
                self.strays += 1;
                None
            }
        }
    }

    fn request(&mut self, request: Request<Vec<u8>>) -> Option<Event> {
        let field = |name: &HeaderName| request.header(name).map(HeaderValue::as_str);
        let cseq = field(&CSEQ).map(str::trim).unwrap_or_default();
        if cseq.is_empty() || cseq.len() > 10 || !cseq.bytes().all(|byte| byte.is_ascii_digit()) {
            self.refuse_now("0", Status::BadRequest);
            return None;
        }
        let cseq = cseq.to_owned();
        if self.user_agent.is_none() {
            let shown = |char: &char| !char.is_control();
            self.user_agent = field(&USER_AGENT).map(|text| text.chars().filter(shown).take(128).collect());
        }
        if let Some(required) = field(&REQUIRE) {
            let fields = [(UNSUPPORTED, required.to_owned())];
            self.answer(&cseq, Status::OptionNotSupported.code(), None, fields, "");
            return None;
        }
        let session = field(&SESSION).map(|text| text.split(';').next().unwrap_or_default().trim());
        let has_session = session == Some(self.id.as_str()) && self.phase != Phase::Init;
        let method = request.method().clone();
        let needs_session =
            matches!(method, Method::Play | Method::Pause | Method::Record | Method::Teardown);
        let names_another = session.is_some_and(|session| session != self.id);
        if needs_session && !has_session || names_another {
            let is_early = session.is_none() && self.phase == Phase::Init && method != Method::Teardown;
            let status = if is_early { Status::NotValidInThisState } else { Status::SessionNotFound };
            self.refuse_now(&cseq, status);
            return None;
        }
        match method {
            Method::Options => {
                self.answer(&cseq, StatusCode::Ok, None, [(PUBLIC, METHODS.to_owned())], "");
                None
            }
            Method::GetParameter | Method::SetParameter => {
                let fields = if has_session { self.session_fields() } else { Vec::new() };
                self.answer(&cseq, StatusCode::Ok, None, fields, "");
                None
            }
            Method::Describe | Method::Announce => self.begin(&request, cseq),
            Method::Setup => {
                match self.set_up(&request) {
                    Ok(lower) => {
                        let mut fields = self.session_fields();
                        fields.push((TRANSPORT, self.transport_field(lower)));
                        self.answer(&cseq, StatusCode::Ok, None, fields, "");
                    }
                    Err(status) => self.refuse_now(&cseq, status),
                }
                None
            }
            Method::Play | Method::Record => {
                let wanted = if method == Method::Play { Role::Play } else { Role::Publish };
                let is_on = matches!(self.phase, Phase::Playing | Phase::Recording);
                if self.role() != Some(wanted) {
                    self.refuse_now(&cseq, Status::NotValidInThisState);
                    return None;
                }
                if is_on {
                    // Asked again, as some do to show that they are there.
                    let fields = self.session_fields();
                    self.answer(&cseq, StatusCode::Ok, None, fields, "");
                    return None;
                }
                let event = if wanted == Role::Play { Event::Play } else { Event::Record };
                self.awaiting =
                    Some(Awaiting { cseq, method, base: String::new(), target: None, tracks: Vec::new() });
                Some(event)
            }
            Method::Pause => {
                let was_on = matches!(self.phase, Phase::Playing | Phase::Recording);
                self.phase = Phase::Ready;
                let fields = self.session_fields();
                self.answer(&cseq, StatusCode::Ok, None, fields, "");
                was_on.then_some(Event::Pause)
            }
            Method::Teardown => {
                self.answer(&cseq, StatusCode::Ok, None, [], "");
                (self.phase, self.described) = (Phase::Init, None);
                self.setups.clear();
                Some(Event::Teardown)
            }
            _ => {
                let fields = [(PUBLIC, METHODS.to_owned())];
                self.answer(&cseq, Status::NotImplemented.code(), None, fields, "");
                None
            }
        }
    }

    /// DESCRIBE and ANNOUNCE.
    fn begin(&mut self, request: &Request<Vec<u8>>, cseq: String) -> Option<Event> {
        let method = request.method().clone();
        if matches!(self.phase, Phase::Playing | Phase::Recording) {
            self.refuse_now(&cseq, Status::NotValidInThisState);
            return None;
        }
        let Some(url) = request.request_uri() else {
            self.refuse_now(&cseq, Status::BadRequest);
            return None;
        };
        let name: &str = (&method).into();
        let credential = request.header(&AUTHORIZATION);
        let credential = credential.and_then(|field| auth::read(field.as_str(), name, &self.nonce));
        let target = Target {
            path: url.path().trim_matches('/').to_owned(),
            query: url.query().unwrap_or_default().to_owned(),
            credential,
        };
        let mut base = url.clone();
        base.set_query(None);
        base.set_fragment(None);
        // Whoever puts a password there should not get it back in what others may see.
        let _ = base.set_username("").and_then(|()| base.set_password(None));
        let mut awaiting = Awaiting {
            cseq,
            method: method.clone(),
            base: base.to_string(),
            target: Some(target.clone()),
            tracks: Vec::new(),
        };
        if method == Method::Describe {
            self.awaiting = Some(awaiting);
            return Some(Event::Describe(target));
        }
        let is_sdp = |field: &HeaderValue| {
            let kind = field.as_str().split(';').next().unwrap_or_default();
            kind.trim().eq_ignore_ascii_case("application/sdp")
        };
        if !request.header(&CONTENT_TYPE).is_some_and(is_sdp) {
            self.refuse_now(&awaiting.cseq, Status::UnsupportedMediaType);
            return None;
        }
        match announced(request.body()) {
            Ok(tracks) => {
                let controls = tracks.iter().enumerate().map(|(at, track)| (at, track.control.clone()));
                awaiting.tracks = controls.collect();
                self.awaiting = Some(awaiting);
                Some(Event::Announce(target, tracks))
            }
            Err(error) => {
                let status = match error {
                    crate::SdpError::NotCarried(_) => Status::UnsupportedMediaType,
                    _ => Status::BadRequest,
                };
                self.answer(&awaiting.cseq, status.code(), Some(error.reason()), [], "");
                None
            }
        }
    }

    fn set_up(&mut self, request: &Request<Vec<u8>>) -> Result<Lower, Status> {
        let Some(described) = &self.described else { return Err(Status::NotValidInThisState) };
        if matches!(self.phase, Phase::Playing | Phase::Recording) {
            return Err(Status::NotValidInThisState);
        }
        let url = request.request_uri().ok_or(Status::BadRequest)?;
        if !url.path().trim_matches('/').starts_with(&described.path) {
            return Err(Status::NotFound);
        }
        // Publishers put what names a track behind the URL of their ANNOUNCE, its query included.
        let asked = url.as_str().trim_end_matches('/');
        let is_named = |control: &str| {
            let before = asked.strip_suffix(control).filter(|_| !control.is_empty());
            let is_part = |char: char| char.is_ascii_alphanumeric();
            before.is_some_and(|before| !control.starts_with(is_part) || !before.ends_with(is_part))
        };
        // The longest is meant where one is the end of another: `video/1` and `1`.
        let named = described.tracks.iter().filter(|(_, control)| is_named(control));
        let named = named.max_by_key(|(_, control)| control.len());
        let only = described.tracks.first().filter(|_| described.tracks.len() == 1);
        let &(track, _) = named.or(only).ok_or(Status::AggregateNotAllowed)?;
        let field = request.header(&TRANSPORT).ok_or(Status::UnsupportedTransport)?;
        let mut lower = transport::choose(field.as_str(), track, described.role, self.udp.is_some())?;
        if let (Lower::Interleaved { rtp, rtcp }, Role::Play) = (&mut lower, described.role) {
            // All players get the same bytes.
            let of_track = u8::try_from(2 * track).map_err(|_| Status::UnsupportedTransport)?;
            (*rtp, *rtcp) = (of_track, of_track + 1);
        }
        self.setups.retain(|setup| setup.track != track);
        let is_udp = |lower: &Lower| matches!(lower, Lower::Udp { .. });
        let places = |lower: &Lower| match *lower {
            Lower::Interleaved { rtp, rtcp } => [u16::from(rtp), u16::from(rtcp)],
            Lower::Udp { rtp, rtcp } => [rtp, rtcp],
        };
        let clashes = |other: &Setup| {
            is_udp(&other.lower) != is_udp(&lower)
                || places(&other.lower).iter().any(|place| places(&lower).contains(place))
        };
        if self.setups.iter().any(clashes) {
            return Err(Status::UnsupportedTransport);
        }
        self.setups.push(Setup { track, lower });
        self.had_channels = true;
        self.phase = Phase::Ready;
        Ok(lower)
    }

    fn transport_field(&self, lower: Lower) -> String {
        let mode = match self.role() {
            Some(Role::Publish) => ";mode=record",
            _ => "",
        };
        match lower {
            Lower::Interleaved { rtp, rtcp } => {
                format!("RTP/AVP/TCP;unicast;interleaved={rtp}-{rtcp}{mode}")
            }
            Lower::Udp { rtp, rtcp } => {
                let (server_rtp, server_rtcp) = self.udp.unwrap_or_default();
                format!(
                    "RTP/AVP;unicast;client_port={rtp}-{rtcp};server_port={server_rtp}-{server_rtcp}{mode}"
                )
            }
        }
    }

    fn session_fields(&self) -> Vec<(HeaderName, String)> {
        vec![(SESSION, format!("{};timeout={TIMEOUT_SECONDS}", self.id))]
    }

    fn refuse_now(&mut self, cseq: &str, status: Status) {
        self.answer(cseq, status.code(), None, [], "");
    }

    fn refuse_input(&mut self, error: InputError) {
        let status = match error {
            InputError::HeadTooLong | InputError::Length | InputError::NoRequest | InputError::NoChannels => {
                Status::BadRequest
            }
            InputError::BodyTooLong => Status::BodyTooLarge,
            InputError::Version => Status::VersionNotSupported,
        };
        self.answer("0", status.code(), Some(error.reason()), [], "");
        self.ends = Some(Ends::Input(error));
    }

    fn answer(
        &mut self,
        cseq: &str,
        status: StatusCode,
        reason: Option<&str>,
        fields: impl IntoIterator<Item = (HeaderName, String)>,
        body: &str,
    ) {
        use std::io::Write;
        let standard = if status == StatusCode::Ok { "OK".to_owned() } else { status.to_string() };
        let reason = reason.unwrap_or(&standard);
        let reason: String = reason.chars().filter(|char| char.is_ascii() && !char.is_control()).collect();
        let (code, out) = (u16::from(status), &mut self.output);
        // By hand: `rtsp-types` puts fields of one name into one line, which clients do not read as several
        // challenges. Writing to a `Vec` cannot fail.
        let _ = write!(out, "RTSP/1.0 {code} {reason}\r\nCSeq: {cseq}\r\nServer: Millstream\r\n");
        for (name, value) in fields {
            let value: String = value.chars().filter(|char| !char.is_control()).collect();
            let _ = write!(out, "{}: {value}\r\n", name.as_str());
        }
        if !body.is_empty() {
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        let _ = write!(out, "\r\n{body}");
    }
}

/// What names a track of a player in the URL of its SETUP.
pub(crate) fn control_of(track: usize) -> String {
    format!("trackID={track}")
}
