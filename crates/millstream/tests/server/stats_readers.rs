//! Readers of live statistics are limited, and a place is free again when its reader has gone.

use crate::common::server::Server;
use crate::common::{eventually, stats};
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

/// As many as the server takes.
const READERS_MAX: usize = 64;

#[test]
fn one_reader_too_many_is_refused_until_another_leaves() {
    let mut server = Server::start("");
    let mut readers: Vec<_> = (0..READERS_MAX).map(|_| stats::open(&server)).collect();
    let refused = stats::try_open(&server, &[]).err().expect("no place is left");
    assert_eq!((refused.0, &refused.1["error"]["code"]), (503, &"too_many_subscribers".into()));
    assert_eq!(server.api("/api/v1/workers")["workers"][0]["stats_snapshots_dropped"], 0);
    // One leaves in order, one just goes away.
    readers.pop().expect("a reader").socket.close(None).expect("send a close frame");
    drop(readers.pop());
    let mut newcomers: Vec<_> =
        (0..2).map(|_| eventually("a place is free", || stats::try_open(&server, &[]).ok())).collect();
    newcomers.iter_mut().chain(&mut readers).for_each(|reader| drop(reader.next()));
    server.assert_healthy();
}

#[test]
fn a_reader_that_pings_without_end_is_told_off() {
    let mut server = Server::start("");
    let mut reader = stats::open(&server);
    for _ in 0..1000 {
        // Fails once the server has closed.
        if reader.socket.send(Message::Ping(vec![7; 120].into())).is_err() {
            break;
        }
    }
    let read = (0..2000).map(|_| reader.socket.read().expect("the server says why it ends"));
    let closed =
        read.filter_map(|message| if let Message::Close(frame) = message { frame } else { None }).next();
    let closed = closed.expect("a close frame with a reason");
    assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Policy, "too many pings"));
    server.assert_healthy();
}
