//! Back ends that write frames themselves follow every change of route and neighbour, without
//! losing a datagram.
//!
//! Each change is followed at once by a group: the first call after it must already use the new
//! route, or the socket until the kernel knows the new route itself. The kernel's own counter says
//! which of the two it was.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{
    FAR_DEVICE, FAR_MAC, FAR_V4, FAR_V6, Host, Link, NEAR_DEVICE, NEAR_V4, NEAR_V6, await_reachable, cable,
    sources,
};
use group_send::{BackendKind, SendError, Sender, Slot};
use std::net::{IpAddr, UdpSocket};

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all() {
        let mut add = |name: &str, run: fn(BackendKind)| {
            trials.push(Privileged::new(
                format!("changes::{kind}::{name}"),
                Need::Backend(kind),
                move || run(kind),
            ));
        };
        add("neighbour_moves_to_another_mac", neighbour_moves_to_another_mac);
        add("neighbour_is_found_by_the_kernel", neighbour_is_found_by_the_kernel);
        add("route_moves_to_another_gateway", route_moves_to_another_gateway);
        add("route_moves_to_another_device", route_moves_to_another_device);
        add("route_goes_and_comes", route_goes_and_comes);
        add("path_becomes_narrow", path_becomes_narrow);
        add("own_address_changes", own_address_changes);
        add("source_address_is_the_sockets", source_address_is_the_sockets);
    }
    trials
}

/// Whether this back end writes frames, so that the stack's counter does not move while it has a
/// next hop.
fn writes_frames(kind: BackendKind) -> bool {
    matches!(kind, BackendKind::AfXdp | BackendKind::TcClone)
}

struct Scene {
    kind: BackendKind,
    link: Link,
    socket: UdpSocket,
    sender: Sender,
    receivers: Receivers,
}

impl Scene {
    /// Forty receivers on these addresses of the far host.
    fn new(kind: BackendKind, link: Link, far: &[IpAddr]) -> Self {
        let socket = link.socket(Family::Mixed.wildcard());
        let sender = link.near.run(|| Sender::new(&socket, &backends::only(kind))).expect("a sender");
        let receivers = link.far.run(|| Receivers::bind(far, 40)).from(&sources(&socket));
        Self { kind, link, socket, sender, receivers }
    }

    /// Sends a group and checks every byte; whether all of it passed the stack by, as far as the
    /// back end can.
    fn deliver(&mut self, remark: &str) -> bool {
        let mut group = Group::new(&self.receivers.addresses(), 3, Sizes::Equal(900), Private::Same);
        group.remark += remark;
        let before = self.link.sent_by_stack();
        let (slots, _) = self.link.near.run(|| send_whole(&group, &mut self.sender, &self.socket));
        let by_stack = self.link.sent_by_stack() - before;
        assert_all_sent(&group, &slots);
        self.receivers.expect_group(&group);
        // Unused bytes, and a packet for each family that is to be copied.
        by_stack <= 2 * 3
    }

    /// As [`Scene::deliver`], and by frames if the back end writes any.
    fn deliver_by_frames(&mut self, remark: &str) {
        let passed_by = self.deliver(remark);
        assert_eq!(passed_by, writes_frames(self.kind), "by frames: {remark}");
    }
}

const OTHER_MAC: &str = "02:00:00:00:77:99";

/// The far host gets another device, and the entries say so. Frames for the old one would be
/// dropped there.
fn neighbour_moves_to_another_mac(kind: BackendKind) {
    let mut scene = Scene::new(kind, Link::new(), &[FAR_V4[0], FAR_V6[0]]);
    scene.deliver_by_frames("before");
    for mac in [OTHER_MAC, FAR_MAC, OTHER_MAC] {
        scene.link.far.ip(&format!("link set {FAR_DEVICE} address {mac}"));
        for address in [FAR_V4[0], FAR_V6[0]] {
            let entry = format!("neigh replace {address} lladdr {mac} dev {NEAR_DEVICE} nud permanent");
            scene.link.near.ip(&entry);
        }
        scene.deliver_by_frames(mac);
    }
}

/// The far host's MAC address is unknown at first, and again after the entry is deleted: the kernel
/// asks, and the socket's datagrams wait for the answer.
fn neighbour_is_found_by_the_kernel(kind: BackendKind) {
    let link = Link::new();
    forget(&link.near);
    let mut scene = Scene::new(kind, link, &[FAR_V4[0], FAR_V6[0]]);
    for round in ["first", "forgotten", "forgotten again"] {
        scene.deliver(round);
        // The answer has arrived, because the datagrams have. New entries may be confirmed by the
        // socket once more.
        let found = (0..20).any(|_| scene.deliver("found"));
        assert_eq!(found, writes_frames(kind), "{round}");
        forget(&scene.link.near);
    }
}

fn forget(near: &Host) {
    for address in [FAR_V4[0], FAR_V6[0]] {
        near.ip(&format!("neigh del {address} dev {NEAR_DEVICE}"));
    }
}

const BEHIND_V4: &str = "10.90.0.1";
const BEHIND_V6: &str = "fd90::1";

fn behind() -> [IpAddr; 2] {
    [BEHIND_V4, BEHIND_V6].map(|address| address.parse().expect("an address"))
}

/// A far host with networks behind it, which the near host does not know yet.
fn with_networks_behind() -> Link {
    let link = Link::new();
    link.far.ip(&format!("addr add {BEHIND_V4}/32 dev lo\naddr add {BEHIND_V6}/128 dev lo nodad"));
    behind().into_iter().for_each(|address| await_reachable(&link.far, &link.far, address));
    link
}

/// Gateways by the addresses of the far host; each is a neighbour with an entry of its own.
fn route(link: &Link, action: &str, gateway: usize) {
    link.near.ip(&format!(
        "route {action} 10.90.0.0/16 via {} dev {NEAR_DEVICE}\nroute {action} fd90::/16 via {} dev {NEAR_DEVICE}",
        FAR_V4[gateway], FAR_V6[gateway]
    ));
}

/// The old gateway has left: frames for it go to a device that does not exist.
fn route_moves_to_another_gateway(kind: BackendKind) {
    let link = with_networks_behind();
    route(&link, "add", 0);
    let mut scene = Scene::new(kind, link, &behind());
    scene.deliver_by_frames("first gateway");
    for gateway in [1, 2, 0] {
        for old in (0..3).filter(|&old| old != gateway) {
            for address in [FAR_V4[old], FAR_V6[old]] {
                let entry = format!(
                    "neigh replace {address} lladdr 02:00:00:00:00:0{old} dev {NEAR_DEVICE} nud permanent"
                );
                scene.link.near.ip(&entry);
            }
        }
        for address in [FAR_V4[gateway], FAR_V6[gateway]] {
            let entry = format!("neigh replace {address} lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent");
            scene.link.near.ip(&entry);
        }
        route(&scene.link, "replace", gateway);
        scene.deliver_by_frames("next gateway");
    }
}

/// A second cable takes over, which these back ends do not write to, and the first one again.
fn route_moves_to_another_device(kind: BackendKind) {
    let link = with_networks_behind();
    cable(&link.near, &link.far, ("near1", "02:00:00:00:77:11"), ("far1", "02:00:00:00:77:12"));
    link.far.ip("addr add 10.79.0.2/24 dev far1\naddr add fd79::2/64 dev far1 nodad\nlink set far1 up");
    link.near.ip("addr add 10.79.0.1/24 dev near1\naddr add fd79::1/64 dev near1 nodad\nlink set near1 up");
    link.near.ip("neigh replace 10.79.0.2 lladdr 02:00:00:00:77:12 dev near1 nud permanent\n\
        neigh replace fd79::2 lladdr 02:00:00:00:77:12 dev near1 nud permanent");
    let other: [IpAddr; 2] = ["10.79.0.1", "fd79::1"].map(|address| address.parse().expect("an address"));
    other.into_iter().for_each(|address| await_reachable(&link.far, &link.near, address));
    ["10.79.0.2", "fd79::2"]
        .into_iter()
        .for_each(|far| await_reachable(&link.near, &link.far, far.parse().expect("an address")));
    route(&link, "add", 0);
    let mut scene = Scene::new(kind, link, &behind());
    let port = scene.socket.local_addr().expect("bound").port();
    scene.deliver_by_frames("first device");
    for _ in 0..2 {
        scene.link.near.ip("route replace 10.90.0.0/16 via 10.79.0.2 dev near1\n\
            route del fd90::/16\nroute add fd90::/16 via fd79::2 dev near1");
        scene.receivers.set_sources(&other.map(|address| (address, port).into()));
        assert!(!scene.deliver("other device"), "frames cannot go through another device");
        scene.link.near.ip("route del fd90::/16");
        route(&scene.link, "replace", 0);
        scene.receivers.set_sources(&sources(&scene.socket));
        scene.deliver_by_frames("first device again");
    }
}

/// Without a route every slot says so, at once; with it again everything arrives, at once.
fn route_goes_and_comes(kind: BackendKind) {
    let link = with_networks_behind();
    route(&link, "add", 0);
    let mut scene = Scene::new(kind, link, &behind());
    for round in ["first", "second"] {
        scene.deliver_by_frames(round);
        scene.link.near.ip("route del 10.90.0.0/16\nroute del fd90::/16");
        let group = Group::new(&scene.receivers.addresses(), 2, Sizes::Equal(100), Private::None);
        let (slots, _) = scene.link.near.run(|| send_whole(&group, &mut scene.sender, &scene.socket));
        let unreachable = Slot { sent: 0, failed: 2, error: Some(SendError::Unreachable) };
        assert!(slots.iter().all(|slot| *slot == unreachable), "{round}: {slots:?}");
        scene.receivers.expect_nothing_more(round);
        route(&scene.link, "add", 0);
    }
    scene.deliver_by_frames("at last");
}

/// What no longer fits has to be fragmented by the stack.
fn path_becomes_narrow(kind: BackendKind) {
    let link = with_networks_behind();
    route(&link, "add", 0);
    let mut scene = Scene::new(kind, link, &behind());
    scene.deliver_by_frames("wide");
    let narrow = |mtu: &str| {
        format!(
            "route replace 10.90.0.0/16 via {} dev {NEAR_DEVICE} {mtu}\nroute del fd90::/16\n\
             route add fd90::/16 via {} dev {NEAR_DEVICE} {mtu}",
            FAR_V4[0], FAR_V6[0]
        )
    };
    scene.link.near.ip(&narrow("mtu lock 800"));
    // IPv6 has no MTU below 1280, and is not narrow for these packets.
    assert!(!scene.deliver("narrow"));
    scene.link.near.ip(&narrow(""));
    scene.deliver_by_frames("wide again");
}

/// The near host gets other addresses and loses those it had. A socket that is bound to none of
/// them sends from the new ones, since the old ones belong to another process by now.
fn own_address_changes(kind: BackendKind) {
    let mut scene = Scene::new(kind, Link::new(), &[FAR_V4[0], FAR_V6[0]]);
    let port = scene.socket.local_addr().expect("bound").port();
    scene.deliver_by_frames("before");
    scene.link.near.ip(&format!(
        "addr del {NEAR_V4}/24 dev {NEAR_DEVICE}\naddr add 10.77.0.60/24 dev {NEAR_DEVICE}\n\
         addr add fd77::60/64 dev {NEAR_DEVICE} nodad\naddr del {NEAR_V6}/64 dev {NEAR_DEVICE}"
    ));
    // Entries and routes go with the last address.
    let entry = format!("neigh replace {} lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent", FAR_V4[0]);
    scene.link.near.ip(&entry);
    let own: [IpAddr; 2] = ["10.77.0.60", "fd77::60"].map(|address| address.parse().expect("an address"));
    own.into_iter().for_each(|address| await_reachable(&scene.link.far, &scene.link.near, address));
    scene.receivers.set_sources(&own.map(|address| (address, port).into()));
    for _ in 0..3 {
        scene.deliver_by_frames("after");
    }
    assert_eq!(scene.link.bad_checksums(), 0);
}

/// A socket that is bound to one of several addresses sends from that one, whatever the route
/// prefers.
fn source_address_is_the_sockets(kind: BackendKind) {
    for (own, far) in [("10.77.0.50", FAR_V4), ("fd77::50", FAR_V6)] {
        let link = Link::new();
        let (length, nodad) = if own.contains(':') { (64, "nodad") } else { (24, "") };
        link.near.ip(&format!("addr add {own}/{length} dev {NEAR_DEVICE} {nodad}"));
        let own: IpAddr = own.parse().expect("an address");
        await_reachable(&link.far, &link.near, own);
        let socket = link.socket(own);
        let sender = link.near.run(|| Sender::new(&socket, &backends::only(kind))).expect("a sender");
        let source = socket.local_addr().expect("bound");
        assert_eq!(source.ip(), own);
        let receivers = link.far.run(|| Receivers::bind(&far, 40)).from(&[source]);
        let mut scene = Scene { kind, link, socket, sender, receivers };
        scene.deliver_by_frames("bound");
        assert_eq!(scene.link.bad_checksums(), 0);
    }
}
