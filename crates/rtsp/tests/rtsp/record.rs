//! A client records at a server: what it asks for, how it answers challenges, and what ends it.
#![expect(clippy::disallowed_methods, reason = "a first instant, which only differences are taken of")]

use std::time::{Duration, Instant};

use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
use rtp::rtcp::NtpTime;
use rtsp::{
    ClientError, Event, InputError, Limits, Login, NotWritten, Outgoing, RecordSession, RecordSettings,
    ServerSession,
};

/// Parameter sets of x264, 320 by 180.
const AVCC: &[u8] = &[
    0x01, 0x64, 0x00, 0x0c, 0xff, 0xe1, 0x00, 0x1a, 0x67, 0x64, 0x00, 0x0c, 0xac, 0xd9, 0x41, 0x41, 0x9f,
    0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00, 0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0x99, 0x60,
    0x01, 0x00, 0x06, 0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0, 0xfd, 0xf8, 0xf8, 0x00,
];

fn frame(track: TrackId, role: FrameRole, codec: Codec, ms: i64, data: &[u8]) -> Frame {
    let time = Timestamp::from_millis(ms);
    Frame::new(track, role, codec, (time, time), data.to_vec())
}

fn config() -> Frame {
    frame(TrackId::VIDEO, FrameRole::Config, Codec::H264, 0, AVCC)
}

fn sound_config() -> Frame {
    frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, 0, &[0x11, 0x90])
}

fn picture(ms: i64) -> Frame {
    let data = [&[0, 0, 0, 104, 0x65, 0x88, 0x84, 1][..], &[7; 100]].concat();
    frame(TrackId::VIDEO, FrameRole::Key, Codec::H264, ms, &data)
}

fn sound(ms: i64) -> Frame {
    frame(TrackId::AUDIO, FrameRole::Audio, Codec::Aac, ms, &[9; 40])
}

/// A client whose stream begins with these frames.
fn client(begin: &[Frame], login: Option<Login>) -> (RecordSession, Instant) {
    client_by(None, begin, login)
}

/// One with these local ports for UDP.
fn client_by(udp: Option<[[u16; 2]; 2]>, begin: &[Frame], login: Option<Login>) -> (RecordSession, Instant) {
    let now = Instant::now();
    let mut media = Outgoing::new([1, 2], now);
    begin.iter().for_each(|frame| media.learn(frame));
    let settings = RecordSettings {
        url: "rtsp://h/live/cam?x=1".to_owned(),
        login,
        user_agent: "test".to_owned(),
        name: "cam".to_owned(),
        udp,
    };
    (RecordSession::new(settings, media, now).expect("a track"), now)
}

fn asked(client: &mut RecordSession) -> String {
    String::from_utf8(std::mem::take(client.output())).expect("text")
}

/// Answers the request that waits; what it is answered with next.
fn answer(
    client: &mut RecordSession,
    now: Instant,
    status: &str,
    fields: &str,
) -> Result<String, ClientError> {
    let text = asked(client);
    let number =
        text.split("CSeq: ").nth(1).and_then(|rest| rest.lines().next()).expect("a request").to_owned();
    let answer = format!("RTSP/1.0 {status}\r\nCSeq: {number}\r\n{fields}\r\n");
    client.handle_input(now, answer.as_bytes())?;
    let next = asked(client);
    client.output().extend_from_slice(next.as_bytes());
    Ok(next)
}

fn until_it_records(client: &mut RecordSession, now: Instant) -> Vec<String> {
    let mut all = vec![String::from_utf8(client.output().clone()).expect("text")];
    while !client.is_recording() {
        all.push(answer(client, now, "200 OK", "Session: s1;timeout=10\r\n").expect("it goes on"));
    }
    all
}

#[test]
fn the_server_of_this_crate_gets_every_packet() {
    let (mut client, now) = client(&[config(), sound_config()], None);
    let mut server = ServerSession::new(Limits::default(), [7; 32], None);
    let mut announced = Vec::new();
    while !client.is_recording() {
        server.handle_input(&std::mem::take(client.output()));
        match server.poll_event() {
            Some(Event::Announce(target, tracks)) => {
                assert_eq!((&*target.path, &*target.query), ("live/cam", "x=1"));
                announced = tracks;
                server.accept();
            }
            Some(Event::Record) => server.accept(),
            other => assert!(other.is_none(), "{other:?}"),
        }
        let output = std::mem::take(server.output());
        assert!(!output.is_empty(), "each request is answered");
        client.handle_input(now, &output).expect("it goes on");
    }
    assert_eq!(announced.iter().map(|track| track.codec).collect::<Vec<_>>(), [Codec::H264, Codec::Aac]);
    assert_eq!(announced[0].parameter_sets.len(), 2);
    for at in 0..100u64 {
        let later = now + Duration::from_millis(at * 40);
        let (picture, sound) = (picture(at as i64 * 40), sound(at as i64 * 40));
        client.write(later, NtpTime(1 << 60), &picture).expect("it is carried");
        client.write(later, NtpTime(1 << 60), &sound).expect("it is carried");
    }
    server.handle_input(&std::mem::take(client.output()));
    let (mut packets, mut reports) = ([0; 2], [0; 2]);
    while let Some(Event::Media { track, is_rtcp, range }) = server.poll_event() {
        if is_rtcp {
            reports[track] += 1
        } else {
            packets[track] += 1
        }
        assert!(rtp::Packet::parse(server.packet(range)).is_ok() || is_rtcp);
    }
    assert_eq!(packets, [100, 100]);
    assert!(reports.iter().all(|reports| *reports >= 1), "sender reports: {reports:?}");
    client.tear_down();
    server.handle_input(&std::mem::take(client.output()));
    assert!(matches!(server.poll_event(), Some(Event::Teardown)));
}

#[test]
fn packets_go_under_the_channels_that_the_server_names() {
    let (mut client, now) = client(&[config()], None);
    answer(&mut client, now, "200 OK", "").expect("OPTIONS");
    let setup = answer(&mut client, now, "200 OK", "").expect("ANNOUNCE");
    assert!(setup.starts_with("SETUP rtsp://h/live/cam?x=1/trackID=0 RTSP/1.0\r\n"), "{setup}");
    assert!(setup.contains("Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n"), "{setup}");
    let fields = "Session: a b\r\n";
    assert!(answer(&mut client, now, "200 OK", fields).is_err(), "a session that cannot be sent back");
    client.output().extend_from_slice(setup.as_bytes());
    let fields = "Session: s1\r\nTransport: RTP/AVP/TCP;unicast;interleaved=8-9\r\n";
    let record = answer(&mut client, now, "200 OK", fields).expect("SETUP");
    assert!(record.starts_with("RECORD rtsp://h/live/cam?x=1 RTSP/1.0\r\n"), "{record}");
    assert!(record.contains("Session: s1\r\n") && !client.is_recording(), "{record}");
    answer(&mut client, now, "200 OK", "").expect("RECORD");
    client.write(now, NtpTime(1), &picture(0)).expect("it is carried");
    assert_eq!(client.output()[..2], [b'$', 8]);
    // What the server says meanwhile is passed over; a sign of life goes out at half of its timeout.
    client.output().clear();
    client.handle_input(now, b"$\x09\0\x02ab").expect("a receiver report");
    client.poll(now + Duration::from_secs(29));
    assert!(client.output().is_empty());
    assert_eq!(client.next_timeout(), Some(now + Duration::from_secs(30)));
    client.poll(now + Duration::from_secs(30));
    assert!(asked(&mut client).starts_with("OPTIONS "));
}

#[test]
fn by_udp_packets_go_to_the_ports_that_the_server_names() {
    let ports = [[5000, 5001], [5002, 5003]];
    let (mut client, now) = client_by(Some(ports), &[config(), sound_config()], None);
    let mut server = ServerSession::new(Limits::default(), [7; 32], Some((8000, 8001)));
    while !client.is_recording() {
        server.handle_input(&std::mem::take(client.output()));
        while let Some(event) = server.poll_event() {
            if matches!(event, Event::Announce(..) | Event::Record) {
                server.accept();
            }
        }
        let output = std::mem::take(server.output());
        assert!(!output.is_empty(), "each request is answered");
        client.handle_input(now, &output).expect("it goes on");
    }
    client.output().clear();
    let mut seen = [[0; 2]; 2];
    // Some wait at any time.
    for at in 0..1_000i64 {
        let later = now + Duration::from_millis(at as u64 * 40);
        client.write(later, NtpTime(1 << 60), &picture(at * 40)).expect("it is carried");
        client.write(later, NtpTime(1 << 60), &sound(at * 40)).expect("it is carried");
        while client.waiting_bytes() > 1_000 {
            let datagram = client.next_datagram().expect("some wait");
            assert_eq!(datagram.port, if datagram.is_rtcp { 8001 } else { 8000 });
            assert!(datagram.is_rtcp || rtp::Packet::parse(datagram.packet).is_ok());
            seen[datagram.track][usize::from(datagram.is_rtcp)] += 1;
            client.datagram_sent();
        }
    }
    while let Some(datagram) = client.next_datagram() {
        seen[datagram.track][usize::from(datagram.is_rtcp)] += 1;
        client.datagram_sent();
    }
    client.datagram_sent();
    assert_eq!((client.waiting_bytes(), client.output().len()), (0, 0));
    assert!(seen.iter().all(|[rtp, rtcp]| *rtp == 1_000 && *rtcp >= 19), "{seen:?}");
}

#[test]
fn a_server_that_names_no_ports_gets_nothing_by_udp() {
    for transport in [
        "",
        "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n",
        "Transport: RTP/AVP;unicast\r\n",
        "Transport: RTP/AVP;unicast;server_port=0-1\r\n",
        "Transport: RTP/AVP;unicast;server_port=65535\r\n",
        "Transport: RTP/AVP;unicast;server_port=70000-70001\r\n",
        "Transport: RTP/AVP/TCP;unicast;server_port=5000-5001\r\n",
    ] {
        let (mut client, now) = client_by(Some([[1, 2], [3, 4]]), &[config()], None);
        answer(&mut client, now, "200 OK", "").expect("OPTIONS");
        let setup = answer(&mut client, now, "200 OK", "").expect("ANNOUNCE");
        assert!(setup.contains("Transport: RTP/AVP;unicast;client_port=1-2;mode=record\r\n"), "{setup}");
        let fields = format!("Session: s1\r\n{transport}");
        let refused = answer(&mut client, now, "200 OK", &fields).err();
        assert_eq!(refused, Some(ClientError::Transport), "{transport}");
    }
}

#[test]
fn digest_is_answered_with_the_hash_that_is_asked_for() {
    let login = || Some(Login { user: "me".to_owned(), password: "secret".to_owned() });
    // (algorithm, its field in the answer)
    for (algorithm, shown) in [("", ""), (", algorithm=SHA-256, qop=\"auth\"", "algorithm=SHA-256")] {
        let (mut client, now) = client(&[config()], login());
        let announce = answer(&mut client, now, "200 OK", "").expect("OPTIONS");
        assert!(announce.starts_with("ANNOUNCE ") && announce.contains("sprop-parameter-sets"), "{announce}");
        let fields = format!("WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"{algorithm}\r\n");
        let again = answer(&mut client, now, "401 Unauthorized", &fields).expect("it tries again");
        assert!(again.starts_with("ANNOUNCE ") && again.contains("sprop-parameter-sets"), "{again}");
        assert!(again.contains("Authorization: Digest username=\"me\"") && again.contains(shown), "{again}");
        assert!(!again.contains("secret"), "{again}");
        let refused = answer(&mut client, now, "401 Unauthorized", &fields);
        assert_eq!(refused.err(), Some(ClientError::LoginWrong));
    }
    let (mut client, now) = client(&[config()], None);
    let fields = "WWW-Authenticate: Basic realm=\"r\"\r\n";
    assert_eq!(answer(&mut client, now, "401 Unauthorized", fields).err(), Some(ClientError::LoginNeeded));
}

#[test]
fn what_is_not_carried_is_said_and_what_changes_ends_the_session() {
    let begin = |frames: &[Frame]| {
        let (mut client, now) = client(frames, None);
        until_it_records(&mut client, now);
        (client, now)
    };
    let (mut client, now) = begin(&[config()]);
    let mut write = |frame: &Frame| client.write(now, NtpTime(1), frame);
    let mp3 = frame(TrackId::AUDIO, FrameRole::Audio, Codec::Mp3, 0, &[1; 40]);
    assert_eq!(write(&mp3), Err(NotWritten::Track("RTSP cannot carry MP3".to_owned())));
    let second = frame(TrackId { index: 1, ..TrackId::VIDEO }, FrameRole::Key, Codec::H264, 0, &[1; 40]);
    assert!(matches!(write(&second), Err(NotWritten::Track(_))));
    assert!(matches!(write(&sound(0)), Err(NotWritten::Track(_))), "nothing says how it is coded");
    assert_eq!(write(&picture(0)), Ok(()));
    let further = NotWritten::Changed("the stream has a further track");
    assert_eq!(write(&sound_config()), Err(further));
    let (mut client, now) = begin(&[config(), sound_config()]);
    let other = frame(TrackId::AUDIO, FrameRole::Config, Codec::Aac, 0, &[0x12, 0x10]);
    assert!(matches!(client.write(now, NtpTime(1), &other), Err(NotWritten::Changed(_))));
    let mut media = Outgoing::new([1, 2], now);
    media.learn(&mp3);
    let settings = RecordSettings {
        url: "rtsp://h/a".to_owned(),
        login: None,
        user_agent: String::new(),
        name: String::new(),
        udp: None,
    };
    assert!(RecordSession::new(settings, media, now).is_none(), "nothing to announce");
}

#[test]
fn servers_that_refuse_or_say_nonsense_end_it_with_a_reason() {
    for (status, error) in [
        ("403 Forbidden", ClientError::Status(403)),
        ("454 Session Not Found", ClientError::Status(454)),
        ("302 Found", ClientError::Redirected),
    ] {
        let (mut client, now) = client(&[config()], None);
        answer(&mut client, now, "501 Not Implemented", "").expect("OPTIONS may be unknown");
        assert_eq!(answer(&mut client, now, status, "").err(), Some(error));
    }
    let (mut first, now) = client(&[config()], None);
    let nonsense = first.handle_input(now, b"HTTP/1.1 200 OK\r\n\r\n");
    assert!(matches!(nonsense, Err(ClientError::Input(_))), "{nonsense:?}");
    let (mut client, now) = client(&[config()], None);
    let early = client.handle_input(now, b"$\0\0\x02ab");
    assert_eq!(early, Err(ClientError::Input(InputError::NoChannels)));
    let udp = "Session: s1\r\nTransport: RTP/AVP;unicast;server_port=1-2\r\n";
    let (mut client, now) = self::client(&[config()], None);
    answer(&mut client, now, "200 OK", "").expect("OPTIONS");
    answer(&mut client, now, "200 OK", "").expect("ANNOUNCE");
    assert_eq!(answer(&mut client, now, "200 OK", udp).err(), Some(ClientError::Transport));
    let (mut client, now) = self::client(&[config()], None);
    until_it_records(&mut client, now);
    let gone = client.handle_input(now, b"TEARDOWN rtsp://h/ RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    assert_eq!(gone, Err(ClientError::Over));
}
