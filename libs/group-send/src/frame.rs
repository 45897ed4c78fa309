//! Ethernet frames around UDP datagrams, for back ends that leave the kernel's UDP stack out.
//!
//! What is the same for all datagrams of a recipient is built once ([`Header::new`]), with the
//! checksums' share of it; a datagram then costs one copy of 42 or 62 bytes, four fields and a few
//! additions. The caller keeps the sums of shared payload, as values of [`Sum`]. Route, neighbour,
//! and whether a datagram fits the link are decided elsewhere. Left out: VLAN tags, IPv4 options,
//! IPv6 extension headers, fragmentation; such datagrams go through the socket.
//!
//! ```text
//! Ethernet II   0 destination   6 source   12 EtherType
//! IPv4 (RFC 791 section 3.1)   14 version+IHL  15 TOS  16 length  18 identification  20 flags  22 TTL  23 protocol
//!                              24 checksum  26 source  30 destination             34 UDP
//! IPv6 (RFC 8200 section 3)    14 version+class+flow label  18 length  20 next header  21 hop limit
//!                              22 source  38 destination                          54 UDP
//! UDP  (RFC 768)               0 source port  2 destination port  4 length  6 checksum
//! ```

use std::net::{IpAddr, SocketAddr};

/// What a recipient's frames have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) source_mac: [u8; 6],
    pub(crate) destination_mac: [u8; 6],
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// IPv4 TTL or IPv6 hop limit.
    pub(crate) hop_limit: u8,
    /// IPv4 type of service or IPv6 traffic class: DSCP and ECN (RFC 2474, RFC 3168).
    pub(crate) traffic_class: u8,
    /// IPv4: routers must not fragment. IPv6 routers never do.
    pub(crate) dont_fragment: bool,
    /// IPv6, 20 bits (RFC 6437); 0 for IPv4.
    pub(crate) flow_label: u32,
}

/// The headers of one recipient, complete but for lengths, identification and checksums.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    bytes: [u8; HEADER_MAX],
    /// 42 for IPv4, 62 for IPv6.
    len: u8,
    /// IPv4 header with length, identification and checksum 0. Unused for IPv6, which has no header
    /// checksum.
    ip: Sum,
    /// Pseudo-header (RFC 768, RFC 8200 section 8.1) and UDP header, each with length 0.
    udp: Sum,
}

/// Longest header: Ethernet, IPv6, UDP.
pub(crate) const HEADER_MAX: usize = ETHERNET + IPV6 + UDP;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
const PROTOCOL_UDP: u8 = 17;
const ROOM: &str = "frames begin with room for their headers";

impl Header {
    /// `None` when source and destination are of different families.
    pub(crate) fn new(flow: &Flow) -> Option<Self> {
        let mut bytes = [0; HEADER_MAX];
        bytes[..6].copy_from_slice(&flow.destination_mac);
        bytes[6..12].copy_from_slice(&flow.source_mac);
        let (len, ip) = match (flow.source.ip(), flow.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes[12..14].copy_from_slice(&[0x08, 0x00]);
                bytes[14..16].copy_from_slice(&[0x45, flow.traffic_class]);
                bytes[20] = if flow.dont_fragment { 0x40 } else { 0 };
                bytes[22..24].copy_from_slice(&[flow.hop_limit, PROTOCOL_UDP]);
                bytes[26..30].copy_from_slice(&source.octets());
                bytes[30..34].copy_from_slice(&destination.octets());
                (ETHERNET + IPV4 + UDP, Sum::of(&bytes[ETHERNET..ETHERNET + IPV4]))
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let word = 6 << 28 | u32::from(flow.traffic_class) << 20 | flow.flow_label & 0xf_ffff;
                bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
                bytes[14..18].copy_from_slice(&word.to_be_bytes());
                bytes[20..22].copy_from_slice(&[PROTOCOL_UDP, flow.hop_limit]);
                bytes[22..38].copy_from_slice(&source.octets());
                bytes[38..54].copy_from_slice(&destination.octets());
                (ETHERNET + IPV6 + UDP, Sum::default())
            }
            _ => return None,
        };
        let udp = len - UDP;
        bytes[udp..udp + 2].copy_from_slice(&flow.source.port().to_be_bytes());
        bytes[udp + 2..udp + 4].copy_from_slice(&flow.destination.port().to_be_bytes());
        // Both families end with the two addresses, so one slice has addresses and ports.
        let addresses = if len == HEADER_MAX { 22 } else { 26 };
        let udp = Sum::of(&bytes[addresses..udp + 4]).plus(Sum(u16::from(PROTOCOL_UDP)));
        Some(Self { bytes, len: len as u8, ip, udp })
    }

    /// Bytes before the payload.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Bytes of a frame that the link's MTU does not count.
    pub(crate) const LINK_BYTES: usize = ETHERNET;

    /// Fills the first [`Header::len`] bytes of a frame, whose payload of `payload_len` bytes adds
    /// up to `payload`. `identification` is for IPv4 (RFC 6864).
    ///
    /// # Panics
    /// If `frame` is shorter than the header. Lengths above 65,535 bytes do not fit the fields: the
    /// caller has compared with the link's MTU.
    #[inline]
    pub(crate) fn write(&self, identification: u16, payload_len: usize, payload: Sum, frame: &mut [u8]) {
        let udp_len = (UDP + payload_len) as u16;
        // Copies of a constant length: shorter code than one of `self.len` bytes.
        let udp_header = if self.len() == ETHERNET + IPV4 + UDP {
            let (header, _) = frame.split_first_chunk_mut::<{ ETHERNET + IPV4 + UDP }>().expect(ROOM);
            header.copy_from_slice(&self.bytes[..ETHERNET + IPV4 + UDP]);
            let ip_len = (IPV4 + UDP + payload_len) as u16;
            header[16..18].copy_from_slice(&ip_len.to_be_bytes());
            header[18..20].copy_from_slice(&identification.to_be_bytes());
            let checksum = self.ip.plus(Sum(ip_len)).plus(Sum(identification)).complement();
            header[24..26].copy_from_slice(&checksum.to_be_bytes());
            header.last_chunk_mut::<UDP>().expect(ROOM)
        } else {
            let (header, _) = frame.split_first_chunk_mut::<HEADER_MAX>().expect(ROOM);
            *header = self.bytes;
            header[18..20].copy_from_slice(&udp_len.to_be_bytes());
            header.last_chunk_mut::<UDP>().expect(ROOM)
        };
        // The length counts twice: in the pseudo-header and in the header.
        let sum = self.udp.plus(Sum(udp_len)).plus(Sum(udp_len)).plus(payload);
        // 0 on the wire says "no checksum" (RFC 768), which IPv6 forbids (RFC 8200 section 8.1).
        let checksum = match sum.complement() {
            0 => 0xffff,
            checksum => checksum,
        };
        udp_header[4..6].copy_from_slice(&udp_len.to_be_bytes());
        udp_header[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The ones' complement sum of 16-bit big-endian words (RFC 1071), an odd last byte followed by a
/// zero byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(u16);

impl Sum {
    /// The sum of `bytes` from an even offset.
    #[inline]
    pub(crate) fn of(bytes: &[u8]) -> Self {
        // Private bytes are mostly shorter than a block, and not worth lanes.
        if bytes.len() < 32 { Self::end(0, bytes) } else { Self::of_blocks(bytes) }
    }

    fn of_blocks(bytes: &[u8]) -> Self {
        // Ones' complement sums do not depend on the byte order they are made in, nor on the width
        // of the words as long as carries come back (RFC 1071 section 2): eight 32-bit words a
        // step, in 64-bit lanes that no datagram is long enough to overflow.
        let mut lanes = [0u64; 8];
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        Self::end(lanes.iter().sum(), rest)
    }

    /// A sum of words in the machine's byte order, with that of the `rest`.
    #[inline]
    fn end(mut sum: u64, rest: &[u8]) -> Self {
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_ne_bytes(*word));
        }
        let (words, rest) = rest.as_chunks::<2>();
        for word in words {
            sum += u64::from(u16::from_ne_bytes(*word));
        }
        if let [last] = rest {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Self(fold(sum).to_be())
    }

    #[inline]
    pub(crate) fn plus(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + u16::from(carry))
    }

    /// This sum, of `offset` bytes so far, with the sum of the bytes that follow. At an odd offset
    /// every byte of theirs is in the other half of its word, which exchanges the halves of their
    /// sum (RFC 1071 section 2).
    #[inline]
    pub(crate) fn followed_by(self, offset: usize, other: Self) -> Self {
        self.plus(if offset.is_multiple_of(2) { other } else { Self(other.0.swap_bytes()) })
    }

    /// The checksum field.
    #[inline]
    fn complement(self) -> u16 {
        !self.0
    }
}

/// Brings the carries back until 16 bits are left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Word by word with the carry brought back at once, as RFC 1071 section 1 words it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            if sum > 0xffff {
                sum -= 0xffff;
            }
        }
        sum as u16
    }

    fn pattern(len: usize, seed: u64) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// 0 and 0xffff are the same number in ones' complement.
    fn same(a: u16, b: u16) -> bool {
        a % 0xffff == b % 0xffff
    }

    #[test]
    fn sum_is_the_one_of_rfc_1071_section_3() {
        assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), Sum(0xddf2));
    }

    #[test]
    fn sum_is_the_naive_one_at_every_length() {
        for len in 0..=1500 {
            for bytes in [pattern(len, 7), vec![0xff; len], vec![0; len]] {
                assert!(same(Sum::of(&bytes).0, naive(&bytes)), "len {len}");
            }
        }
        // As long as a datagram can be: nothing overflows.
        assert!(same(Sum::of(&vec![0xff; 65_535]).0, naive(&vec![0xff; 65_535])));
    }

    #[test]
    fn parts_add_up_wherever_they_are_split() {
        let bytes = pattern(131, 11);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let sum = Sum::of(&bytes[..first])
                    .followed_by(first, Sum::of(&bytes[first..second]))
                    .followed_by(second, Sum::of(&bytes[second..]));
                assert!(same(sum.0, naive(&bytes)), "split at {first} and {second}");
            }
        }
    }

    fn flow(v6: bool) -> Flow {
        let (source, destination) = if v6 {
            ("[2001:db8::ff:1]:40000", "[2001:db8:1::9]:5004")
        } else {
            ("192.0.2.1:40000", "198.51.100.9:5004")
        };
        Flow {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hop_limit: 63,
            traffic_class: 0xb8,
            dont_fragment: true,
            flow_label: if v6 { 0x1_2345 } else { 0 },
        }
    }

    fn frame(flow: &Flow, identification: u16, payload: &[u8]) -> Vec<u8> {
        let header = Header::new(flow).unwrap();
        let mut frame = vec![0xaa; header.len()];
        frame.extend_from_slice(payload);
        header.write(identification, payload.len(), Sum::of(payload), &mut frame);
        frame
    }

    /// The checksum of the UDP segment by its definition: pseudo-header, header and payload in one
    /// row.
    fn udp_total(frame: &[u8], v6: bool) -> u16 {
        let (addresses, udp) = if v6 { (22..54, 54) } else { (26..34, 34) };
        let mut row = frame[addresses].to_vec();
        row.extend_from_slice(&((frame.len() - udp) as u32).to_be_bytes());
        row.extend_from_slice(&[0, 0, 0, 17]);
        row.extend_from_slice(&frame[udp..]);
        naive(&row)
    }

    #[test]
    fn frames_of_every_length_verify() {
        for v6 in [false, true] {
            for len in 0..=1500 {
                let payload = pattern(len, len as u64);
                let frame = frame(&flow(v6), len as u16, &payload);
                let udp = if v6 { 54 } else { 34 };
                assert_eq!(udp_total(&frame, v6), 0xffff, "UDP checksum, v6 {v6} len {len}");
                assert_eq!(frame[udp + 4..udp + 6], ((len + 8) as u16).to_be_bytes());
                assert_eq!(frame[udp + 8..], payload);
                if !v6 {
                    assert_eq!(naive(&frame[14..34]), 0xffff, "IPv4 checksum, len {len}");
                }
            }
        }
    }

    #[test]
    fn ipv4_fields_are_where_rfc_791_puts_them() {
        let frame = frame(&flow(false), 0x1234, b"abc");
        #[rustfmt::skip]
        let want = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00,
            0x45, 0xb8, 0, 31, 0x12, 0x34, 0x40, 0, 63, 17,
        ];
        assert_eq!(frame[..24], want);
        assert_eq!(frame[26..38], [192, 0, 2, 1, 198, 51, 100, 9, 0x9c, 0x40, 0x13, 0x8c]);
        assert_eq!(frame.len(), 45);
        let fragmentable = Flow { dont_fragment: false, ..flow(false) };
        assert_eq!(tests::frame(&fragmentable, 0, b"")[20..22], [0, 0]);
    }

    #[test]
    fn ipv6_fields_are_where_rfc_8200_puts_them() {
        let frame = frame(&flow(true), 0x1234, b"abc");
        #[rustfmt::skip]
        let want = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd,
            0x6b, 0x81, 0x23, 0x45, 0, 11, 17, 63,
        ];
        assert_eq!(frame[..22], want);
        assert_eq!(frame[22..26], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(frame[52..58], [0, 9, 0x9c, 0x40, 0x13, 0x8c]);
        assert_eq!(frame.len(), 65);
    }

    #[test]
    fn checksum_0_is_sent_as_ffff() {
        for v6 in [false, true] {
            // The two bytes that make the sum complete: what the checksum field says when they are
            // 0.
            let udp = if v6 { 54 } else { 34 };
            let plain = frame(&flow(v6), 0, &[0, 0]);
            let frame = frame(&flow(v6), 0, &plain[udp + 6..udp + 8]);
            assert_eq!(frame[udp + 6..udp + 8], [0xff, 0xff]);
            assert_eq!(udp_total(&frame, v6), 0xffff);
        }
    }

    #[test]
    fn families_do_not_mix() {
        let mixed = Flow { destination: flow(true).destination, ..flow(false) };
        assert!(Header::new(&mixed).is_none());
    }
}
