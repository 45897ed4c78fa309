//! Random groups by every back end: any lengths, any private parts, recipients twice, recipients
//! that cannot be reached.
//!
//! The seed is in every message; `GROUP_SEND_SEED` repeats a run.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::{Member, Part, Random, bytes};
use crate::common::{Group, Receivers, send_whole, wait_writable};
use crate::every_byte::Family;
use crate::host::{Link, sources};
use group_send::{BackendKind, BatchLimits, SendBatch, SendError, Sender, Slot};
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, UdpSocket};

const ROUNDS: usize = 150;
const RECEIVERS: usize = 24;

pub(crate) fn trials() -> Vec<Privileged> {
    let trial = |kind: BackendKind| {
        Privileged::new(format!("random_groups::{kind}"), Need::Backend(kind), move || arrive(kind))
    };
    backends::all().into_iter().map(trial).collect()
}

fn arrive(kind: BackendKind) {
    let given =
        std::env::var("GROUP_SEND_SEED").ok().map(|seed| seed.parse().expect("GROUP_SEND_SEED: a number"));
    let seed: u64 = given.unwrap_or_else(|| RandomState::new().hash_one(kind));
    let mut random = Random(seed);
    let link = Link::new();
    link.near.ip("route add unreachable 203.0.113.0/24");
    link.near.run(|| {
        let socket = link.socket(Family::Mixed.wildcard());
        let far = Family::Mixed.far();
        let mut receivers = link.far.run(|| Receivers::bind(&far, RECEIVERS)).from(&sources(&socket));
        let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
        let addresses = receivers.addresses();
        for round in 0..ROUNDS {
            let (mut group, to) = group(&mut random, &addresses);
            group.remark = format!("GROUP_SEND_SEED={seed}, round {round}, {}", group.remark);
            if round % 2 == 1 {
                let written = shuffled(&mut random, &group);
                flush(&group, &written, &to, &mut sender, &socket);
                for receiver in 0..RECEIVERS {
                    // In the order of writing, for all recipients.
                    let own = written.iter().filter(|(member, _)| to[*member] == Some(receiver));
                    let expected = own.map(|&(member, packet)| group.datagram(member, packet));
                    receivers.expect(receiver, expected, &group.remark);
                }
                receivers.expect_nothing_more(&group.remark);
                continue;
            }
            let (slots, _) = send_whole(&group, &mut sender, &socket);
            check(&group, &to, &slots);
            for receiver in 0..RECEIVERS {
                // Of one that is in the group more than once, each entry's packets are in order.
                let own = (0..to.len()).filter(|&member| to[member] == Some(receiver));
                let rows = own.map(|member| group.datagrams(member).collect()).collect();
                receivers.expect_rows(receiver, rows, &group.remark);
            }
            receivers.expect_nothing_more(&group.remark);
        }
    });
    assert_eq!(link.bad_checksums(), 0, "GROUP_SEND_SEED={seed}");
}

fn check(group: &Group, to: &[Option<usize>], slots: &[Slot]) {
    let packets = group.packets.len() as u32;
    for (member, slot) in slots.iter().enumerate() {
        let expected = match to[member] {
            Some(_) => Slot { sent: packets, ..Slot::default() },
            None => Slot { sent: 0, failed: packets, error: Some(SendError::Unreachable) },
        };
        assert_eq!(
            *slot, expected,
            "member {member}, {}: {}",
            group.members[member].destination, group.remark
        );
    }
}

/// The datagrams of a group, members taking turns at random, each one's packets in order.
fn shuffled(random: &mut Random, group: &Group) -> Vec<(usize, usize)> {
    let mut left: Vec<(usize, usize)> = (0..group.members.len()).map(|member| (member, 0)).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let at = random.below(left.len());
        let turn = 1 + random.below(4);
        for _ in 0..turn.min(group.packets.len() - left[at].1) {
            order.push(left[at]);
            left[at].1 += 1;
        }
        if left[at].1 == group.packets.len() {
            left.swap_remove(at);
        }
    }
    order
}

/// Sends them as one batch; its failures are exactly those that cannot be reached.
fn flush(
    group: &Group,
    written: &[(usize, usize)],
    to: &[Option<usize>],
    sender: &mut Sender,
    socket: &UdpSocket,
) {
    let mut batch = SendBatch::new(BatchLimits { bytes: 64 << 20, datagrams: written.len() });
    for &(member, packet) in written {
        let datagram = group.datagram(member, packet);
        batch.push(group.members[member].destination, &datagram).expect("room in the batch");
    }
    let (mut sent, mut failures) = (0, Vec::new());
    loop {
        let progress = sender.flush(&mut batch, usize::MAX);
        sent += progress.sent;
        failures.extend_from_slice(batch.failures());
        if !progress.blocked {
            break;
        }
        wait_writable(socket);
    }
    let unreachable = written.iter().filter(|(member, _)| to[*member].is_none()).count();
    assert_eq!((sent, failures.len()), (written.len() - unreachable, unreachable), "{}", group.remark);
    assert!(failures.iter().all(|failure| failure.error == SendError::Unreachable), "{}", group.remark);
    assert!(batch.is_empty(), "{}", group.remark);
}

/// A group, and which receiver each member is; none for one in ten.
fn group(random: &mut Random, addresses: &[SocketAddr]) -> (Group, Vec<Option<usize>>) {
    let packets = [1, 1, 2, 3, 5, 8, 20, 70][random.below(8)];
    let members = 1 + random.below(40);
    let usual = 1 + random.below(1460);
    let lengths: Vec<usize> = (0..packets).map(|_| length(random, usual)).collect();
    let to: Vec<Option<usize>> =
        (0..members).map(|_| (random.below(10) > 0).then(|| random.below(addresses.len()))).collect();
    let same_form = random.below(2) == 0;
    let form = [random.below(6), random.below(6)];
    let members = to.iter().enumerate().map(|(member, receiver)| {
        let form = if same_form { form } else { [random.below(6), random.below(6)] };
        Member {
            destination: receiver.map_or_else(|| ([203, 0, 113, 1], 9).into(), |at| addresses[at]),
            prepend: parts(random, Part::Prepend, member, packets, form[0]),
            append: parts(random, Part::Append, member, packets, form[1]),
        }
    });
    let group = Group {
        members: members.collect(),
        packets: lengths.iter().enumerate().map(|(at, &length)| bytes(Part::Shared, 0, at, length)).collect(),
        remark: format!("lengths {lengths:?}"),
    };
    (group, to)
}

/// Mostly the usual one, as the packets of a frame are.
fn length(random: &mut Random, usual: usize) -> usize {
    match random.below(10) {
        0 => random.below(usual + 1),
        1 => random.below(1500),
        2 if random.below(20) == 0 => 1500 + random.below(8000),
        _ => usual,
    }
}

/// None, one, or one for each packet, of one length or of any.
fn parts(random: &mut Random, place: Part, member: usize, packets: usize, form: usize) -> Vec<Vec<u8>> {
    let (count, any) = match form {
        0 | 1 => (0, false),
        2 | 3 => (1, false),
        4 => (packets, false),
        _ => (packets, true),
    };
    let usual = 1 + random.below(80);
    (0..count).map(|at| bytes(place, member, at, if any { 1 + random.below(80) } else { usual })).collect()
}
