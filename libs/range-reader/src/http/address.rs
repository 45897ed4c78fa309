//! Which addresses may be connected to.
//!
//! A URL from outside must not make this machine talk to itself or to its neighbours. What is
//! public is decided by the registries of special-purpose addresses (IANA, "IPv4 Special-Purpose
//! Address Space" and "IPv6 Special-Purpose Address Space", RFC 6890 and its updates, as of 2026),
//! and for IPv6 addresses that carry an IPv4 address, by that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses a reader may connect to. Checked after names are resolved, so that a name cannot
/// smuggle one in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// Public ones only: no loopback, private, link-local, shared, multicast, documentation or
    /// unspecified ones, nor IPv6 forms of them.
    #[default]
    Public,
    /// Any, for what a person started and for what the configuration allows.
    Any,
}

impl AddressPolicy {
    /// Whether `address` may be connected to.
    pub fn allows(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::Any, _) => true,
            (Self::Public, IpAddr::V4(address)) => is_public_ipv4(address),
            (Self::Public, IpAddr::V6(address)) => is_public_ipv6(address),
        }
    }
}

fn is_public_ipv4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !IPV4.iter().any(|(prefix, length, _)| {
        let mask = u32::MAX << (32 - length);
        bits & mask == Ipv4Addr::from(*prefix).to_bits()
    })
}

fn is_public_ipv6(address: Ipv6Addr) -> bool {
    let bits = address.to_bits();
    let is_in = |prefix: [u16; 8], length: u32| {
        let mask = u128::MAX << (128 - length);
        bits & mask == Ipv6Addr::from(prefix).to_bits()
    };
    for (prefix, length, carried_at) in CARRIERS {
        if is_in(prefix, length) {
            // The IPv4 address, at its place counted from the lowest bit.
            return is_public_ipv4(Ipv4Addr::from_bits((bits >> carried_at) as u32));
        }
    }
    // What is not global unicast (RFC 4291, 2.4; RFC 3587) is not given to anybody, so it need not
    // be in the table: the loopback, unspecified, IPv4-compatible, translated, unique local,
    // link-local, site-local and multicast addresses.
    let global_unicast = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
    is_in(global_unicast.0, global_unicast.1)
        && !IPV6.iter().any(|(prefix, length, _)| is_in(*prefix, *length))
}

/// IPv4 blocks that are not reached over the Internet, or that no server is in.
const IPV4: [([u8; 4], u32, &str); 16] = [
    ([0, 0, 0, 0], 8, "this network, RFC 791 3.2"),
    ([10, 0, 0, 0], 8, "private use, RFC 1918"),
    ([100, 64, 0, 0], 10, "shared address space, RFC 6598"),
    ([127, 0, 0, 0], 8, "loopback, RFC 1122 3.2.1.3"),
    ([169, 254, 0, 0], 16, "link-local, RFC 3927; metadata services of clouds"),
    ([172, 16, 0, 0], 12, "private use, RFC 1918"),
    ([192, 0, 0, 0], 24, "protocol assignments, RFC 6890 2.1; anycast services in it serve no files"),
    ([192, 0, 2, 0], 24, "documentation, RFC 5737"),
    ([192, 88, 99, 0], 24, "6to4 relays, RFC 7526"),
    ([192, 168, 0, 0], 16, "private use, RFC 1918"),
    ([198, 18, 0, 0], 15, "benchmarking, RFC 2544"),
    ([198, 51, 100, 0], 24, "documentation, RFC 5737"),
    ([203, 0, 113, 0], 24, "documentation, RFC 5737"),
    ([224, 0, 0, 0], 4, "multicast, RFC 5771"),
    ([240, 0, 0, 0], 4, "reserved, RFC 1112 4"),
    ([255, 255, 255, 255], 32, "limited broadcast, RFC 919 7"),
];

/// IPv6 blocks of global unicast addresses that are not reached over the Internet, or that no
/// server is in.
const IPV6: [([u16; 8], u32, &str); 4] = [
    (
        [0x2001, 0, 0, 0, 0, 0, 0, 0],
        23,
        "protocol assignments, RFC 2928: Teredo, benchmarking, ORCHID and others",
    ),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, "documentation, RFC 3849"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation, RFC 9637"),
    // The block is outside of 2000::/3 today; it stands here so that widening that rule cannot let
    // it in.
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment routing, RFC 9602"),
];

/// IPv6 blocks whose addresses lead to an IPv4 address within them: the block, and where that
/// address is. Teredo, which carries one too, is refused as a whole.
const CARRIERS: [([u16; 8], u32, u32); 3] = [
    // IPv4-mapped, RFC 4291 2.5.5.2: what a socket for both families connects to over IPv4.
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, 0),
    // NAT64 with the well-known prefix, RFC 6052 2.1. Its local prefix 64:ff9b:1::/48, RFC 8215, is
    // refused.
    ([0x0064, 0xff9b, 0, 0, 0, 0, 0, 0], 96, 0),
    // 6to4, RFC 3056 2.
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, 80),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str) -> bool {
        AddressPolicy::Public.allows(address.parse().unwrap_or_else(|_| panic!("{address}")))
    }

    #[test]
    fn ipv4_blocks_are_refused_to_their_edges_and_no_further() {
        // First and last of a block, and the public neighbours on both sides, if there are any.
        let cases: &[(&str, &str, Option<&str>, Option<&str>)] = &[
            ("0.0.0.0", "0.255.255.255", None, Some("1.0.0.0")),
            ("10.0.0.0", "10.255.255.255", Some("9.255.255.255"), Some("11.0.0.0")),
            ("100.64.0.0", "100.127.255.255", Some("100.63.255.255"), Some("100.128.0.0")),
            ("127.0.0.0", "127.255.255.255", Some("126.255.255.255"), Some("128.0.0.0")),
            ("169.254.0.0", "169.254.255.255", Some("169.253.255.255"), Some("169.255.0.0")),
            ("172.16.0.0", "172.31.255.255", Some("172.15.255.255"), Some("172.32.0.0")),
            ("192.0.0.0", "192.0.0.255", Some("191.255.255.255"), Some("192.0.1.0")),
            ("192.0.2.0", "192.0.2.255", Some("192.0.1.255"), Some("192.0.3.0")),
            ("192.88.99.0", "192.88.99.255", Some("192.88.98.255"), Some("192.88.100.0")),
            ("192.168.0.0", "192.168.255.255", Some("192.167.255.255"), Some("192.169.0.0")),
            ("198.18.0.0", "198.19.255.255", Some("198.17.255.255"), Some("198.20.0.0")),
            ("198.51.100.0", "198.51.100.255", Some("198.51.99.255"), Some("198.51.101.0")),
            ("203.0.113.0", "203.0.113.255", Some("203.0.112.255"), Some("203.0.114.0")),
            ("224.0.0.0", "255.255.255.255", Some("223.255.255.255"), None),
        ];
        for (first, last, before, after) in cases {
            assert!(!is_public(first) && !is_public(last), "{first} {last}");
            for neighbour in [before, after].into_iter().flatten() {
                assert!(is_public(neighbour), "{neighbour}");
            }
        }
    }

    #[test]
    fn ipv6_addresses_are_public_only_where_servers_are() {
        let cases = [
            ("2606:4700::1111", true),
            ("2a00:1450:4001:82a::200e", true),
            ("2620:4f:8000::1", true), // AS112, RFC 7534: reachable
            ("2001:200::1", true),     // behind the protocol assignments
            ("::", false),
            ("::1", false),
            ("::2", false),
            ("::8.8.8.8", false),          // IPv4-compatible, RFC 4291 2.5.5.1: deprecated
            ("::ffff:0:8.8.8.8", false),   // translated, RFC 7915: no destination
            ("64:ff9b:1::8.8.8.8", false), // RFC 8215
            ("100::1", false),             // discard-only, RFC 6666
            ("100:0:0:1::1", false),       // dummy prefix, RFC 9780
            ("2001::1", false),            // Teredo, RFC 4380
            ("2001:2::1", false),          // benchmarking, RFC 5180
            ("2001:10::1", false),         // ORCHID, RFC 4843
            ("2001:20::1", false),         // ORCHIDv2, RFC 7343
            ("2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", false),
            ("2001:db8::1", false),
            ("3ffe::1", true), // the 6bone has been given back
            ("3fff::1", false),
            ("3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", false),
            ("5f00::1", false),
            ("4000::1", false),
            ("fc00::1", false),
            ("fdff::1", false),
            ("fe80::1", false),
            ("fec0::1", false), // site-local, RFC 3879
            ("ff02::1", false),
        ];
        for (address, expected) in cases {
            assert_eq!(is_public(address), expected, "{address}");
        }
    }

    #[test]
    fn an_ipv4_address_inside_an_ipv6_address_is_judged_itself() {
        for ipv4 in
            ["127.0.0.1", "10.1.2.3", "169.254.169.254", "0.0.0.0", "255.255.255.255", "8.8.8.8", "1.1.1.1"]
        {
            let [a, b, c, d] = ipv4.parse::<Ipv4Addr>().unwrap().octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            for ipv6 in [
                format!("::ffff:{ipv4}"),
                format!("::ffff:{high:x}:{low:x}"),
                format!("64:ff9b::{ipv4}"),
                format!("2002:{high:x}:{low:x}::1"),
            ] {
                assert_eq!(is_public(&ipv6), is_public(ipv4), "{ipv6}");
            }
        }
        assert!(is_public("::ffff:8.8.8.8"));
    }

    #[test]
    fn any_address_may_be_allowed() {
        assert!(AddressPolicy::Any.allows(IpAddr::from([127, 0, 0, 1])));
        assert!(AddressPolicy::Any.allows(IpAddr::V6(Ipv6Addr::LOCALHOST)));
    }
}
