//! Descriptions that are made to cost much: whoever announces or describes gets an error, or tracks that hold
//! little more than what was said.
#![expect(clippy::disallowed_methods, reason = "a first instant, which only differences are taken of")]

use std::time::{Duration, Instant};

use rtsp::{
    AnnouncedTrack, Event, Incoming, IncomingSettings, Limits, SdpError, ServerSession, announced, described,
};

const HEAD: &str = "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n";
const VIDEO: &str = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n";
const AAC: &str = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/48000/2\r\n";

/// Each with a remark. The longest have what a camera may say at most: 64 KiB.
fn bombs() -> Vec<(&'static str, String)> {
    let fill = |unit: &str| unit.repeat((63 << 10) / unit.len());
    vec![
        ("media without end", fill("m=audio 0 RTP/AVP 0\r\n")),
        ("media of every kind", fill("m=video 0 RTP/AVP 96\r\nm=application 0 x y\r\n")),
        ("payload types without end", format!("m=video 0 RTP/AVP{}\r\n", fill(" 96"))),
        ("attributes without end", format!("{VIDEO}{}", fill("a=x\r\n"))),
        ("rtpmaps without end", format!("{VIDEO}{}", fill("a=rtpmap:96 H264/90000\r\n"))),
        ("formats without end", format!("{VIDEO}{}", fill("a=fmtp:96 packetization-mode=1\r\n"))),
        ("one line", format!("{VIDEO}a=fmtp:96 {}\r\n", fill("x"))),
        ("parameters without end", format!("{VIDEO}a=fmtp:96 {}\r\n", fill("a=b;"))),
        (
            "parameter sets without end",
            format!("{VIDEO}a=fmtp:96 sprop-parameter-sets={}\r\n", fill("Z0I=,")),
        ),
        (
            "a parameter set without end",
            format!("{VIDEO}a=fmtp:96 sprop-parameter-sets={}\r\n", fill("Z0JA")),
        ),
        ("a configuration without end", format!("{AAC}a=fmtp:97 mode=AAC-hbr;config={}\r\n", fill("11"))),
        (
            "sizes that are absurd",
            format!("{AAC}a=fmtp:97 sizelength=999999999999;indexlength=-1;config=1190\r\n"),
        ),
        ("no time at all", VIDEO.replace("90000", "0")),
        ("a clock that is absurd", VIDEO.replace("90000", "4294967295")),
        ("a clock that is none", VIDEO.replace("90000", "99999999999999999999")),
        ("channels that are absurd", AAC.replace("/2", "/4294967295")),
        ("a control without end", format!("{VIDEO}a=control:{}\r\n", fill("../"))),
        ("a name without end", format!("s={}\r\n{VIDEO}", fill("x"))),
        ("lines without end", fill("\r\n")),
        ("zeros", fill("\0")),
        ("times without end", format!("{}{VIDEO}", fill("t=0 0\r\n"))),
        ("repetitions without end", format!("r=1 1{}\r\n{VIDEO}", fill(" 1"))),
        ("addresses without end", format!("{VIDEO}{}", fill("c=IN IP4 0.0.0.0\r\n"))),
        ("a description in one", format!("{VIDEO}a=fmtp:96 {}\r\n", fill("\\\"=;,"))),
    ]
}

/// What was made of a description, in bytes.
fn bytes_of(tracks: &[AnnouncedTrack]) -> usize {
    let of_track = |track: &AnnouncedTrack| {
        let sets: usize = track.parameter_sets.iter().map(Vec::len).sum();
        sets + track.fmtp.len()
            + track.control.len()
            + track.aac.as_ref().map_or(0, |(config, _)| config.len())
    };
    tracks.iter().map(of_track).sum()
}

#[test]
fn what_comes_of_a_description_is_bounded() {
    for (remark, bomb) in bombs() {
        let text = format!("{HEAD}{bomb}");
        let both = [announced(text.as_bytes()), described(text.as_bytes()).map(|described| described.tracks)];
        for tracks in both.into_iter().flatten() {
            assert!(tracks.len() <= 16, "{remark}: {} tracks", tracks.len());
            // The text of a format, and the bytes that it stands for.
            assert!(bytes_of(&tracks) <= 2 * text.len(), "{remark}: {} bytes", bytes_of(&tracks));
            // A camera that sends by it is heard without harm.
            let (now, delay_max) = (Instant::now(), Duration::from_millis(200));
            let mut incoming = Incoming::new(&tracks, IncomingSettings { delay_max }, now);
            for number in 0..200u16 {
                let [high, low] = number.to_be_bytes();
                let mut packet =
                    [0x80, 96 + (number as u8 & 1), high, low, 0xff, 0xff, high, low, 0, 0, 0, 1].to_vec();
                packet.extend([number as u8; 64]);
                for track in 0..tracks.len() {
                    let _ = incoming.rtp(now + Duration::from_millis(number.into()), track, &packet);
                }
                incoming.poll(now + Duration::from_millis(number.into()));
                while incoming.next_frame().is_some() {}
            }
        }
    }
    let too_many = format!("{HEAD}{}", "m=audio 0 RTP/AVP 0\r\n".repeat(17));
    assert_eq!(announced(too_many.as_bytes()).err(), Some(SdpError::TooMany));
    assert_eq!(described(too_many.as_bytes()).err(), Some(SdpError::TooMany));
}

#[test]
fn a_server_takes_no_description_that_is_long_and_answers_each_other() {
    let limit = Limits::default().body_bytes_max;
    let announce = |body: &str| {
        let mut session = ServerSession::new(Limits::default(), [7; 32], None);
        let length = body.len();
        let head = "ANNOUNCE rtsp://h/live/cam RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp";
        session.handle_input(format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}").as_bytes());
        if let Some(event) = session.poll_event() {
            assert!(matches!(event, Event::Announce(..)), "{event:?}");
            session.accept();
        }
        let answer = String::from_utf8(std::mem::take(session.output())).expect("text");
        assert!(answer.len() < 1_000, "{answer}");
        (answer.split(' ').nth(1).unwrap_or_default().to_owned(), session.ends().is_some())
    };
    for (remark, bomb) in bombs() {
        let mut body = format!("{HEAD}{bomb}");
        let is_long = body.len() > limit;
        let (code, has_ended) = announce(&body);
        assert_eq!(code == "413" && has_ended, is_long, "{remark}: {code}");
        body.truncate(limit);
        let (code, _) = announce(&body);
        assert!(["200", "400", "415"].contains(&code.as_str()), "{remark}: {code}");
    }
}
