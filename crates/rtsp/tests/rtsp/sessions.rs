//! Sessions as clients see them.

use rtsp::{Ends, Event, InputError, Limits, Lower, Offered, Role, ServerSession, Status};

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
    m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:streamid=0\r\n\
    m=audio 0 RTP/AVP 97\r\na=rtpmap:97 opus/48000/2\r\na=control:streamid=1\r\n";

fn session(udp: Option<(u16, u16)>) -> ServerSession {
    ServerSession::new(Limits::default(), [7; 32], udp)
}

fn request(method: &str, url: &str, fields: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {url} RTSP/1.0\r\nCSeq: 7\r\n{fields}{length}\r\n{body}")
}

/// Sends a request and gives the event and the answer so far.
fn ask(session: &mut ServerSession, text: &str) -> (Option<Event>, String) {
    session.handle_input(text.as_bytes());
    let event = session.poll_event();
    (event, answer(session))
}

fn answer(session: &mut ServerSession) -> String {
    String::from_utf8(std::mem::take(session.output())).expect("text")
}

fn named(answer: &str) -> String {
    let field = answer.lines().find_map(|line| line.strip_prefix("Session: ")).expect("a session");
    format!("Session: {}\r\n", field.split(';').next().expect("a name"))
}

#[test]
fn a_publisher_announces_sets_up_and_records() {
    let mut session = session(None);
    let url = "rtsp://h/live/cam?token=x";
    let announce = request("ANNOUNCE", url, "Content-Type: application/sdp\r\n", SDP);
    let (event, _) = ask(&mut session, &announce);
    let Some(Event::Announce(target, tracks)) = event else { panic!("{event:?}") };
    assert_eq!((&*target.path, &*target.query, tracks.len()), ("live/cam", "token=x", 2));
    session.accept();
    assert!(answer(&mut session).starts_with("RTSP/1.0 200 OK\r\n"));
    // ffmpeg appends what names a track to the query.
    let fields = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5;mode=record\r\n";
    let (_, first) = ask(&mut session, &request("SETUP", &format!("{url}/streamid=1"), fields, ""));
    assert!(first.contains("Transport: RTP/AVP/TCP;unicast;interleaved=4-5;mode=record"), "{first}");
    let name = named(&first);
    let clashing = format!("{name}{fields}");
    let (_, second) = ask(&mut session, &request("SETUP", &format!("{url}/streamid=0"), &clashing, ""));
    assert!(second.starts_with("RTSP/1.0 461 "), "the channels are taken: {second}");
    // Packets before RECORD are dropped.
    session.handle_input(b"$\x04\0\x03abc");
    assert!(session.poll_event().is_none());
    assert_eq!(session.take_strays(), 1);
    let (event, _) = ask(&mut session, &request("RECORD", url, &name, ""));
    assert!(matches!(event, Some(Event::Record)), "{event:?}");
    session.accept();
    assert!(answer(&mut session).starts_with("RTSP/1.0 200 OK\r\n"));
    session.handle_input(b"$\x04\0\x03abc$\x09\0\x01x$\x05\0\x02de");
    let mut packets = Vec::new();
    while let Some(Event::Media { track, is_rtcp, range }) = session.poll_event() {
        packets.push((track, is_rtcp, session.packet(range).to_vec()));
    }
    assert_eq!(packets, [(1, false, b"abc".to_vec()), (1, true, b"de".to_vec())]);
    assert_eq!((session.take_strays(), session.role()), (1, Some(Role::Publish)));
}

#[test]
fn each_of_many_tracks_is_set_up_by_its_own_name() {
    // Of which one may be the end of another; `x9` names none.
    let numbered: fn(usize) -> String = |at| at.to_string();
    let odd: fn(usize) -> String =
        |at| ["1", "sub/1", "a/sub/1"].get(at).map_or(format!("t{at}"), |s| (*s).into());
    let fields = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record\r\n";
    let with_signs: [fn(usize) -> String; 2] = [|at| format!("/trackID={at}"), |at| format!(";track={at}")];
    let plain = [numbered, |at| format!("trackID={at}"), |at| format!("track{at}"), odd];
    for control in plain.into_iter().chain(with_signs) {
        let media = |at| format!("m=audio 0 RTP/AVP 0\r\na=control:{}\r\n", control(at));
        let sdp =
            format!("{}{}", SDP.split("m=").next().expect("a head"), (0..12).map(media).collect::<String>());
        for at in 0..12 {
            let mut session = session(None);
            let url = "rtsp://h/live/cam?token=x";
            ask(&mut session, &request("ANNOUNCE", url, "Content-Type: application/sdp\r\n", &sdp));
            session.accept();
            answer(&mut session);
            // One that begins with a sign may be put behind the URL as it is.
            let between = if control(at).starts_with(['/', ';']) { "" } else { "/" };
            let url_of_track = format!("{url}{between}{}", control(at));
            let (_, set_up) = ask(&mut session, &request("SETUP", &url_of_track, fields, ""));
            ask(&mut session, &request("RECORD", url, &named(&set_up), ""));
            session.accept();
            session.handle_input(b"$\x00\0\x03abc");
            let event = session.poll_event();
            assert!(
                matches!(event, Some(Event::Media { track, .. }) if track == at),
                "{}: {event:?}",
                control(at)
            );
        }
        let mut session = session(None);
        let announce = request("ANNOUNCE", "rtsp://h/live/cam", "Content-Type: application/sdp\r\n", &sdp);
        ask(&mut session, &announce);
        session.accept();
        answer(&mut session);
        let (_, none) = ask(&mut session, &request("SETUP", "rtsp://h/live/cam/x9", fields, ""));
        assert!(none.starts_with("RTSP/1.0 459 "), "{none}");
    }
}

#[test]
fn a_player_gets_the_channels_of_all_or_the_ports_it_names() {
    for (transport, expected, lower) in [
        (
            "RTP/AVP/TCP;unicast;interleaved=8-9",
            "RTP/AVP/TCP;unicast;interleaved=2-3",
            Lower::Interleaved { rtp: 2, rtcp: 3 },
        ),
        (
            "RTP/AVP;unicast;client_port=5000-5001",
            "RTP/AVP;unicast;client_port=5000-5001;server_port=8000-8001",
            Lower::Udp { rtp: 5000, rtcp: 5001 },
        ),
    ] {
        let mut session = session(Some((8000, 8001)));
        let (event, _) = ask(&mut session, &request("DESCRIBE", "rtsp://u:p@h/live/cam?token=x", "", ""));
        assert!(matches!(event, Some(Event::Describe(_))), "{event:?}");
        session.describe("v=0\r\n", &[0, 1]);
        let described = answer(&mut session);
        assert!(described.contains("Content-Base: rtsp://h/live/cam/\r\n"), "{described}");
        let setup =
            request("SETUP", "rtsp://h/live/cam/trackID=1", &format!("Transport: {transport}\r\n"), "");
        let (_, set_up) = ask(&mut session, &setup);
        assert!(set_up.contains(&format!("Transport: {expected}\r\n")), "{set_up}");
        assert_eq!(session.setups()[0].lower, lower);
        let (event, _) = ask(&mut session, &request("PLAY", "rtsp://h/live/cam/", &named(&set_up), ""));
        assert!(matches!(event, Some(Event::Play)), "{event:?}");
        session.accept();
        let name = named(&answer(&mut session));
        let (event, paused) = ask(&mut session, &request("PAUSE", "rtsp://h/live/cam/", &name, ""));
        assert!(matches!(event, Some(Event::Pause)) && paused.starts_with("RTSP/1.0 200"), "{paused}");
        let (event, _) = ask(&mut session, &request("PLAY", "rtsp://h/live/cam/", &name, ""));
        assert!(matches!(event, Some(Event::Play)), "{event:?}");
        session.accept();
        answer(&mut session);
        let (event, ended) = ask(&mut session, &request("TEARDOWN", "rtsp://h/live/cam/", &name, ""));
        assert!(matches!(event, Some(Event::Teardown)) && ended.starts_with("RTSP/1.0 200"), "{ended}");
    }
}

#[test]
fn what_is_refused_says_so() {
    let mut session = session(None);
    let describe = request("DESCRIBE", "rtsp://h/live/cam", "", "");
    ask(&mut session, &describe);
    session.refuse(Status::NotAcceptable, "MP3 is not carried\r\nX: y");
    let refused = answer(&mut session);
    assert!(refused.starts_with("RTSP/1.0 406 MP3 is not carriedX: y\r\n"), "{refused}");
    ask(&mut session, &describe);
    session.challenge(Offered { basic: true, digest: true }, "a token is required");
    let challenged = answer(&mut session);
    assert!(challenged.starts_with("RTSP/1.0 401 a token is required\r\n"), "{challenged}");
    assert!(challenged.contains("Digest realm=\"millstream\", nonce=\"0707"), "{challenged}");
    assert!(challenged.contains("Basic realm=\"millstream\""), "{challenged}");
}

#[test]
fn requests_behind_one_that_waits_are_bounded_and_answered_in_order() {
    let mut session = session(None);
    let describe = request("DESCRIBE", "rtsp://h/live/cam", "", "");
    let options = request("OPTIONS", "*", "", "");
    session.handle_input(format!("{describe}{options}").as_bytes());
    assert!(matches!(session.poll_event(), Some(Event::Describe(_))));
    assert!(session.poll_event().is_none() && session.output().is_empty());
    session.refuse(Status::NotFound, "no such stream");
    assert!(session.poll_event().is_none());
    let answers = answer(&mut session);
    assert!(answers.starts_with("RTSP/1.0 404") && answers.contains("Public: OPTIONS"), "{answers}");
    session.handle_input(describe.as_bytes());
    assert!(session.poll_event().is_some());
    while session.ends().is_none() {
        session.handle_input(options.as_bytes());
        assert!(session.poll_event().is_none());
    }
    assert_eq!(session.ends(), Some(Ends::TooMuch));
}

#[test]
fn lengths_that_others_may_read_otherwise_end_the_connection() {
    for (fields, error) in [
        ("Content-Length: 1\r\ncontent-length: 1\r\n", InputError::Length),
        ("Content-Length: 0x1\r\n", InputError::Length),
        ("Content-Length:\r\n", InputError::Length),
        ("Content-Length: 99999\r\n", InputError::BodyTooLong),
        ("Transfer-Encoding: chunked\r\n", InputError::Length),
        ("X: y\r\n\tContent-Length: 1\r\n", InputError::NoRequest),
    ] {
        let mut session = session(None);
        let (event, answer) = ask(&mut session, &request("OPTIONS", "*", fields, ""));
        assert!(event.is_none() && answer.starts_with("RTSP/1.0 4"), "{fields}: {answer}");
        assert_eq!(session.ends(), Some(Ends::Input(error)), "{fields}");
    }
}
