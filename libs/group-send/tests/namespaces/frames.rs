//! Frames that a back end writes itself are those that the kernel would have written for the same
//! socket.
//!
//! Bit by bit as they arrive at the far device, but for what is the kernel's to choose: the
//! identification of IPv4 and the flow label of IPv6.

use crate::Privileged;
use crate::backends::{self, Need};
use crate::common::group::{Part, bytes};
use crate::common::{Group, Private, Receivers, Sizes, assert_all_sent, send_whole};
use crate::every_byte::Family;
use crate::host::{FAR_V6, Link, NEAR_V6, sources};
use group_send::{BackendKind, Sender};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::Read;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

pub(crate) fn trials() -> Vec<Privileged> {
    let mut trials = Vec::new();
    for kind in backends::all() {
        let mut add = |name: &str, run: Box<dyn Fn() + Send>| {
            trials.push(Privileged::new(format!("frames::{kind}::{name}"), Need::Backend(kind), run));
        };
        for (name, options) in OPTIONS {
            add(name, Box::new(move || are_the_kernels(kind, options)));
        }
        add("with_a_checksum_of_zero", Box::new(move || sums_of_zero_arrive(kind)));
    }
    trials
}

/// Sets options of the sending socket.
type Options = fn(&UdpSocket);

const OPTIONS: [(&str, Options); 3] = [
    ("as_they_are", |_| {}),
    ("with_a_traffic_class", |socket| {
        // Expedited forwarding (RFC 3246), and ECT(1).
        SockRef::from(socket).set_tos_v4(0xb9).expect("IP_TOS");
        setsockopt(socket, sockopt::Ipv6TClass, &0xb9).expect("IPV6_TCLASS");
    }),
    ("with_a_hop_limit", |socket| {
        setsockopt(socket, sockopt::Ipv4Ttl, &33).expect("IP_TTL");
        setsockopt(socket, sockopt::Ipv6Ttl, &44).expect("IPV6_UNICAST_HOPS");
    }),
];

fn are_the_kernels(kind: BackendKind, options: Options) {
    let link = Link::new();
    let wire = Wire::listen(&link);
    link.near.run(|| {
        let socket = link.socket(Family::Mixed.wildcard());
        options(&socket);
        let mut receivers =
            link.far.run(|| Receivers::bind(&Family::Mixed.far(), 18)).from(&sources(&socket));
        let mut plain = Sender::new(&socket, &backends::only(BackendKind::Sendmsg)).expect("a sender");
        let mut own = Sender::new(&socket, &backends::only(kind)).expect("a sender");
        for (packets, sizes, private) in [
            (1, Sizes::Equal(1000), Private::Same),
            (5, Sizes::Distinct, Private::None),
            (4, Sizes::Cycle(&[0, 1, 1199, 7]), Private::Each),
        ] {
            let group = Group::new(&receivers.addresses(), packets, sizes, private);
            let mut frames = [&mut plain, &mut own].map(|sender| {
                assert_all_sent(&group, &send_whole(&group, sender, &socket).0);
                receivers.expect_group(&group);
                wire.frames(&socket, 18 * packets)
            });
            frames.iter_mut().for_each(|frames| frames.sort());
            let [expected, written] = frames;
            for (expected, written) in expected.iter().zip(&written) {
                assert_eq!(hex(expected), hex(written), "{}", group.remark);
                assert!(expected == written, "payload: {}", group.remark);
            }
        }
    });
}

/// A checksum that comes out as zero is written as all ones, since zero says that there is none
/// (RFC 768), which IPv6 does not allow (RFC 8200 section 8.1).
fn sums_of_zero_arrive(kind: BackendKind) {
    let link = Link::new();
    link.near.run(|| {
        let socket = link.socket(Family::V6.wildcard());
        let source = SocketAddr::new(NEAR_V6, socket.local_addr().expect("bound").port());
        let mut receivers = link.far.run(|| Receivers::bind(&FAR_V6, 30)).from(&[source]);
        let mut sender = Sender::new(&socket, &backends::only(kind)).expect("a sender");
        let mut group = Group::new(&receivers.addresses(), 1, Sizes::Equal(500), Private::None);
        for (member, recipient) in group.members.iter_mut().enumerate() {
            // A part of odd length before, and after it what brings the sum to all ones.
            let prepend = bytes(Part::Prepend, member, 0, 11);
            let datagram = [&prepend[..], &group.packets[0], &[0; 3]].concat();
            let rest = !sum(source, recipient.destination, &datagram);
            recipient.prepend = vec![prepend];
            recipient.append = vec![[&[0][..], &rest.to_be_bytes()].concat()];
            assert_eq!(
                sum(source, recipient.destination, &datagram_of(recipient, &group.packets[0])),
                0xffff
            );
        }
        assert_all_sent(&group, &send_whole(&group, &mut sender, &socket).0);
        receivers.expect_group(&group);
    });
    assert_eq!(link.bad_checksums(), 0);
}

fn datagram_of(member: &crate::common::group::Member, packet: &[u8]) -> Vec<u8> {
    [&member.prepend[0][..], packet, &member.append[0]].concat()
}

/// The ones' complement sum of a datagram with its header and pseudo-header (RFC 768, RFC 8200
/// section 8.1).
fn sum(source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> u16 {
    let mut all = Vec::new();
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(ip) => all.extend(ip.octets()),
            IpAddr::V6(ip) => all.extend(ip.octets()),
        }
        all.extend(address.port().to_be_bytes());
    }
    let length = 8 + payload.len() as u16;
    all.extend([0, 17]);
    all.extend(length.to_be_bytes());
    all.extend(length.to_be_bytes());
    all.extend(payload);
    let words = all.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    match words.sum::<u64>() % 0xffff {
        0 => 0xffff,
        sum => sum as u16,
    }
}

/// Everything that arrives at the far host, as it is on the cable.
struct Wire {
    packets: Socket,
}

impl Wire {
    fn listen(link: &Link) -> Self {
        /// `ETH_P_ALL` (linux/if_ether.h), in network byte order.
        const EVERYTHING: i32 = 0x0003_u16.to_be() as i32;
        let open = || Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(EVERYTHING)));
        let packets = link.far.run(open).expect("a packet socket");
        packets
            .set_read_timeout(Some(Duration::from_millis(crate::common::TIMEOUT_MS.into())))
            .expect("SO_RCVTIMEO");
        Self { packets }
    }

    /// The next frames that this socket has sent, without what is the kernel's to choose.
    fn frames(&self, from: &UdpSocket, count: usize) -> Vec<Vec<u8>> {
        let port = from.local_addr().expect("bound").port().to_be_bytes();
        let mut frames = Vec::new();
        while frames.len() < count {
            let mut buffer = [0; 2048];
            let length = (&self.packets).read(&mut buffer).expect("a frame");
            let mut frame = buffer[..length].to_vec();
            let udp = match frame[12..14] {
                [0x08, 0x00] => 34,
                [0x86, 0xdd] => 54,
                _ => continue,
            };
            if frame.get(udp..udp + 2) != Some(&port) {
                continue;
            }
            if udp == 34 {
                frame[18..20].fill(0);
                frame[24..26].fill(0);
            } else {
                frame[15] &= 0xf0;
                frame[16..18].fill(0);
            }
            frames.push(frame);
        }
        frames
    }
}

fn hex(frame: &[u8]) -> String {
    frame.iter().take(80).map(|byte| format!("{byte:02x}")).collect()
}
