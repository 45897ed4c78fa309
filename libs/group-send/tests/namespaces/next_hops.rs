//! Next hops are those that the kernel would take, and follow every change of routes, neighbours
//! and the interface.
//!
//! Asks the table itself, without a back end; `moving_targets.rs` counts datagrams. The kernel
//! announces a change before the program that makes it ends, so nothing here waits.

use crate::Privileged;
use crate::backends::Need;
use crate::host::{FAR_DEVICE, FAR_MAC, Host, NEAR_DEVICE, NEAR_MAC, cable};
use group_send::internals::{Flow, NextHop, NextHops, Unresolved};
use nix::libc;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::time::Duration;

pub(crate) fn trials() -> Vec<Privileged> {
    let trial = |name: &str, run: fn()| Privileged::new(format!("next_hops::{name}"), Need::Hosts, run);
    vec![
        trial("name_all_that_a_header_needs", name_all_that_a_header_needs),
        trial("are_not_given_for_what_only_a_socket_can_send", are_not_given_for_what_only_a_socket_can_send),
        trial("honour_rules_by_source_and_mark", honour_rules_by_source_and_mark),
        trial("are_chosen_among_several_as_the_kernel_does", are_chosen_among_several_as_the_kernel_does),
        trial("follow_a_change_of_route", follow_a_change_of_route),
        trial("follow_a_change_of_neighbour", follow_a_change_of_neighbour),
        trial("leave_one_destination_to_confirm_a_stale_neighbour", leave_one_to_confirm),
        trial("follow_the_interface", follow_the_interface),
        trial("know_the_path_mtu_that_the_kernel_learnt", know_the_path_mtu_that_the_kernel_learnt),
        trial("survive_more_changes_than_the_socket_holds", survive_more_changes_than_the_socket_holds),
        trial("exist_on_ethernet_only", exist_on_ethernet_only),
    ]
}

/// A host with two interfaces, of which the first is looked at, and the host at the other end of
/// both.
struct Site {
    near: Host,
    _far: Host,
}

const OTHER_DEVICE: &str = "near1";
const OTHER_MAC: &str = "02:00:00:00:78:01";
const OTHER_FAR_MAC: &str = "02:00:00:00:78:02";

impl Site {
    fn new() -> Self {
        let (near, far) = (Host::new().expect("a namespace"), Host::new().expect("a namespace"));
        cable(&near, &far, (NEAR_DEVICE, NEAR_MAC), (FAR_DEVICE, FAR_MAC));
        cable(&near, &far, (OTHER_DEVICE, OTHER_MAC), ("far1", OTHER_FAR_MAC));
        far.ip(&format!("link set {FAR_DEVICE} up\nlink set far1 up"));
        near.ip(&format!(
            "link set {NEAR_DEVICE} up\nlink set {OTHER_DEVICE} up
             addr add 10.77.0.1/24 dev {NEAR_DEVICE}\naddr add fd77::1/64 dev {NEAR_DEVICE} nodad
             addr add fe80::1/64 dev {NEAR_DEVICE} nodad\naddr add 10.77.0.9/24 dev {NEAR_DEVICE}
             addr add 10.78.0.1/24 dev {OTHER_DEVICE}\naddr add fd78::1/64 dev {OTHER_DEVICE} nodad
             neigh add 10.77.0.2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent
             neigh add 10.77.0.3 lladdr 02:00:00:00:77:03 dev {NEAR_DEVICE} nud permanent
             neigh add fd77::2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent"
        ));
        // The kernel takes IPv6 addresses into use a moment after the interface is set up.
        for address in ["fd77::1", "fd78::1", "fe80::1"] {
            let in_use =
                || near.program(&["sh"], &format!("ip route get {address} || :")).starts_with("local");
            assert!((0..5_000).any(|_| in_use()), "{address} is not in use");
        }
        Self { near, _far: far }
    }

    fn hops(&self, flow: Flow) -> NextHops {
        self.near.run(|| NextHops::open(NEAR_DEVICE, &flow)).expect("an interface")
    }
}

fn to(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 9)
}

fn mac(text: &str) -> [u8; 6] {
    let bytes: Vec<u8> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect();
    bytes.try_into().expect("six bytes")
}

/// What a destination resolves to after taking up all changes.
fn resolve(hops: &mut NextHops, address: &str) -> Result<NextHop, Unresolved> {
    hops.refresh();
    hops.resolve(&to(address))
}

fn destination_mac(hops: &mut NextHops, address: &str) -> Result<[u8; 6], Unresolved> {
    resolve(hops, address).map(|hop| hop.destination_mac)
}

fn name_all_that_a_header_needs() {
    let site = Site::new();
    site.near.ip(&format!(
        "route add 10.90.0.0/16 via 10.77.0.2 src 10.77.0.9 mtu 1400
         route add 10.91.0.0/16 dev {NEAR_DEVICE} hoplimit 7
         route add fd90::/32 via fd77::2 mtu 1300 hoplimit 9
         route add 10.92.0.0/16 via inet6 fd77::2 dev {NEAR_DEVICE}
         neigh add 10.91.0.1 lladdr 02:00:00:00:77:91 dev {NEAR_DEVICE} nud permanent
         neigh add fe80::2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud noarp"
    ));
    let mut hops = site.hops(Flow::default());
    let plain = NextHop {
        interface_index: hops.interface().index,
        source_mac: mac(NEAR_MAC),
        destination_mac: mac(FAR_MAC),
        source: "10.77.0.1".parse().expect("an address"),
        mtu: 1500,
        hop_limit: 64,
    };
    let ipv6 = NextHop { source: "fd77::1".parse().expect("an address"), ..plain };
    let cases = [
        ("10.77.0.2", plain),        // on the link
        ("::ffff:10.77.0.2", plain), // the same in an IPv6 socket's words
        ("10.90.1.2", NextHop { source: [10, 77, 0, 9].into(), mtu: 1400, ..plain }), // by a gateway
        ("10.91.0.1", NextHop { destination_mac: mac("02:00:00:00:77:91"), hop_limit: 7, ..plain }),
        ("10.92.0.1", plain), // by a gateway of the other family
        ("fd77::2", ipv6),
        ("fd90::1", NextHop { mtu: 1300, hop_limit: 9, ..ipv6 }),
    ];
    for (address, expected) in cases {
        assert_eq!(resolve(&mut hops, address), Ok(expected), "{address}");
    }
    let link_local =
        |scope| SocketAddr::from(SocketAddrV6::new([0xfe80, 0, 0, 0, 0, 0, 0, 2].into(), 9, 0, scope));
    let hop = hops.resolve(&link_local(plain.interface_index)).expect("on the link");
    assert!(matches!(hop.source, IpAddr::V6(source) if source.is_unicast_link_local()), "{hop:?}");
    assert_eq!(NextHop { source: ipv6.source, ..hop }, ipv6);
    assert_eq!(hops.resolve(&link_local(0)), Err(Unresolved::NoRoute));
    assert_eq!(hops.resolve(&link_local(plain.interface_index + 1)), Err(Unresolved::OtherInterface));

    let interface = hops.interface();
    assert_eq!((interface.mac, interface.mtu, interface.up), (mac(NEAR_MAC), 1500, true));
    for address in ["10.77.0.1", "10.77.0.9", "fd77::1"] {
        assert!(interface.addresses.contains(&address.parse().expect("an address")), "{interface:?}");
    }
    assert!(!interface.addresses.contains(&[10, 78, 0, 1].into()), "{interface:?}");
}

fn are_not_given_for_what_only_a_socket_can_send() {
    let site = Site::new();
    site.near.ip(&format!(
        "route add blackhole 10.80.0.0/16\nroute add unreachable 10.81.0.0/16
         route add prohibit 10.82.0.0/16\nroute add throw 10.83.0.0/16
         route add blackhole fd80::/32\nroute add unreachable fd81::/32\nroute add prohibit fd82::/32
         route add 10.84.0.0/16 dev {OTHER_DEVICE}
         neigh add 10.77.0.66 lladdr ff:ff:ff:ff:ff:ff dev {NEAR_DEVICE} nud permanent"
    ));
    let mut hops = site.hops(Flow::default());
    let cases = [
        ("10.80.0.1", Unresolved::NoRoute),
        ("10.81.0.1", Unresolved::NoRoute),
        ("10.82.0.1", Unresolved::NoRoute),
        ("10.83.0.1", Unresolved::NoRoute),
        ("192.0.2.1", Unresolved::NoRoute), // no default route
        ("fd80::1", Unresolved::NoRoute),
        ("fd81::1", Unresolved::NoRoute),
        ("fd82::1", Unresolved::NoRoute),
        ("2001:db8::1", Unresolved::NoRoute),
        ("10.78.0.2", Unresolved::OtherInterface),
        ("10.84.0.1", Unresolved::OtherInterface),
        ("fd78::2", Unresolved::OtherInterface),
        ("10.77.0.1", Unresolved::Local),
        ("10.78.0.1", Unresolved::Local),
        ("127.0.0.1", Unresolved::Local),
        ("0.0.0.0", Unresolved::Local),
        ("::1", Unresolved::Local),
        ("fd77::1", Unresolved::Local),
        ("10.77.0.255", Unresolved::Multicast),
        ("255.255.255.255", Unresolved::NoRoute), // without a default route, as on a socket
        ("239.1.2.3", Unresolved::Multicast),
        ("ff02::1", Unresolved::Multicast),
        ("10.77.0.200", Unresolved::NoNeighbour),
        ("fd77::200", Unresolved::NoNeighbour),
        ("10.77.0.66", Unresolved::NoNeighbour), // a unicast address with a group's MAC address
    ];
    for (address, expected) in cases {
        for _ in 0..2 {
            // The second answer comes from memory.
            assert_eq!(resolve(&mut hops, address), Err(expected), "{address}");
        }
    }
}

fn honour_rules_by_source_and_mark() {
    let site = Site::new();
    site.near.ip(
        "route add 10.90.0.0/16 via 10.77.0.2\nroute add 10.90.0.0/16 via 10.77.0.3 table 100
         route add 10.90.0.0/16 via 10.78.0.2 table 101
         rule add from 10.77.0.9 table 100\nrule add fwmark 5 table 101\nrule add ipproto udp sport 7000 table 100",
    );
    let source = |address: &str| Some(address.parse().expect("an address"));
    let third = mac("02:00:00:00:77:03");
    let cases = [
        (Flow::default(), Ok(mac(FAR_MAC))),
        (Flow { source: source("10.77.0.1"), ..Flow::default() }, Ok(mac(FAR_MAC))),
        (Flow { source: source("0.0.0.0"), ..Flow::default() }, Ok(mac(FAR_MAC))),
        (Flow { source: source("fd77::1"), ..Flow::default() }, Ok(mac(FAR_MAC))), // of the other family
        (Flow { source: source("10.77.0.9"), ..Flow::default() }, Ok(third)),
        (Flow { source: source("::ffff:10.77.0.9"), ..Flow::default() }, Ok(third)),
        (Flow { source_port: 7000, ..Flow::default() }, Ok(third)),
        (Flow { source_port: 7001, ..Flow::default() }, Ok(mac(FAR_MAC))),
        (Flow { mark: 5, ..Flow::default() }, Err(Unresolved::OtherInterface)),
        (Flow { source: source("10.99.0.1"), ..Flow::default() }, Err(Unresolved::NoRoute)), // not ours
    ];
    for (flow, expected) in cases {
        assert_eq!(destination_mac(&mut site.hops(flow), "10.90.0.1"), expected, "{flow:?}");
    }
    let bound = Flow { source: source("10.77.0.9"), ..Flow::default() };
    assert_eq!(resolve(&mut site.hops(bound), "10.77.0.2").map(|hop| hop.source), Ok([10, 77, 0, 9].into()));

    let mut hops = site.hops(Flow::default());
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
    site.near.ip("rule add to 10.90.0.0/24 table 100");
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(third), "a new rule");
}

fn are_chosen_among_several_as_the_kernel_does() {
    let site = Site::new();
    site.near.ip("route add 10.90.0.0/16 nexthop via 10.77.0.2 nexthop via 10.77.0.3
         nexthop add id 1 via 10.77.0.2 dev near0\nroute add 10.91.0.0/16 nhid 1");
    let mut hops = site.hops(Flow::default());
    let mut used = [0; 2];
    for host in 1..=64 {
        let address = format!("10.90.{host}.1");
        let route = site.near.program(&["ip", "route", "get", &address, "ipproto", "udp"], "");
        let (gateway, expected) =
            if route.contains("via 10.77.0.2") { (0, mac(FAR_MAC)) } else { (1, mac("02:00:00:00:77:03")) };
        used[gateway] += 1;
        assert_eq!(destination_mac(&mut hops, &address), Ok(expected), "{route}");
    }
    assert!(used.iter().all(|count| *count > 0), "both gateways: {used:?}");

    assert_eq!(destination_mac(&mut hops, "10.91.0.1"), Ok(mac(FAR_MAC)));
    site.near.ip("nexthop replace id 1 via 10.77.0.3 dev near0");
    assert_eq!(
        destination_mac(&mut hops, "10.91.0.1"),
        Ok(mac("02:00:00:00:77:03")),
        "a next hop of its own"
    );
}

fn follow_a_change_of_route() {
    let site = Site::new();
    site.near.ip("route add 10.90.0.0/16 via 10.77.0.2\nroute add fd90::/32 via fd77::2");
    let mut hops = site.hops(Flow::default());
    let third = mac("02:00:00:00:77:03");
    for address in ["10.90.1.1", "10.90.2.1"] {
        assert_eq!(destination_mac(&mut hops, address), Ok(mac(FAR_MAC)));
    }
    let before = hops.generation();
    site.near.ip("route add 10.90.1.0/24 via 10.77.0.3");
    assert_eq!(destination_mac(&mut hops, "10.90.1.1"), Ok(third), "a longer prefix");
    assert_eq!(destination_mac(&mut hops, "10.90.2.1"), Ok(mac(FAR_MAC)), "outside it");
    assert_ne!(hops.generation(), before);
    site.near.ip("route del 10.90.1.0/24");
    assert_eq!(destination_mac(&mut hops, "10.90.1.1"), Ok(mac(FAR_MAC)), "the shorter one again");
    site.near.ip("route replace 10.90.0.0/16 via 10.77.0.3");
    assert_eq!(destination_mac(&mut hops, "10.90.2.1"), Ok(third), "replaced");
    site.near.ip("route replace 10.90.0.0/16 via 10.78.0.2");
    assert_eq!(destination_mac(&mut hops, "10.90.2.1"), Err(Unresolved::OtherInterface));
    site.near.ip("route del 10.90.0.0/16");
    assert_eq!(destination_mac(&mut hops, "10.90.2.1"), Err(Unresolved::NoRoute));
    site.near.ip("route add default via 10.77.0.2");
    assert_eq!(destination_mac(&mut hops, "10.90.2.1"), Ok(mac(FAR_MAC)), "by the default route");
    assert_eq!(destination_mac(&mut hops, "fd90::1"), Ok(mac(FAR_MAC)));
    site.near.ip("route replace unreachable fd90::/32");
    assert_eq!(destination_mac(&mut hops, "fd90::1"), Err(Unresolved::NoRoute));

    let before = hops.generation();
    assert_eq!(destination_mac(&mut hops, "10.77.0.2"), Ok(mac(FAR_MAC)));
    assert_eq!(destination_mac(&mut hops, "10.77.0.2"), Ok(mac(FAR_MAC)));
    assert_eq!(hops.generation(), before, "nothing has changed");
}

fn follow_a_change_of_neighbour() {
    let site = Site::new();
    site.near.ip("route add 10.90.0.0/16 via 10.77.0.2");
    let mut hops = site.hops(Flow::default());
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
    let before = hops.generation();
    site.near.ip(&format!("neigh add 10.77.0.50 lladdr 02:00:00:00:77:50 dev {NEAR_DEVICE} nud permanent"));
    site.near.ip(&format!("neigh add 10.78.0.2 lladdr 02:00:00:00:77:50 dev {OTHER_DEVICE} nud permanent"));
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
    assert_eq!(hops.generation(), before, "a neighbour more makes no answer wrong");
    assert_eq!(destination_mac(&mut hops, "10.77.0.50"), Ok(mac("02:00:00:00:77:50")));

    let fifth = "02:00:00:00:77:05";
    for (state, expected) in [
        ("lladdr 02:00:00:00:77:04 nud reachable", Ok(mac("02:00:00:00:77:04"))),
        ("lladdr 02:00:00:00:77:05 nud delay", Ok(mac(fifth))),
        ("lladdr 02:00:00:00:77:05 nud probe", Ok(mac(fifth))),
        ("lladdr 02:00:00:00:77:05 nud permanent", Ok(mac(fifth))),
        ("nud failed", Err(Unresolved::NoNeighbour)),
    ] {
        site.near.ip(&format!("neigh replace 10.77.0.2 dev {NEAR_DEVICE} {state}"));
        assert_eq!(destination_mac(&mut hops, "10.90.0.1"), expected, "{state}");
    }
    site.near.ip(&format!("neigh replace 10.77.0.2 lladdr {fifth} dev {NEAR_DEVICE} nud permanent"));
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(fifth)));
    site.near.ip(&format!("neigh del 10.77.0.2 dev {NEAR_DEVICE}"));
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Err(Unresolved::NoNeighbour), "deleted");
}

fn leave_one_to_confirm() {
    let site = Site::new();
    site.near.ip("route add 10.90.0.0/16 via 10.77.0.2");
    let mut hops = site.hops(Flow::default());
    let state = |nud: &str| format!("neigh replace 10.77.0.2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud {nud}");
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
    for round in 0..2 {
        let before = hops.generation();
        site.near.ip(&state("stale"));
        assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Err(Unresolved::StaleNeighbour), "round {round}");
        assert_ne!(hops.generation(), before, "a cached next hop must be invalidated");
        for _ in 0..3 {
            assert_eq!(destination_mac(&mut hops, "10.90.0.2"), Ok(mac(FAR_MAC)));
            assert_eq!(destination_mac(&mut hops, "10.77.0.3"), Ok(mac("02:00:00:00:77:03")));
            assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Err(Unresolved::StaleNeighbour));
        }
        let before = hops.generation();
        site.near.ip(&state("reachable"));
        assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
        assert_eq!(hops.generation(), before, "confirmed makes no answer wrong");
    }
}

fn follow_the_interface() {
    let site = Site::new();
    let mut hops = site.hops(Flow::default());
    let first = resolve(&mut hops, "10.77.0.2").expect("on the link");
    site.near.ip(&format!("link set {NEAR_DEVICE} mtu 1300"));
    assert_eq!(resolve(&mut hops, "10.77.0.2"), Ok(NextHop { mtu: 1300, ..first }));
    assert_eq!(resolve(&mut hops, "fd77::2").map(|hop| hop.mtu), Ok(1300));
    // The kernel forgets neighbours when the address they know it by changes.
    site.near.ip(&format!(
        "link set {NEAR_DEVICE} mtu 1500 address 02:00:00:00:77:aa
         neigh replace 10.77.0.2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent"
    ));
    let moved = NextHop { source_mac: mac("02:00:00:00:77:aa"), ..first };
    assert_eq!(resolve(&mut hops, "10.77.0.2"), Ok(moved), "another MAC address");

    site.near.ip(&format!("addr del 10.77.0.1/24 dev {NEAR_DEVICE}"));
    let source = resolve(&mut hops, "10.77.0.2").map(|hop| hop.source);
    assert_ne!(source, Ok(first.source), "the address is gone");
    site.near.ip(&format!(
        "addr flush dev {NEAR_DEVICE}\naddr add 10.77.0.8/24 dev {NEAR_DEVICE}
         neigh replace 10.77.0.2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent"
    ));
    assert_eq!(resolve(&mut hops, "10.77.0.2").map(|hop| hop.source), Ok([10, 77, 0, 8].into()));
    assert_eq!(hops.interface().addresses, [IpAddr::from([10, 77, 0, 8])]);

    site.near.ip(&format!("link set {NEAR_DEVICE} down"));
    assert!(resolve(&mut hops, "10.77.0.2").is_err(), "down");
    assert!(!hops.interface().up);
    site.near.ip(&format!("link del {NEAR_DEVICE}"));
    for _ in 0..2 {
        assert!(resolve(&mut hops, "10.77.0.2").is_err(), "gone");
    }
}

fn know_the_path_mtu_that_the_kernel_learnt() {
    let (near, router, far) = (Host::new(), Host::new(), Host::new());
    let [near, router, far] = [near, router, far].map(|host| host.expect("a namespace"));
    cable(&near, &router, (NEAR_DEVICE, NEAR_MAC), ("west", FAR_MAC));
    cable(&router, &far, ("east", OTHER_MAC), (FAR_DEVICE, OTHER_FAR_MAC));
    router.run(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a sysctl");
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").expect("a sysctl");
    });
    near.ip(&format!(
        "addr add 10.77.0.1/24 dev {NEAR_DEVICE}\naddr add fd77::1/64 dev {NEAR_DEVICE} nodad
         link set {NEAR_DEVICE} up\nroute add default via 10.77.0.2\nroute add default via fd77::2
         neigh add 10.77.0.2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent
         neigh add fd77::2 lladdr {FAR_MAC} dev {NEAR_DEVICE} nud permanent"
    ));
    router.ip("addr add 10.77.0.2/24 dev west\naddr add fd77::2/64 dev west nodad
         addr add 10.78.0.1/24 dev east\naddr add fd78::1/64 dev east nodad
         link set west up\nlink set east mtu 1280 up");
    far.ip(&format!("link set {FAR_DEVICE} up"));

    let open = || near.run(|| NextHops::open(NEAR_DEVICE, &Flow::default())).expect("an interface");
    for (any, destination) in [("0.0.0.0:0", "10.78.0.2"), ("[::]:0", "fd78::2")] {
        let mut hops = open();
        assert_eq!(resolve(&mut hops, destination).map(|hop| hop.mtu), Ok(1500), "not known yet");
        let socket = near.run(|| UdpSocket::bind(any)).expect("bind");
        socket.connect(to(destination)).expect("a route");
        socket.set_read_timeout(Some(Duration::from_millis(10))).expect("SO_RCVTIMEO");
        // The router's answer comes a moment after a packet that is too large; then the kernel
        // refuses one at once.
        let refused = || {
            let result = socket.send(&[0; 1400]);
            result.is_err_and(|error| error.raw_os_error() == Some(libc::EMSGSIZE))
                || socket.recv(&mut [0; 1]).is_err_and(|error| error.raw_os_error() == Some(libc::EMSGSIZE))
        };
        assert!((0..1_500).any(|_| refused()), "the router did not say that it was too large");
        assert_eq!(resolve(&mut open(), destination).map(|hop| hop.mtu), Ok(1280), "to {destination}");
    }
}

fn survive_more_changes_than_the_socket_holds() {
    let site = Site::new();
    site.near.ip("route add 10.90.0.0/16 via 10.77.0.2");
    let mut hops = site.hops(Flow::default());
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac(FAR_MAC)));
    // More than fit in the buffer of the descriptor, so that the last ones, which matter, are lost.
    let many: String =
        (0..8192).map(|n| format!("route add 10.100.{}.{}/32 via 10.77.0.2\n", n / 256, n % 256)).collect();
    site.near.ip(&many);
    site.near.ip(&format!(
        "route replace 10.90.0.0/16 via 10.77.0.3
         neigh replace 10.77.0.3 lladdr 02:00:00:00:77:33 dev {NEAR_DEVICE} nud permanent"
    ));
    let generation = hops.generation();
    assert_eq!(destination_mac(&mut hops, "10.90.0.1"), Ok(mac("02:00:00:00:77:33")));
    assert_ne!(hops.generation(), generation);
}

fn exist_on_ethernet_only() {
    let site = Site::new();
    let open = |name: &str| site.near.run(|| NextHops::open(name, &Flow::default())).map(drop);
    assert_eq!(open("lo").expect_err("loopback").kind(), std::io::ErrorKind::Unsupported);
    for name in ["mill7", "", "a-name-that-is-far-too-long", "near0\0"] {
        assert_eq!(open(name).expect_err("no such interface").raw_os_error(), Some(libc::ENODEV), "{name:?}");
    }
    assert!(open(OTHER_DEVICE).is_ok());
}
