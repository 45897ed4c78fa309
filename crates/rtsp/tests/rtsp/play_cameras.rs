//! A client plays cameras, ordinary ones and odd ones; hostile ones end with a reason and bounded memory.
#![expect(clippy::disallowed_methods, reason = "a first instant, which only differences are taken of")]

use std::time::{Duration, Instant};

use media::{Codec, FrameRole};
use rtsp::{ClientError, Login, PlaySession, PlaySettings};

fn settings() -> PlaySettings {
    PlaySettings {
        url: "rtsp://cam/a?x=1".to_owned(),
        login: None,
        user_agent: "test".to_owned(),
        udp: None,
        reorder_max: Duration::ZERO,
    }
}

/// A camera that is asked by a client, and the time.
struct Camera {
    session: PlaySession,
    now: Instant,
}

/// A request: its method, URL, and all of its text.
struct Asked {
    method: String,
    uri: String,
    text: String,
    number: String,
}

impl Camera {
    fn new(settings: PlaySettings) -> Self {
        let now = Instant::now();
        Self { session: PlaySession::new(settings, now), now }
    }

    /// The one request that is to be answered.
    fn asked(&mut self) -> Asked {
        let text = String::from_utf8(std::mem::take(self.session.output())).expect("text");
        let mut words = text.split(' ');
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (method, uri) = (next(), next());
        let number = text.split("CSeq: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
        Asked { method, uri, number: number.to_owned(), text: text.clone() }
    }

    fn answer(&mut self, status: &str, fields: &str, body: &str) -> Result<Asked, ClientError> {
        let Asked { number, .. } = self.peek();
        self.answer_numbered(&format!("CSeq: {number}\r\n"), status, fields, body)
    }

    fn peek(&mut self) -> Asked {
        let output = self.session.output().clone();
        let asked = self.asked();
        *self.session.output() = output;
        asked
    }

    fn answer_numbered(
        &mut self,
        number: &str,
        status: &str,
        fields: &str,
        body: &str,
    ) -> Result<Asked, ClientError> {
        self.session.output().clear();
        let length = body.len();
        let text = format!("RTSP/1.0 {status}\r\n{number}{fields}Content-Length: {length}\r\n\r\n{body}");
        self.session.handle_input(self.now, text.as_bytes())?;
        Ok(self.peek())
    }

    /// Answers until it plays; what it was asked for.
    fn until_it_plays(&mut self, describe: &str, sdp: &str, setup: &str) -> Vec<(String, String)> {
        let mut asked = Vec::new();
        let mut next = self.peek();
        while !self.session.is_playing() {
            asked.push((next.method.clone(), next.uri.clone()));
            let answer = match next.method.as_str() {
                "DESCRIBE" => self.answer("200 OK", describe, sdp),
                "SETUP" => self.answer("200 OK", setup, ""),
                _ => self.answer("200 OK", "", ""),
            };
            next = answer.expect("it goes on");
        }
        asked
    }

    /// A packet of PCMU with 20 ms of sound.
    fn sound(&mut self, channel: u8, sequence: u16, timestamp: u32) {
        let mut packet = vec![b'$', channel, 0, 172, 0x80, 0];
        packet.extend(sequence.to_be_bytes());
        packet.extend(timestamp.to_be_bytes());
        packet.extend(7u32.to_be_bytes());
        packet.extend([0xd5; 160]);
        self.session.handle_input(self.now, &packet).expect("a packet");
    }

    fn heard(&mut self) -> usize {
        self.session.poll(self.now);
        let frames = std::iter::from_fn(|| self.session.next_frame());
        frames.filter(|frame| frame.role == FrameRole::Audio && frame.codec == Codec::Pcmu).count()
    }
}

const AUDIO: &str = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\nm=audio 0 RTP/AVP 0\r\n";
const SESSION: &str = "Session: abc;timeout=20\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";

fn pairs(asked: &[(String, String)]) -> Vec<(&str, &str)> {
    asked.iter().map(|(method, uri)| (method.as_str(), uri.as_str())).collect()
}

#[test]
fn a_camera_is_asked_in_order_and_heard() {
    let mut camera = Camera::new(settings());
    let sdp = AUDIO.to_owned() + "a=control:track1\r\n";
    let asked = camera.until_it_plays("Content-Base: rtsp://cam/a/\r\n", &sdp, SESSION);
    assert_eq!(
        pairs(&asked),
        [
            ("OPTIONS", "rtsp://cam/a?x=1"),
            ("DESCRIBE", "rtsp://cam/a?x=1"),
            ("SETUP", "rtsp://cam/a/track1"),
            ("PLAY", "rtsp://cam/a/")
        ]
    );
    for at in 0..50 {
        camera.now += Duration::from_millis(20);
        camera.sound(0, at, u32::from(at) * 160);
    }
    camera.now += Duration::from_secs(5);
    assert!(camera.heard() >= 45);
}

#[test]
fn odd_descriptions_are_taken() {
    let video = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n";
    let head = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\n";
    // (what is odd, fields, description, URLs of the set-ups, URL of the play)
    let cases: [(&str, &str, String, &[&str], &str); 6] = [
        ("no control, no base", "", format!("{head}{video}"), &["rtsp://cam/a?x=1"], "rtsp://cam/a?x=1"),
        (
            "absolute control",
            "",
            format!("{head}a=control:rtsp://other/all\r\n{video}a=control:rtsp://10.0.0.1/x/1\r\n"),
            &["rtsp://10.0.0.1/x/1"],
            "rtsp://other/all",
        ),
        (
            "wrong range, no sprop, `*`",
            "Content-Base: rtsp://cam/b\r\n",
            format!("{head}a=range:npt=later-never\r\na=control:*\r\n{video}a=control:/t=1\r\n"),
            &["rtsp://cam/b/t=1"],
            "rtsp://cam/b",
        ),
        (
            "metadata and audio that is not carried",
            "",
            format!(
                "{head}{video}a=control:v\r\nm=application 0 RTP/AVP 107\r\nm=audio 0 RTP/AVP 97\r\n\
                 a=rtpmap:97 G726-32/8000\r\n"
            ),
            &["rtsp://cam/a?x=1/v"],
            "rtsp://cam/a?x=1",
        ),
        (
            "two pictures of one camera",
            "",
            format!(
                "{head}{video}a=control:v1\r\n{video}a=control:v2\r\nm=audio 0 RTP/AVP 8\r\na=control:s\r\n"
            ),
            &["rtsp://cam/a?x=1/v1", "rtsp://cam/a?x=1/s"],
            "rtsp://cam/a?x=1",
        ),
        (
            "a base that is none",
            "Content-Base: http://evil/\r\n",
            format!("{head}{video}a=control:v\r\n"),
            &["rtsp://cam/a?x=1/v"],
            "rtsp://cam/a?x=1",
        ),
    ];
    for (what, fields, sdp, set_up, play) in cases {
        let mut camera = Camera::new(settings());
        let asked = camera.until_it_plays(fields, &sdp, "Session: 1\r\n");
        let asked = pairs(&asked);
        let set_ups: Vec<&str> =
            asked.iter().filter(|(method, _)| *method == "SETUP").map(|(_, uri)| *uri).collect();
        assert_eq!(set_ups, set_up, "{what}");
        assert_eq!(asked.last(), Some(&("PLAY", play)), "{what}");
        let has_notes = what.contains("not carried");
        assert_eq!(camera.session.notes().len(), usize::from(has_notes), "{what}");
    }
}

#[test]
fn sessions_are_kept_by_what_the_camera_knows() {
    for (public, method) in [("OPTIONS, GET_PARAMETER, PLAY", "GET_PARAMETER"), ("PLAY", "OPTIONS")] {
        let mut camera = Camera::new(settings());
        camera.answer("200 OK", &format!("Public: {public}\r\n"), "").expect("it goes on");
        camera.until_it_plays("", AUDIO, SESSION);
        camera.session.output().clear();
        camera.now += Duration::from_secs(9);
        camera.session.poll(camera.now);
        assert!(camera.session.output().is_empty(), "not before half of the timeout");
        camera.now += Duration::from_secs(1);
        assert!(camera.session.next_timeout().is_some_and(|at| at <= camera.now));
        camera.session.poll(camera.now);
        let asked = camera.peek();
        assert_eq!(asked.method, method);
        assert!(asked.text.contains("\r\nSession: abc\r\n"), "{}", asked.text);
        camera.answer("501 Not Implemented", "", "").expect("what it does not know is no end");
        camera.now += Duration::from_secs(10);
        camera.session.poll(camera.now);
        assert_eq!(camera.answer("454 Session Not Found", "", "").err(), Some(ClientError::Over));
    }
}

#[test]
fn credentials_are_shown_when_they_are_asked_for() {
    let login = Some(Login { user: "admin".to_owned(), password: "secret".to_owned() });
    let digest = |nonce: &str| format!("WWW-Authenticate: Digest realm=\"cam\", nonce=\"{nonce}\"\r\n");
    let mut camera = Camera::new(PlaySettings { login: login.clone(), ..settings() });
    assert!(!camera.peek().text.contains("Authorization"), "not before");
    let again = camera.answer("401 Unauthorized", &digest("n1"), "").expect("it tries");
    assert_eq!(again.method, "OPTIONS");
    assert!(again.text.contains("Authorization: Digest username=\"admin\", realm=\"cam\""), "{}", again.text);
    assert!(!again.text.contains("secret"));
    let next = camera.answer("200 OK", "", "").expect("it goes on");
    assert!(next.method == "DESCRIBE" && next.text.contains("nonce=\"n1\""), "{}", next.text);
    let stale = camera.answer("401 Unauthorized", &digest("n2"), "").expect("a nonce that is old");
    assert!(stale.method == "DESCRIBE" && stale.text.contains("nonce=\"n2\""), "{}", stale.text);
    assert_eq!(camera.answer("401 Unauthorized", &digest("n3"), "").err(), Some(ClientError::LoginWrong));

    let basic = "WWW-Authenticate: Basic realm=\"cam\"\r\n";
    let mut camera = Camera::new(PlaySettings { login: login.clone(), ..settings() });
    let again = camera.answer("401 Unauthorized", basic, "").expect("it tries");
    assert!(again.text.contains("Authorization: Basic YWRtaW46c2VjcmV0\r\n"), "{}", again.text);
    assert_eq!(camera.answer("401 Unauthorized", basic, "").err(), Some(ClientError::LoginWrong));

    let mut camera = Camera::new(settings());
    assert_eq!(camera.answer("401 Unauthorized", basic, "").err(), Some(ClientError::LoginNeeded));
    let mut camera = Camera::new(PlaySettings { login, ..settings() });
    let other = "WWW-Authenticate: Negotiate\r\n";
    assert_eq!(camera.answer("401 Unauthorized", other, "").err(), Some(ClientError::LoginUnknown));
}

#[test]
fn channels_are_those_that_the_camera_names_and_numbers_may_be_missing() {
    let mut camera = Camera::new(settings());
    for (fields, body) in [("", ""), ("", AUDIO)] {
        camera.answer_numbered("", "200 OK", fields, body).expect("answers without CSeq");
    }
    camera
        .answer_numbered("", "200 OK", "Session: a\r\nTransport: RTP/AVP/TCP;interleaved=6-7\r\n", "")
        .expect("set up");
    camera.sound(6, 1, 0);
    camera.answer_numbered("", "200 OK", "", "").expect("it plays");
    for at in 2..60 {
        camera.now += Duration::from_millis(20);
        camera.sound(0, at, u32::from(at) * 160);
    }
    assert_eq!(camera.heard(), 1, "the one that came ahead of the answer, and none of another channel");
    for at in 2..60 {
        camera.now += Duration::from_millis(20);
        camera.sound(6, at, u32::from(at) * 160);
    }
    camera.now += Duration::from_secs(5);
    assert!(camera.heard() > 50);
}

#[test]
fn timestamps_that_jump_are_no_end() {
    let mut camera = Camera::new(settings());
    camera.until_it_plays("", AUDIO, SESSION);
    let mut heard = 0;
    for at in 0..200u16 {
        camera.now += Duration::from_millis(20);
        let jump = if at >= 100 { 3_000_000_000 } else { 0 };
        camera.sound(0, at, jump + u32::from(at) * 160);
        heard += camera.heard();
    }
    camera.now += Duration::from_secs(5);
    heard += camera.heard();
    assert!(heard > 150, "{heard}");
}

#[test]
fn hostile_cameras_end_with_a_reason() {
    let huge = "a".repeat(100 << 10);
    let many = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nt=0 0\r\n".to_owned()
        + &"m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n".repeat(200);
    // (what, answer to DESCRIBE: status, fields, body)
    for (what, status, fields, body) in [
        ("a description that is a bomb", "200 OK", "", huge.as_str()),
        ("200 media", "200 OK", "", many.as_str()),
        ("no description", "200 OK", "", ""),
        ("garbage", "200 OK", "", "v=\r\nm=\r\n"),
        ("no such stream", "404 Not Found", "", ""),
        ("a redirect", "302 Moved", "Location: rtsp://127.0.0.1/\r\n", ""),
        ("a second length", "200 OK", "Content-Length: 1\r\n", ""),
    ] {
        let mut camera = Camera::new(settings());
        camera.answer("200 OK", "", "").expect("it goes on");
        let error = camera.answer(status, fields, body).err().unwrap_or_else(|| panic!("{what}"));
        assert!(!error.reason().is_empty());
    }
    let mut camera = Camera::new(settings());
    assert!(camera.session.handle_input(camera.now, b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    let mut camera = Camera::new(settings());
    assert!(camera.session.handle_input(camera.now, b"$\0\0\x01x").is_err(), "packets before a set-up");
    let mut camera = Camera::new(settings());
    let endless =
        b"RTSP/1.0 200 OK\r\nX: ".iter().chain([b'a'; 64 << 10].iter()).copied().collect::<Vec<_>>();
    assert!(camera.session.handle_input(camera.now, &endless).is_err(), "a head without end");
    // One that asks and asks is answered as far as it reads.
    let mut camera = Camera::new(settings());
    camera.until_it_plays("", AUDIO, SESSION);
    let asks = "OPTIONS rtsp://c/ RTSP/1.0\r\nCSeq: 1\r\n\r\n".repeat(10_000);
    camera.session.handle_input(camera.now, asks.as_bytes()).expect("requests");
    assert!(camera.session.output().len() < 128 << 10);
    let teardown = b"TEARDOWN rtsp://c/ RTSP/1.0\r\nCSeq: 2\r\n\r\n";
    assert_eq!(camera.session.handle_input(camera.now, teardown).err(), Some(ClientError::Over));
}
