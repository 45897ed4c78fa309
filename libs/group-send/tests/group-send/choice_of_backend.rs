//! A sender uses the first back end that works here, and says why it is not one that was preferred.
#![cfg(target_os = "linux")]

use crate::common::{loopback, prefer};
use group_send::{BackendKind, Config, Sender, SetupError};

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

#[test]
fn other_sockets_are_refused() {
    let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(matches!(Sender::new(&stream, &Config::default()), Err(SetupError::Socket(_))));
    let unix = std::os::unix::net::UnixDatagram::unbound().unwrap();
    assert!(matches!(Sender::new(&unix, &Config::default()), Err(SetupError::Socket(_))));
}
