//! librtmp's rtmpdump plays: what it writes to its file is what ffmpeg published.

use std::process::Command;

use crate::common::server::Server;
use crate::common::tools::{Running, frames_of, publish, sample};

#[test]
fn rtmpdump_receives_exactly_what_ffmpeg_published() {
    let source = frames_of(&sample());
    // When nobody publishes for three seconds the server ends the session, and rtmpdump its file.
    let server = Server::start("[stream]\nwait_for_publisher_seconds = 3\n");
    let file = server.dir.path().join("dumped.flv");
    let mut command = Command::new("rtmpdump");
    command.args(["--live", "--quiet", "--rtmp", &server.rtmp_url("live/mill"), "--flv"]).arg(&file);
    let mut rtmpdump = Running::start(command, "rtmpdump");
    server.wait_for_players("live/mill", 1);
    publish(&server.rtmp_url("live/mill"), 4).finish();
    crate::common::eventually("rtmpdump ends with its stream", || rtmpdump.has_ended().then_some(()));
    frames_of(&file).assert_same_as(&source);
}
