//! librtmp's rtmpdump plays: what it writes to its file is what ffmpeg published.

mod common;

use std::process::Command;

use common::server::Server;
use common::tools::{Running, frames_of, publish, sample};

#[test]
fn rtmpdump_receives_exactly_what_ffmpeg_published() {
    let source = frames_of(&sample());
    let server = Server::start("");
    let file = server.dir.path().join("dumped.flv");
    let mut command = Command::new("rtmpdump");
    command.args(["--live", "--quiet", "--rtmp", &server.rtmp_url("live/mill"), "--flv"]).arg(&file);
    let mut rtmpdump = Running::start(command, "rtmpdump");
    server.wait_for_players("live/mill", 1);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    let complete = std::fs::metadata(sample()).expect("the sample").len() * 95 / 100;
    common::eventually("rtmpdump has written the whole stream", || {
        let written = std::fs::metadata(&file).map(|metadata| metadata.len()).unwrap_or(0);
        (rtmpdump.has_ended() || (written > complete && frames_of(&file).video.len() == source.video.len()))
            .then_some(())
    });
    rtmpdump.interrupt();
    frames_of(&file).assert_same_as(&source);
}
