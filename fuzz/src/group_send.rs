//! What the fuzz targets of `group-send` check: parsers of what the kernel writes, against naive twins.
//!
//! `libs/group-send/tests/group-send/fuzz_corpus.rs` includes this file and replays the kept
//! corpus. Numbers of the system are written out here, so that a wrong name in the parser shows.

#[path = "group_send/netlink.rs"]
mod netlink;

pub use netlink::netlink;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use group_send::internals::{ControlMessage, parse_address, parse_control};

/// A check: panics if `data` shows something wrong.
pub type Check = fn(data: &[u8]);

/// All checks, by the name of their target and corpus folder.
pub const CHECKS: &[(&str, Check)] = &[("cmsg", cmsg), ("netlink", netlink)];

/// Control messages and socket addresses: what is read is what the twins read, and cutting the end
/// off changes nothing before it.
pub fn cmsg(data: &[u8]) {
    let messages: Vec<_> = parse_control(data).collect();
    assert_eq!(messages, naive_control(data));
    assert_eq!(parse_address(data), naive_address(data));
    for cut in [data.len() / 2, data.len().saturating_sub(1), usize::from(data.first().copied().unwrap_or(0))]
    {
        let fewer: Vec<_> = parse_control(&data[..cut.min(data.len())]).collect();
        assert!(messages.starts_with(&fewer), "{messages:?} begins with {fewer:?}");
    }
}

/// `cmsg(3)` with lengths of 64 bits, as on all 64-bit Linux systems.
fn naive_control(data: &[u8]) -> Vec<ControlMessage> {
    let mut messages = Vec::new();
    let mut at = 0;
    while at + 16 <= data.len() {
        let length = number(&data[at..at + 8]);
        if length < 16 || length > (data.len() - at) as u64 {
            break;
        }
        let (level, kind) = (number(&data[at + 8..at + 12]), number(&data[at + 12..at + 16]));
        messages.extend(naive_message(level, kind, &data[at + 16..at + length as usize]));
        at += (length as usize).div_ceil(8) * 8;
    }
    messages
}

fn naive_message(level: u64, kind: u64, data: &[u8]) -> Option<ControlMessage> {
    const POSITIVE: u64 = i32::MAX as u64;
    match (level, kind, data.len()) {
        (17, 104, 4..) if number(&data[..4]) <= POSITIVE => {
            Some(ControlMessage::SegmentSize(number(&data[..4]) as u32))
        }
        (0, 1, 1..) => Some(ControlMessage::TrafficClass(data[0])),
        (41, 67, 4..) if number(&data[..4]) < 256 => {
            Some(ControlMessage::TrafficClass(number(&data[..4]) as u8))
        }
        (1, 35, 8) => naive_time(number(&data[..4]), number(&data[4..8]), POSITIVE),
        (1, 35, 16..) => naive_time(number(&data[..8]), number(&data[8..16]), i64::MAX as u64),
        (0, 8, 12..) => {
            Some(ControlMessage::Destination(IpAddr::from([data[8], data[9], data[10], data[11]])))
        }
        (41, 50, 16..) => Some(ControlMessage::Destination(naive_ipv6(&data[..16]))),
        (0, 11, 5..) | (41, 25, 5..) => {
            Some(ControlMessage::Error { errno: number(&data[..4]) as u32 as i32, origin: data[4] })
        }
        _ => None,
    }
}

fn naive_time(seconds: u64, nanoseconds: u64, seconds_max: u64) -> Option<ControlMessage> {
    (seconds <= seconds_max && nanoseconds < 1_000_000_000)
        .then_some(ControlMessage::ReceivedAt { seconds, nanoseconds: nanoseconds as u32 })
}

fn naive_address(data: &[u8]) -> Option<SocketAddr> {
    let family = number(data.get(..2)?);
    let port = u16::from(*data.get(2)?) << 8 | u16::from(*data.get(3)?);
    if family == 2 && data.len() >= 8 {
        return Some(SocketAddr::from(([data[4], data[5], data[6], data[7]], port)));
    }
    if family != 10 || data.len() < 28 {
        return None;
    }
    Some(match naive_ipv6(&data[8..24]) {
        IpAddr::V6(address) => {
            let (flow, scope) = (number(&data[4..8]) as u32, number(&data[24..28]) as u32);
            SocketAddrV6::new(address, port, flow, scope).into()
        }
        ipv4 => SocketAddr::new(ipv4, port),
    })
}

/// An IPv6 address, or the IPv4 address that it is a form of (RFC 4291 section 2.5.5.2).
fn naive_ipv6(octets: &[u8]) -> IpAddr {
    let octets: [u8; 16] = octets.try_into().expect("16 bytes");
    match octets {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => IpAddr::from([a, b, c, d]),
        _ => Ipv6Addr::from(octets).into(),
    }
}

/// An unsigned number in the byte order of the machine.
fn number(bytes: &[u8]) -> u64 {
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if cfg!(target_endian = "little") { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) }
}
