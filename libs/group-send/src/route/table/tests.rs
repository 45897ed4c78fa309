//! The table fed with messages as the kernel writes them, and with a time that is a number.

use super::super::answers::ANSWERS_MAX;
use super::*;
use crate::netlink::message::Messages;
use crate::netlink::objects::route_fixed;
use crate::netlink::request::Request;

const INTERFACE: u32 = 7;
const GATEWAY: &str = "10.0.0.1";
const GATEWAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A table whose interface is up and whose gateway is known.
fn table() -> Table {
    let link =
        Link { index: INTERFACE, hardware: 1, flags: 0x41, mac: Some([2; 6]), mtu: 1500, ..Link::default() };
    let mut table = Table::new(Interface::new("test", link).expect("an Ethernet interface"));
    table.set_interface(link, Vec::new(), Neighbours::default());
    table.handle_neighbour_state(GATEWAY, Some(GATEWAY_MAC), nl::NUD_REACHABLE);
    table
}

/// What the kernel answers for a destination behind the gateway.
fn by_gateway() -> Option<Route> {
    Some(Route {
        kind: nl::RTN_UNICAST,
        interface: Some(INTERFACE),
        gateway: Some(ip(GATEWAY)),
        preferred_source: Some(ip("10.0.0.9")),
        ..Route::default()
    })
}

impl Table {
    fn feed(&mut self, request: &mut Request) {
        let bytes = request.finish(0).to_vec();
        assert_eq!(Messages(&bytes).count(), 1);
        Messages(&bytes).for_each(|message| self.handle(message));
    }

    fn handle_neighbour_state(&mut self, address: &str, mac: Option<[u8; 6]>, state: u16) {
        let mut fixed = [0; nl::NEIGHBOUR_FIXED];
        fixed[0] = nl::AF_INET;
        fixed[4..8].copy_from_slice(&INTERFACE.to_ne_bytes());
        fixed[8..10].copy_from_slice(&state.to_ne_bytes());
        let mut request = Request::default();
        request.one(nl::RTM_NEWNEIGH, &fixed).address(nl::NDA_DST, ip(address));
        if let Some(mac) = mac {
            request.attribute(nl::NDA_LLADDR, &mac);
        }
        self.feed(&mut request);
    }

    fn handle_route_change(&mut self, prefix: IpAddr, length: u8) {
        let mut fixed = route_fixed(prefix, None);
        fixed[1] = length;
        self.feed(Request::default().one(nl::RTM_NEWROUTE, &fixed).address(nl::RTA_DST, prefix));
    }

    fn learn_by_gateway(&mut self, address: IpAddr) {
        self.learn(address, by_gateway());
    }

    fn mac(&mut self, address: IpAddr) -> Option<Result<[u8; 6], Unresolved>> {
        self.mac_for_port(address, 9)
    }

    fn mac_for_port(&mut self, address: IpAddr, port: u16) -> Option<Result<[u8; 6], Unresolved>> {
        self.resolve(address, port).map(|hop| hop.map(|hop| hop.destination_mac))
    }
}

#[test]
fn an_answer_in_use_is_asked_for_again_and_another_forgotten() {
    let mut table = table();
    let (used, unused) = (ip("192.0.2.1"), ip("192.0.2.2"));
    table.learn_by_gateway(used);
    table.learn_by_gateway(unused);
    assert_eq!(table.mac(used), Some(Ok(GATEWAY_MAC)));
    table.begin_refresh(RECHECK_MS - 1);
    assert_eq!(table.next_outdated(), None, "too early");

    let before = table.generation();
    table.begin_refresh(RECHECK_MS);
    assert_eq!(table.next_outdated(), Some(used));
    assert_eq!(table.generation(), before, "nothing changed yet");
    assert_eq!(table.next_outdated(), None);
    assert_eq!(table.mac(unused), None, "forgotten");
    assert_ne!(table.generation(), before, "a cached copy must be resolved again");

    // The kernel did not answer: it stays, and is asked for again later.
    assert_eq!(table.mac(used), Some(Ok(GATEWAY_MAC)));
    table.begin_refresh(2 * RECHECK_MS);
    assert_eq!(table.next_outdated(), Some(used));
}

#[test]
fn a_recheck_moves_the_generation_only_if_the_answer_changed() {
    let mut table = table();
    let address = ip("192.0.2.1");
    table.learn_by_gateway(address);
    assert_eq!(table.resolve(address, 9).expect("learnt").map(|hop| hop.mtu), Ok(1500));
    let before = table.generation();
    table.learn_by_gateway(address);
    assert_eq!(table.generation(), before);
    let narrower = by_gateway().map(|route| Route { mtu: Some(1280), ..route });
    table.learn(address, narrower);
    assert_ne!(table.generation(), before);
    assert_eq!(table.resolve(address, 9).expect("learnt").map(|hop| hop.mtu), Ok(1280));
    // The exception expires in the kernel, and the next answer is without it.
    table.learn_by_gateway(address);
    assert_eq!(table.resolve(address, 9).expect("learnt").map(|hop| hop.mtu), Ok(1500));
    // A route cannot be wider than the interface.
    let wider = by_gateway().map(|route| Route { mtu: Some(9000), ..route });
    table.learn(address, wider);
    assert_eq!(table.resolve(address, 9).expect("learnt").map(|hop| hop.mtu), Ok(1500));
}

#[test]
fn a_full_table_forgets_all_and_goes_on() {
    let mut table = table();
    let address = |n: usize| IpAddr::from((n as u32).to_be_bytes());
    for n in 0..ANSWERS_MAX {
        table.learn_by_gateway(address(n));
    }
    let before = table.generation();
    assert_eq!(table.mac(address(0)), Some(Ok(GATEWAY_MAC)));
    table.learn_by_gateway(address(ANSWERS_MAX));
    assert_ne!(table.generation(), before);
    assert_eq!(table.mac(address(0)), None);
    assert_eq!(table.mac(address(ANSWERS_MAX)), Some(Ok(GATEWAY_MAC)));
}

#[test]
fn one_destination_confirms_a_stale_neighbour_until_the_kernel_says_more() {
    const KNOWN: Option<Result<[u8; 6], Unresolved>> = Some(Ok(GATEWAY_MAC));
    const STALE: Option<Result<[u8; 6], Unresolved>> = Some(Err(Unresolved::StaleNeighbour));
    let mut table = table();
    let [one, other] = [ip("192.0.2.1"), ip("192.0.2.2")];
    [one, other].iter().for_each(|address| table.learn_by_gateway(*address));
    assert_eq!([table.mac(one), table.mac(other)], [KNOWN; 2]);
    let before = table.generation();
    table.handle_neighbour_state(GATEWAY, Some(GATEWAY_MAC), nl::NUD_STALE);
    assert_ne!(table.generation(), before, "a cached next hop must be resolved again");
    for now_ms in [0, 9_999] {
        table.begin_refresh(now_ms);
        assert_eq!([table.mac(one), table.mac(other)], [STALE, KNOWN], "after {now_ms} ms");
        assert_eq!(table.mac_for_port(one, 10), KNOWN, "another port");
    }
    let before = table.generation();
    table.begin_refresh(10_000);
    assert_ne!(table.generation(), before);
    assert_eq!([table.mac(other), table.mac(one)], [STALE, KNOWN], "another turn");
    // Stale again with the same MAC address is no news; being confirmed is.
    table.handle_neighbour_state(GATEWAY, Some(GATEWAY_MAC), nl::NUD_STALE);
    assert_eq!([table.mac(one), table.mac(other)], [KNOWN, STALE]);
    table.handle_neighbour_state(GATEWAY, Some(GATEWAY_MAC), nl::NUD_PROBE);
    table.begin_refresh(30_000);
    assert_eq!([table.mac(one), table.mac(other)], [KNOWN; 2]);
    table.handle_neighbour_state(GATEWAY, None, 0x20 /* failed */);
    assert_eq!(table.mac(one), Some(Err(Unresolved::NoNeighbour)));
}

#[test]
fn a_route_concerns_exactly_the_destinations_in_its_prefix() {
    let naive = |address: u128, prefix: u128, length: u32, bits: u32| {
        (0..length).all(|bit| (address ^ prefix) >> (bits - 1 - bit) & 1 == 0)
    };
    for length in 0..=32 {
        let prefix = 0xc0a8_5a5a_u32;
        for flipped in 0..32 {
            let (mut table, other) = (table(), prefix ^ 1 << flipped);
            let (v4, v6) = (IpAddr::from(other.to_be_bytes()), ip("2001:db8::1"));
            [v4, v6].iter().for_each(|address| table.learn_by_gateway(*address));
            table.handle_route_change(IpAddr::from(prefix.to_be_bytes()), length);
            let concerned = naive(other.into(), prefix.into(), length.into(), 32);
            assert_eq!(table.answers.get_mut(v4).is_none(), concerned, "{length} {flipped}");
            assert!(table.answers.get_mut(v6).is_some(), "of the other family");
        }
    }
    for length in 0..=128 {
        let prefix = 0x2001_0db8_5a5a_5a5a_5a5a_5a5a_5a5a_5a5a_u128;
        for flipped in (0..128).step_by(5) {
            let (mut table, other) = (table(), prefix ^ 1 << flipped);
            let v6 = IpAddr::from(other.to_be_bytes());
            table.learn_by_gateway(v6);
            table.handle_route_change(IpAddr::from(prefix.to_be_bytes()), length);
            let concerned = naive(other, prefix, length.into(), 128);
            assert_eq!(table.answers.get_mut(v6).is_none(), concerned, "{length} {flipped}");
        }
    }
}

#[test]
fn a_default_route_concerns_its_family() {
    for (family, concerned, other) in
        [(nl::AF_INET, "192.0.2.1", "2001:db8::1"), (nl::AF_INET6, "2001:db8::1", "192.0.2.1")]
    {
        let mut table = table();
        [concerned, other].iter().for_each(|address| table.learn_by_gateway(ip(address)));
        let mut fixed = [0; nl::ROUTE_FIXED];
        fixed[0] = family;
        table.feed(Request::default().one(nl::RTM_DELROUTE, &fixed));
        assert!(table.answers.get_mut(ip(concerned)).is_none(), "{concerned}");
        assert!(table.answers.get_mut(ip(other)).is_some(), "{other}");
    }
}

#[test]
fn many_changes_of_routes_at_once_forget_all() {
    let mut table = table();
    let address = ip("192.0.2.1");
    table.learn_by_gateway(address);
    table.begin_refresh(1);
    for _ in 0..ROUTE_CHANGES_MAX {
        table.handle_route_change(ip("198.51.100.0"), 24);
    }
    assert!(table.answers.get_mut(address).is_some());
    table.handle_route_change(ip("198.51.100.0"), 24);
    assert!(table.answers.get_mut(address).is_none());
}

#[test]
fn routes_that_are_no_plain_next_hop_here_have_a_reason() {
    let route = by_gateway().expect("a route");
    let cases = [
        (Route { encapsulated: true, ..route }, Unresolved::Encapsulated),
        (Route { interface: Some(INTERFACE + 1), ..route }, Unresolved::OtherInterface),
        (Route { interface: None, ..route }, Unresolved::OtherInterface),
        (Route { preferred_source: None, ..route }, Unresolved::NoRoute),
        (Route { preferred_source: Some(ip("2001:db8::1")), ..route }, Unresolved::NoRoute),
        (Route { gateway: Some(ip("10.0.0.2")), ..route }, Unresolved::NoNeighbour),
        (Route { kind: nl::RTN_LOCAL, ..route }, Unresolved::Local),
        (Route { kind: nl::RTN_ANYCAST, ..route }, Unresolved::Local),
        (Route { kind: nl::RTN_BROADCAST, ..route }, Unresolved::Multicast),
        (Route { kind: 6 /* blackhole */, ..route }, Unresolved::NoRoute),
        (Route { kind: 0, ..route }, Unresolved::NoRoute),
    ];
    for (route, reason) in cases {
        let mut table = table();
        table.learn(ip("192.0.2.1"), Some(route));
        assert_eq!(table.resolve(ip("192.0.2.1"), 9), Some(Err(reason)), "{route:?}");
    }
}

#[test]
fn addresses_in_a_row_scatter() {
    use super::super::answers::{Seed, key};
    use std::collections::HashSet;
    use std::hash::BuildHasher;
    let seed = Seed::default();
    for shift in [0, 8, 16] {
        let low: HashSet<u16> = (0..1_u32 << 16)
            .map(|n| {
                seed.hash_one(key(IpAddr::from((0x0a00_0000_u32.wrapping_add(n << shift)).to_be_bytes())))
                    as u16
            })
            .collect();
        // Drawn at random, 63 % of the 65,536 values would occur: 41,427 +- 100.
        assert!(low.len() > 40_000, "{} values", low.len());
    }
}
