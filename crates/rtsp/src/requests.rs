//! Requests of a client: one at a time, with credentials where the server asks for them, and signs
//! of life. What both clients have in common, that which plays and that which records.

use std::time::{Duration, Instant};

use rtsp_types::{HeaderName, Method, Request, Response};

use crate::client_auth::{Challenge, Login};
use crate::input::{InputError, Limits};
use crate::sdp::SdpError;

/// Why nothing can be played or recorded, or no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientError {
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
    /// It does not send or take media in the form that was asked for.
    Transport,
    /// It says that the stream is over.
    Over,
}

impl ClientError {
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
            Self::Transport => {
                "the server does not send or take media in the form that was asked for".to_owned()
            }
            Self::Over => "the server ended the stream".to_owned(),
        }
    }
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its first request.
    Options,
    /// What makes it play or record.
    Opening,
    /// It does that.
    UnderWay,
}

/// The requests of one session.
#[derive(Debug)]
pub(crate) struct Requests {
    login: Option<Login>,
    user_agent: String,
    output: Vec<u8>,
    sequence: u32,
    challenge: Option<Challenge>,
    /// What is asked at present, besides signs of life.
    asked: Asked,
    session: Option<String>,
    keeps_by_parameter: bool,
    keep_every: Duration,
    kept_at: Instant,
}

/// A request that may have to be sent again.
#[derive(Debug, Clone, Default)]
struct Asked {
    method: &'static str,
    uri: String,
    fields: String,
    body: String,
    sequence: u32,
    /// It was sent again for a challenge.
    is_again: bool,
}

impl Requests {
    pub(crate) fn new(login: Option<Login>, user_agent: String, now: Instant) -> Self {
        Self {
            login,
            user_agent,
            output: Vec::new(),
            sequence: 0,
            challenge: None,
            asked: Asked::default(),
            session: None,
            keeps_by_parameter: false,
            keep_every: TIMEOUT_BY_DEFAULT / 2,
            kept_at: now,
        }
    }

    /// Bytes for the server.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Asks for something; `fields` end with CRLF, and name the kind of a `body`.
    pub(crate) fn ask(&mut self, method: &'static str, uri: String, fields: String, body: String) {
        self.asked = Asked { method, uri, fields, body, ..Asked::default() };
        self.send_asked();
    }

    fn send_asked(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.asked.sequence = self.sequence;
        let Asked { method, uri, fields, body, sequence, .. } = &self.asked;
        let agent = &self.user_agent;
        let mut head = format!("{method} {uri} RTSP/1.0\r\nCSeq: {sequence}\r\nUser-Agent: {agent}\r\n");
        if let Some(session) = &self.session {
            head += &format!("Session: {session}\r\n");
        }
        if let (Some(challenge), Some(login)) = (&mut self.challenge, &self.login) {
            head += &format!("Authorization: {}\r\n", challenge.answer(login, method, uri));
        }
        head += fields;
        if !body.is_empty() {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        self.output.extend_from_slice(head.as_bytes());
        self.output.extend_from_slice(body.as_bytes());
    }

    /// Takes an answer: whether the next step of the session is due. Challenges are answered here, and
    /// signs of life need nothing.
    pub(crate) fn answered(&mut self, answer: &Response<Vec<u8>>, stage: Stage) -> Result<bool, ClientError> {
        // An answer to something before, which came late. Some leave the number out.
        let number = field(answer, "CSeq").and_then(|text| text.trim().parse::<u32>().ok());
        if number.is_some_and(|number| number != self.asked.sequence) {
            return Ok(false);
        }
        match (stage, u16::from(answer.status())) {
            (_, 401) => self.challenged(answer).map(|()| false),
            // What some do not know.
            (Stage::Options, 400..=599) => Ok(true),
            // A sign of life that was not taken; without its session there is nothing to keep.
            (Stage::UnderWay, 454) => Err(ClientError::Over),
            (Stage::UnderWay, _) => Ok(false),
            (_, 200..=299) => Ok(true),
            (_, 300..=399) => Err(ClientError::Redirected),
            (_, status) => Err(ClientError::Status(status)),
        }
    }

    fn challenged(&mut self, answer: &Response<Vec<u8>>) -> Result<(), ClientError> {
        if self.login.is_none() {
            return Err(ClientError::LoginNeeded);
        }
        let challenge = field(answer, "WWW-Authenticate").and_then(Challenge::read);
        let challenge = challenge.ok_or(ClientError::LoginUnknown)?;
        let known = self.challenge.as_ref();
        // A server that always has another nonce is not answered for ever.
        if self.asked.is_again || known.is_some_and(|known| known.is_repeated_by(&challenge)) {
            return Err(ClientError::LoginWrong);
        }
        self.asked.is_again = true;
        self.challenge = Some(challenge);
        self.send_asked();
        Ok(())
    }

    /// What the answer to OPTIONS says.
    pub(crate) fn learn_options(&mut self, answer: &Response<Vec<u8>>) {
        let public = field(answer, "Public").unwrap_or_default();
        self.keeps_by_parameter = public.split(',').any(|method| method.trim() == "GET_PARAMETER");
    }

    /// What the answer to a SETUP says of the session: `id;timeout=60`.
    pub(crate) fn learn_session(&mut self, answer: &Response<Vec<u8>>) -> Result<(), ClientError> {
        let Some(text) = field(answer, "Session") else { return Ok(()) };
        let (id, rest) = text.split_once(';').unwrap_or((text, ""));
        let id = id.trim();
        if id.is_empty() || id.len() > SESSION_BYTES_MAX || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ClientError::Input(InputError::NoRequest));
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

    /// Media flows: signs of life are due from now on.
    pub(crate) fn begin_to_keep(&mut self, now: Instant) {
        self.kept_at = now;
    }

    /// Sends a sign of life, if it is due.
    pub(crate) fn keep(&mut self, now: Instant, uri: &str) {
        if now.saturating_duration_since(self.kept_at) >= self.keep_every {
            self.kept_at = now;
            let method = if self.keeps_by_parameter { "GET_PARAMETER" } else { "OPTIONS" };
            self.ask(method, uri.to_owned(), String::new(), String::new());
        }
    }

    /// When the next sign of life is due.
    pub(crate) fn next_keep(&self) -> Instant {
        self.kept_at + self.keep_every
    }

    /// Asks the server to end the session, if there is one.
    pub(crate) fn tear_down(&mut self, uri: &str) {
        if self.session.is_some() {
            self.ask("TEARDOWN", uri.to_owned(), String::new(), String::new());
        }
    }

    /// A server asks something: that the client is there, or that it goes.
    pub(crate) fn requested(&mut self, request: &Request<Vec<u8>>) -> Result<(), ClientError> {
        let status = match request.method() {
            Method::Options | Method::GetParameter | Method::SetParameter => "200 OK",
            Method::Teardown => return Err(ClientError::Over),
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

/// The URL of a track (RFC 2326 section C.1.1), as cameras and their clients read it: what is not
/// absolute goes behind the URL of the description.
pub(crate) fn control_url(base: &str, control: &str) -> String {
    if is_url(control) {
        return control.to_owned();
    }
    let is_usable = control.bytes().all(|byte| byte.is_ascii_graphic()) && control.len() <= URL_BYTES_MAX;
    if control.is_empty() || control == "*" || !is_usable {
        return base.to_owned();
    }
    format!("{}/{}", base.trim_end_matches('/'), control.trim_start_matches('/'))
}

/// Whether a text is a URL that can be asked for.
pub(crate) fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_rtsp = scheme.is_some_and(|scheme| scheme == "rtsp" || scheme == "rtsps");
    is_rtsp && text.len() <= URL_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The value of a field; none if it cannot be sent back.
pub(crate) fn field<'a>(answer: &'a Response<Vec<u8>>, name: &'static str) -> Option<&'a str> {
    let name = HeaderName::from_static_str(name).ok()?;
    answer.header(&name).map(|value| value.as_str())
}

/// The channels of RTP and RTCP that a server names in the `Transport` field of its answer; none if
/// it names none.
pub(crate) fn channels_of(transport: &str) -> Result<Option<[u8; 2]>, ClientError> {
    for part in transport.split(';') {
        let Some((key, value)) = part.split_once('=') else { continue };
        if key.trim() == "interleaved" {
            let (first, second) = value.split_once('-').unwrap_or((value, ""));
            let rtp: u8 = first.trim().parse().map_err(|_| ClientError::Transport)?;
            let rtcp = second.trim().parse().unwrap_or(rtp.wrapping_add(1));
            return Ok(Some([rtp, rtcp]));
        }
    }
    Ok(None)
}

/// The server's ports of RTP and RTCP that it names in the `Transport` field of its answer; none if it
/// names none.
pub(crate) fn server_ports_of(transport: &str) -> Result<Option<[u16; 2]>, ClientError> {
    for part in transport.split(';') {
        let Some((key, value)) = part.split_once('=') else { continue };
        if key.trim() == "server_port" {
            let (first, second) = value.split_once('-').unwrap_or((value, ""));
            let rtp: u16 = first.trim().parse().map_err(|_| ClientError::Transport)?;
            let rtcp = second.trim().parse().unwrap_or(rtp.wrapping_add(1));
            return Ok(Some([rtp, rtcp]));
        }
    }
    Ok(None)
}

/// What a server may send at most; descriptions of cameras are a few kilobytes.
pub(crate) const LIMITS: Limits =
    Limits { head_bytes_max: 16 << 10, body_bytes_max: 64 << 10, lines_max: 128 };
/// How long a session lasts without a sign of life where the server does not say (RFC 2326 section
/// 12.37).
const TIMEOUT_BY_DEFAULT: Duration = Duration::from_secs(60);
/// Signs of life at most this often, whatever the server says.
const KEEP_EVERY_MIN: Duration = Duration::from_secs(1);
/// Longest name of a session.
const SESSION_BYTES_MAX: usize = 256;
/// Longest URL that a server may name.
const URL_BYTES_MAX: usize = 2048;
/// Answers to a server that asks and does not read are left out from here on.
const OUTPUT_BYTES_MAX: usize = 64 << 10;
