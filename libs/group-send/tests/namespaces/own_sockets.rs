//! Back ends that pass the kernel's UDP stack by really do, and do not for what they cannot carry.
//!
//! Every byte would arrive as well if they left everything to the socket, so the stack's own
//! counter is the witness.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::FRAGMENTED;
use crate::common::{Group, Private, Sizes, assert_all_sent, send_whole};
use crate::common::{Receivers, flush_whole};
use crate::every_byte::Family;
use crate::host::{Link, sources};
use group_send::{BackendKind, Sender};

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all() {
        let least = match kind {
            BackendKind::AfXdp => |_| 0,
            // One datagram of each packet enters the stack, and in a mixed group one for each
            // family.
            BackendKind::TcClone => |packets| 2 * packets,
            _ => continue,
        };
        for family in [Family::V4, Family::V6, Family::Mixed] {
            let name = format!("own_sockets::{kind}::passes_the_stack_by::{}", family.name());
            trials.push(Privileged::new(name, Need::Backend(kind), move || passes_by(kind, family, least)));
        }
    }
    trials
}

fn passes_by(kind: BackendKind, family: Family, least: fn(u64) -> u64) {
    let link = Link::new();
    link.near.run(|| {
        let socket = link.socket(family.wildcard());
        let mut receivers = link.far.run(|| Receivers::bind(&family.far(), 120)).from(&sources(&socket));
        let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
        for (packets, sizes, private) in [
            (1, Sizes::Equal(1200), Private::Same),
            (4, Sizes::Equal(1000), Private::None),
            (8, Sizes::Distinct, Private::Same),
        ] {
            let group = Group::new(&receivers.addresses(), packets, sizes, private);
            let before = link.sent_by_stack();
            assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
            let by_stack = link.sent_by_stack() - before;
            receivers.expect_group(&group);
            assert!(by_stack <= least(packets as u64), "{by_stack} through the stack: {}", group.remark);
            if kind == BackendKind::AfXdp {
                let before = link.sent_by_stack();
                flush_whole(&group, &mut sender, &socket);
                assert_eq!(link.sent_by_stack(), before, "a batch: {}", group.remark);
                receivers.expect_group(&group);
            }
        }
        // Only the stack cuts datagrams into fragments.
        let group = Group::new(&receivers.addresses(), 5, FRAGMENTED, Private::Same);
        let before = link.sent_by_stack();
        assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
        assert!(link.sent_by_stack() - before >= 4, "{}", group.remark);
        receivers.expect_group(&group);
    });
    assert_eq!(link.bad_checksums(), 0);
}
