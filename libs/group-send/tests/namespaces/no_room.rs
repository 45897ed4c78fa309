//! Without room a call says how far it came, and going on from there gives every byte exactly once.
//!
//! A token bucket behind the sender's device holds datagrams back, so that a small send buffer is
//! full at once; where the bucket's own queue is full, the kernel says so for each datagram
//! (`ENOBUFS`).

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole, wait_writable};
use crate::every_byte::Family;
use crate::host::{FAR_V4, Link, NEAR_DEVICE, sources};
use group_send::{BackendKind, BatchLimits, Envelope, SendBatch, SendError, Sender, Slot, socket};
use socket2::SockRef;
use std::net::UdpSocket;

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    let by_the_socket = |kind: &BackendKind| !matches!(kind, BackendKind::AfXdp | BackendKind::TcClone);
    for kind in backends::all().into_iter().filter(by_the_socket) {
        let mut add = |name: String, run: Box<dyn Fn() + Send>| {
            trials.push(Privileged::new(format!("no_room::{kind}::{name}"), Need::Backend(kind), run));
        };
        for family in [Family::V4, Family::V6, Family::Mixed] {
            add(format!("group_goes_on::{}", family.name()), Box::new(move || group_goes_on(kind, family)));
        }
        add("batch_goes_on".into(), Box::new(move || batch_goes_on(kind)));
        add("batch_drops_what_is_old".into(), Box::new(move || batch_drops_what_is_old(kind)));
        add("full_device_queue".into(), Box::new(move || full_device_queue(kind)));
        add("full_device_queue_and_runs".into(), Box::new(move || full_device_queue_and_runs(kind)));
    }
    if backends::all().contains(&BackendKind::TcClone) {
        let kind = BackendKind::TcClone;
        // Copies wait in no buffer of the socket, but the device's queue may refuse them.
        trials.push(Privileged::new(
            "no_room::tc_clone::full_device_queue",
            Need::Backend(kind),
            move || {
                full_device_queue(kind);
            },
        ));
    }
    trials
}

/// A sender whose datagrams wait in a queue of this many bytes and leave at this many bits a
/// second.
fn throttled(kind: BackendKind, family: Family, rate: &str, queue: &str) -> (Link, UdpSocket, Sender) {
    let link = Link::new();
    bucket(&link, "add", rate, queue);
    let socket = link.socket(family.wildcard());
    let sender = link.near.run(|| Sender::new(&socket, &backends::only(kind))).expect("a sender");
    (link, socket, sender)
}

fn bucket(link: &Link, action: &str, rate: &str, queue: &str) {
    let line = format!("qdisc {action} dev {NEAR_DEVICE} root tbf rate {rate} burst 8kb limit {queue}");
    link.near.program(&["tc", "-batch", "-"], &line);
}

/// After eight kilobytes next to nothing leaves at this rate.
const SHUT: &str = "32kbit";
const OPEN: &str = "400mbit";
const DEEP: &str = "16mb";

/// Room for a handful of datagrams.
fn shrink(socket: &UdpSocket) {
    SockRef::from(socket).set_send_buffer_size(8 << 10).expect("SO_SNDBUF");
}

fn group_goes_on(kind: BackendKind, family: Family) {
    let (link, socket, mut sender) = throttled(kind, family, "50mbit", DEEP);
    shrink(&socket);
    let mut receivers = link.far.run(|| Receivers::bind(&family.far(), 40)).from(&sources(&socket));
    let mut waits = 0;
    for (packets, sizes, private) in [
        (1, Sizes::Equal(1200), Private::Same),
        (4, Sizes::Equal(1000), Private::Uneven),
        (8, Sizes::Last(700, 11), Private::None),
        (65, Sizes::Distinct, Private::Mixed),
    ] {
        let group = Group::new(&receivers.addresses(), packets, sizes, private);
        let (slots, waited) = link.near.run(|| send_whole(&group, &mut sender, &socket));
        assert_all_sent(&group, &slots);
        receivers.expect_group(&group);
        waits += waited;
    }
    assert!(waits > 0, "the send buffer was never full");
}

/// Datagrams of ten recipients, written in turn; each says whose it is and which.
fn fill(batch: &mut SendBatch, receivers: &Receivers, turns: std::ops::Range<u64>) {
    for turn in turns {
        for (recipient, address) in receivers.addresses().into_iter().enumerate() {
            let envelope = Envelope { stamp: turn, ..Envelope::from(address) };
            batch.push(envelope, &datagram(recipient, turn)).expect("room in the batch");
        }
    }
}

fn datagram(recipient: usize, turn: u64) -> Vec<u8> {
    let length = if turn % 5 == 4 { 77 } else { 1100 };
    crate::common::group::bytes(crate::common::group::Part::Shared, recipient, turn as usize, length)
}

fn batch_goes_on(kind: BackendKind) {
    let (link, socket, mut sender) = throttled(kind, Family::Mixed, SHUT, DEEP);
    shrink(&socket);
    let mut receivers = link.far.run(|| Receivers::bind(&Family::Mixed.far(), 10)).from(&sources(&socket));
    let mut batch = SendBatch::new(BatchLimits::default());
    let (mut blocked, mut sent) = (0, 0);
    // New ones join those that wait: each recipient's order is still that of writing.
    for turn in 0..100 {
        if turn == 50 {
            bucket(&link, "change", OPEN, DEEP);
        }
        fill(&mut batch, &receivers, turn..turn + 1);
        let progress = link.near.run(|| sender.flush(&mut batch, usize::MAX));
        assert_eq!(progress.failed, 0);
        sent += progress.sent;
        assert_eq!(batch.len(), 10 * (turn as usize + 1) - sent);
        assert_eq!(progress.blocked, !batch.is_empty());
        blocked += usize::from(progress.blocked);
    }
    assert!(blocked > 40, "blocked {blocked} times only");
    while !batch.is_empty() {
        wait_writable(&socket);
        sent += link.near.run(|| sender.flush(&mut batch, usize::MAX)).sent;
    }
    assert_eq!(sent, 1000);
    for recipient in 0..10 {
        receivers.expect(recipient, (0..100).map(|turn| datagram(recipient, turn)), "a batch that waited");
    }
    receivers.expect_nothing_more("a batch that waited");
}

fn batch_drops_what_is_old(kind: BackendKind) {
    let (link, socket, mut sender) = throttled(kind, Family::V4, SHUT, DEEP);
    shrink(&socket);
    let mut receivers = link.far.run(|| Receivers::bind(&Family::V4.far(), 10)).from(&sources(&socket));
    let mut batch = SendBatch::new(BatchLimits::default());
    fill(&mut batch, &receivers, 0..20);
    let progress = link.near.run(|| sender.flush(&mut batch, usize::MAX));
    assert!(progress.blocked && progress.sent > 0 && progress.sent < 200, "{progress:?}");
    let waiting = |batch: &mut SendBatch| {
        let mut envelopes = Vec::new();
        batch.retain(|envelope, _| {
            envelopes.push(*envelope);
            true
        });
        envelopes
    };
    let before = waiting(&mut batch);
    assert_eq!(before.len(), 200 - progress.sent);
    batch.retain(|envelope, bytes| {
        let recipient =
            receivers.addresses().iter().position(|a| *a == envelope.destination).expect("one of them");
        assert_eq!(bytes, datagram(recipient, envelope.stamp), "a datagram that waits is still itself");
        envelope.stamp >= 12
    });
    let kept = waiting(&mut batch);
    assert!(kept.len() < before.len() && kept.iter().all(|envelope| envelope.stamp >= 12));
    fill(&mut batch, &receivers, 20..25);
    bucket(&link, "change", OPEN, DEEP);
    while !batch.is_empty() {
        wait_writable(&socket);
        assert_eq!(link.near.run(|| sender.flush(&mut batch, usize::MAX)).failed, 0);
    }
    for (recipient, address) in receivers.addresses().into_iter().enumerate() {
        let dropped = |turn| {
            let is_it = |envelope: &&Envelope| envelope.destination == address && envelope.stamp == turn;
            before.iter().any(|envelope| is_it(&envelope)) && !kept.iter().any(|envelope| is_it(&envelope))
        };
        let expected = (0..25).filter(|&turn| !dropped(turn)).map(|turn| datagram(recipient, turn));
        receivers.expect(recipient, expected, "after dropping by age");
    }
    receivers.expect_nothing_more("after dropping by age");
}

/// The device's queue is full while the socket has room: those datagrams are lost, and their slots
/// say so.
fn full_device_queue(kind: BackendKind) {
    let (link, socket, mut sender) = throttled(kind, Family::V4, SHUT, "20kb");
    // The kernel reports full queues only to sockets that request errors.
    socket::report_refusals(&socket).expect("IP_RECVERR");
    let mut receivers = link.far.run(|| Receivers::bind(&Family::V4.far(), 100)).from(&sources(&socket));
    let group = Group::new(&receivers.addresses(), 1, Sizes::Equal(1200), Private::Each);
    let (slots, _) = link.near.run(|| send_whole(&group, &mut sender, &socket));
    let lost = Slot { sent: 0, failed: 1, error: Some(SendError::NoBuffers) };
    bucket(&link, "change", OPEN, DEEP);
    let failed = slots.iter().filter(|slot| **slot == lost).count();
    assert!((1..100).contains(&failed), "{failed} of 100 found the queue full");
    for (member, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != lost) {
        assert_eq!(*slot, Slot { sent: 1, ..Slot::default() }, "member {member}");
        receivers.expect(member, group.datagrams(member), &group.remark);
    }
    receivers.expect_nothing_more(&group.remark);
}

/// The same where a recipient's packets may travel together: some of a run may be lost, and none
/// may come twice.
fn full_device_queue_and_runs(kind: BackendKind) {
    let (link, socket, mut sender) = throttled(kind, Family::V4, SHUT, "30kb");
    socket::report_refusals(&socket).expect("IP_RECVERR");
    let mut receivers = link.far.run(|| Receivers::bind(&Family::V4.far(), 20)).from(&sources(&socket));
    let group = Group::new(&receivers.addresses(), 8, Sizes::Equal(900), Private::Each);
    let (slots, _) = link.near.run(|| send_whole(&group, &mut sender, &socket));
    assert!(slots.iter().all(|slot| slot.done() == 8));
    assert!(slots.iter().any(|slot| slot.error == Some(SendError::NoBuffers)), "the queue was never full");
    // Whatever is queued by now leaves before this one.
    bucket(&link, "change", OPEN, DEEP);
    let fence = link.far.run(|| Receivers::bind(&[FAR_V4[0]], 1));
    link.near
        .run(|| UdpSocket::bind("0.0.0.0:0"))
        .expect("bind")
        .send_to(b"fence", fence.addresses()[0])
        .expect("room");
    let mut fence = fence;
    fence.expect(0, [b"fence".to_vec()].into_iter(), "behind the queue");
    for (member, slot) in slots.iter().enumerate() {
        let arrived = receivers.expect_some(member, group.datagrams(member), &group.remark);
        assert_eq!(arrived, slot.sent as usize, "member {member}: {slot:?}");
    }
}
