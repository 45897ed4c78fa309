//! WebRTC by ICE-TCP over an upgrade: publishers go on, and players miss no packet and get none
//! twice, whichever process has them in the end.

use std::io::Write;

use rtc::sdp::Direction;

use crate::common::rtc::Client;
use crate::common::server::Server;
use crate::common::tcp_relay::{TcpRelay, framed};
use crate::upgrade::{
    Call, StandIn, call_goes_on_over_two_upgrades, call_goes_on_when_no_process_takes_over,
    call_goes_on_when_the_other_process_ends, upgrade,
};

/// A publisher by TCP, and on each worker a viewer by TCP and one by UDP.
fn begin(server: &Server) -> (Call, Vec<TcpRelay>) {
    let (publisher, relay) = TcpRelay::connect(server, "/whip/live/call", Direction::Send);
    let (mut viewers, mut relays) = (Vec::new(), vec![relay]);
    for _ in 0..2 {
        let (viewer, relay) = TcpRelay::connect(server, "/whep/live/call", Direction::Receive);
        viewers.push(viewer);
        relays.push(relay);
    }
    viewers.extend((0..2).map(|_| Client::play(server, "live/call")));
    (Call::of(publisher, viewers), relays)
}

#[test]
fn sessions_go_on_over_two_upgrades() {
    let server = Server::spawn_workers(2, "");
    let (call, _relays) = begin(&server);
    call_goes_on_over_two_upgrades(server, call);
}

#[test]
fn sessions_go_on_at_a_port_that_workers_share() {
    let server = Server::spawn_workers(2, "[rtc]\nsingle_port = true\n");
    let (call, _relays) = begin(&server);
    call_goes_on_over_two_upgrades(server, call);
}

#[test]
fn sessions_go_on_when_no_process_takes_over() {
    let server = Server::spawn_workers(2, "");
    let (call, _relays) = begin(&server);
    call_goes_on_when_no_process_takes_over(&server, call);
}

#[test]
fn sessions_go_on_when_the_other_process_ends_in_the_middle() {
    // A process of the release before gets none of them.
    for version in [5, 4] {
        let (program, server) = StandIn::serve(version, 2);
        let (call, _relays) = begin(&server);
        call_goes_on_when_the_other_process_ends(&program, &server, call);
    }
}

#[test]
fn a_packet_goes_on_that_was_half_sent() {
    let mut server = Server::spawn_workers(2, "");
    let (mut call, relays) = begin(&server);
    let number = call.next;
    let packet = framed(&call.publisher.protect_audio(number));
    let new = {
        let mut connection = relays[0].hold();
        let (half, rest) = packet.split_at(packet.len() / 2);
        connection.write_all(half).expect("room");
        let new = upgrade(&mut server);
        connection.write_all(rest).expect("room");
        new
    };
    call.publisher.send_video(number, false, 200);
    call.next += 1;
    let mut sent = 0;
    call.go_on_until(|| {
        sent += 1;
        sent > 10
    });
    call.assert_whole();
    new.end();
}
