//! The control for everything else: the receiving kernel verifies checksums, and a wrong one does
//! not arrive.
//!
//! Without it every trial would pass with a back end that leaves the checksum to a device that does
//! not exist.

use crate::Privileged;
use crate::backends::Need;
use crate::common::Receivers;
use crate::host::{FAR_V4, FAR_V6, Link, NEAR_V4, NEAR_V6};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, SocketAddr};

pub(crate) fn trials() -> Vec<Privileged> {
    let control = |near, far| move || a_wrong_checksum_is_refused(near, far);
    vec![
        Privileged::new(
            "checksums::ipv4_receiver_refuses_a_wrong_one",
            Need::Hosts,
            control(NEAR_V4, FAR_V4[0]),
        ),
        Privileged::new(
            "checksums::ipv6_receiver_refuses_a_wrong_one",
            Need::Hosts,
            control(NEAR_V6, FAR_V6[0]),
        ),
    ]
}

fn a_wrong_checksum_is_refused(near: IpAddr, far: IpAddr) {
    let link = Link::new();
    let mut receivers = link.far.run(|| Receivers::bind(&[far], 1));
    let destination = receivers.addresses()[0];
    let raw = link.near.run(|| Socket::new(Domain::for_address(destination), Type::RAW, Some(Protocol::UDP)));
    let raw = raw.expect("a raw socket");
    raw.bind(&SocketAddr::from((near, 0)).into()).expect("bind");

    let payload = b"counted, summed";
    let right = datagram(near, destination, payload);
    let mut wrong = right.clone();
    wrong[7] ^= 1;
    for bytes in [&wrong, &right] {
        let to = SocketAddr::from((far, 0));
        assert_eq!(raw.send_to(bytes, &to.into()).expect("raw send"), bytes.len());
    }
    // The second arrives, so the first has been looked at.
    receivers.expect(0, [payload.to_vec()].into_iter(), "after a wrong one");
    receivers.expect_nothing_more("after a wrong one");
    assert_eq!(link.bad_checksums(), 1);
}

/// A UDP header with the right checksum, and the payload (RFC 768; RFC 8200 section 8.1).
fn datagram(source: IpAddr, destination: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let mut bytes = Vec::from(4000_u16.to_be_bytes());
    bytes.extend(destination.port().to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    let mut pseudo = [source, destination.ip()].map(octets).concat();
    pseudo.extend([0, 17]);
    pseudo.extend(length.to_be_bytes());
    let words = |bytes: &[u8]| -> u64 {
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0))).sum()
    };
    let sum = words(&pseudo) + words(&bytes);
    let folded = !((sum % 0xffff) as u16);
    bytes[6..8].copy_from_slice(&folded.to_be_bytes());
    bytes
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
