//! The stream of statistics goes on while the server drains, and ends with close code 1001.

use std::time::Duration;

use crate::common::rtmp::RtmpClient;
use crate::common::server::Server;
use crate::common::stats;

#[test]
fn readers_are_told_when_the_last_worker_has_ended() {
    for workers in [1, 2] {
        let mut server = Server::spawn_workers(workers, "");
        let _player = RtmpClient::play(server.rtmp, "live/mill");
        let mut readers: Vec<_> = (0..3).map(|_| stats::open(&server)).collect();
        readers.iter_mut().for_each(|reader| drop(reader.next()));
        server.terminate();
        for reader in &mut readers {
            assert_eq!(reader.close_code(), Some(1001), "going away (RFC 6455 section 7.4.1)");
        }
        let status = server.wait_for_exit(Duration::from_secs(20));
        assert_eq!(status.code(), Some(0), "{status}: {}", server.log());
    }
}

#[test]
fn a_reader_that_reads_nothing_does_not_hold_up_the_end() {
    let mut server = Server::spawn("");
    let _reader = stats::open(&server);
    server.terminate();
    assert_eq!(server.wait_for_exit(Duration::from_secs(20)).code(), Some(0));
}
