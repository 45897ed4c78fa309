//! Senders on one host do not disturb each other, and what one leaves the next can use.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{FAR_V4, Link, sources};
use group_send::{BackendKind, Sender, SetupError};
use std::thread;

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all() {
        let mut add = |name: &str, run: fn(BackendKind)| {
            trials.push(Privileged::new(
                format!("together::{kind}::{name}"),
                Need::Backend(kind),
                move || run(kind),
            ));
        };
        // A queue of a device is for one.
        if kind == BackendKind::AfXdp {
            add("a_queue_is_for_one_sender", a_queue_is_for_one_sender);
        } else {
            add("three_senders_send_at_once", three_senders_send_at_once);
        }
        add("one_after_the_other", one_after_the_other);
    }
    trials
}

fn three_senders_send_at_once(kind: BackendKind) {
    let link = Link::new();
    link.near.run(|| {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| deliver(kind, &link, 30));
            }
        });
    });
    assert_eq!(link.bad_checksums(), 0);
}

fn one_after_the_other(kind: BackendKind) {
    let link = Link::new();
    for _ in 0..5 {
        link.near.run(|| deliver(kind, &link, 2));
    }
}

fn a_queue_is_for_one_sender(kind: BackendKind) {
    let link = Link::new();
    link.near.run(|| {
        let socket = link.socket(Family::V4.wildcard());
        let first = Sender::new(&socket, &backends::only(kind)).expect("a sender");
        let Err(SetupError::NoBackend(reasons)) = Sender::new(&socket, &backends::only(kind)) else {
            panic!("a second sender got the queue of the first")
        };
        assert!(reasons[0].why.contains("busy"), "{reasons:?}");
        drop(first);
        Sender::new(&socket, &backends::only(kind)).expect("a sender once the first is gone");
    });
}

/// Opens a sender and delivers groups through it.
fn deliver(kind: BackendKind, link: &Link, rounds: usize) {
    let socket = link.socket(Family::V4.wildcard());
    let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
    assert_eq!(sender.backend(), kind);
    let mut receivers = link.far.run(|| Receivers::bind(&FAR_V4, 50)).from(&sources(&socket));
    for round in 0..rounds {
        let group = Group::new(&receivers.addresses(), 1 + round % 6, Sizes::Distinct, Private::Same);
        assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
        receivers.expect_group(&group);
    }
}
