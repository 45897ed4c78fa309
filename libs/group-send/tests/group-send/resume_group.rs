//! A group call continues where the slots say it stopped, for each recipient separately.
#![cfg(target_os = "linux")]

use crate::common::{Group, Private, Receivers, Sizes, loopback, prefer};
use group_send::{BackendKind, Config, SendError, Sender, Slot};

#[test]
fn packets_before_the_slots_position_are_not_sent_again() {
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso] {
        let socket = loopback::socket();
        let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
        let mut receivers = Receivers::bind(&loopback::V4, 6);
        let group = Group::new(&receivers.addresses(), 5, Sizes::Equal(700), Private::Each);
        let waits = Some(SendError::WouldBlock);
        let refused = Some(SendError::Refused);
        // Before, and after.
        let cases = [
            (Slot::default(), Slot { sent: 5, failed: 0, error: None }),
            (Slot { sent: 1, failed: 0, error: waits }, Slot { sent: 5, failed: 0, error: None }),
            (Slot { sent: 4, failed: 0, error: waits }, Slot { sent: 5, failed: 0, error: None }),
            (Slot { sent: 5, failed: 0, error: None }, Slot { sent: 5, failed: 0, error: None }),
            (Slot { sent: 2, failed: 1, error: refused }, Slot { sent: 4, failed: 1, error: refused }),
            (Slot { sent: 0, failed: 5, error: refused }, Slot { sent: 0, failed: 5, error: refused }),
        ];
        let mut slots = cases.map(|(before, _)| before);
        let progress = group.send(&mut sender, &mut slots);
        assert_eq!(slots, cases.map(|(_, after)| after), "{kind}");
        assert_eq!((progress.sent, progress.failed, progress.blocked), (5 + 4 + 1 + 2, 0, false), "{kind}");
        for (member, (before, _)) in cases.iter().enumerate() {
            receivers.expect(member, group.datagrams(member).skip(before.done()), "resumed");
        }
        // Everything is done, so another call does nothing.
        let progress = group.send(&mut sender, &mut slots);
        assert_eq!((progress.sent, progress.failed, progress.blocked), (0, 0, false), "{kind}");
        assert_eq!(slots, cases.map(|(_, after)| after), "{kind}");
        receivers.expect_nothing_more("resumed");
    }
}

#[test]
fn empty_groups_are_no_work() {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &Config::default()).unwrap();
    let mut receivers = Receivers::bind(&loopback::V4, 2);
    for (members, packets) in [(0, 3), (2, 0), (0, 0)] {
        let group = Group::new(&receivers.addresses()[..members], packets, Sizes::Equal(1), Private::None);
        let mut slots = vec![Slot::default(); members];
        let progress = group.send(&mut sender, &mut slots);
        assert_eq!((progress.sent, progress.failed, progress.blocked), (0, 0, false));
        assert!(slots.iter().all(|slot| *slot == Slot::default()));
    }
    receivers.expect_nothing_more("nothing sent");
}

#[test]
#[should_panic(expected = "one slot for each recipient")]
fn a_slot_too_few_is_a_mistake_of_the_caller() {
    let socket = loopback::socket();
    let mut sender = Sender::new(&socket, &Config::default()).unwrap();
    let addresses = Receivers::bind(&loopback::V4, 2).addresses();
    let _ =
        Group::new(&addresses, 1, Sizes::Equal(1), Private::None).send(&mut sender, &mut [Slot::default()]);
}
