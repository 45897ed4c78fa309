//! Datagrams leave with the mark that each was given, and otherwise as the socket marks all.
#![cfg(target_os = "linux")]

use crate::common::prefer;
use group_send::{BackendKind, BatchLimits, Ecn, Envelope, RecvBatch, RecvConfig, SendBatch, Sender, socket};
use socket2::SockRef;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

const MARKS: [Ecn; 8] =
    [Ecn::Ect1, Ecn::Ect1, Ecn::NotEct, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ect1, Ecn::Ce];

#[test]
fn each_datagram_has_the_mark_it_was_given() {
    let (v4, v6): (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let dual: IpAddr = Ipv6Addr::UNSPECIFIED.into();
    for kind in [BackendKind::Sendmsg, BackendKind::Sendmmsg, BackendKind::Gso, BackendKind::IoUring] {
        for (from, to) in [(v4, v4), (v6, v6), (dual, v4), (dual, v6)] {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            if from == dual {
                SockRef::from(&socket).set_only_v6(false).ok();
            }
            // Without one of them the sender says by what it sends instead.
            let mut sender = Sender::new(&socket, &prefer(&[kind, BackendKind::Sendmsg])).unwrap();
            let receiver = UdpSocket::bind((to, 0)).unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            socket::enable_ecn(&receiver).unwrap();
            let mut batch = SendBatch::new(BatchLimits::default());
            for ecn in MARKS {
                let envelope = Envelope { ecn, ..receiver.local_addr().unwrap().into() };
                batch.push(envelope, &[ecn.bits(); 100]).unwrap();
            }
            let progress = sender.flush(&mut batch, usize::MAX);
            assert_eq!(
                (progress.sent, progress.failed),
                (8, 0),
                "{kind} {from} {to}: {:?}",
                batch.failures()
            );
            let mut received = RecvBatch::new(RecvConfig::default());
            let mut seen = Vec::new();
            while seen.len() < MARKS.len() {
                received.recv_wait(&receiver).unwrap();
                seen.extend(received.iter().map(|datagram| (datagram.ecn, datagram.payload[0])));
            }
            assert_eq!(seen, MARKS.map(|ecn| (Some(ecn), ecn.bits())), "{kind} {from} {to}");
        }
    }
}

/// Its service class stays; only the two bits of the mark are the datagram's.
#[test]
fn the_service_class_of_the_socket_stays() {
    let sending = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Expedited forwarding, with a mark of its own.
    SockRef::from(&sending).set_tos_v4(0xb8 | 0b10).unwrap();
    let mut sender = Sender::new(&sending, &prefer(&[BackendKind::Gso])).unwrap();
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::IpRecvTos, &true).unwrap();
    let mut batch = SendBatch::new(BatchLimits::default());
    for ecn in [Ecn::Ect1, Ecn::NotEct] {
        batch.push(Envelope { ecn, ..receiver.local_addr().unwrap().into() }, b"x").unwrap();
    }
    assert_eq!(sender.flush(&mut batch, usize::MAX).sent, 2);
    let classes = [class_of_next(&receiver), class_of_next(&receiver)];
    assert_eq!(classes, [0xb8 | 0b01, 0xb8 | 0b10]);
}

/// The byte of the IP header of the next datagram.
fn class_of_next(socket: &UdpSocket) -> u8 {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg};
    use std::io::IoSliceMut;
    use std::os::fd::AsRawFd;

    let (mut bytes, mut control) = ([0; 16], nix::cmsg_space!(u8));
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message =
        recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty()).unwrap();
    let mut classes = message.cmsgs().unwrap().filter_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(class) => Some(class),
        _ => None,
    });
    classes.next().expect("it was asked for")
}
