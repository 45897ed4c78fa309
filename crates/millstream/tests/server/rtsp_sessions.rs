//! RTSP over real sockets, as time passes: pauses, receiver reports, and clients that fall silent.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ::media::Frame;

use crate::common::eventually;
use crate::common::server::Server;
use crate::common::tools::publish_repeated;
use crate::doors_matrix::film::{self, Film};
use crate::doors_matrix::players::Player;
use crate::doors_matrix::publishers::{RtspPublisher, in_time};
use crate::rtsp_hostile::{Client, code};

/// A player of `live/mill`: its ports, or none in its connection; its session; and that it plays.
fn play(server: &Server, by_udp: bool) -> (Client, [Option<UdpSocket>; 2], String) {
    let mut client = Client::connect(server, "/live/mill");
    let description = client.ask("DESCRIBE", "", "", "");
    assert_eq!(code(&description), "200");
    let control =
        description.lines().filter_map(|line| line.strip_prefix("a=control:")).find(|it| *it != "*");
    let control = control.expect("a track").to_owned();
    let ports = [0, 1].map(|_| by_udp.then(|| UdpSocket::bind("127.0.0.1:0").expect("a port")));
    let transport = match &ports {
        [Some(rtp), Some(rtcp)] => {
            let [rtp, rtcp] = [rtp, rtcp].map(|port| port.local_addr().expect("bound").port());
            format!("RTP/AVP;unicast;client_port={rtp}-{rtcp}")
        }
        _ => "RTP/AVP/TCP;unicast;interleaved=0-1".to_owned(),
    };
    let answer = client.ask("SETUP", &format!("/{control}"), &format!("Transport: {transport}\r\n"), "");
    assert_eq!(code(&answer), "200", "{answer}");
    if let Some(theirs) = answer.split("server_port=").nth(1) {
        let first = theirs.split(['-', ';', '\r']).next().and_then(|port| port.parse::<u16>().ok());
        for (port, to) in ports.iter().flatten().zip(first.expect("a port")..) {
            port.connect(("127.0.0.1", to)).expect("a peer");
            port.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        }
    }
    let session = Client::session(&answer);
    assert_eq!(code(&client.ask("PLAY", "", &session, "")), "200");
    (client, ports, session)
}

/// Media that comes to a player, until there is none or `count` packets.
fn packets(client: &mut Client, rtp: Option<&UdpSocket>, count: usize) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while got.len() < count {
        let Some(rtp) = rtp else {
            let (channel, packet) = client.interleaved();
            got.extend((channel == 0).then_some(packet));
            continue;
        };
        let mut packet = [0; 2048];
        let Ok(length) = rtp.recv(&mut packet) else { break };
        got.push(packet[..length].to_vec());
    }
    got
}

/// Waits until so many more bytes of the stream have come to the server.
fn wait_for_more(server: &Server, stream: &str) {
    let bytes = || server.api(&format!("/api/v1/streams/{stream}"))["bytes_in"].as_u64().unwrap_or(0);
    let before = bytes();
    eventually("more of the stream has come", || (bytes() > before + 200_000).then_some(()));
}

#[test]
fn a_player_that_has_paused_gets_nothing_until_it_plays_again() {
    let server = Server::start_workers(2, "");
    let _publisher = publish_repeated(&server.rtmp_url("live/mill"), 1, 9);
    server.wait_for_publisher("live/mill", true);
    for by_udp in [false, true] {
        let (mut client, ports, session) = play(&server, by_udp);
        let rtp = ports[0].as_ref();
        assert_eq!(packets(&mut client, rtp, 20).len(), 20, "UDP: {by_udp}");
        assert_eq!(code(&client.ask("PAUSE", "", &session, "")), "200");
        // What was on its way.
        if let Some(rtp) = rtp {
            while rtp.recv(&mut [0; 2048]).is_ok() {}
        }
        client.strays = 0;
        wait_for_more(&server, "live/mill");
        // The answer is the next thing that comes.
        assert_eq!(code(&client.ask("GET_PARAMETER", "", &session, "")), "200");
        assert_eq!(client.strays, 0, "packets have come in the pause");
        if let Some(rtp) = rtp {
            assert!(rtp.recv(&mut [0; 2048]).is_err(), "a datagram has come in the pause");
        }
        assert_eq!(code(&client.ask("PLAY", "", &session, "")), "200");
        assert_eq!(packets(&mut client, rtp, 20).len(), 20, "it goes on, UDP: {by_udp}");
        assert_eq!(code(&client.ask("TEARDOWN", "", &session, "")), "200");
    }
}

/// What it sends in the pause is left out of what is played, and it is the same publication before and after.
#[test]
fn a_publisher_that_has_paused_is_not_heard_until_it_records_again() {
    const PAUSED: std::ops::Range<i64> = 2_000..4_000;
    let server = Server::start("");
    let film = Film::h264_aac();
    let over = AtomicBool::new(false);
    let frames = thread::scope(|scope| {
        let mut publisher =
            RtspPublisher::open(&server, "live/cam", &film, false, |text| text).expect("it is taken");
        let playing = scope.spawn(|| Player::Rtmp.play(&server, "live/cam", &over));
        server.wait_for_players("live/cam", 1);
        let session = server.sessions("role=publisher")[0]["id"].clone();
        let url = server.rtsp_url("/live/cam");
        let mut was_paused = false;
        in_time(
            &film,
            || {},
            |frame| {
                let is_paused = PAUSED.contains(&frame.dts.millis());
                match std::mem::replace(&mut was_paused, is_paused) {
                    false if is_paused => drop(publisher.ask("PAUSE", &url, "", "").expect("it pauses")),
                    true if !is_paused => drop(publisher.ask("RECORD", &url, "", "").expect("it goes on")),
                    _ => {}
                }
                publisher.send(frame, |_, _, _| {});
            },
        );
        thread::sleep(Duration::from_millis(500));
        assert_eq!(server.sessions("role=publisher")[0]["id"], session);
        publisher.end();
        over.store(true, Ordering::Relaxed);
        playing.join().expect("it plays")
    });
    let sent_at = |got: &Frame| {
        let is_same =
            |sent: &&Frame| sent.track == got.track && film::unit(sent, false) == film::unit(got, false);
        film.frames.iter().filter(|sent| film::is_media(sent)).find(is_same).map(|sent| sent.dts.millis())
    };
    let times: Vec<i64> = frames.iter().filter(|frame| film::is_media(frame)).filter_map(sent_at).collect();
    let count = |range: std::ops::Range<i64>| times.iter().filter(|time| range.contains(time)).count();
    let counts = [count(0..PAUSED.start), count(PAUSED), count(PAUSED.end..8_000)];
    println!("frames before, in and after the pause: {counts:?}");
    assert!(counts[0] > 50 && counts[1] == 0 && counts[2] > 100, "{counts:?}");
}

/// RFC 3550 section 6.4.2: what a receiver says of a source.
struct Block {
    ssrc: u32,
    fraction_lost: u8,
    lost: u32,
    highest: u32,
    last_report: u32,
}

fn block(report: &[u8]) -> Option<Block> {
    let word = |at: usize| report.get(at..at + 4).map(|it| u32::from_be_bytes([it[0], it[1], it[2], it[3]]));
    // A report with a block.
    (report.first()? & 0x1f >= 1 && report[1] == 201).then_some(())?;
    let lost = word(12)?;
    Some(Block {
        ssrc: word(8)?,
        fraction_lost: (lost >> 24) as u8,
        lost: lost & 0xff_ffff,
        highest: word(16)?,
        last_report: word(24)?,
    })
}

/// A publisher by TCP and by UDP that leaves a packet in ten out: the reports of the server say so.
#[test]
fn publishers_are_reported_what_has_come_and_what_is_lost() {
    let server = Server::start("");
    let mut film = Film::h264_aac();
    film.frames.retain(|frame| frame.track.kind == ::media::MediaKind::Audio);
    for by_udp in [false, true] {
        let stream = format!("live/cam{}", u8::from(by_udp));
        let mut publisher =
            RtspPublisher::open(&server, &stream, &film, by_udp, |text| text).expect("it is taken");
        let (mut sent, mut last_sent, mut ssrc, mut middle) = (0u32, 0, 0, 0);
        in_time(
            &film,
            || {},
            |frame| {
                publisher.send_losing(frame, |is_rtcp, packet| {
                    if is_rtcp {
                        // The middle of the time that a sender report has.
                        middle = u32::from_be_bytes([packet[10], packet[11], packet[12], packet[13]]);
                        return false;
                    }
                    sent += 1;
                    last_sent = u16::from_be_bytes([packet[2], packet[3]]);
                    ssrc = u32::from_be_bytes([packet[8], packet[9], packet[10], packet[11]]);
                    sent.is_multiple_of(10)
                });
            },
        );
        let report = publisher.report();
        let block = block(&report).unwrap_or_else(|| panic!("a report with a block: {report:?}"));
        assert_eq!(block.ssrc, ssrc, "UDP: {by_udp}");
        assert!((15..=40).contains(&block.fraction_lost), "a tenth: {}", block.fraction_lost);
        assert!(block.lost >= 10 && block.lost <= sent / 10, "{} of {sent}", block.lost);
        assert!(last_sent.wrapping_sub(block.highest as u16) < sent as u16, "{}", block.highest);
        assert!(block.last_report != 0 && middle.wrapping_sub(block.last_report) < 8 << 16, "{middle}");
        let session = &server.sessions(&format!("stream={stream}&role=publisher"))[0];
        println!("UDP: {by_udp}: lost {} of {sent}, {session}", block.lost);
        publisher.end();
    }
}

#[test]
fn players_by_udp_that_say_nothing_are_closed_and_those_that_report_stay() {
    let server = Server::start("[rtsp]\nsilence_timeout_ms = 5000\n");
    let _publisher = publish_repeated(&server.rtmp_url("live/mill"), 1, 9);
    server.wait_for_publisher("live/mill", true);
    let (mut reporting, ports, _session) = play(&server, true);
    let (mut asking, _asking_ports, asking_session) = play(&server, true);
    let (mut silent, _silent_ports, _) = play(&server, true);
    server.wait_for_players("live/mill", 3);
    // A receiver report of nothing (RFC 3550 section 6.4.2).
    let report = [0x80, 201, 0, 1, 1, 2, 3, 4];
    eventually("the silent one is closed", || {
        ports[1].as_ref().expect("a port of RTCP").send(&report).expect("it is sent");
        assert_eq!(code(&asking.ask("GET_PARAMETER", "", &asking_session, "")), "200");
        (server.sessions("stream=live/mill&role=player").len() == 2).then_some(())
    });
    assert!(silent.is_closed());
    let cause = "millstream_sessions_ended_total{worker=\"0\",cause=\"silent\"}";
    eventually("the cause is counted", || (server.counter(cause) == 1).then_some(()));
    assert_eq!(code(&reporting.ask("OPTIONS", "", "", "")), "200");
}

#[test]
fn a_publisher_without_media_is_closed_whatever_it_says_besides() {
    let server = Server::start("[limits]\npublisher_idle_timeout_ms = 1000\n");
    let film = Film::h264_aac();
    let mut publisher =
        RtspPublisher::open(&server, "live/cam", &film, false, |text| text).expect("it is taken");
    server.wait_for_publisher("live/cam", true);
    let url = server.rtsp_url("/live/cam");
    eventually("it is closed", || publisher.try_ask("GET_PARAMETER", &url).is_err().then_some(()));
    server.wait_for_publisher("live/cam", false);
}
