//! Control messages: ancillary data passed to and received from the kernel with a datagram.
//!
//! A row of `struct cmsghdr` and data (`cmsg(3)`), written and read as plain bytes: lengths are
//! checked instead of pointers trusted, so neither side needs `unsafe`. Socket addresses are read
//! in the same way. The system calls are in `linux.rs`; what follows from a message is decided in
//! `recv.rs` and `socket.rs`.
//!
//! ```text
//! | length: usize | level: i32 | type: i32 | data, `length - HEADER` bytes | padding to a multiple of usize |
//! ```

#![cfg_attr(not(feature = "internals"), allow(unreachable_pub, reason = "public for fuzzing only"))]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes before the data of a control message.
const HEADER: usize = size_of::<usize>() + 8;

/// Bytes that a control message with `data` bytes takes, with its padding: `CMSG_SPACE`.
const fn space(data: usize) -> usize {
    (HEADER + data).next_multiple_of(size_of::<usize>())
}

/// Control messages of one datagram to send: at most one of each kind that can be pushed. Belongs
/// in `msg_control`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct ControlBuffer {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl ControlBuffer {
    const CAPACITY: usize = space(size_of::<u16>()) + space(size_of::<u64>()) + space(size_of::<i32>());

    pub(crate) const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    /// The kernel or the device cuts the payload into datagrams of this many bytes, the last of
    /// which may be shorter (`UDP_SEGMENT`, `udp(7)`).
    #[inline]
    pub(crate) fn push_segment_size(&mut self, bytes: u16) {
        self.push(libc::SOL_UDP, libc::UDP_SEGMENT, bytes.to_ne_bytes());
    }

    /// The datagram leaves at this time of the clock that the socket was given, in nanoseconds
    /// (`SCM_TXTIME`, `socket(7)` under `SO_TXTIME`).
    #[inline]
    pub(crate) fn push_departure(&mut self, nanoseconds: u64) {
        self.push(libc::SOL_SOCKET, libc::SCM_TXTIME, nanoseconds.to_ne_bytes());
    }

    /// The datagram leaves with this byte in its IP header (`IP_TOS`, ip(7); `IPV6_TCLASS`, ipv6(7)).
    #[inline]
    pub(crate) fn push_traffic_class(&mut self, byte: u8, is_ipv4: bool) {
        let (level, kind) =
            if is_ipv4 { (libc::IPPROTO_IP, libc::IP_TOS) } else { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) };
        self.push(level, kind, i32::from(byte).to_ne_bytes());
    }

    /// For `msg_control` and `msg_controllen`: aligned as `struct cmsghdr` is. The kernel only
    /// reads it.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    #[inline]
    fn push<const N: usize>(&mut self, level: i32, kind: i32, data: [u8; N]) {
        let room = &mut self.bytes[self.len..self.len + space(N)];
        let (length, rest) = room.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(HEADER + N).to_ne_bytes());
        rest[..4].copy_from_slice(&level.to_ne_bytes());
        rest[4..8].copy_from_slice(&kind.to_ne_bytes());
        rest[8..8 + N].copy_from_slice(&data);
        self.len += space(N);
    }
}

/// What the kernel reports about a received datagram, or about one that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlMessage {
    /// The payload is a row of datagrams of so many bytes, the last of which may be shorter
    /// (`UDP_GRO`, `udp(7)`).
    SegmentSize(u32),
    /// The byte of the IP header whose low two bits are ECN (`IP_TOS`, `IPV6_TCLASS`; RFC 3168
    /// section 5).
    TrafficClass(u8),
    /// When the kernel got it, since 1970 (`SCM_TIMESTAMPNS`, `socket(7)`).
    ReceivedAt {
        /// Whole seconds.
        seconds: u64,
        /// And so many nanoseconds, fewer than 10^9.
        nanoseconds: u32,
    },
    /// The address it was sent to (`IP_PKTINFO`, `ip(7)`; `IPV6_PKTINFO`, RFC 3542 section 6).
    Destination(IpAddr),
    /// Why a datagram that this socket sent did not arrive (`IP_RECVERR`, `ip(7)`; `IPV6_RECVERR`).
    Error {
        /// The error's number.
        errno: i32,
        /// Where the error comes from: `SO_EE_ORIGIN_*`.
        origin: u8,
    },
}

/// The messages in `control` that are known here, in order. Ends where a length makes no sense;
/// bytes of a message that was cut off by a buffer too small are not read as another's.
pub fn parse(control: &[u8]) -> impl Iterator<Item = ControlMessage> {
    let mut rest = control;
    std::iter::from_fn(move || {
        loop {
            let (level, kind, data) = split_message(&mut rest)?;
            if let Some(message) = ControlMessage::read(level, kind, data) {
                return Some(message);
            }
        }
    })
}

/// Takes one message, known or not, with its padding off the front of `rest`.
fn split_message<'a>(rest: &mut &'a [u8]) -> Option<(i32, i32, &'a [u8])> {
    let (length, fields) = rest.split_first_chunk::<{ size_of::<usize>() }>()?;
    let (level, fields) = fields.split_first_chunk()?;
    let (kind, _) = fields.split_first_chunk()?;
    let length = usize::from_ne_bytes(*length);
    let data = rest.get(HEADER..length)?;
    *rest = rest.get(length.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), data))
}

impl ControlMessage {
    fn read(level: i32, kind: i32, data: &[u8]) -> Option<Self> {
        match (level, kind) {
            (libc::SOL_UDP, libc::UDP_GRO) => i32_at(data, 0)?.try_into().ok().map(Self::SegmentSize),
            (libc::IPPROTO_IP, libc::IP_TOS) => data.first().copied().map(Self::TrafficClass),
            // An `int`, whose value is the byte.
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                i32_at(data, 0)?.try_into().ok().map(Self::TrafficClass)
            }
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => Self::read_timestamp(data),
            // `struct in_pktinfo`: interface, local address, destination address.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                bytes_at::<4>(data, 8).map(|a| Self::Destination(a.into()))
            }
            // `struct in6_pktinfo`: destination address, interface.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                bytes_at::<16>(data, 0).map(|a| Self::Destination(Ipv6Addr::from(a).to_canonical()))
            }
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                // `struct sock_extended_err`: the error's number and its origin come first.
                Some(Self::Error { errno: i32_at(data, 0)?, origin: *data.get(4)? })
            }
            _ => None,
        }
    }

    /// `struct timespec`, whose fields are of 64 bits, or of 32 where the C library's time is.
    fn read_timestamp(data: &[u8]) -> Option<Self> {
        let (seconds, nanoseconds) = match data.len() {
            8 => (i32_at(data, 0)?.into(), i32_at(data, 4)?.into()),
            _ => (i64_at(data, 0)?, i64_at(data, 8)?),
        };
        let nanoseconds = u32::try_from(nanoseconds).ok().filter(|&n| n < 1_000_000_000)?;
        Some(Self::ReceivedAt { seconds: seconds.try_into().ok()?, nanoseconds })
    }
}

/// The address in a `struct sockaddr_in` or `sockaddr_in6` (`ip(7)`, `ipv6(7)`), if it is one. An
/// IPv4 address in its IPv6 form (RFC 4291 section 2.5.5.2), which is how a dual-stack socket names
/// it, comes out as IPv4.
pub fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes_at(bytes, 0)?));
    let port = u16::from_be_bytes(bytes_at(bytes, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddr::from((Ipv4Addr::from(bytes_at::<4>(bytes, 4)?), port))),
        libc::AF_INET6 => {
            let flow = u32::from_ne_bytes(bytes_at(bytes, 4)?);
            let address = Ipv6Addr::from(bytes_at::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(bytes_at(bytes, 24)?);
            Some(match address.to_ipv4_mapped() {
                Some(address) => SocketAddr::from((address, port)),
                None => SocketAddrV6::new(address, port, flow, scope).into(),
            })
        }
        _ => None,
    }
}

/// Writes an address as the kernel does, and returns its length: what [`parse_address`] reads.
#[cfg(feature = "internals")]
pub(crate) fn write_address(address: &SocketAddr, into: &mut [u8; 32]) -> usize {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    into.fill(0);
    into[..2].copy_from_slice(&(family as u16).to_ne_bytes());
    into[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            into[4..8].copy_from_slice(&v4.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            into[4..8].copy_from_slice(&v6.flowinfo().to_ne_bytes());
            into[8..24].copy_from_slice(&v6.ip().octets());
            into[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            size_of::<libc::sockaddr_in6>()
        }
    }
}

/// The control message about datagrams of this length that came joined.
#[cfg(feature = "internals")]
pub(crate) fn segment_size(bytes: u16) -> [u8; space(4)] {
    let mut message = [0; space(4)];
    let (length, rest) = message.split_at_mut(size_of::<usize>());
    length.copy_from_slice(&(HEADER + 4).to_ne_bytes());
    rest[..4].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    rest[4..8].copy_from_slice(&libc::UDP_GRO.to_ne_bytes());
    rest[8..12].copy_from_slice(&i32::from(bytes).to_ne_bytes());
    message
}

fn bytes_at<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}

fn i32_at(data: &[u8], at: usize) -> Option<i32> {
    bytes_at(data, at).map(i32::from_ne_bytes)
}

fn i64_at(data: &[u8], at: usize) -> Option<i64> {
    bytes_at(data, at).map(i64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One message as another hand writes it.
    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (size_of::<libc::cmsghdr>() + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        while !bytes.len().is_multiple_of(align_of::<libc::cmsghdr>()) {
            bytes.push(0xa5);
        }
        bytes
    }

    #[test]
    fn messages_to_send_have_the_layout_of_the_system() {
        let mut buffer = ControlBuffer::new();
        assert_eq!(buffer.as_bytes(), []);
        buffer.push_segment_size(1200);
        buffer.push_departure(0x0123_4567_89ab_cdef);
        buffer.push_traffic_class(0xb9, true);
        let mut expected = message(libc::SOL_UDP, libc::UDP_SEGMENT, &1200_u16.to_ne_bytes());
        expected.extend(message(
            libc::SOL_SOCKET,
            libc::SCM_TXTIME,
            &0x0123_4567_89ab_cdef_u64.to_ne_bytes(),
        ));
        expected.extend(message(libc::IPPROTO_IP, libc::IP_TOS, &0xb9_i32.to_ne_bytes()));
        expected.iter_mut().filter(|byte| **byte == 0xa5).for_each(|byte| *byte = 0);
        assert_eq!(buffer.as_bytes(), expected);
        assert_eq!(buffer.as_bytes().len(), ControlBuffer::CAPACITY);
        assert_eq!(buffer.as_bytes().as_ptr() as usize % align_of::<libc::cmsghdr>(), 0);
        assert_eq!(HEADER, size_of::<libc::cmsghdr>());
    }

    #[test]
    fn messages_are_read_by_level_and_type() {
        let timestamp = [1_700_000_000_i64.to_ne_bytes(), 123_456_789_i64.to_ne_bytes()].concat();
        let late = [1_700_000_000_i64.to_ne_bytes(), 1_000_000_000_i64.to_ne_bytes()].concat();
        let info = [[9, 0, 0, 0], [10, 0, 0, 1], [10, 0, 0, 2]].concat();
        let info6 = [&Ipv6Addr::LOCALHOST.octets()[..], &[9, 0, 0, 0]].concat();
        let mapped = [&Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets()[..], &[9, 0, 0, 0]].concat();
        let error = [&111_i32.to_ne_bytes()[..], &[2, 3, 3, 0], &[0; 8], &[0; 16]].concat();
        let refused = Some(ControlMessage::Error { errno: 111, origin: 2 });
        let at = Some(ControlMessage::ReceivedAt { seconds: 1_700_000_000, nanoseconds: 123_456_789 });
        let ipv4 = Some(ControlMessage::Destination(Ipv4Addr::new(10, 0, 0, 2).into()));
        let ipv6 = Some(ControlMessage::Destination(Ipv6Addr::LOCALHOST.into()));
        let marked = Some(ControlMessage::TrafficClass(0xbb));
        #[rustfmt::skip]
        let cases = [
            (libc::SOL_UDP, libc::UDP_GRO, &1200_i32.to_ne_bytes()[..], Some(ControlMessage::SegmentSize(1200)), ""),
            (libc::SOL_UDP, libc::UDP_GRO, &(-1_i32).to_ne_bytes(), None, "a length is not negative"),
            (libc::SOL_UDP, libc::UDP_GRO, &[1, 2, 3], None, "too short"),
            (libc::IPPROTO_IP, libc::IP_TOS, &[0xbb], marked, "one byte"),
            (libc::IPPROTO_IP, libc::IP_TOS, &[], None, "no byte"),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &0xbb_i32.to_ne_bytes(), marked, "an int"),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &0x1bb_i32.to_ne_bytes(), None, "more than a byte"),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &timestamp, at, ""),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &late, None, "not a fraction of a second"),
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &timestamp[..15], None, "too short"),
            (libc::IPPROTO_IP, libc::IP_PKTINFO, &info, ipv4, "the last of two addresses"),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info6, ipv6, ""),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &mapped, ipv4, "IPv4 on a dual-stack socket"),
            (libc::IPPROTO_IP, libc::IP_RECVERR, &error, refused, ""),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error, refused, ""),
            (libc::IPPROTO_IPV6, libc::IP_RECVERR, &error, None, "the type of another level"),
        ];
        for (level, kind, data, expected, remark) in cases {
            let mut bytes = message(level, kind, data);
            bytes.extend(message(libc::IPPROTO_IP, libc::IP_TOS, &[7]));
            let read: Vec<_> = parse(&bytes).collect();
            let expected: Vec<_> = expected.into_iter().chain([ControlMessage::TrafficClass(7)]).collect();
            assert_eq!(read, expected, "{level} {kind} {remark}, then another");
        }
    }

    #[test]
    fn a_message_cut_off_anywhere_is_not_read_as_something_else() {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for segment in [1200_i32, 7, 64] {
            bytes.extend(message(libc::SOL_UDP, libc::UDP_GRO, &segment.to_ne_bytes()));
            // The padding may be missing, as it is after the last message of some kernels.
            ends.push(bytes.len() - (space(4) - HEADER - 4));
        }
        let whole: Vec<_> = parse(&bytes).collect();
        assert_eq!(whole.len(), 3);
        for len in 0..=bytes.len() {
            let messages = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(parse(&bytes[..len]).collect::<Vec<_>>(), whole[..messages], "{len} bytes");
        }
    }

    #[test]
    fn a_length_without_sense_ends_the_row() {
        for length in [0, 1, HEADER - 1, HEADER + 5, usize::MAX, usize::MAX - 7, usize::MAX / 2] {
            let mut bytes = message(libc::SOL_UDP, libc::UDP_GRO, &9_i32.to_ne_bytes());
            bytes.truncate(HEADER + 4);
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(parse(&bytes).count(), 0, "length {length:#x}");
        }
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let v4 = [&(libc::AF_INET as u16).to_ne_bytes()[..], &[0x12, 0x34, 10, 0, 0, 1], &[0; 8]].concat();
        assert_eq!(parse_address(&v4), Some("10.0.0.1:4660".parse().unwrap()));
        let v6 = |ip: Ipv6Addr| {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            [&family[..], &[0x12, 0x34], &[0; 4], &ip.octets()[..], &5_u32.to_ne_bytes()].concat()
        };
        let link_local: Ipv6Addr = "fe80::1".parse().unwrap();
        assert_eq!(parse_address(&v6(link_local)), Some(SocketAddrV6::new(link_local, 4660, 0, 5).into()));
        assert_eq!(parse_address(&v6("::ffff:10.0.0.1".parse().unwrap())), parse_address(&v4));
        for len in 0..28 {
            assert_eq!(parse_address(&v6(link_local)[..len]), None, "{len} bytes of IPv6");
            assert_eq!(parse_address(&v4[..len.min(16)]).is_some(), len >= 8, "{len} bytes of IPv4");
        }
        assert_eq!(parse_address(&[0; 28]), None, "no family");
    }
}
