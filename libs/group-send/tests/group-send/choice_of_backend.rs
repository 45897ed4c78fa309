//! A sender uses the first back end that works here, and says why it is not one that was preferred.
#![cfg(target_os = "linux")]

use crate::common::{loopback, prefer};
use group_send::{BackendKind, Config, Sender, SetupError, Traffic};

#[test]
fn the_default_is_segmentation_offload() {
    let sender = Sender::new(&loopback::socket(), &Config::default()).unwrap();
    assert_eq!(sender.backend(), BackendKind::Gso);
    assert_eq!(sender.not_chosen(), []);
}

#[test]
fn the_first_that_works_is_used() {
    for kind in [BackendKind::Sendmmsg, BackendKind::Sendmsg, BackendKind::Gso] {
        let config = prefer(&[kind, BackendKind::Sendmsg]);
        let sender = Sender::new(&loopback::socket(), &config).unwrap();
        assert_eq!(sender.backend(), kind);
        assert_eq!(sender.backend().name(), kind.to_string());
    }
}

/// Without a feature or without its configuration, the reason is there.
#[test]
fn what_is_not_used_says_why() {
    for kind in [BackendKind::IoUring, BackendKind::AfXdp, BackendKind::TcClone] {
        let config = prefer(&[kind, BackendKind::Sendmmsg]);
        let sender = Sender::new(&loopback::socket(), &config).unwrap();
        assert_eq!(sender.backend(), BackendKind::Sendmmsg);
        let [reason] = sender.not_chosen() else { panic!("{:?}", sender.not_chosen()) };
        assert_eq!(reason.backend, kind);
        assert!(reason.why.len() > 10, "{reason:?}");

        let alone = prefer(&[kind]);
        let Err(SetupError::NoBackend(reasons)) = Sender::new(&loopback::socket(), &alone) else {
            panic!("{kind}")
        };
        assert_eq!(reasons, sender.not_chosen());
    }
}

/// Frames cannot leave by the loopback device, whatever this build has and root may do.
#[test]
fn auto_is_the_default_where_nothing_better_works() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for (traffic, tried) in [
        (Traffic::Groups, &[BackendKind::TcClone, BackendKind::AfXdp][..]),
        (Traffic::Datagrams, &[BackendKind::AfXdp]),
    ] {
        let sender = Sender::new(&socket, &Config::auto(traffic)).unwrap();
        assert_eq!(sender.backend(), BackendKind::Gso);
        let not_chosen: Vec<BackendKind> = sender.not_chosen().iter().map(|not| not.backend).collect();
        assert_eq!(not_chosen, tried, "{traffic:?}");
        for reason in sender.not_chosen() {
            let expected = [
                "this build is without it",
                "no Ethernet interface that is up has the socket's address 127.0.0.1",
            ];
            assert!(expected.contains(&&*reason.why), "{reason}");
        }
    }
}

#[test]
fn other_sockets_are_refused() {
    let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(matches!(Sender::new(&stream, &Config::default()), Err(SetupError::Socket(_))));
    let unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
    assert!(matches!(Sender::new(&unix, &Config::default()), Err(SetupError::Socket(_))));
}
