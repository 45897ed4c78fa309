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

/// Members leave and join while a frame is under way, as clients of on-demand streams do. A slot goes
/// with its recipient, whatever its place in the group is.
#[test]
fn members_may_leave_and_join_between_the_calls_of_one_frame() {
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso] {
        let socket = loopback::socket();
        let mut sender = Sender::new(&socket, &prefer(&[kind])).unwrap();
        let mut receivers = Receivers::bind(&loopback::V4, 5);
        let group = Group::new(&receivers.addresses(), 4, Sizes::Equal(700), Private::Each);
        // The first call ended within member 1: 0 has everything, 1 half, 2 and 3 nothing yet.
        let waits = Some(SendError::WouldBlock);
        let at = |sent, error| Slot { sent, failed: 0, error };
        // Since then 2 has left, 4 has joined, and the list has been sorted in another way.
        let now = [(4, Slot::default()), (3, at(0, waits)), (1, at(2, waits)), (0, at(4, None))];
        let mut slots = now.map(|(_, slot)| slot);
        let progress = group.send_by(|packets, recipients| {
            let recipients = now.map(|(member, _)| recipients[member]);
            sender.send_group(packets, &recipients, &mut slots)
        });
        assert_eq!((progress.sent, progress.failed, progress.blocked), (4 + 4 + 2, 0, false), "{kind}");
        assert_eq!(slots, [at(4, None); 4], "{kind}");
        for (member, before) in now {
            receivers.expect(member, group.datagrams(member).skip(before.done()), "in mid-flight");
        }
        receivers.expect_nothing_more("the one that left");
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
