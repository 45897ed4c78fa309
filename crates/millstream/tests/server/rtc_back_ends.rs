//! The server started with each way of sending datagrams that needs no rights: every packet arrives, in
//! order, and by that way. The others are tested with the workers alone, between two hosts.

use std::fs;

use crate::common::rtc::{Client, exchange};
use crate::common::server::Server;

#[test]
fn every_packet_arrives_by_every_back_end() {
    for backend in ["auto", "sendmsg", "sendmmsg", "gso", "io_uring"] {
        let server = Server::start(&format!("[rtc]\nudp_backend = \"{backend}\"\n"));
        let mut publisher = Client::publish(&server, "live/a");
        let mut viewer = Client::play(&server, "live/a");
        exchange(&mut publisher, &mut viewer, 0..100);
        let log = fs::read_to_string(server.dir.path().join("server.log")).expect("the log");
        // What a machine does not have is said there.
        let is_other = log.contains("datagrams are sent by");
        assert!(backend == "io_uring" || !is_other, "{backend}: {log}");
        if is_other {
            eprintln!("{backend} is not to be had here: {log}");
        }
    }
}
