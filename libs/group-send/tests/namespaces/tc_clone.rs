//! The program that makes the copies: it goes with its sender, serves no other, and is done without
//! where it is missing.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{Link, NEAR_DEVICE, sources};
use aya::programs::{SchedClassifier, TcAttachType};
use group_send::{BackendKind, Sender, TcCloneConfig};
use socket2::SockRef;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Privileged> {
    let trial = |name: &str, run: fn()| {
        Privileged::new(format!("tc_clone::{name}"), Need::Backend(BackendKind::TcClone), run)
    };
    vec![
        trial("program_goes_with_its_sender", program_goes_with_its_sender),
        trial("senders_at_once_get_their_own_copies", senders_at_once_get_their_own_copies),
        trial("packets_of_others_pass", packets_of_others_pass),
        trial("groups_go_on_without_the_loopback_device", groups_go_on_without_the_loopback_device),
        trial("why_it_was_not_chosen_is_told", why_it_was_not_chosen_is_told),
    ]
}

/// How many programs are attached to the loopback device of the calling thread's host.
fn programs() -> usize {
    SchedClassifier::query_tcx("lo", TcAttachType::Egress).expect("BPF_PROG_QUERY").1.len()
}

/// Another trial that is just starting a program has all descriptors too, until that program runs.
fn await_programs(expected: usize) {
    let again = || {
        thread::sleep(Duration::from_millis(10));
        programs() == expected
    };
    assert!(programs() == expected || (0..500).any(|_| again()), "{} programs, not {expected}", programs());
}

fn sender(socket: &UdpSocket) -> Sender {
    Sender::new(socket, &backends::only(BackendKind::TcClone)).expect("a sender")
}

fn program_goes_with_its_sender() {
    let link = Link::new();
    link.near.run(|| {
        let sockets = [(); 2].map(|()| link.socket(Family::V4.wildcard()));
        assert_eq!(programs(), 0);
        let senders = sockets.each_ref().map(sender);
        assert_eq!(programs(), 2);
        let [first, second] = senders;
        drop(first);
        await_programs(1);
        drop(second);
        await_programs(0);
    });
}

fn senders_at_once_get_their_own_copies() {
    let link = Link::new();
    let one = |family: Family, packets: usize| {
        let socket = link.socket(family.wildcard());
        let mut receivers = link.far.run(|| Receivers::bind(&family.far(), 150)).from(&sources(&socket));
        let mut sender = link.near.run(|| sender(&socket));
        move || {
            for _ in 0..20 {
                let group = Group::new(&receivers.addresses(), packets, Sizes::Distinct, Private::Same);
                assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
                receivers.expect_group(&group);
            }
        }
    };
    let senders = [one(Family::V4, 3), one(Family::Mixed, 2), one(Family::V6, 5)];
    let before = link.sent_by_stack();
    thread::scope(|scope| senders.map(|run| scope.spawn(run)).map(|thread| thread.join().expect("sent")));
    assert_eq!(link.sent_by_stack(), before, "all by copies");
    assert_eq!(link.bad_checksums(), 0);
}

fn packets_of_others_pass() {
    /// The mark by which the program knows frames that may be for it.
    const TRIGGER_MARK: u32 = 0x6772_7073;
    let link = Link::new();
    link.near.run(|| {
        let socket = link.socket(Family::V4.wildcard());
        let _sender = sender(&socket);
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bind");
        receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("SO_RCVTIMEO");
        let other = UdpSocket::bind("127.0.0.1:0").expect("bind");
        for mark in [0, TRIGGER_MARK, TRIGGER_MARK + 1] {
            SockRef::from(&other).set_mark(mark).expect("SO_MARK");
            other.send_to(&mark.to_be_bytes(), receiver.local_addr().expect("bound")).expect("sent");
            let mut bytes = [0; 8];
            assert_eq!(receiver.recv(&mut bytes).expect("received"), 4, "mark {mark:#x}");
            assert_eq!(bytes[..4], mark.to_be_bytes());
        }
    });
}

fn groups_go_on_without_the_loopback_device() {
    let link = Link::new();
    link.near.run(|| {
        let socket = link.socket(Family::Mixed.wildcard());
        let mut receivers =
            link.far.run(|| Receivers::bind(&Family::Mixed.far(), 100)).from(&sources(&socket));
        let mut sender = sender(&socket);
        for (state, by_stack) in [("up", 0), ("down", 200), ("up", 0)] {
            link.near.ip(&format!("link set lo {state}"));
            let group = Group::new(&receivers.addresses(), 2, Sizes::Distinct, Private::Same);
            let before = link.sent_by_stack();
            assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
            assert_eq!(link.sent_by_stack() - before, by_stack, "{state}");
            receivers.expect_group(&group);
        }
    });
}

fn why_it_was_not_chosen_is_told() {
    let link = Link::new();
    let why = |tc_clone: Option<TcCloneConfig>| {
        let socket = link.socket(Family::V4.wildcard());
        let mut config = backends::only(BackendKind::TcClone);
        config.backends.push(BackendKind::Sendmmsg);
        config.tc_clone = tc_clone;
        let sender = link.near.run(|| Sender::new(&socket, &config)).expect("the next one");
        assert_eq!(sender.backend(), BackendKind::Sendmmsg);
        let [reason] = sender.not_chosen() else { panic!("{:?}", sender.not_chosen()) };
        assert_eq!(reason.backend, BackendKind::TcClone);
        reason.why.clone()
    };
    assert!(why(None).contains("no interface is configured"));
    let missing = why(Some(TcCloneConfig::new("nowhere0")));
    assert!(missing.contains("nowhere0"), "{missing}");
    link.near.ip("link set lo down");
    let down = why(Some(TcCloneConfig::new(NEAR_DEVICE)));
    assert!(down.contains("ip link set lo up"), "{down}");
}
