//! Every back end delivers exactly the bytes, in order per recipient, to groups of every size.
//!
//! One trial for each back end, family and number of recipients; inside it all numbers of packets,
//! forms of lengths and of private bytes, one group after the other through the same sender.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::{BORDERS, FRAGMENTED};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, flush_whole, send_whole};
use crate::host::{FAR_V4, FAR_V6, Link, sources};
use group_send::{BackendKind, Sender};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which recipients, and so which socket.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    V4,
    V6,
    /// Both, from one socket of IPv6.
    Mixed,
}

impl Family {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
            Self::Mixed => "mixed",
        }
    }

    /// The wildcard address of the sending socket.
    pub(crate) fn wildcard(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 | Self::Mixed => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Where recipients are.
    pub(crate) fn far(self) -> Vec<IpAddr> {
        match self {
            Self::V4 => FAR_V4.to_vec(),
            Self::V6 => FAR_V6.to_vec(),
            Self::Mixed => FAR_V4.into_iter().zip(FAR_V6).flat_map(<[IpAddr; 2]>::from).collect(),
        }
    }
}

/// By which of the sender's two functions.
#[derive(Clone, Copy, Debug)]
enum Call {
    Group,
    Batch,
}

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    let mut add = |kind: BackendKind, call, family: Family, members| {
        let call_name = match call {
            Call::Group => "group",
            Call::Batch => "batch",
        };
        let name = format!("every_byte::{kind}::{call_name}::{}::n{members}", family.name());
        trials.push(Privileged::new(name, Need::Backend(kind), move || deliver(kind, call, family, members)));
    };
    for kind in backends::all() {
        for family in [Family::V4, Family::V6, Family::Mixed] {
            for members in [1, 7, 100, 1000] {
                add(kind, Call::Group, family, members);
            }
        }
        for members in [1, 7, 100, 1000] {
            add(kind, Call::Batch, Family::Mixed, members);
        }
    }
    trials
}

fn deliver(kind: BackendKind, call: Call, family: Family, members: usize) {
    let link = Link::new();
    // A back end opens sockets of its own on the host where it is used.
    link.near.run(|| deliver_from(&link, kind, call, family, members));
    assert_eq!(link.bad_checksums(), 0);
}

fn deliver_from(link: &Link, kind: BackendKind, call: Call, family: Family, members: usize) {
    let socket = link.socket(family.wildcard());
    let mut receivers = link.far.run(|| Receivers::bind(&family.far(), members)).from(&sources(&socket));
    let destinations = receivers.addresses();
    let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
    assert_eq!(sender.backend(), kind);
    for (packets, sizes, private) in cases(members) {
        let group = Group::new(&destinations, packets, sizes, private);
        match call {
            Call::Group => assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0),
            Call::Batch => flush_whole(&group, &mut sender, &socket),
        }
        receivers.expect_group(&group);
    }
}

/// All combinations for small groups; for a thousand recipients each value of each dimension at
/// least once.
fn cases(members: usize) -> Vec<(usize, Sizes, Private)> {
    const PACKETS: [usize; 6] = [1, 2, 3, 4, 8, 65];
    const SIZES: [Sizes; 8] = [
        Sizes::Equal(1200),
        Sizes::Equal(159),
        Sizes::Last(1200, 37),
        Sizes::Last(1000, 1001),
        Sizes::Last(200, 0),
        BORDERS,
        Sizes::Distinct,
        FRAGMENTED,
    ];
    const PRIVATE: [Private; 6] =
        [Private::None, Private::Same, Private::Each, Private::Uneven, Private::Before, Private::Mixed];
    let all = PACKETS
        .iter()
        .flat_map(|&k| SIZES.iter().flat_map(move |&s| PRIVATE.iter().map(move |&p| (k, s, p))));
    let step = match members {
        ..100 => 1,
        100 => 5,
        _ => 23,
    };
    all.step_by(step).collect()
}
