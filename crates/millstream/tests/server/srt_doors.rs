//! ffmpeg and libsrt's own tool publish and play by SRT: every frame arrives unchanged, at every door.

use std::process::Command;

use crate::common::eventually;
use crate::common::origin::wait_for_pull;
use crate::common::server::Server;
use crate::common::tools::{Frames, Player, Running, compare, ffmpeg, frames_of, frames_with, sample};

/// What a transport stream puts around pictures is left out on both sides.
const UNITS: &str = "filter_units=remove_types=7-9";
/// Packets at the end that libsrt does not send any more: it closes without waiting.
const UNSENT: usize = 8;

fn publish(url: &str) -> Running {
    let mut command = ffmpeg();
    command.args(["-readrate", "2", "-i"]).arg(sample());
    command.args(["-c", "copy", "-f", "mpegts", "-muxdelay", "0", url]);
    Running::start(command, "ffmpeg publishing by SRT")
}

fn play_ts(server: &Server, url: &str, listing: &str) -> Player {
    let options = [&["-bsf:v", UNITS][..], &["-bsf:a", "aac_adtstoasc"]];
    Player::start_with(url, server.dir.path().join(listing), options)
}

fn source_of_ts() -> Frames {
    frames_with(&sample(), &["-bsf:v", &format!("h264_mp4toannexb,{UNITS}")])
}

/// Plays `stream` by RTMP, FLV, HTTP and SRT while `publish` runs, and compares.
fn plays_everywhere(server: &Server, stream: &str, read: &str, publish: impl FnOnce() -> Running) {
    let flv = Player::start(&server.flv_url(stream), server.dir.path().join("flv"));
    let rtmp = Player::start(&server.rtmp_url(stream), server.dir.path().join("rtmp"));
    let http = play_ts(server, &format!("http://{}/{stream}.ts", server.http), "http-ts");
    let srt = play_ts(server, &server.srt_url(read), "srt");
    server.wait_for_players(stream, 4);
    let publisher = publish();
    server.wait_for_publisher(stream, true);
    let session = eventually("the session is listed", || {
        let sessions = server.sessions("role=publisher");
        sessions.into_iter().find(|session| session["srt"]["packets"].as_u64() > Some(50))
    });
    assert_eq!((&session["protocol"], &session["stream"]), (&"srt".into(), &stream.into()));
    assert_eq!((&session["srt"]["latency_ms"], &session["srt"]["dropped_packets"]), (&200.into(), &0.into()));
    publisher.finish();
    server.wait_for_publisher(stream, false);
    compare(&flv.frames_after_end(), &frames_of(&sample()), UNSENT);
    compare(&rtmp.frames_after_end(), &frames_of(&sample()), UNSENT);
    compare(&http.frames_after_end().of_transport_stream(), &source_of_ts(), UNSENT + 1);
    compare(&srt.frames_after_end().of_transport_stream(), &source_of_ts(), UNSENT + 1);
}

#[test]
fn what_ffmpeg_publishes_by_srt_plays_everywhere() {
    let server = Server::start_workers(2, "");
    plays_everywhere(&server, "live/cam", "read:live/cam", || publish(&server.srt_url("publish:live/cam")));
}

#[test]
fn with_passphrases_of_each_direction_and_a_token() {
    let server = Server::start(
        "[auth]\npublish_token = \"sesame\"\n[[srt.stream]]\nstream = \"live/*\"\n\
         publish_passphrase = \"of publishers\"\nplay_passphrase = \"of the players\"\n",
    );
    let read = "#!::r=live/cam,m=request&passphrase=of the players";
    plays_everywhere(&server, "live/cam", read, || {
        let id = "#!::r=live/cam,m=publish,u=me,t=sesame&passphrase=of publishers&pbkeylen=32";
        publish(&server.srt_url(id))
    });
}

#[test]
fn libsrts_own_tool_passes_streams_on() {
    let server = Server::start("");
    let copy = play_ts(&server, &server.srt_url("read:live/copy"), "copy");
    server.wait_for_players("live/copy", 1);
    let mut command = Command::new("srt-live-transmit");
    command.args(["-q", "-chunk:1316"]);
    command.args([server.srt_url("read:live/cam"), server.srt_url("publish:live/copy")]);
    let _transmit = Running::start(command, "srt-live-transmit");
    server.wait_for_players("live/cam", 1);
    let publisher = publish(&server.srt_url("publish:live/cam"));
    publisher.finish();
    server.wait_for_publisher("live/cam", false);
    compare(&copy.frames_after_end().of_transport_stream(), &source_of_ts(), UNSENT + 1);
}

#[test]
fn a_stream_is_pulled_from_another_server() {
    let origin = Server::start("[srt]\npassphrase = \"correct horse\"\n");
    let address = origin.srt.expect("SRT is on");
    let server = Server::start(&format!(
        "[sources]\nretry_min_ms = 50\nallow_private_addresses = true\n[[pull]]\nstream = \"live/copy\"\n\
         url = \"srt://{address}?streamid=read:live/cam&passphrase=correct%20horse\
         &pbkeylen=24&latency=200\"\n"
    ));
    let flv = Player::start(&server.flv_url("live/copy"), server.dir.path().join("flv"));
    server.wait_for_players("live/copy", 1);
    origin.wait_for_players("live/cam", 1);
    let publisher = publish(&origin.srt_url("publish:live/cam&passphrase=correct horse"));
    let pull = wait_for_pull(&server, "copy", "live", |pull| pull["state"] == "live");
    assert!(pull["url"].as_str().is_some_and(|url| url.ends_with("?...")), "{pull}");
    let pull = wait_for_pull(&server, "copy", "a connection", |pull| {
        pull["srt"]["packets"].as_u64() > Some(50) && pull["srt"]["rtt_ms"].is_number()
    });
    let srt = &pull["srt"];
    assert_eq!((&srt["latency_ms"], &srt["dropped_packets"]), (&200.into(), &0.into()), "{pull}");
    assert_eq!(srt["encrypted"], true, "{pull}");
    publisher.finish();
    origin.wait_for_publisher("live/cam", false);
    compare(&flv.frames_after_end(), &frames_of(&sample()), UNSENT);
    // Who is removed here learns why it is over there.
    drop(origin);
    wait_for_pull(&server, "copy", "why it ended", |pull| {
        let error = pull["last_error"].as_str();
        pull["srt"].is_null() && error.is_some_and(|error| error.contains("the listener"))
    });
    // What its connection has counted stays.
    let counted = |name: &str| {
        server.counter(&format!("millstream_pull_srt_{name}_total{{app=\"live\",stream=\"copy\"}}"))
    };
    assert!(counted("received_packets") > 50);
    assert_eq!((counted("dropped_packets"), counted("undecrypted_packets")), (0, 0));
}

#[test]
fn a_publisher_of_nothing_that_is_carried_ends_with_the_reason() {
    let server = Server::start("[limits]\npublisher_idle_timeout_ms = 1000\n");
    let cause = "millstream_sessions_ended_total{worker=\"0\",cause=\"not_playable\"}";
    let send = |stream: &str, output: &[&str]| {
        let mut command = ffmpeg();
        command.args(["-re", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=25"]).args(output);
        command.args(["-f", "mpegts", &server.srt_url(&format!("publish:{stream}"))]);
        Running::start(command, "ffmpeg publishing by SRT")
    };
    // One of a codec that is carried goes on meanwhile.
    let _other = send("live/other", &["-c:v", "libx264", "-g", "25", "-preset", "ultrafast"]);
    server.wait_for_publisher("live/other", true);
    // MPEG-2 video has no place anywhere.
    let refused = send("live/cam", &["-c:v", "mpeg2video"]);
    server.wait_for_publisher("live/cam", true);
    eventually("it has ended", || (server.counter(cause) == 1).then_some(()));
    server.wait_for_publisher("live/cam", false);
    drop(refused);
    let log = server.log();
    let line = log.lines().find(|line| line.contains("publisher left") && line.contains("live/cam"));
    let reason = "what comes has no track of a codec that is carried";
    assert!(line.is_some_and(|line| line.contains(reason)), "{line:?}");
    let publishers = server.sessions("role=publisher");
    assert_eq!(publishers.len(), 1);
    assert_eq!(publishers[0]["stream"], "live/other");
}

#[test]
fn a_publisher_of_several_programs_says_which_one_it_means() {
    let server = Server::start("[limits]\npublisher_idle_timeout_ms = 1000\n");
    // The picture is one program, the audio another.
    let send = |id: &str| {
        let mut command = ffmpeg();
        command.args(["-re", "-stream_loop", "-1", "-i"]).arg(sample());
        command.args(["-map", "0:v", "-map", "0:a", "-c", "copy", "-program", "program_num=7:st=0"]);
        command.args(["-program", "program_num=9:st=1", "-f", "mpegts", &server.srt_url(id)]);
        Running::start(command, "ffmpeg publishing by SRT")
    };
    let cases = [
        ("publish:live/first", "live/first", [true, false]),
        ("publish:live/short?program=9", "live/short", [false, true]),
        ("#!::r=live/long,m=publish,program=9", "live/long", [false, true]),
    ];
    for (id, stream, has) in cases {
        let _publisher = send(id);
        server.wait_for_publisher(stream, true);
        let found = eventually("its track is known", || {
            let found = server.api(&format!("/api/v1/streams/{stream}"));
            let has = [found["video"].is_object(), found["audio"].is_object()];
            has.contains(&true).then_some(has)
        });
        assert_eq!(found, has, "{id}");
    }
    // One that is not there ends as other publishers of nothing do, and what is no number is refused.
    let _publisher = send("publish:live/none?program=8");
    eventually("it has ended", || server.log().contains("what comes has no program").then_some(()));
    let refused = send("publish:live/no?program=first");
    eventually("it is refused", || server.log().contains("`program` is no number").then_some(()));
    drop(refused);
}
