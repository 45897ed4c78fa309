//! A server with channels and pulls stops like any other: players are told, and it ends in time with status
//! 0.

use std::time::Duration;

use crate::common::channel::{FileServer, Player, make_mp4, wait_for_channel};
use crate::common::origin::{Origin, add_pull, wait_for_pull};
use crate::common::server::{ScratchDir, Server};

#[test]
fn a_running_channel_ends_with_the_server() {
    let dir = ScratchDir::new();
    make_mp4(&dir.path().join("a.mp4"), 0, 10);
    let origin = FileServer::start(dir.path());
    // It takes connections and never answers: an item that is being opened, and a pull that connects.
    let silent = Origin::start();
    let mut server = Server::spawn(&format!(
        "[shutdown]\ndrain_seconds = 5\n[sources]\nallow_private_addresses = true\n\
         [[channel]]\nstream = 'live/far'\nitems = ['{}']\n\
         [[channel]]\nstream = 'live/near'\nitems = ['{}']\n\
         [[channel]]\nstream = 'live/opening'\nitems = ['{}']\n\
         [[channel]]\nstream = 'live/future'\nitems = ['a.mp4']\nstart = 2100-01-01T00:00:00Z\n",
        origin.url("a.mp4"),
        dir.path().join("a.mp4").display(),
        silent.url("/never.mp4"),
    ));
    add_pull(&server, "pulled", &silent.url("/live.flv"));
    let mut players = ["live/far", "live/near"].map(|stream| Player::start(&server, stream));
    for player in &mut players {
        player.play(500);
    }
    wait_for_channel(&server, "live/opening", "opening", |now| now["state"] == "opening");
    wait_for_pull(&server, "pulled", "connecting", |now| now["state"] == "connecting");
    server.terminate();
    for player in &mut players {
        player.play_to_end();
    }
    let status = server.wait_for_exit(Duration::from_secs(20));
    assert_eq!(status.code(), Some(0), "{status}: {}", server.log());
    let log = server.log();
    assert!(!log.contains("did not end by the deadline") && !log.contains("panicked"), "{log}");
}
