//! A million datagrams through each back end, every one of them counted, compared and in order.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Receivers, wait_writable};
use crate::every_byte::Family;
use crate::host::{Link, sources};
use group_send::{BackendKind, Recipient, Sender, Slot};

/// The product of rounds, recipients and packets.
const DATAGRAMS: usize = 1_000_000;
const MEMBERS: usize = 250;
const PAYLOAD_BYTES: usize = 200;

/// Rounds in which the ring's sockets are all open again: sixteen would do if each found the
/// caller's socket idle.
const REOPENED_WITHIN: u64 = 200;

pub(crate) fn trials() -> Vec<Privileged> {
    let trial = |kind: BackendKind| {
        Privileged::new(format!("million::{kind}"), Need::Backend(kind), move || every_one_arrives(kind, 8))
    };
    let mut trials: Vec<_> = backends::all().into_iter().map(trial).collect();
    if backends::all().contains(&BackendKind::IoUring) {
        // The ring is for one packet each.
        let kind = BackendKind::IoUring;
        trials.push(Privileged::new("million::io_uring::one_packet_each", Need::Backend(kind), move || {
            every_one_arrives(kind, 1);
        }));
    }
    trials
}

fn every_one_arrives(kind: BackendKind, packets: usize) {
    let link = Link::new();
    link.near.run(|| send_from(&link, kind, packets));
    assert_eq!(link.bad_checksums(), 0);
}

fn send_from(link: &Link, kind: BackendKind, packets_each: usize) {
    let socket = link.socket(Family::Mixed.wildcard());
    let mut receivers =
        link.far.run(|| Receivers::bind(&Family::Mixed.far(), MEMBERS)).from(&sources(&socket));
    let destinations = receivers.addresses();
    let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
    let payload = [0x5a; PAYLOAD_BYTES];
    let mut send_round = |round: u64| {
        // Before the payload the recipient and the round, after it the packet.
        let private: Vec<Vec<u8>> = (0..MEMBERS).map(|member| prefix(member, round)).collect();
        let private: Vec<[&[u8]; 1]> = private.iter().map(|bytes| [&bytes[..]]).collect();
        let packets: Vec<Vec<u8>> = (0..packets_each).map(|packet| body(packet, &payload)).collect();
        let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let recipients: Vec<Recipient<'_>> = destinations
            .iter()
            .zip(&private)
            .map(|(&destination, prepend)| Recipient { destination, prepend, append: &[b"end"] })
            .collect();
        let mut slots = vec![Slot::default(); MEMBERS];
        while sender.send_group(&packets, &recipients, &mut slots).blocked {
            wait_writable(&socket);
        }
        for (member, slot) in slots.iter().enumerate() {
            assert_eq!(
                *slot,
                Slot { sent: packets_each as u32, ..Slot::default() },
                "round {round}, member {member}"
            );
            let expected = packets.iter().map(|packet| [private[member][0], packet, b"end"].concat());
            receivers.expect(member, expected, "one of a million");
        }
    };
    let rounds = (DATAGRAMS / MEMBERS / packets_each) as u64;
    (0..rounds).for_each(&mut send_round);
    if kind == BackendKind::IoUring && packets_each == 1 {
        // A change of addresses closes the ring's sockets, which are opened again in the course of
        // some rounds. The kernel makes one itself, one or two seconds after a link came up: then
        // it has verified the link-local address.
        let all_connected = || connected_sockets() == MEMBERS;
        let more = rounds..rounds + REOPENED_WITHIN;
        more.take_while(|_| !all_connected()).for_each(&mut send_round);
        assert_eq!(connected_sockets(), MEMBERS, "so not all of it went by the ring");
    }
    receivers.expect_nothing_more("after a million");
}

/// Those of the thread's host.
fn connected_sockets() -> usize {
    let table =
        |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).expect("a table");
    // `sl local_address rem_address ...`: port 0 is unused.
    let lines = table("udp") + &table("udp6");
    let peers = lines.lines().filter_map(|line| line.split_whitespace().nth(2));
    peers.filter(|peer| peer.contains(':') && !peer.ends_with(":0000")).count()
}

fn prefix(member: usize, round: u64) -> Vec<u8> {
    [&(member as u32).to_be_bytes()[..], &round.to_be_bytes()].concat()
}

fn body(packet: usize, payload: &[u8]) -> Vec<u8> {
    [payload, &[packet as u8]].concat()
}
