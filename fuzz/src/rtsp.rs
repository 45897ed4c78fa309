//! What the fuzz targets of `rtsp` check: whatever bytes come, in whatever pieces, no machine panics or holds
//! more than it may, and the pieces make no difference.
//!
//! `crates/rtsp/tests/rtsp/fuzz_corpus.rs` includes this file and replays the kept corpus.

use std::time::{Duration, Instant};

use rtsp::{
    AnnouncedTrack, Event, Incoming, IncomingSettings, Limits, Login, Outgoing, Passing, PlaySession,
    PlaySettings, RecordSession, RecordSettings, ServerSession, Status, announced, described,
};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[
    ("rtsp_media", rtsp_media),
    ("rtsp_play", rtsp_play),
    ("rtsp_record", rtsp_record),
    ("rtsp_sdp", rtsp_sdp),
    ("rtsp_session", rtsp_session),
];

/// What a server may say to a client that plays; `|` ends what comes before a request is sent again.
pub fn rtsp_play(data: &[u8]) {
    for piece in [data.len().max(1), 5] {
        let began = Instant::now();
        let settings = PlaySettings {
            url: "rtsp://h/a".to_owned(),
            login: Some(Login { user: "u".to_owned(), password: "p".to_owned() }),
            user_agent: String::new(),
            udp: None,
            reorder_max: Duration::from_millis(50),
        };
        let mut session = PlaySession::new(settings, began);
        let mut now = began;
        for piece in data.chunks(piece) {
            now += Duration::from_millis(700);
            if session.handle_input(now, piece).is_err() {
                break;
            }
            session.poll(now);
            session.report(now, |_, _| panic!("reports go into the connection"));
            while session.next_frame().is_some() {}
            let output = std::mem::take(session.output());
            assert!(output.len() < 256 << 10, "{} bytes", output.len());
            // No request has a line of the server's making.
            let text = String::from_utf8(output.into_iter().filter(u8::is_ascii).collect()).expect("ASCII");
            assert!(!text.contains("Injected:"), "{text}");
            let _ = session.next_timeout();
        }
        session.tear_down();
    }
}

/// What a server may say to a client that records.
pub fn rtsp_record(data: &[u8]) {
    use media::{Codec, Frame, FrameRole, Timestamp, TrackId};
    let sound = |data: Vec<u8>| {
        let times = (Timestamp::ZERO, Timestamp::ZERO);
        Frame::new(TrackId::AUDIO, FrameRole::Audio, Codec::Pcmu, times, data)
    };
    let ways = [data.len().max(1), 5].map(|piece| [(piece, None), (piece, Some([[1, 2], [3, 4]]))]);
    for (piece, udp) in ways.into_iter().flatten() {
        let began = Instant::now();
        let mut media = Outgoing::new([1, 2], began);
        media.learn(&sound(vec![1; 160]));
        let settings = RecordSettings {
            url: "rtsp://h/a".to_owned(),
            login: Some(Login { user: "u".to_owned(), password: "p".to_owned() }),
            user_agent: String::new(),
            name: String::new(),
            udp,
        };
        let mut session = RecordSession::new(settings, media, began).expect("a track");
        let mut now = began;
        for piece in data.chunks(piece) {
            now += Duration::from_millis(700);
            if session.handle_input(now, piece).is_err() {
                break;
            }
            session.poll(now);
            if session.is_recording() {
                session.write(now, rtp::rtcp::NtpTime(1), &sound(vec![1; 160])).expect("it is carried");
                assert_eq!(session.next_datagram().is_some(), udp.is_some());
            }
            while let Some(datagram) = session.next_datagram() {
                assert!(datagram.port != 0 && datagram.packet.len() < 300, "{datagram:?}");
                session.datagram_sent();
            }
            let output = std::mem::take(session.output());
            assert!(output.len() < 256 << 10, "{} bytes", output.len());
            let text = String::from_utf8(output.into_iter().filter(u8::is_ascii).collect()).expect("ASCII");
            assert!(!text.contains("Injected:"), "{text}");
            let _ = session.next_timeout();
        }
        session.tear_down();
    }
}

/// What a connection answers to bytes that come in pieces of this length: each event is answered by what its
/// number says.
fn answers(data: &[u8], piece: usize) -> (Vec<u8>, u64) {
    let mut session = ServerSession::new(Limits::default(), [7; 32], Some((8000, 8001)));
    let (mut output, mut media) = (Vec::new(), 0);
    for piece in data.chunks(piece) {
        session.handle_input(piece);
        while let Some(event) = session.poll_event() {
            match event {
                Event::Media { range, .. } => media += session.packet(range).len() as u64,
                Event::Describe(target) if target.path.len() % 2 == 0 => {
                    session.describe("v=0\r\n", &[0, 1]);
                }
                Event::Describe(_) => session.refuse(Status::NotFound, "no such stream"),
                Event::Announce(..) | Event::Play | Event::Record => session.accept(),
                Event::Pause | Event::Teardown => {}
            }
            assert!(!session.is_awaiting());
        }
        output.append(session.output());
        if session.ends().is_some() {
            break;
        }
    }
    (output, media)
}

/// Requests and interleaved packets.
pub fn rtsp_session(data: &[u8]) {
    let whole = answers(data, data.len().max(1));
    for piece in [1, 7, 1_460] {
        assert_eq!(answers(data, piece), whole, "in pieces of {piece}");
    }
}

/// Descriptions.
pub fn rtsp_sdp(data: &[u8]) {
    if let Ok(described) = described(data) {
        assert!(described.tracks.len() <= 16 && described.notes.len() < 16);
    }
    let Ok(tracks) = announced(data) else { return };
    assert!(tracks.len() <= 16);
    for track in &tracks {
        assert!(track.payload_type < 128 && track.clock_rate > 0);
        let _ = (track.passes_on(), track.passed_fmtp());
    }
    packets(&tracks, &[0x80, 96, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0x65, 0x88]);
}

/// Packets of tracks of every kind: `track 8 | length 8 | packet`, the highest bit of the track is RTCP.
pub fn rtsp_media(data: &[u8]) {
    const SDP: &str = include_str!("../corpus/rtsp_sdp/every-kind");
    let tracks = announced(SDP.as_bytes()).expect("a description");
    packets(&tracks, data);
}

fn packets(tracks: &[AnnouncedTrack], data: &[u8]) {
    let began = Instant::now();
    let mut incoming =
        Incoming::new(tracks, IncomingSettings { delay_max: Duration::from_millis(50) }, began);
    let ssrcs: Vec<Option<u32>> = (1..).take(tracks.len()).map(Some).collect();
    let mut passing = Passing::new(tracks, &ssrcs, began);
    let (mut now, mut rest) = (began, data);
    while let [head, length, behind @ ..] = rest {
        let (packet, next) = behind.split_at(behind.len().min(usize::from(*length)));
        rest = next;
        now += Duration::from_millis(u64::from(*length));
        let track = usize::from(head & 0x7f);
        if head & 0x80 != 0 {
            let _ = incoming.rtcp(now, track, packet);
            let _ = passing.rtcp(now, track, packet, |report| assert!(report.len() >= 28));
        } else {
            let _ = incoming.rtp(now, track, packet);
            let _ = passing.rtp(now, track, packet, |out| {
                assert!(rtp::Packet::parse(out).is_ok());
            });
        }
        incoming.poll(now);
        let mut last = None;
        while let Some(frame) = incoming.next_frame() {
            if frame.track.kind == media::MediaKind::Video {
                assert!(last.is_none_or(|last| last <= frame.dts), "decoding times go back");
                last = Some(frame.dts);
            }
        }
        incoming.report(now, |_, report| assert!(!report.is_empty()));
        passing.report(now, |_, report| assert!(!report.is_empty()));
        let _ = (incoming.stats(), passing.stats(), incoming.next_timeout());
    }
}
