//! How datagrams leave, by the names of the configuration: to WebRTC peers, and to other nodes.

use super::value::{RelayBackendChoice, UdpBackendChoice};
use worker_api::settings::UdpBackend;

impl From<UdpBackendChoice> for UdpBackend {
    fn from(choice: UdpBackendChoice) -> Self {
        match choice {
            UdpBackendChoice::Auto => Self::Auto,
            UdpBackendChoice::Sendmsg => Self::Sendmsg,
            UdpBackendChoice::Sendmmsg => Self::Sendmmsg,
            UdpBackendChoice::Gso => Self::Gso,
            UdpBackendChoice::IoUring => Self::IoUring,
            UdpBackendChoice::AfXdp => Self::AfXdp,
        }
    }
}

impl From<RelayBackendChoice> for UdpBackend {
    fn from(choice: RelayBackendChoice) -> Self {
        match choice {
            RelayBackendChoice::Auto => Self::Auto,
            RelayBackendChoice::Sendmsg => Self::Sendmsg,
            RelayBackendChoice::Sendmmsg => Self::Sendmmsg,
            RelayBackendChoice::Gso => Self::Gso,
            RelayBackendChoice::IoUring => Self::IoUring,
            RelayBackendChoice::AfXdp => Self::AfXdp,
            RelayBackendChoice::TcClone => Self::TcClone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Raw, Setting};

    #[test]
    fn each_name_is_a_back_end_and_only_nodes_have_the_one_that_needs_equal_payloads() {
        let of_both = [
            ("auto", UdpBackend::Auto),
            ("sendmsg", UdpBackend::Sendmsg),
            ("sendmmsg", UdpBackend::Sendmmsg),
            ("gso", UdpBackend::Gso),
            ("io_uring", UdpBackend::IoUring),
            ("af_xdp", UdpBackend::AfXdp),
        ];
        let raw = |name: &str| Raw::Text(name.to_owned());
        for (name, backend) in of_both {
            assert_eq!(
                UdpBackendChoice::read(&raw(name)).map(UdpBackend::from).ok(),
                Some(backend),
                "{name}"
            );
            assert_eq!(
                RelayBackendChoice::read(&raw(name)).map(UdpBackend::from).ok(),
                Some(backend),
                "{name}"
            );
        }
        let tc_clone = raw("tc_clone");
        assert!(UdpBackendChoice::read(&tc_clone).is_err());
        assert_eq!(RelayBackendChoice::read(&tc_clone).map(UdpBackend::from).ok(), Some(UdpBackend::TcClone));
    }
}
