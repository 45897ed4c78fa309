//! Recipients that cannot be reached fail alone: the others get exactly their bytes, and each slot
//! says what happened.
//!
//! The failing ones stand first, last and between the others of one group, where a back end that
//! stops, repeats or miscounts at an error is found out.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{FAR_V4, FAR_V6, Link, sources};
use group_send::{BackendKind, SendError, Sender, Slot, socket};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all() {
        let mut add = |name: String, run: Box<dyn Fn() + Send>| {
            trials.push(Privileged::new(format!("failing::{kind}::{name}"), Need::Backend(kind), run));
        };
        for family in [Family::V4, Family::V6, Family::Mixed] {
            let name = family.name();
            add(format!("unreachable::{name}"), Box::new(move || unreachable(kind, family)));
            add(format!("closed_port::{name}"), Box::new(move || closed_port(kind, family, false)));
            add(format!("closed_port_reported::{name}"), Box::new(move || closed_port(kind, family, true)));
            add(format!("too_long::{name}"), Box::new(move || too_long(kind, family)));
        }
        add("wrong_family::ipv4_socket".into(), Box::new(move || wrong_family(kind, false)));
        add("wrong_family::ipv6_only_socket".into(), Box::new(move || wrong_family(kind, true)));
        add("bad_private".into(), Box::new(move || bad_private(kind)));
        add("full_queue".into(), Box::new(move || full_queue(kind)));
        add("silent_neighbour".into(), Box::new(move || silent_neighbour(kind)));
    }
    trials
}

/// A recipient that must fail, with its error.
#[derive(Clone, Copy)]
struct Bad(SocketAddr, SendError);

/// Receivers, a sender, and recipients of which some are bad.
struct Scene {
    link: Link,
    socket: UdpSocket,
    receivers: Receivers,
    sender: Sender,
}

impl Scene {
    fn new(kind: BackendKind, family: Family, good: usize) -> Self {
        let link = Link::new();
        let socket = link.socket(family.wildcard());
        Self::with(kind, link, socket, &family.far(), good)
    }

    fn with(kind: BackendKind, link: Link, socket: UdpSocket, far: &[IpAddr], good: usize) -> Self {
        let receivers = link.far.run(|| Receivers::bind(far, good)).from(&sources(&socket));
        let sender = link.near.run(|| Sender::new(&socket, &backends::only(kind))).expect("a sender");
        Self { link, socket, receivers, sender }
    }

    /// Sends from the near host, each time in another thread: a sender may be moved between
    /// threads.
    fn send(&mut self, group: &Group) -> Vec<Slot> {
        self.link.near.run(|| send_whole(group, &mut self.sender, &self.socket).0)
    }

    /// Sends to all receivers with `bad` recipients scattered among them, checks every slot and
    /// every byte.
    fn send_among(&mut self, bad: &[Bad], packets: usize, sizes: Sizes, private: Private) {
        let good = self.receivers.addresses();
        let (destinations, errors) = scatter(&good, bad);
        let group = Group::new(&destinations, packets, sizes, private);
        let slots = self.send(&group);
        self.receive(&group, &slots, |member| !errors.contains_key(&member));
        for (&member, &error) in &errors {
            let failed = Slot { failed: packets as u32, error: Some(error), sent: 0 };
            assert_eq!(slots[member], failed, "member {member}, {}: {}", destinations[member], group.remark);
        }
    }

    /// Everybody but the bad ones was sent everything, and gets exactly that.
    fn receive(&mut self, group: &Group, slots: &[Slot], is_good: impl Fn(usize) -> bool) {
        let whole = Slot { sent: group.packets.len() as u32, ..Slot::default() };
        for (receiver, member) in (0..slots.len()).filter(|&member| is_good(member)).enumerate() {
            let destination = group.members[member].destination;
            assert_eq!(slots[member], whole, "member {member}, {destination}: {}", group.remark);
            self.receivers.expect(receiver, group.datagrams(member), &group.remark);
        }
        self.receivers.expect_nothing_more(&group.remark);
    }
}

/// Each of the bad ones once, and the first one again as the last of all; with which members
/// failed.
fn scatter(good: &[SocketAddr], bad: &[Bad]) -> (Vec<SocketAddr>, BTreeMap<usize, SendError>) {
    let (mut all, mut errors) = (Vec::new(), BTreeMap::new());
    let mut place = |all: &mut Vec<SocketAddr>, bad: &Bad| {
        errors.insert(all.len(), bad.1);
        all.push(bad.0);
    };
    let step = (good.len() / bad.len()).max(1);
    for (at, &good) in good.iter().enumerate() {
        if at % step == 0
            && let Some(bad) = bad.get(at / step)
        {
            place(&mut all, bad);
        }
        all.push(good);
    }
    place(&mut all, &bad[0]);
    (all, errors)
}

/// No route, routes that refuse, policies that forbid, and invalid addresses.
fn unreachable(kind: BackendKind, family: Family) {
    let mut scene = Scene::new(kind, family, 100);
    let mut bad = Vec::new();
    if matches!(family, Family::V4 | Family::Mixed) {
        scene.link.near.ip("route add blackhole 198.51.100.0/24\n\
            route add unreachable 203.0.113.0/24\n\
            route add prohibit 198.18.0.0/15\n");
        bad.extend(bad_v4());
    }
    if matches!(family, Family::V6 | Family::Mixed) {
        scene.link.near.ip("route add blackhole 2001:db8:1::/48\n\
            route add unreachable 2001:db8:2::/48\n\
            route add prohibit 2001:db8:3::/48\n");
        bad.extend(bad_v6());
    }
    // Frames that pass the kernel's IP layer by pass its policies by.
    if !matches!(kind, BackendKind::AfXdp | BackendKind::TcClone) {
        scene.link.near.ip("xfrm policy add dst 10.77.0.9/32 dir out action block\n\
            xfrm policy add dst fd77::9/128 dir out action block\n");
        let forbidden = if matches!(family, Family::V6) { "[fd77::9]:9" } else { "10.77.0.9:9" };
        bad.push(Bad(address(forbidden), SendError::NotPermitted));
    }
    for (packets, sizes) in [(1, Sizes::Equal(200)), (4, Sizes::Equal(1200)), (65, Sizes::Last(300, 7))] {
        scene.send_among(&bad, packets, sizes, Private::Mixed);
        scene.send_among(&bad, packets, sizes, Private::None);
    }
    // One bad recipient in a small group, alone, and none but bad ones.
    for bad in &bad {
        scene.send_among(&[*bad], 2, Sizes::Equal(1000), Private::Same);
    }
    let mut nobody = Scene { receivers: Receivers::bind(&[], 0), ..scene };
    for bad in bad {
        nobody.send_among(&[bad], 3, Sizes::Equal(1000), Private::None);
    }
    // A refused recipient must not count as a failure of the back end.
    assert_eq!(nobody.link.bad_checksums(), 0);
}

fn bad_v4() -> Vec<Bad> {
    vec![
        Bad(address("192.0.2.1:9"), SendError::Unreachable),
        Bad(address("198.51.100.1:9"), SendError::BadAddress),
        Bad(address("203.0.113.1:9"), SendError::Unreachable),
        Bad(address("198.18.0.1:9"), SendError::NotPermitted),
        Bad(address("10.77.0.2:0"), SendError::BadAddress),
        Bad(address("10.77.0.255:9"), SendError::NotPermitted),
    ]
}

fn bad_v6() -> Vec<Bad> {
    vec![
        Bad(address("[2001:db8:9::1]:9"), SendError::Unreachable),
        Bad(address("[2001:db8:1::1]:9"), SendError::BadAddress),
        Bad(address("[2001:db8:2::1]:9"), SendError::Unreachable),
        Bad(address("[2001:db8:3::1]:9"), SendError::NotPermitted),
        Bad(address("[fd77::2]:0"), SendError::BadAddress),
    ]
}

/// A recipient whose host answers "port unreachable". The kernel reports that to the next sender.
fn closed_port(kind: BackendKind, family: Family, reported: bool) {
    let link = Link::new();
    let socket = link.socket(family.wildcard());
    if reported {
        socket::report_refusals(&socket).expect("IP_RECVERR");
    }
    // An answer for each datagram: kernels limit how many they send.
    link.far.run(|| {
        let set = |name: &str, value| std::fs::write(format!("/proc/sys/net/{name}"), value).expect(name);
        set("ipv4/icmp_ratelimit", "0");
        set("ipv6/icmp/ratelimit", "0");
    });
    let mut scene = Scene::with(kind, link, socket, &family.far(), 30);
    let good = scene.receivers.addresses();
    let closed: Vec<SocketAddr> = family.far().into_iter().take(2).map(|far| (far, 9).into()).collect();
    let mut destinations = good.clone();
    destinations.insert(11, closed[0]);
    destinations.insert(0, closed[1]);
    let mut refusals = 0;
    for (packets, sizes) in
        [(1, Sizes::Equal(100)), (4, Sizes::Equal(1200)), (8, Sizes::Distinct), (2, Sizes::Equal(9))]
    {
        let group = Group::new(&destinations, packets, sizes, Private::Uneven);
        let slots = scene.send(&group);
        scene.receive(&group, &slots, |member| !closed.contains(&destinations[member]));
        for slot in
            (0..slots.len()).filter(|&member| closed.contains(&destinations[member])).map(|m| slots[m])
        {
            assert_eq!(slot.done(), packets, "{slot:?}: {}", group.remark);
            assert!(matches!(slot.error, None | Some(SendError::Refused)), "{slot:?}: {}", group.remark);
            refusals += slot.failed;
        }
    }
    if reported {
        assert!(refusals > 0, "nobody was told that {closed:?} refuse");
    } else if kind != BackendKind::IoUring {
        // Connected sockets hear of it without asking.
        assert_eq!(refusals, 0, "refusals reported that nobody asked for");
    }
}

/// One packet that is too long for UDP fails, for everybody or for the one whose private bytes make
/// it so.
fn too_long(kind: BackendKind, family: Family) {
    let mut scene = Scene::new(kind, family, 6);
    let limit = if matches!(family, Family::V6) { 65_527 } else { 65_507 };
    let mut group = Group::new(&scene.receivers.addresses(), 3, Sizes::Equal(1000), Private::None);
    group.packets[1] = vec![7; limit + 1 + 20];
    let slots = scene.send(&group);
    for (member, slot) in slots.iter().enumerate() {
        assert_eq!(*slot, Slot { sent: 2, failed: 1, error: Some(SendError::TooLong) }, "member {member}");
        let rest = [group.datagram(member, 0), group.datagram(member, 2)];
        scene.receivers.expect(member, rest.into_iter(), "beside one too long");
    }
    // The longest there is, and one byte more for one member.
    let mut group = Group::new(&scene.receivers.addresses(), 1, Sizes::Equal(limit - 10), Private::None);
    for (member, recipient) in group.members.iter_mut().enumerate() {
        let longest =
            if matches!(family, Family::Mixed) && recipient.destination.is_ipv6() { 65_527 } else { limit };
        let prepend = longest - (limit - 10);
        recipient.prepend = vec![vec![member as u8; prepend + usize::from(member == 4)]];
    }
    let slots = scene.send(&group);
    for (member, slot) in slots.iter().enumerate() {
        if member == 4 {
            assert_eq!(*slot, Slot { sent: 0, failed: 1, error: Some(SendError::TooLong) });
        } else {
            assert_eq!(*slot, Slot { sent: 1, ..Slot::default() }, "member {member}");
            scene.receivers.expect(member, group.datagrams(member), "the longest datagram");
        }
    }
    scene.receivers.expect_nothing_more("the longest datagram");
}

/// Recipients of the family that the socket does not have.
fn wrong_family(kind: BackendKind, ipv6_only: bool) {
    let link = Link::new();
    let (socket, far, wrong) = if ipv6_only {
        let socket = link.near.run(|| {
            let socket =
                socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None).expect("socket");
            socket.set_only_v6(true).expect("IPV6_V6ONLY");
            socket.set_reuse_port(true).expect("SO_REUSEPORT");
            socket.bind(&SocketAddr::from((Family::V6.wildcard(), 0)).into()).expect("bind");
            UdpSocket::from(socket)
        });
        (socket, FAR_V6, (FAR_V4[0], 9))
    } else {
        (link.socket(Family::V4.wildcard()), FAR_V4, (FAR_V6[0], 9))
    };
    let mut scene = Scene::with(kind, link, socket, &far, 7);
    let bad = [Bad(wrong.into(), SendError::WrongFamily)];
    for packets in [1, 2, 8] {
        scene.send_among(&bad, packets, Sizes::Equal(500), Private::Mixed);
    }
}

/// A recipient whose private bytes do not fit the number of packets.
fn bad_private(kind: BackendKind) {
    let mut scene = Scene::new(kind, Family::V4, 7);
    for (bad, packets) in [(0, 3), (3, 3), (7, 4)] {
        // To a receiver that would accept it, and must get its own only.
        let mut destinations = scene.receivers.addresses();
        destinations.insert(bad, destinations[0]);
        let mut group = Group::new(&destinations, packets, Sizes::Equal(800), Private::Each);
        group.members[bad].append.pop();
        let slots = scene.send(&group);
        assert_eq!(slots[bad], Slot { sent: 0, failed: packets as u32, error: Some(SendError::BadPrivate) });
        scene.receive(&group, &slots, |member| member != bad);
    }
}

/// A recipient that does not read loses what its queue does not hold, and the others lose nothing.
fn full_queue(kind: BackendKind) {
    let mut scene = Scene::new(kind, Family::V4, 30);
    let lazy = 17;
    let queue = socket2::SockRef::from(scene.receivers.socket(lazy));
    queue.set_recv_buffer_size(4096).expect("SO_RCVBUF");
    let group = Group::new(&scene.receivers.addresses(), 8, Sizes::Equal(1200), Private::Same);
    for _ in 0..4 {
        let slots = scene.send(&group);
        assert_all_sent(&group, &slots);
        for member in (0..30).filter(|&member| member != lazy) {
            scene.receivers.expect(member, group.datagrams(member), &group.remark);
        }
    }
    // Everybody else has everything, so what did arrive at the lazy one is there by now.
    let dropped = scene.link.far.counter("Udp", "RcvbufErrors");
    let arrived = 4 * 8 - dropped as usize;
    assert!(dropped > 0 && arrived > 0, "{dropped} of 32 dropped");
    scene.receivers.expect(lazy, group.datagrams(lazy).take(arrived), "what a small queue holds");
    scene.receivers.expect_nothing_more("what a small queue holds");
}

/// A recipient on the wire's network whose host does not exist: requests for its MAC address are
/// not answered.
fn silent_neighbour(kind: BackendKind) {
    let mut scene = Scene::new(kind, Family::V4, 7);
    let mut destinations = scene.receivers.addresses();
    destinations.insert(3, address("10.77.0.99:9"));
    let group = Group::new(&destinations, 4, Sizes::Equal(1000), Private::Each);
    for _ in 0..3 {
        let slots = scene.send(&group);
        scene.receive(&group, &slots, |member| member != 3);
        assert_eq!(slots[3].done(), 4);
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}
