//! Order per recipient where the device has several queues for sending, as network cards have.
//!
//! A queue is chosen by the hash of a flow or by that of a socket, and each queue is held back by a
//! token bucket of its own: two datagrams of one recipient that leave by different queues overtake
//! each other here. So a back end that has several paths to a recipient must not change between
//! them while anything is in flight.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{
    Group, Private, Receivers, Sizes, assert_all_sent, flush_whole, send_whole, wait_writable,
};
use crate::every_byte::Family;
use crate::host::{Link, NEAR_DEVICE, sources};
use group_send::{BackendKind, BatchLimits, Config, Envelope, SendBatch, Sender};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    // Copies belong to no socket that could be asked: `BackendKind::TcClone` says that it does not
    // keep this order.
    for kind in backends::all().into_iter().filter(|kind| *kind != BackendKind::TcClone) {
        let mut add = |name: &str, run: fn(BackendKind)| {
            let name = format!("several_queues::{kind}::{name}");
            trials.push(Privileged::new(name, Need::Backend(kind), move || run(kind)));
        };
        add("audio_and_video", audio_and_video);
        add("audiences_that_change", audiences_that_change);
        add("times_to_leave_at", times_to_leave_at);
    }
    trials
}

/// A sender behind several queues, and all that it has sent and that was not received yet.
struct Trial {
    kind: BackendKind,
    link: Link,
    socket: UdpSocket,
    sender: Sender,
    receivers: Receivers,
    under_way: Vec<Vec<Vec<u8>>>,
    turns: usize,
}

impl Trial {
    fn new(kind: BackendKind, config: &Config, recipients: usize) -> Self {
        let link = Link::with_queues(QUEUES);
        let mut lines = format!("qdisc add dev {NEAR_DEVICE} root handle 1: mq\n");
        for queue in 1..=QUEUES {
            lines += &format!(
                "qdisc add dev {NEAR_DEVICE} parent 1:{queue} tbf rate {RATE} burst 3kb limit 8mb\n"
            );
        }
        link.near.program(&["tc", "-batch", "-"], &lines);
        let socket = link.socket(Family::Mixed.wildcard());
        let receivers =
            link.far.run(|| Receivers::bind(&Family::Mixed.far(), recipients)).from(&sources(&socket));
        let sender = link.near.run(|| Sender::new(&socket, config)).expect("a sender");
        Self { kind, link, socket, sender, receivers, under_way: vec![Vec::new(); recipients], turns: 0 }
    }

    /// Sends some recipients a few packets that were not sent before, as a group or as a batch.
    fn turn(&mut self, recipients: Range<usize>, packets: usize) {
        self.turns += 1;
        let addresses = &self.receivers.addresses()[recipients.clone()];
        let group = Group::new(addresses, packets, Sizes::Equal(600 + self.turns), Private::None);
        let (sender, socket, turns) = (&mut self.sender, &self.socket, self.turns);
        self.link.near.run(|| {
            if turns % 3 == 0 {
                flush_whole(&group, sender, socket);
            } else {
                let (slots, _) = send_whole(&group, sender, socket);
                assert_all_sent(&group, &slots);
            }
        });
        for (member, recipient) in recipients.enumerate() {
            self.under_way[recipient].extend(group.datagrams(member));
        }
    }

    /// The same for one packet with a time to leave at, which has passed.
    fn turn_with_times(&mut self, recipients: Range<usize>) {
        self.turns += 1;
        let addresses: Vec<SocketAddr> = self.receivers.addresses()[recipients.clone()].to_vec();
        let group = Group::new(&addresses, 1, Sizes::Equal(600 + self.turns), Private::None);
        let mut batch = SendBatch::new(BatchLimits::default());
        for (member, recipient) in recipients.enumerate() {
            let envelope = Envelope { departure_ns: 1, ..Envelope::from(addresses[member]) };
            batch.push(envelope, &group.datagram(member, 0)).expect("room in the batch");
            self.under_way[recipient].push(group.datagram(member, 0));
        }
        while self.link.near.run(|| self.sender.flush(&mut batch, usize::MAX)).blocked {
            wait_writable(&self.socket);
        }
        assert!(batch.failures().is_empty() && batch.is_empty(), "{:?}", batch.failures());
    }

    /// All arrives in the order of sending.
    fn receive(&mut self) {
        for (recipient, under_way) in self.under_way.iter_mut().enumerate() {
            self.receivers.expect(recipient, under_way.drain(..), "by several queues");
        }
        self.receivers.expect_nothing_more("by several queues");
    }

    /// Fails when one queue took everything: nothing could have been overtaken then.
    fn assert_several_queues(&self) {
        if self.kind == BackendKind::AfXdp {
            return; // Frames are for one queue of the device, past those that wait.
        }
        let text = self.link.near.program(&["tc", "-s", "qdisc", "show", "dev", NEAR_DEVICE], "");
        let buckets = text.split("qdisc tbf").skip(1);
        let used = buckets.filter(|bucket| !bucket.contains("Sent 0 bytes")).count();
        assert!(used > 1, "{text}");
    }
}

/// One packet for each, then several for each, repeatedly.
fn audio_and_video(kind: BackendKind) {
    let mut trial = Trial::new(kind, &backends::only(kind), RECIPIENTS);
    for round in 0..3 {
        for turn in 0..20 {
            trial.turn(0..RECIPIENTS, if turn % 2 == 0 { 1 } else { 2 + (turn + round) % 3 });
            // Few enough to go by a plain call.
            trial.turn(turn % RECIPIENTS..turn % RECIPIENTS + 1, 1 + turn % 2);
        }
        trial.receive();
    }
    trial.assert_several_queues();
}

/// Recipients come and go, about as many as there are sockets for them where they have any.
fn audiences_that_change(kind: BackendKind) {
    let mut trial = Trial::new(kind, &few_sockets(kind), RECIPIENTS);
    for (recipients, turns) in [
        (0..8, 6),  // all get one
        (1..8, 20), // one has not been sent to for long
        (1..9, 4),  // and another one comes
        (0..9, 6),  // too many
        (0..RECIPIENTS, 6),
        (0..7, 6), // few again
    ] {
        for turn in 0..turns {
            trial.turn(recipients.clone(), 1 + usize::from(turn % 5 == 4));
        }
        // Recipients that are not sent to any more must have nothing in flight to make room for
        // others; later changes meet many.
        if recipients == (0..8) {
            trial.receive();
        }
    }
    trial.receive();
    trial.assert_several_queues();
}

/// A recipient's datagrams with and without a departure time may take different paths.
fn times_to_leave_at(kind: BackendKind) {
    let mut trial = Trial::new(kind, &backends::only(kind), RECIPIENTS);
    for round in 0..6 {
        for turn in 0..8 {
            trial.turn(0..RECIPIENTS, 1 + usize::from(turn == 6));
        }
        trial.turn_with_times(0..RECIPIENTS);
        // The next round finds them in flight, or nothing.
        if round % 2 == 0 {
            trial.receive();
        }
    }
    trial.receive();
    trial.assert_several_queues();
}

#[cfg(feature = "io-uring")]
fn few_sockets(kind: BackendKind) -> Config {
    Config { io_uring: group_send::IoUringConfig { sockets_max: 8 }, ..backends::only(kind) }
}

#[cfg(not(feature = "io-uring"))]
fn few_sockets(kind: BackendKind) -> Config {
    backends::only(kind)
}

const RECIPIENTS: usize = 12;
const QUEUES: u32 = 4;
/// Of each queue.
const RATE: &str = "16mbit";
