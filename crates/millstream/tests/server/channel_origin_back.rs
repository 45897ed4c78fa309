//! The server of an item is killed in its middle and comes back: the stream goes on without a wrong byte.

use crate::common::channel::{FileServer, Player, assert_in_order, frames_of, make_mp4, wait_for_channel};
use crate::common::eventually;
use crate::common::origin::Origin;
use crate::common::server::{ScratchDir, Server};
use rtmp::MediaKind;

#[test]
fn a_file_that_breaks_off_is_read_on_where_it_broke() {
    let dir = ScratchDir::new();
    let path = dir.path().join("a.mp4");
    make_mp4(&path, 0, 8);
    let length = std::fs::metadata(&path).expect("a file").len();
    let origin = FileServer::start(dir.path());
    // The index is at the end, so it has been read when the middle of the frames is cut off.
    origin.cut_after(length / 2);
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\n[[channel]]\nstream = 'live/cut'\nitems = ['{}']\n",
        origin.url("a.mp4")
    ));
    let files = [frames_of(&path)];
    let mut player = Player::start(&server, "live/cut");
    eventually("the connection is cut off", || origin.has_cut().then_some(()));
    let address = origin.kill();
    // How much of the file had been received by then is chance, and so how long the stream can do without.
    let away = Origin::at(address);
    for _ in 0..2 {
        drop(eventually("the server asks and gets no answer", || away.accept_now()));
    }
    drop(away);
    let _origin = FileServer::start_at(address, dir.path());
    let played = player.play(11_000);
    for kind in [MediaKind::Video, MediaKind::Audio] {
        assert_in_order(&played, &files, kind);
    }
    let channel = wait_for_channel(&server, "live/cut", "round", |now| now["loops"].as_u64() >= Some(1));
    assert_eq!(channel["items_failed"], 0, "{channel:#}");
}

#[test]
fn a_server_that_stays_away_ends_its_item_and_the_next_one_is_played() {
    let dir = ScratchDir::new();
    let (far, near) = (dir.path().join("far.mp4"), dir.path().join("near.mp4"));
    make_mp4(&far, 0, 8);
    make_mp4(&near, 4, 2);
    let length = std::fs::metadata(&far).expect("a file").len();
    let origin = FileServer::start(dir.path());
    origin.cut_after(length / 2);
    let server = Server::start(&format!(
        "[sources]\nallow_private_addresses = true\nstall_timeout_ms = 700\n\
         [[channel]]\nstream = 'live/gone'\nitems = ['{}', '{}']\n",
        origin.url("far.mp4"),
        near.display()
    ));
    eventually("the connection is cut off", || origin.has_cut().then_some(()));
    let _address = origin.kill();
    let channel = wait_for_channel(&server, "live/gone", "on with the next item", |now| {
        now["items_played"].as_u64() >= Some(1)
    });
    assert_eq!(channel["events"][0]["kind"], "broken", "{channel:#}");
    assert_eq!((&channel["events"][0]["item"], &channel["items"][1]["last_error"]), (&0.into(), &().into()));
}
