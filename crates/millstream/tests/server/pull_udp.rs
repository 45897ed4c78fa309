//! ffmpeg sends MPEG-TS by UDP, and what is pulled plays by RTMP, FLV, MPEG-TS and WebRTC.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::origin::wait_for_pull;
use crate::common::server::Server;
use crate::common::tools::{Player, Running, compare, ffmpeg, frames_of, frames_with, sample};
use crate::common::{port_for_later, wait_for_udp_listener};

fn server(url: &str) -> Server {
    Server::start_workers(
        2,
        &format!(
            "[sources]\nstall_timeout_ms = 2000\nretry_min_ms = 50\n\
             [[pull]]\nstream = \"live/copy\"\nurl = \"{url}\"\n"
        ),
    )
}

/// Sends the sample, `rate` times faster than it plays.
fn send(rate: u32, options: &[&str], url: &str) -> Running {
    let mut command = ffmpeg();
    command.args(["-readrate", &rate.to_string(), "-i"]).arg(sample()).args(["-c", "copy"]);
    command.args(options).arg(url);
    Running::start(command, "ffmpeg sending")
}

fn arrives(port: u16, pull: &str, options: &[&str], url: &str, unsent: usize) {
    let server = server(pull);
    let player = |url: &str, listing: &str| Player::start(url, server.dir.path().join(listing));
    let flv = player(&server.flv_url("live/copy"), "flv");
    let rtmp = player(&server.rtmp_url("live/copy"), "rtmp");
    let units = "filter_units=remove_types=7-9";
    let ts = Player::start_with(
        &format!("http://{}/live/copy.ts", server.http),
        server.dir.path().join("ts"),
        [&["-bsf:v", units], &["-bsf:a", "aac_adtstoasc"]],
    );
    server.wait_for_players("live/copy", 3);
    wait_for_udp_listener(port);
    let sender = send(2, options, url);
    wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
    let stream = server.api("/api/v1/streams/live/copy");
    assert_eq!(stream["publisher"]["protocol"], "pull");
    crate::common::eventually("it is played by WebRTC, too", || {
        let stream = server.api("/api/v1/streams/live/copy");
        stream["urls"]["whep"].as_str().is_some_and(|url| url.ends_with("/whep/live/copy")).then_some(())
    });
    sender.finish();
    // What waits for its end has it then.
    server.wait_for_publisher("live/copy", false);
    let source = frames_of(&sample());
    compare(&flv.frames_after_end(), &source, unsent);
    compare(&rtmp.frames_after_end(), &source, unsent);
    let source = frames_with(&sample(), &["-bsf:v", &format!("h264_mp4toannexb,{units}")]);
    // ffmpeg knows the end of a picture by the next one, and does not have the last until the stream ends.
    compare(&ts.frames_after_end().of_transport_stream(), &source, unsent.max(1));
}

#[test]
fn what_is_sent_to_a_port_arrives_unchanged() {
    let port = port_for_later();
    let url = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    arrives(port, &format!("udp://127.0.0.1:{port}"), &["-f", "mpegts"], &url, 0);
}

#[test]
fn what_is_sent_to_a_group_arrives_unchanged() {
    let port = port_for_later();
    let url = format!("udp://239.255.77.77:{port}?pkt_size=1316&localaddr=127.0.0.1");
    let pull = format!("udp://239.255.77.77:{port}?interface=127.0.0.1&program=1");
    arrives(port, &pull, &["-f", "mpegts"], &url, 0);
}

#[test]
fn what_is_sent_in_rtp_arrives_unchanged() {
    let port = port_for_later();
    let url = format!("rtp://127.0.0.1:{port}?pkt_size=1328");
    // At the end of its input, ffmpeg does not send what it has not yet made packets of: the last audio,
    // of which it puts a dozen frames together.
    arrives(port, &format!("udp://127.0.0.1:{port}"), &["-f", "rtp_mpegts"], &url, 20);
}

#[test]
fn a_sender_that_comes_back_is_heard_and_a_wrong_program_is_named() {
    let port = port_for_later();
    let server = server(&format!("udp://127.0.0.1:{port}?program=7"));
    let url = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    let sender = send(1, &["-f", "mpegts"], &url);
    let pull = wait_for_pull(&server, "copy", "a complaint", |pull| pull["last_error"].is_string());
    assert_eq!(pull["last_error"], "what comes has no program 7");
    drop(sender);
    let noise = UdpSocket::bind("127.0.0.1:0").expect("a port");
    wait_for_pull(&server, "copy", "another complaint", |pull| {
        let _ = noise.send_to(&[0; 1316], ("127.0.0.1", port));
        std::thread::sleep(Duration::from_millis(20));
        pull["last_error"] == "what comes is no MPEG-TS"
    });
    for round in 0..2 {
        let options = ["-f", "mpegts", "-mpegts_service_id", "7"];
        let sender = send(1, &options, &url);
        wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
        server.wait_for_publisher("live/copy", true);
        drop(sender);
        server.wait_for_publisher("live/copy", false);
        let pull = wait_for_pull(&server, "copy", "away", |pull| pull["state"] != "live");
        assert_eq!(
            (&pull["last_error"], &pull["reconnects"]),
            (&"the source sends nothing".into(), &round.into())
        );
    }
}

#[test]
fn a_sender_of_nothing_that_is_carried_is_named_also_where_the_stream_was_live() {
    let port = port_for_later();
    let server = server(&format!("udp://127.0.0.1:{port}"));
    let url = format!("udp://127.0.0.1:{port}?pkt_size=1316");
    let reason = "what comes has no track of a codec that is carried";
    for begins_live in [false, true] {
        if begins_live {
            let sender = send(1, &["-f", "mpegts"], &url);
            wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
            drop(sender);
        }
        let before = server.api("/api/v1/pulls/live/copy")["failures"].clone();
        let sender = send(1, &["-an", "-c:v", "mpeg2video", "-f", "mpegts"], &url);
        // On a busy machine the sender may come so late that its silence is spoken of first.
        wait_for_pull(&server, "copy", reason, |pull| {
            pull["failures"] != before && pull["last_error"] == reason
        });
        server.wait_for_publisher("live/copy", false);
        drop(sender);
    }
}

#[test]
fn a_sender_that_is_not_the_source_that_is_wanted_is_named() {
    let port = port_for_later();
    let server = server(&format!("udp://127.0.0.1:{port}?source=127.0.0.2"));
    let url = |local: &str| format!("udp://127.0.0.1:{port}?pkt_size=1316&localaddr={local}");
    let other = send(1, &["-f", "mpegts"], &url("127.0.0.3"));
    let pull = wait_for_pull(&server, "copy", "a complaint", |pull| pull["last_error"].is_string());
    assert_eq!(pull["last_error"], "what comes is from 127.0.0.3, and `source` is 127.0.0.2");
    assert_eq!((&pull["state"], &pull["failures"]), (&"connecting".into(), &0.into()), "it waits");
    drop(other);
    let _wanted = send(1, &["-f", "mpegts"], &url("127.0.0.2"));
    wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
}
