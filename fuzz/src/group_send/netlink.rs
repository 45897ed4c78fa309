//! What the fuzz target `netlink` checks: the table of next hops, fed with any bytes, against a naive twin.
//!
//! The input is a program: a byte that says what to do, a length, and the bytes of a datagram. The
//! twin keeps plain lists and reads messages by offsets written out here.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use group_send::internals::{KnownHops, NextHop, Unresolved};

/// Destinations that the program asks for.
const DESTINATIONS: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)),
    IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3)),
    IpAddr::V4(Ipv4Addr::new(10, 90, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd90, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2)),
];

const PORT: u16 = 9;

/// Next hops: never wrong, never changed without the generation, and never a panic.
pub fn netlink(data: &[u8]) {
    let (mut hops, mut twin, mut now_ms) = (KnownHops::new(), Twin::default(), 0);
    let mut kept = HashMap::new();
    let mut rest = data;
    while let [action, low, high, following @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(following.len());
        let (datagram, next) = following.split_at(length);
        rest = next;
        let destination = DESTINATIONS[usize::from(*action >> 4) % DESTINATIONS.len()];
        match action % 4 {
            0 | 1 => {
                now_ms += u64::from(action >> 2) * 100;
                hops.handle(datagram, now_ms);
                twin.handle(datagram);
            }
            2 => assert_eq!(hops.learn(destination, datagram), twin.learn(destination, datagram)),
            _ => forget_unused(&mut hops, &mut twin),
        }
        compare(&mut hops, &twin, &mut kept);
    }
}

/// Answers are those of the twin, and one that was kept is right as long as the generation is the same.
fn compare(hops: &mut KnownHops, twin: &Twin, kept: &mut HashMap<IpAddr, (u64, NextHop)>) {
    for destination in DESTINATIONS {
        let answer = hops.resolve(destination, PORT);
        let expected = twin.resolve(destination);
        let generation = hops.generation();
        if let Some((_, hop)) = kept.get(&destination).filter(|(then, _)| *then == generation) {
            assert_eq!(answer, Some(Ok(*hop)), "{destination} changed unnoticed");
        }
        if answer == Some(Err(Unresolved::StaleNeighbour)) {
            assert!(twin.is_stale(destination), "{destination}");
            continue;
        }
        match (answer, expected) {
            (Some(Ok(hop)), Some(Ok(expected))) => {
                assert_eq!(expected, NextHop { hop_limit: expected.hop_limit, ..hop });
                if expected.hop_limit != 0 {
                    assert_eq!(hop.hop_limit, expected.hop_limit);
                }
            }
            (answer, expected) => assert_eq!(answer, expected, "{destination}"),
        }
        if let Some(Ok(hop)) = answer {
            kept.insert(destination, (generation, hop));
        }
    }
}

/// Answers may be forgotten, which changes the generation.
fn forget_unused(hops: &mut KnownHops, twin: &mut Twin) {
    let before = hops.generation();
    while hops.next_outdated().is_some() {}
    for destination in DESTINATIONS {
        if twin.routes.contains_key(&destination) && hops.resolve(destination, PORT).is_none() {
            assert_ne!(hops.generation(), before);
            twin.routes.remove(&destination);
        }
    }
}

#[derive(Default)]
struct Twin {
    /// By destination: what the kernel answered.
    routes: HashMap<IpAddr, Way>,
    /// By address: state and MAC address.
    neighbours: HashMap<IpAddr, (u16, [u8; 6])>,
}

type Way = Result<(IpAddr, NextHop), Unresolved>;
type Attribute<'a> = (u16, &'a [u8]);

impl Twin {
    fn handle(&mut self, datagram: &[u8]) {
        let mut route_changes = 0;
        for (kind, body) in messages(datagram) {
            match kind {
                28 | 29 => self.handle_neighbour(kind, body),
                24 | 25 => {
                    route_changes += 1;
                    match (body.len() >= 12 && route_changes <= 64)
                        .then(|| attribute(&attributes(body, 12), 1))
                    {
                        None => self.routes.clear(),
                        Some(prefix) => self.forget(body[0], prefix.and_then(address), body[1]),
                    }
                }
                1 | 3 => {}
                _ => self.routes.clear(),
            }
        }
    }

    fn handle_neighbour(&mut self, kind: u16, body: &[u8]) {
        if body.len() < 11 || !matches!(body[0], 2 | 10) || number(&body[4..8]) != 2 || body[10] & 8 != 0 {
            return;
        }
        let attributes = attributes(body, 12);
        let Some(address) = attribute(&attributes, 1).and_then(address) else { return };
        let state = number(&body[8..10]) as u16;
        let mac = attribute(&attributes, 2).and_then(|mac| <[u8; 6]>::try_from(mac).ok());
        // Reachable, stale, delay, probe, noarp, permanent.
        let usable = kind == 28 && [2, 4, 8, 16, 64, 128].iter().any(|bit| state & bit != 0);
        match mac.filter(|mac| usable && mac[0] % 2 == 0 && mac.iter().any(|byte| *byte != 0)) {
            Some(mac) => _ = self.neighbours.insert(address, (state, mac)),
            None => _ = self.neighbours.remove(&address),
        }
    }

    /// Forgets the destinations that a prefix concerns, or a family without one.
    fn forget(&mut self, family: u8, prefix: Option<IpAddr>, length: u8) {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        self.routes.retain(|destination, _| match prefix {
            None => destination.is_ipv4() != (family == 2),
            Some(prefix) => {
                let length = usize::from(length) + if prefix.is_ipv4() { 96 } else { 0 };
                let differs = |bit: usize| {
                    (bits(*destination)[bit / 8] ^ bits(prefix)[bit / 8]) >> (7 - bit % 8) & 1 == 1
                };
                (0..length.min(128)).any(differs)
            }
        });
    }

    fn learn(&mut self, destination: IpAddr, datagram: &[u8]) -> bool {
        let mut routes =
            messages(datagram).into_iter().filter(|(kind, body)| *kind == 24 && body.len() >= 12);
        let Some((_, body)) = routes.next() else { return false };
        self.routes.insert(destination, way(destination, body[7], &attributes(body, 12)));
        true
    }

    fn resolve(&self, destination: IpAddr) -> Option<Result<NextHop, Unresolved>> {
        let way = self.routes.get(&destination)?;
        Some(way.and_then(|(neighbour, hop)| {
            let (_, destination_mac) = *self.neighbours.get(&neighbour).ok_or(Unresolved::NoNeighbour)?;
            Ok(NextHop { destination_mac, ..hop })
        }))
    }

    fn is_stale(&self, destination: IpAddr) -> bool {
        let neighbour =
            self.routes.get(&destination).and_then(|way| way.ok()).map(|(neighbour, _)| neighbour);
        neighbour.and_then(|address| self.neighbours.get(&address)).is_some_and(|(state, _)| state & 4 != 0)
    }
}

/// What a route says for interface 2 with MTU 1500; a hop limit of 0 where the route has none.
fn way(destination: IpAddr, kind: u8, attributes: &[Attribute<'_>]) -> Way {
    match kind {
        1 => {}
        2 | 4 => return Err(Unresolved::Local),
        3 | 5 => return Err(Unresolved::Multicast),
        _ => return Err(Unresolved::NoRoute),
    }
    if attributes.iter().any(|(kind, _)| matches!(kind, 19 | 21 | 22)) {
        return Err(Unresolved::Encapsulated);
    }
    if attribute(attributes, 4).filter(|payload| payload.len() >= 4).map(|index| number(&index[..4]))
        != Some(2)
    {
        return Err(Unresolved::OtherInterface);
    }
    let source = attribute(attributes, 7).and_then(address);
    let source =
        source.filter(|source| source.is_ipv4() == destination.is_ipv4()).ok_or(Unresolved::NoRoute)?;
    let gateway = attributes.iter().rev().find_map(|(kind, payload)| match kind {
        5 => Some(address(payload)),
        18 => Some(payload.get(2..).and_then(address)),
        _ => None,
    });
    let metrics: Vec<_> =
        attributes.iter().filter(|(kind, _)| *kind == 8).flat_map(|(_, payload)| within(payload)).collect();
    let metric =
        |kind| attribute(&metrics, kind).filter(|value| value.len() >= 4).map_or(0, |v| number(&v[..4]));
    let mtu = Some(metric(2)).filter(|mtu| (1..1500).contains(mtu)).unwrap_or(1500);
    let hop_limit = Some(metric(10)).filter(|limit| *limit < 256).unwrap_or(0);
    let hop = NextHop {
        interface_index: 2,
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [0; 6],
        source,
        mtu: mtu as u32,
        hop_limit: hop_limit as u8,
    };
    Ok((gateway.flatten().unwrap_or(destination), hop))
}

/// Type and body of each message (linux/netlink.h: `nlmsghdr`).
fn messages(datagram: &[u8]) -> Vec<(u16, &[u8])> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 16 <= datagram.len() {
        let length = number(&datagram[at..at + 4]) as usize;
        if length < 16 || length > datagram.len() - at {
            break;
        }
        found.push((number(&datagram[at + 4..at + 6]) as u16, &datagram[at + 16..at + length]));
        at += length.div_ceil(4) * 4;
    }
    found
}

fn attributes(body: &[u8], at: usize) -> Vec<Attribute<'_>> {
    within(body.get(at..).unwrap_or_default())
}

/// Type and payload of each attribute (linux/netlink.h: `nlattr`).
fn within(bytes: &[u8]) -> Vec<Attribute<'_>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 4 <= bytes.len() {
        let length = number(&bytes[at..at + 2]) as usize;
        if length < 4 || length > bytes.len() - at {
            break;
        }
        found.push((number(&bytes[at + 2..at + 4]) as u16 & 0x3fff, &bytes[at + 4..at + length]));
        at += length.div_ceil(4) * 4;
    }
    found
}

/// The last attribute of a kind.
fn attribute<'a>(attributes: &[Attribute<'a>], kind: u16) -> Option<&'a [u8]> {
    attributes.iter().rev().find(|attribute| attribute.0 == kind).map(|attribute| attribute.1)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    }
}

/// An unsigned number in the byte order of the machine.
fn number(bytes: &[u8]) -> u64 {
    super::number(bytes)
}
