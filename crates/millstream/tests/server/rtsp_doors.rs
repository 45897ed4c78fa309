//! ffmpeg publishes and plays by RTSP: every frame arrives unchanged, at every door.

use std::path::Path;

use crate::common::bridge::{Viewed, metric};
use crate::common::eventually;
use crate::common::rtc::Client;
use crate::common::server::Server;
use crate::common::tools::{
    Frames, Packet, Player, Running, ffmpeg, frames_of, frames_with, publish_repeated, run, sample,
};

/// What stands around pictures is left out on both sides: parameter sets, and what may go ahead of them.
const UNITS: &str = "filter_units=remove_types=6-9";

fn publish_by(transport: &str, rate: &str, file: &Path, url: &str) -> Running {
    let mut command = ffmpeg();
    command.args(["-readrate", rate, "-i"]).arg(file);
    command.args(["-c", "copy", "-f", "rtsp", "-rtsp_transport", transport, url]);
    Running::start(command, "ffmpeg publishing by RTSP")
}

/// What a player by RTSP gets in four seconds.
fn play_by(transport: &str, url: &str) -> Frames {
    let texts = ["v", "a"].map(|kind| {
        let mut command = ffmpeg();
        command.args(["-rtsp_transport", transport, "-i", url, "-map", &format!("0:{kind}"), "-c", "copy"]);
        let options: &[&str] = if kind == "v" { &["-bsf:v", UNITS] } else { &[] };
        command.args(options).args(["-t", "3", "-f", "framecrc", "-"]);
        String::from_utf8(run(&mut command).stdout).expect("framecrc is text")
    });
    Frames::parse(&texts)
}

fn source() -> Frames {
    frames_with(&sample(), &["-bsf:v", &format!("h264_mp4toannexb,{UNITS}")])
}

/// Fails unless the packets of both tracks are a run of the source's, `least` of each. A source that is
/// repeated goes on with its beginning.
fn assert_runs(played: &Frames, source: &Frames, least: usize) {
    for (name, played, source) in
        [("video", &played.video, &source.video), ("audio", &played.audio, &source.audio)]
    {
        let content = |packet: &Packet| (packet.size, packet.checksum.clone());
        let played: Vec<_> = played.iter().map(content).collect();
        let source: Vec<_> = source.iter().chain(source).map(content).collect();
        assert!(played.len() >= least, "{name}: {} packets", played.len());
        let is_run = played.is_empty() || source.windows(played.len()).any(|window| window == played);
        assert!(is_run, "{name}: the {} packets are no run of the source's", played.len());
    }
}

#[test]
fn what_ffmpeg_publishes_by_rtsp_plays_everywhere() {
    for transport in ["tcp", "udp"] {
        let server = Server::start_workers(2, "");
        let flv = Player::start(&server.flv_url("live/cam"), server.dir.path().join("flv"));
        let rtmp = Player::start(&server.rtmp_url("live/cam"), server.dir.path().join("rtmp"));
        server.wait_for_players("live/cam", 2);
        let publisher = publish_by(transport, "2", &sample(), &server.rtsp_url("/live/cam"));
        server.wait_for_publisher("live/cam", true);
        let session = eventually("the session is listed", || {
            let sessions = server.sessions("role=publisher");
            sessions.into_iter().find(|session| session["bytes_in"].as_u64() > Some(50_000))
        });
        assert_eq!((&session["protocol"], &session["stream"]), (&"rtsp".into(), &"live/cam".into()));
        publisher.finish();
        server.wait_for_publisher("live/cam", false);
        let source = frames_of(&sample());
        assert_runs(&flv.frames_after_end(), &source, source.video.len() - 3);
        assert_runs(&rtmp.frames_after_end(), &source, source.video.len() - 3);
    }
}

#[test]
fn what_is_published_plays_by_rtsp() {
    let server = Server::start_workers(2, "");
    let _publisher = publish_repeated(&server.rtmp_url("live/mill"), 1, 9);
    server.wait_for_publisher("live/mill", true);
    for transport in ["tcp", "udp"] {
        assert_runs(&play_by(transport, &server.rtsp_url("/live/mill")), &source(), 60);
    }
    eventually("the players have left", || (server.sessions("role=player").is_empty()).then_some(()));
}

#[test]
fn rtsp_over_tls_plays_and_takes_a_token() {
    let server = Server::start("[tls]\nself_signed = true\n[auth]\npublish_token = \"sesame\"\n");
    let address = server.rtsps.expect("RTSPS is on");
    let url = format!("rtsps://{address}/live/cam");
    let flv = Player::start(&server.flv_url("live/cam"), server.dir.path().join("flv"));
    server.wait_for_players("live/cam", 1);
    publish_by("tcp", "2", &sample(), &url).finish_refused();
    publish_by("tcp", "2", &sample(), &format!("{url}?token=sesame")).finish();
    let source = frames_of(&sample());
    assert_runs(&flv.frames_after_end(), &source, source.video.len() - 3);
}

#[test]
fn packets_that_webrtc_takes_go_on_as_they_come() {
    let server = Server::start_workers(2, "");
    let film = server.dir.path().join("film.mkv");
    let mut make = ffmpeg();
    make.args([
        "-f",
        "lavfi",
        "-i",
        "testsrc=size=320x180:rate=25",
        "-f",
        "lavfi",
        "-i",
        "sine=440",
        "-t",
        "30",
    ]);
    make.args(["-c:v", "libx264", "-bf", "0", "-g", "25", "-pix_fmt", "yuv420p", "-c:a", "libopus"]);
    run(make.args(["-ar", "48000", "-ac", "2"]).arg(&film));
    for transport in ["tcp", "udp"] {
        let publisher = publish_by(transport, "1", &film, &server.rtsp_url("/live/cam"));
        server.wait_for_publisher("live/cam", true);
        let stream = server.api("/api/v1/streams/live/cam");
        assert_eq!(stream["publisher"]["protocol"], "rtsp", "{stream}");
        let source = frames_with(&film, &["-bsf:v", &format!("h264_mp4toannexb,{UNITS}")]);
        // Its parameter sets are in the description alone.
        let played = play_by("tcp", &server.rtsp_url("/live/cam"));
        assert_runs(&Frames { audio: Vec::new(), ..played }, &Frames { audio: Vec::new(), ..source }, 0);
        // Viewers of WHEP get the packets themselves: no bridge makes any for them.
        let (mut viewer, mut viewed) = (Client::play_h264(&server, "live/cam"), Viewed::default());
        viewer.until("a key frame and audio", |viewer| {
            viewed.take(viewer);
            viewed.key_frame && viewed.audio > 0
        });
        assert_eq!(viewer.delete(), 200);
        assert_eq!(metric(&server, "millstream_bridge_started_total", "rtmp_to_webrtc"), Some(0.0));
        drop(publisher);
        server.wait_for_publisher("live/cam", false);
    }
    assert!(server.log().contains("packets as they come"));
}
